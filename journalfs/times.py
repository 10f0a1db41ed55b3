"""Times and ranges of times as people name them: of history, of what is to be undone, of what is replayed.

    2026-01-31T14:30:05.250Z  2026-01-31T14:30  20260131T1430  2026-01-31  14:30   local time unless told
    20260131143005  1769869805000   as brokers write it in names of files, and milliseconds since 1970
    -2h  10m  3d    ago             now  today  yesterday

A time that names a day, a minute or a second is all of it: a range from one to another has both. One that
names a moment (`-2h`) alone is a range from there on.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from journalfs.errors import WrongCall

SEPARATOR: Final = ".."
ALL: Final = "all"

_AGO: Final = re.compile(r"-?(\d{1,6})(ms|[smhdw])")
_UNITS: Final = {
    "ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"
}  # fmt: skip
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_MILLISECONDS: Final = re.compile(r"\d{10,13}")
_COMPACT: Final = re.compile(r"\d{14}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = timedelta()
FOREVER_MS: Final = 1 << 62
EXAMPLES: Final = "a time is 2026-01-31T14:30, 14:30, -2h, yesterday or now"


class Range(NamedTuple):
    """From `from_ms` on, up to before `to_ms`; in milliseconds since 1970."""

    from_ms: int
    to_ms: int
    moves: bool
    """The same words mean another range at another time."""


def _of_day(text: str, now: datetime) -> tuple[datetime, timedelta, bool] | None:
    """A word or a time of the day: when it begins, how long it takes, whether it moves."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    days = {"today": 0, "yesterday": 1}
    if text in days:
        begins = (midnight - timedelta(days=days[text])).astimezone()
        return begins, (midnight - timedelta(days=days[text] - 1)).astimezone() - begins, True
    ago = _AGO.fullmatch(text)
    if text == "now" or ago is not None:
        return now - (timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else _NOTHING), _NOTHING, True
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return None
    found = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
    return found - timedelta(days=found > now), timedelta(seconds=1 if clock[3] else 60), True


def _of_date(text: str) -> tuple[datetime, timedelta, bool]:
    if _COMPACT.fullmatch(text):
        return datetime.strptime(text, "%Y%m%d%H%M%S").astimezone(), timedelta(seconds=1), False
    if _MILLISECONDS.fullmatch(text):
        return _EPOCH + timedelta(milliseconds=int(text)), timedelta(milliseconds=1), False
    found = datetime.fromisoformat(text)
    clock = text.replace(" ", "T").partition("T")[2]
    digits = sum(one.isdigit() for one in re.split(r"[Z+.,]|-(?=\d\d:?\d\d$)", clock)[0])
    if not clock:
        following = (found + timedelta(days=1)).astimezone()
        return found.astimezone(), following - found.astimezone(), False
    took = {2: timedelta(hours=1), 4: timedelta(minutes=1), 6: timedelta(seconds=1)}[digits]
    if "." in clock or "," in clock:
        took = timedelta(milliseconds=1)
    return found if found.tzinfo is not None else found.astimezone(), took, False


def _span(text: str, now_ms: int) -> Range:
    """All that a time names. Raises WrongCall."""
    now = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone()
    try:
        begins, took, moves = _of_day(text, now) or _of_date(text)
        from_ms = max(0, (begins - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError, KeyError):
        raise WrongCall(f"{text}: {EXAMPLES}") from None
    return Range(from_ms, from_ms + took // timedelta(milliseconds=1), moves)


def moment_ms(text: str, now_ms: int) -> int:
    """When a time begins, in milliseconds since 1970. Raises WrongCall."""
    return _span(text, now_ms).from_ms


def range_between(begin: str | None, end: str | None, now_ms: int) -> Range:
    """From the beginning of one time up to the end of another; None: without one. Raises WrongCall."""
    first = _span(begin, now_ms) if begin else Range(0, 0, moves=False)
    last = _span(end, now_ms) if end else Range(FOREVER_MS, FOREVER_MS, moves=False)
    if first.from_ms >= last.to_ms:
        raise WrongCall(f"{begin}{SEPARATOR}{end}: it ends before it begins")
    return Range(first.from_ms, last.to_ms, first.moves or last.moves)


def named_range(text: str, now_ms: int) -> Range:
    """What `FROM..TO`, `FROM..`, `..TO` or one time names, or `all`. Raises WrongCall."""
    if text == ALL:
        return range_between(None, None, now_ms)
    begin, separator, end = text.partition(SEPARATOR)
    if separator:
        return range_between(begin or None, end or None, now_ms)
    found = _span(text, now_ms)
    return found if found.from_ms < found.to_ms else found._replace(to_ms=FOREVER_MS)
