"""Dead letters: where messages came from that were given up, expired or moved, why, and how old they are.

Brokers write into such a message where it was before: in properties, `_AMQ_ORIG_ADDRESS` and the like, and in
annotations of AMQP messages, `x-opt-ORIG-ADDRESS`. When it expired they write that, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from journalfs.format.core_message import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_MESSAGE_ID, ORIGINAL_QUEUE
from journalfs.live.settings import settings_in_force
from journalfs.pipeline.notes import ENVELOPE, notes_of_lines
from journalfs.pipeline.report import Table, bars, write_report
from journalfs.pipeline.times import moment
from journalfs.spark.schema import struct
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.pipeline.engines import Engine
    from journalfs.pipeline.folders import Folder
    from journalfs.pipeline.messages import Source

PROPERTIES: Final = {
    "fromAddress": ORIGINAL_ADDRESS, "fromQueue": ORIGINAL_QUEUE, "fromId": ORIGINAL_MESSAGE_ID,
    "expiredMs": ACTUAL_EXPIRY,
}  # fmt: skip
"""What a message says of its origin, and the property that says it."""
READ: Final = struct(
    "queue string, address string, id long, timestamp long, protocol string, "
    f"{ORIGINAL_ADDRESS} string, {ORIGINAL_QUEUE} string, {ORIGINAL_MESSAGE_ID} long, {ACTUAL_EXPIRY} long"
)

EXPIRED: Final = "expired"
GIVEN_UP: Final = "given up"
MOVED: Final = "moved"
SENT: Final = "sent"

DeadLetterAddress = Callable[[str], str | None]
"""Of an address, where messages go to that nobody could handle."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Messages of one queue with one origin. Times in ms since 1970; None: none says."""

    queue: str
    address: str | None
    reason: str
    """`expired`; `given up` after too many deliveries; `moved` by somebody; `sent` there by a client."""
    fromAddress: str | None  # noqa: N815 - a key of the JSON, as those below
    fromQueue: str | None  # noqa: N815
    letters: int
    oldest: int | None
    """When the first of them was sent, and the last."""
    newest: int | None
    firstExpired: int | None  # noqa: N815
    lastExpired: int | None  # noqa: N815


_LETTERS: Final = (
    "SELECT queue, address, CASE WHEN timestamp <> 0 THEN timestamp END AS sent, "
    + ", ".join(f"{one} AS {name}" for name, one in PROPERTIES.items())
    + " FROM {%s}"
)
_GROUPED: Final = """
SELECT queue, address, fromAddress, fromQueue, expiredMs IS NOT NULL AS expired, count(*) AS letters,
    min(sent) AS oldest, max(sent) AS newest, min(expiredMs) AS firstExpired, max(expiredMs) AS lastExpired
FROM {letters} GROUP BY queue, address, fromAddress, fromQueue, expiredMs IS NOT NULL
"""


def dead_letters(engine: Engine, source: Source) -> list[Letters]:
    """By queue and origin, the most first: messages that come from elsewhere, and where queues are named all
    that are in these. Raises what `Source.messages` raises. Of AMQP messages, and of them alone, the whole
    line has to be read for that.
    """
    core = engine.messages(source, READ, protocol="CORE")
    lines = StructType([*READ.fields, *ENVELOPE.fields])
    amqp = engine.changed(engine.messages(source, lines, protocol="AMQP"), notes_of_lines(READ), READ)
    both = f"{_LETTERS % 'core'} UNION ALL {_LETTERS % 'amqp'}"
    with engine.kept(both, core=core, amqp=amqp) as letters:
        rows = engine.ask(_GROUPED, letters=letters)
    if not source.queues:
        rows = [row for row in rows if (row["fromAddress"], row["fromQueue"]) != (None, None)]
    dead_letter_address = _dead_letter_addresses(source)
    # What a reason is told by goes out of the row with it.
    result = [Letters(reason=_reason(row, dead_letter_address), **row) for row in rows]
    return sorted(result, key=lambda one: (-one.letters, one.queue, one.fromAddress or "", one.reason))


def report(found: Sequence[Letters], source: Source, folder: Folder, now_ms: int) -> None:
    """`report.html`, and its plots as PNG."""
    names = ["queue", "reason", "from address", "from queue", "letters", "oldest", "newest", "last expired"]
    rows = [
        [one.queue, one.reason, one.fromAddress, one.fromQueue, one.letters]
        + [moment(time) for time in (one.oldest, one.newest, one.lastExpired)]
        for one in found
    ]
    facts = {**source.facts(), "as of (UTC)": moment(now_ms), "letters": sum(one.letters for one in found)}
    plots = [
        bars("reasons", "Letters by reason", _sums((one.reason, one) for one in found), "letters"),
        bars("origins", "Letters by origin", _sums((_origin(one), one) for one in found), "letters"),
    ]
    write_report(
        folder, "Dead letters", facts, [Table("Where they came from", names, rows, "Times are UTC.")], plots
    )


def _dead_letter_addresses(source: Source) -> DeadLetterAddress:
    """As the settings of the store say; of one that is elsewhere nobody can tell."""
    if source.is_elsewhere:
        return lambda address: None
    store = open_store(source.place().store)
    try:
        in_force = settings_in_force(store.core)
    finally:
        store.close()

    def find(address: str) -> str | None:
        value = in_force.value(address, "dead-letter-address")
        return value if isinstance(value, str) else None

    return find


def _reason(row: dict[str, Any], dead_letter_address: DeadLetterAddress) -> str:
    origin = row["fromAddress"]
    if row.pop("expired"):
        return EXPIRED
    if origin is None:
        return MOVED if row["fromQueue"] is not None else SENT
    return GIVEN_UP if dead_letter_address(origin) == row["address"] else MOVED


def _sums(named: Iterable[tuple[str, Letters]]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for name, one in named:
        found[name] += one.letters
    return dict(found)


def _origin(one: Letters) -> str:
    return one.fromQueue or one.fromAddress or "unknown"
