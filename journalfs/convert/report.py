"""What became of a store that was carried into another one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from journalfs.damage import Damage


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
    damage: list[Damage]
    """What of the source could not be read."""
    notes: list[tuple[str, str]]
    """What has no equal, or another name now: a stable word, and a sentence."""
    renamed: dict[str, str] = {}
    """`ADDRESS::QUEUE` in the source -> in the new store, of queues with another name there; an address alone
    where one of the stores has no queue: a topic of HornetQ has one of its own, which never holds a message.
    """

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
