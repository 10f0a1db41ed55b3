"""Statistics of what waits in a store: how many messages, how large, how old, and when they came.

Messages are read once; what is counted of them are a few numbers each, which the engine keeps, on disk if
need be, until all tables are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Final

from journalfs.pipeline.report import Plot, Table, bars, columns, steps, write_report
from journalfs.pipeline.times import moment
from journalfs.spark.schema import struct

if TYPE_CHECKING:
    from journalfs.pipeline.engines import Engine, Rows
    from journalfs.pipeline.folders import Folder
    from journalfs.pipeline.messages import Source

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

READ: Final = struct(
    "address string, queue string, timestamp long, expiration long, deliveryCount integer, "
    "largeMessage boolean, body binary"
)
WIDTHS: Final = (
    SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY,
    3650 * DAY,
)  # fmt: skip
"""Stretches of time that arrivals are counted in, ms; beyond them ten times the longest, and so on."""
STRETCHES_MAX: Final = 120
_FLOORED: Final = "CASE WHEN sent < 0 THEN -1 - (-1 - sent) {div} {width} ELSE sent {div} {width} END"
"""Which stretch a time is in: in whole numbers, none of which is too large."""
SERIES_MAX: Final = 8
"""Queues that are told apart in a plot."""
OTHERS: Final = "(others)"
AGES: Final = (
    ("< 1 min", MINUTE), ("< 1 h", HOUR), ("< 1 d", DAY), ("< 1 week", 7 * DAY), ("< 30 d", 30 * DAY),
    ("< 1 year", 365 * DAY),
)  # fmt: skip
FUTURE: Final = "in the future"
UNKNOWN: Final = "unknown"
"""Ages that are shown only where there are such messages."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Of one queue, for each address its messages were sent to. Times in ms since 1970; None: none says."""

    address: str | None
    queue: str
    messages: int
    bytes: int
    """Of the bodies, as a message's file has them."""
    largest: int
    large: int
    """Messages whose body has a file of its own."""
    redelivered: int
    expired: int
    """Whose time is over, and which nobody took away yet."""
    oldest: int | None
    newest: int | None
    medianAge: int | None  # noqa: N815 - a key of the JSON
    """ms"""
    perHour: float | None  # noqa: N815 - as above
    """Messages that are still there, by the time in which they came."""


HEADINGS: Final = (
    "address", "queue", "messages", "bytes", "largest (bytes)", "large messages", "redelivered", "expired",
    "oldest sent (UTC)", "newest sent (UTC)", "median age (days)", "messages per hour",
)  # fmt: skip
"""Of the same in a report."""


@dataclass(frozen=True, slots=True)
class Stats:
    now_ms: int
    queues: Sequence[QueueStats]
    """The fullest first."""
    width_ms: int
    """Of a stretch of time."""
    starts_ms: Sequence[int]
    arrivals: Mapping[str, Sequence[int]]
    """By queue, how many of the messages came in each stretch."""
    ages: Mapping[str, int]

    @property
    def edges_ms(self) -> Sequence[int]:
        """Where stretches begin, and where the last one ends."""
        return [*self.starts_ms, self.starts_ms[-1] + self.width_ms] if self.starts_ms else []

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.queues)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.queues)


_FACTS: Final = """
SELECT address, queue, expiration, deliveryCount, largeMessage,
    CASE WHEN body IS NULL THEN 0 ELSE octet_length(body) END AS size,
    CASE WHEN timestamp <> 0 THEN timestamp END AS sent
FROM {messages}
"""
"""0 is what a client sends that sends no time. Any other number may be one."""
_QUEUES: Final = """
SELECT address, queue, count(*) AS messages, sum(size) AS bytes, max(size) AS largest,
    count(CASE WHEN largeMessage THEN 1 END) AS large,
    count(CASE WHEN deliveryCount > 0 THEN 1 END) AS redelivered,
    count(CASE WHEN expiration BETWEEN 1 AND %(now_ms)d THEN 1 END) AS expired,
    min(sent) AS oldest, max(sent) AS newest, %(median)s AS median
FROM {facts} GROUP BY address, queue
"""
_ARRIVALS: Final = """
SELECT stretch, queue, count(*) AS messages
FROM (SELECT queue, %(stretch)s AS stretch FROM {facts} WHERE sent IS NOT NULL) AS placed
GROUP BY stretch, queue
"""
_AGES: Final = """
SELECT age, count(*) AS messages
FROM (SELECT %(age)s AS age FROM {facts}) AS aged GROUP BY age
"""


def stats(engine: Engine, source: Source, now_ms: int) -> Stats:
    """Raises what `Source.messages` raises."""
    with engine.kept(_FACTS, messages=engine.messages(source, READ)) as facts:
        queues = _queues(engine, facts, now_ms)
        width_ms, starts_ms, arrivals = _arrivals(engine, facts, queues)
        return Stats(now_ms, queues, width_ms, starts_ms, arrivals, _ages(engine, facts, now_ms))


