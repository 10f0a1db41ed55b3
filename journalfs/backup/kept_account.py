"""The account of a store as the description of a backup has it."""

from __future__ import annotations

import msgspec

from journalfs.account.entries import Entry, Totals


class KeptAccount(msgspec.Struct, frozen=True):
    """The account of a store, in the description of its backup. Queues have names as `shown` writes them."""

    queues: dict[str, Totals]
    totals: Totals
    losses: list[Entry]
    """What the store lacked already."""
    numbers: dict[str, int]
    """Ids of queues: where a backup has lost the bindings, messages name their queues by these."""

    def text(self) -> str:
        return self.totals.text()
