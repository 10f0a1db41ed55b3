"""The parts of an open store that every task which changes it works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from journalfs.api import QueuePath
from journalfs.bodies.writing import BodyStore
from journalfs.change.address_rules import AddressRules
from journalfs.change.arrivals import Arrivals
from journalfs.change.change import Changes
from journalfs.change.duplicates import DoneNotes, DuplicateIds
from journalfs.change.idle import LastUses
from journalfs.change.journals import Journals
from journalfs.change.paging import Paging
from journalfs.change.publishing import Publishing
from journalfs.change.queue_kinds import QueueKinds
from journalfs.change.removing import Removing
from journalfs.change.routing import Routing
from journalfs.engine.page_file import PageStore
from journalfs.engine.waiting import unbroken
from journalfs.ids import Position
from journalfs.live.core import Core
from journalfs.message.outgoing import Outgoing
from journalfs.views.queues import StoreQueue


class ChangedStore(Protocol):
    """The store as its changing tasks see it: what is durable, what is visible, and what it accepts."""

    async def published(self) -> None:
        """Return when everything that was staged is durable, and shown."""

    async def settled(self, position: Position) -> None:
        """Return when what was staged up to there is."""

    async def settled_unbroken(self, position: Position, *, only_adds: bool) -> None:
        """Return when everything staged up to `position` is durable and visible, without delivering a
        cancellation.
        """

    async def show(self) -> None:
        """Make visible what became durable."""

    def refuse_failed(self) -> None:
        """Raises where nothing can be changed any more, or at the moment."""

    def current(self) -> bool:
        """Apply the durable records to the live state; False where that is not possible now, as while the
        journal is read again.
        """

    async def catch_up(self) -> None:
        """Apply durable records while a long change is staged, so that little is left at its end."""

    def refuse_message(self, message: Outgoing) -> None:
        """Raise where the store has no place for such a message."""

    def refuse_prepared(self) -> None:
        """Raise where the store has nothing for a prepared transaction."""

    def queue_at(self, path: QueuePath) -> StoreQueue:
        """Raises `NoSuchName`."""

    async def make_queue(self, address: str, name: str, accepted: str) -> None:
        """A queue with a filter, unless there is one of that name."""


@dataclass(frozen=True, slots=True)
class StoreParts:
    core: Core
    journals: Journals
    bodies: BodyStore
    store: ChangedStore
    rules: AddressRules
    duplicates: DuplicateIds
    removing: Removing
    kinds: QueueKinds
    routing: Routing
    publishing: Publishing
    paging: Paging
    changes: Changes
    arrivals: Arrivals
    uses: LastUses

    @classmethod
    def of(
        cls,
        core: Core,
        journals: Journals,
        bodies: BodyStore,
        pages: PageStore,
        store: ChangedStore,
        *,
        min_large_bytes: int,
    ) -> StoreParts:
        removing, rules = Removing(core, journals, bodies), AddressRules(core)
        duplicates = DuplicateIds(core, rules)
        kinds = QueueKinds(core, removing)
        publishing = Publishing(
            journals,
            duplicates,
            DoneNotes(core, journals),
            bodies,
            core.clock,
            kinds=kinds,
            min_large_bytes=min_large_bytes,
        )
        routing = Routing(core, publishing.is_large)
        return cls(
            core=core,
            journals=journals,
            bodies=bodies,
            store=store,
            rules=rules,
            duplicates=duplicates,
            removing=removing,
            kinds=kinds,
            routing=routing,
            publishing=publishing,
            paging=Paging(core, journals, publishing, rules, pages=pages, take_over=store.current),
            changes=Changes(journals, bodies, store.catch_up, removing.replaced),
            arrivals=Arrivals(routing.concerns),
            uses=LastUses(core),
        )

    async def settle(self, position: Position) -> None:
        """Return when everything staged up to `position` is durable and visible. A cancellation is delivered
        afterwards.
        """
        await unbroken(lambda: self.store.settled(position))
