"""Times as reports show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_A_YEAR = timedelta(days=366)
FIRST_DATE_MS = (datetime(1, 1, 1, tzinfo=UTC) + _A_YEAR - _EPOCH) // _MS
LAST_DATE_MS = (datetime(9999, 12, 31, tzinfo=UTC) - _A_YEAR - _EPOCH) // _MS
"""Between these an axis can have dates, and room beside them."""


def date_of(time_ms: int) -> datetime:
    """A time between those, in UTC."""
    return _EPOCH + time_ms * _MS


def moment(time_ms: int | None) -> str | None:
    """A time in ms since 1970, in UTC; None where there is none."""
    if time_ms is None:
        return None
    try:
        return f"{_EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"@{time_ms} ms"  # a client may write any 64-bit number as its time
