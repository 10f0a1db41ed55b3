"""What became of a store that was carried into another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from journalfs.account.entries import Entry
from journalfs.errors import EXIT_DAMAGED, EXIT_OK


class Report(msgspec.Struct, frozen=True):
    """Printed, and kept in the new store as `journalfs/made-from.json`."""

    mode: str
    source: str
    format: str
    destination: str
    messages: int
    """In queues: one that is in two counts twice."""
    queues: dict[str, int]
    """Messages by `ADDRESS::QUEUE`."""
    large_bodies: int
    prepared_transactions: list[str]
    """Ids of those that are kept in doubt, as a broker lists them."""
    damage: list[Entry]
    """Why the source is not whole: what `check` lists of it."""
    notes: list[tuple[str, str]]
    """What has no equal, or another name now: a stable word, and a sentence."""
    renamed: dict[str, str] = {}
    """`ADDRESS::QUEUE` in the source -> in the new store, of queues with another name there; an address alone
    where one of the stores has no queue: a topic of HornetQ has one of its own, which never holds a message.
    """
    books: dict[str, Any] = {}
    """What the source had, and what became of it (`Books.as_json`)."""
    told: list[str] = []
    """The same as a table for people."""
    asked: str = ""
    """The mode and the options of the call; "" in a store that an earlier version made."""
    identity: str = ""
    """What tells the source, as it was, from all others."""

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return EXIT_OK if self.books.get("complete") else EXIT_DAMAGED

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.source} ({self.format}) -> {self.destination}"
        yield f"{self.messages} messages in {len(self.queues)} queues, {self.large_bodies} large bodies"
        for transaction in self.prepared_transactions:
            yield f"in doubt, kept: transaction {transaction}"
        for kind, text in self.notes:
            yield f"{kind}: {text}"
        for one in self.damage:
            yield f"damage: {one.file} at byte {one.offset}: {one.reason}"
        yield from self.told