def report(found: Stats, source: Source, folder: Folder) -> None:
    """`report.html`, and its plots as PNG."""
    rows = [[_cell(name, value) for name, value in asdict(one).items()] for one in found.queues]
    facts = {
        **source.facts(),
        "as of (UTC)": moment(found.now_ms),
        "queues": len(found.queues),
        "messages": found.messages,
        "bytes of bodies": found.bytes,
    }
    note = "All of messages that are still there. Bytes are those of bodies."
    write_report(folder, "Messages", facts, [Table("Queues", list(HEADINGS), rows, note)], plots(found))


def plots(found: Stats) -> list[Plot]:
    by_messages, by_bytes = dict[str, float](), dict[str, float]()
    for one in found.queues:
        by_messages[one.queue] = by_messages.get(one.queue, 0) + one.messages
        by_bytes[one.queue] = by_bytes.get(one.queue, 0) + one.bytes
    of_width = f"messages sent within {_duration(found.width_ms)}"
    return [
        bars("messages", "Messages by queue", by_messages, "messages"),
        bars("bytes", "Bytes of bodies by queue", by_bytes, "bytes"),
        columns("ages", "Messages by age", found.ages, "messages"),
        steps("arrivals", "When what waits was sent (UTC)", found.edges_ms, found.arrivals, of_width),
    ]


def _queues(engine: Engine, facts: Rows, now_ms: int) -> list[QueueStats]:
    median = engine.words["median"].format("sent")
    found: list[QueueStats] = []
    for row in engine.ask(_QUEUES % {"now_ms": now_ms, "median": median}, facts=facts):
        middle = row.pop("median")
        age = None if middle is None else now_ms - middle
        rate = _rate(row["oldest"], row["newest"], row["messages"])
        found.append(QueueStats(**row, medianAge=age, perHour=rate))
    return sorted(found, key=lambda one: (-one.messages, one.queue, one.address or ""))


def _rate(oldest: int | None, newest: int | None, messages: int) -> float | None:
    if oldest is None or newest is None or newest == oldest:
        return None
    return round((messages - 1) * HOUR / (newest - oldest), 3)


def _arrivals(
    engine: Engine, facts: Rows, queues: Sequence[QueueStats]
) -> tuple[int, list[int], dict[str, Sequence[int]]]:
    known = [(one.oldest, one.newest) for one in queues if one.oldest is not None and one.newest is not None]
    if not known:
        return WIDTHS[0], [], {}
    first, last = min(one for one, _ in known), max(one for _, one in known)
    widths = chain(WIDTHS, (WIDTHS[-1] * 10**power for power in count(1)))
    width = next(one for one in widths if (last - first) // one < STRETCHES_MAX)
    fullest = list(dict.fromkeys(one.queue for one in queues))[:SERIES_MAX]
    stretch = _FLOORED.format(width=width, div=engine.words["div"])
    starts = range(first // width, last // width + 1)
    found: dict[str | None, list[int]] = {one: [0] * len(starts) for one in (*fullest, None)}
    for row in engine.ask(_ARRIVALS % {"stretch": stretch}, facts=facts):
        name = row["queue"] if row["queue"] in fullest else None
        found[name][row["stretch"] - starts[0]] += row["messages"]
    series: dict[str, Sequence[int]] = {one: found[one] for one in fullest}
    if any(found[None]):
        series[OTHERS] = found[None]
    return width, [one * width for one in starts], series


def _ages(engine: Engine, facts: Rows, now_ms: int) -> dict[str, int]:
    limits = "".join(f" WHEN sent > {now_ms - limit} THEN '{name}'" for name, limit in AGES)
    first = f"WHEN sent IS NULL THEN '{UNKNOWN}' WHEN sent > {now_ms} THEN '{FUTURE}'"
    age = f"CASE {first}{limits} ELSE 'older' END"
    found = {row["age"]: row["messages"] for row in engine.ask(_AGES % {"age": age}, facts=facts)}
    every = [FUTURE, *(name for name, _ in AGES), "older", UNKNOWN]
    return {name: found.get(name, 0) for name in every if name in found or name not in (FUTURE, UNKNOWN)}


def _cell(name: str, value: object) -> object:
    if isinstance(value, int) and name in ("oldest", "newest"):
        return moment(value)
    if isinstance(value, int) and name == "medianAge":
        return round(value / DAY, 2)
    return value


def _duration(width_ms: int) -> str:
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE)):
        if width_ms >= size:
            return f"{width_ms // size} {unit}"
    return f"{width_ms // SECOND} s"
