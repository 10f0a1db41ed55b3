"""Reading all of a store: every message, and what was found wrong on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journalfs.exchange.outlines import outlined_lines
from journalfs.inspect.findings import MESSAGE, Finding
from journalfs.store.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.store.api import ByteSource, Store
    from journalfs.store.store import JournalStore


@dataclass(slots=True)
class Read:
    messages: int = 0
    delivering: int = 0
    """Messages that consumers or prepared transactions have: listed apart from the others."""
    prepared: int = 0
    """Messages that transactions sent which are prepared or undecided: in no queue yet."""
    bytes_read: int = 0
    damage: list[Finding] = field(default_factory=list)
    """The messages that do not decode."""

    def counted(self) -> str:
        apart = {
            "being delivered": self.delivering,
            "sent by transactions that have not ended": self.prepared,
        }
        *others, last = f"{self.messages} messages", *(f"{n} {what}" for what, n in apart.items() if n)
        return f"{', '.join(others)} and {last}" if others else last

    def count(self, source: ByteSource, *, transaction: str | None = None) -> int:
        """How many messages a file has, all of which are read. `transaction`: the one that sent them."""
        messages = 0
        try:
            for lines, size_bytes in outlined_lines(source):
                messages += len(lines)
                self.bytes_read += size_bytes
                doubtful = [line for line in lines if b'"damage":' in line]
                self.damage += [one for line in doubtful for one in _damage_in(line, transaction)]
        finally:
            source.close()
        return messages


def read_everything(store: Store) -> Read:
    read = Read()
    # First, for a broker at work may decide them meanwhile.
    for transaction, source in store.prepared_sends():
        read.prepared += read.count(source, transaction=transaction)
    for address in store.addresses():
        for queue in address.queues():
            read.messages += read.count(queue.open_all())
            read.delivering += read.count(queue.delivering().open_all())
    return read


def _damage_in(line: bytes, transaction: str | None) -> Iterator[Finding]:
    envelope = decode_envelope(line)
    if "damage" in envelope:
        queue, number = envelope.get("queue"), envelope.get("id")
        where = f"in {queue}" if transaction is None else f"of transaction {transaction}"
        yield Finding(
            f"message {number} {where}", None, None, MESSAGE, str(envelope["damage"]),
            queue if isinstance(queue, str) else None, number if isinstance(number, int) else None,
        )  # fmt: skip


def damaged_places(store: JournalStore) -> Iterator[Finding]:
    """What the store found while it was opened and read, file by file."""
    for one in store.core.damage():
        yield Finding(one.file, one.offset, one.length_bytes, one.kind, one.reason)
