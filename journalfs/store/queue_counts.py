"""What each queue holds, asked of all at once: `.journalfs/queues.jsonl`, and `Store.overview` in Python.

There may be 100,000 queues, of which few change between two looks: only those are counted again. Nothing here
reads a message.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from journalfs.engine.waiting import FairLock, Slices
from journalfs.live.settings import settings_in_force
from journalfs.live.virtual import to_json_lines

if TYPE_CHECKING:
    from journalfs.engine.state import LiveState
    from journalfs.engine.state_types import QueueInfo
    from journalfs.live.core import Core
    from journalfs.views.queues import StoreAddress, StoreQueue

ALONE_MAX: Final = 1000
"""Queues that are asked for one by one; of more, all are asked for in one call."""
LINES_AT_ONCE: Final = 1000


class QueueCounts(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One queue. Sizes in bytes, times in milliseconds since 1970."""

    address: str
    queue: str
    id: int
    messages: int
    """As a broker counts: with those not yet due, and without those that a prepared transaction has taken."""
    delivering: int
    """Messages that a prepared transaction has taken."""
    paged: int
    """Of `messages`, those in pages."""
    left: int
    """Messages that left the journal since the store was opened; 0 again when the journal is read again."""
    body_bytes: int
    """Bodies in the journal."""
    oldest_timestamp: int | None
    """Sending time of the journal's oldest message; None: it has none."""
    limit: str | None
    """The setting that acts on its address; None: there is room."""
    letters: bool
    """True where settings send dead letters or expired messages to its address."""

    @property
    def name(self) -> str:
        """`address::queue`."""
        return f"{self.address}::{self.queue}"


class CountedStore(Protocol):
    """See `journalfs.store.store.JournalStore`."""

    core: Core

    def addresses(self) -> Sequence[StoreAddress]: ...


class Counting:
    """The counts of one store, kept from look to look."""

    def __init__(self, store: CountedStore) -> None:
        self._store = store
        self._state: LiveState | None = None
        self._seen = array("Q")
        """Versions of queues by slot, as of the last look."""
        self._pages: dict[str, object] = {}
        """Versions of the pages of addresses."""
        self._known: dict[int, QueueCounts] = {}
        self._found: Sequence[QueueCounts] = ()
        self._as_of: tuple[object, ...] = ()
        """What the counts follow from beside the journal."""
        self._turn = FairLock()

    async def look(self, slices: Slices) -> Sequence[QueueCounts]:
        """All queues, by address and name. Queues that did not change are the same objects as before; where
        none did, so is what is returned.
        """
        async with self._turn:
            try:
                return await self._look(slices)
            except BaseException:
                self._state = None  # what changed is not asked for twice: all is counted again
                raise

    async def _look(self, slices: Slices) -> Sequence[QueueCounts]:
        core = self._store.core
        state = core.loader.state
        if state is not self._state:
            self._state, self._seen, self._known, self._as_of = state, array("Q"), {}, ()
        changed = set(state.changed_queues(self._seen))
        settings = settings_in_force(core)
        pages = tuple((name, paged.version) for name, paged in core.pages.items())
        before_that, self._as_of = self._as_of, (core.bindings, settings, pages, core.limits)
        if not changed and core.limits is None and self._as_of == before_that:
            return self._found
        infos = {one.queue_id: one for one in state.queues()} if len(changed) > ALONE_MAX else {}
        letters = {*settings.texts("dead-letter-address"), *settings.texts("expiry-address")}
        before, self._known = self._known, {}
        found = []
        for address in self._store.addresses():
            await slices.pause()
            acting = core.limits_of(address.name)
            of_address = None if acting is None else acting.limit, address.name in letters
            paged = self._pages_changed(address.name)
            for queue in address.queues():
                known = before.get(queue.model.queue_id)
                same = known is not None and (known.limit, known.letters) == of_address
                if known is None or paged or not same or known.id in changed:
                    await slices.pause()
                    known = _counted(queue, infos.get(queue.model.queue_id), *of_address)
                self._known[known.id] = known
                found.append(known)
        self._found = found
        return found

    def _pages_changed(self, address: str) -> bool:
        paged = self._store.core.paged(address)
        version = None if paged is None else paged.version
        before = self._pages.get(address)
        if version is not None:
            self._pages[address] = version
        return version != before

    async def lines(self, slices: Slices) -> bytes:
        """The same as lines of JSON."""
        found, lines = await self.look(slices), []
        for at in range(0, len(found), LINES_AT_ONCE):
            lines.append(to_json_lines(found[at : at + LINES_AT_ONCE]))
            await slices.pause()
        return b"".join(lines)


def _counted(queue: StoreQueue, info: QueueInfo | None, limit: str | None, letters: bool) -> QueueCounts:
    content, model = queue.content, queue.model
    state = content.state
    info = state.queue(content.slot) if info is None else info
    paged = sum(map(len, content.page_runs()))
    return QueueCounts(
        address=model.address,
        queue=model.name,
        id=model.queue_id,
        messages=info.live_count + paged,
        delivering=info.delivering_count,
        paged=paged,
        left=info.left,
        body_bytes=info.live_bytes,
        oldest_timestamp=(info.live_count and state.oldest_ms(content.slot)) or None,
        limit=limit,
        letters=letters,
    )
