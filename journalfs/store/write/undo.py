"""Keeps the room of removed messages from being reused for a while, shows them, and restores them.

Nothing is written for this. Freed journal files are used last, and removed bodies and pages keep a name in a
folder of the store; a task that needs the room takes it. What is kept ends with the process.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.api import QueuePath, Require, Undone, all_may
from journalfs.bindings.model import Queue
from journalfs.bodies.aside import Aside
from journalfs.bodies.writing import BodyStore
from journalfs.broker.consume.removals import Back, BringBack, InPage, Life, Noting, Removal, queues_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.engine.waiting import FairLock, offload, unbroken
from journalfs.errors import Gone, SystemFailure
from journalfs.ids import MessageId
from journalfs.live.core import Core
from journalfs.records.files.pool import KEPT
from journalfs.store.removed import Derived, RemovedStore, Where, derive, open_removed
from journalfs.views.queues import StoreQueue

FOLDER: Final = Path("journalfs") / "removed"
ASIDE: Final = "kept"

_NS_PER_S: Final = 1_000_000_000
TOLD_AGAIN_NS: Final = 60 * _NS_PER_S
TRIES: Final = 4
"""Files may be given another name, or be used again, while they are read."""
OFTEN_NS: Final = 100_000_000
"""Nanoseconds above which putting the removed messages together is done only one time in five."""


def aside_of(root: Path) -> Aside:
    return Aside(root / FOLDER / ASIDE)


def sweep(root: Path, journal_dir: Path) -> None:
    """Remove what a crash left. Raises OSError."""
    for folder in (root / FOLDER, journal_dir / KEPT):
        if door.is_folder(folder):
            door.remove_tree(folder)


class Keeping:
    """Of one store. Use on the trio thread."""

    def __init__(self, core: Core, noting: Noting, bodies: BodyStore, bring: BringBack) -> None:
        self._core = core
        self._noting = noting
        self._pool = noting.pool
        self._bodies = bodies
        self._aside = bodies.aside
        self._bring = bring
        self.removals = noting.removals
        self._since_ns: dict[Hashable, int] = {}
        """When each file was first seen to be kept."""
        self.held_bytes = 0
        self._told_ns: int | None = None
        self._turn = FairLock()
        self._view: tuple[int, RemovedStore] | None = None
        self._view_took_ns = self._view_at_ns = 0
        self._views = 0

    # ---- what is kept ----

    async def look(self) -> None:
        """Let go of what was kept for long enough, or is too much. Raises OSError."""
        if not self._pool.keeps:
            return
        now_ns, keep_s = self._core.clock.monotonic_ns(), self._noting.keep_s()
        kept = self._kept()
        since = self._since_ns = {key: self._since_ns.get(key, now_ns) for key, _, _ in kept}
        kept.sort(key=lambda one: since[one[0]])
        total, most = sum(size for _, size, _ in kept), self._noting.keep_bytes()
        going: list[Callable[[], None]] = []
        early = 0
        for key, size_bytes, let_go in kept:
            over = now_ns - since[key] >= keep_s * _NS_PER_S
            if over or total > most:
                going.append(let_go)
                early += 0 if over else size_bytes
                total -= size_bytes
        self.held_bytes = total
        self._aside.most_bytes = most
        if going:
            await unbroken(lambda: offload(lambda: [one() for one in going]))
        if early:
            self._tell_early(early, now_ns)
        lives = self._lives()
        self.removals.keep_only(lambda one: self._is_there(one, lives))
        if not self.removals and not total:
            self._pool.keeps = self._aside.keeps = False
            await unbroken(lambda: offload(self._pool.let_go_of_all))

    def _kept(self) -> list[tuple[Hashable, int, Callable[[], None]]]:
        """Each file with its size, and what lets go of it."""
        pool, aside = self._pool, self._aside
        return [
            *((one.life, one.size_bytes, lambda one=one: pool.let_go(one)) for one in pool.kept()),
            *((one.path, one.size_bytes, lambda one=one: aside.let_go(one)) for one in aside.files()),
        ]

    def _tell_early(self, size_bytes: int, now_ns: int) -> None:
        if self._told_ns is None or now_ns - self._told_ns >= TOLD_AGAIN_NS:
            self._told_ns = now_ns
            reason = (
                "the disk needs the room"
                if not self._noting.keep_bytes()
                else "`removed-keep-bytes` is reached"
            )
            told = f"{size_bytes} bytes of what was removed are let go of before their time: {reason}"
            self._core.events.add("removed-let-go", told, level=logging.INFO)

    def _lives(self) -> dict[Life, Path]:
        """Journal files that hold what they held, and where they are."""
        folder = self._core.layout.journal_dir
        found: dict[Life, Path] = {
            (file.name, file.file_id): folder / file.name for file in self._noting.writer.data
        }
        ready = self._noting.writer.ready_file
        if ready is not None and ready.was is not None:
            found[ready.name, ready.was] = folder / ready.name
        return found | {kept.life: folder / kept.name for kept in self._pool.as_it_was()}

    def _is_there(self, removal: Removal, lives: Mapping[Life, Path]) -> bool:
        """Whether anything of it is."""
        if any(life in lives for life in removal.lives.values()):
            return True
        aside = {file.was for file in self._aside.files()} if removal.paged else ()
        return any(page.path in aside or door.exists(page.path) for page in removal.paged)

    # ---- what is read ----

    async def opened(self) -> RemovedStore:
        """All that can be brought back, the newest first. Raises what `open_store` raises."""
        async with self._turn:
            now_ns, version = self._core.clock.monotonic_ns(), self.removals.version
            if self._view is not None:
                known, store = self._view
                seldom = self._view_took_ns > OFTEN_NS
                if known == version or (seldom and now_ns - self._view_at_ns < 4 * self._view_took_ns):
                    return store
            store = await self._derived(list(self.removals)[::-1])
            self._view_took_ns = self._core.clock.monotonic_ns() - now_ns
            self._view_at_ns = now_ns + self._view_took_ns
            before, self._view = self._view, (version, store)
            if before is not None:
                await offload(before[1].close)
            return store

    async def _derived(self, removals: Sequence[Removal], *, by_id: bool = False) -> RemovedStore:
        """A store with what is left of removals, in this order or by the ids of messages."""
        self._views += 1
        place = self._core.root / FOLDER / f"view-{self._views}"
        generation = self._core.clock.now_ms() * 1000 + self._views % 1000
        for _ in range(TRIES):
            lives = self._lives()
            try:
                derived = await offload(
                    lambda lives=lives: self._derive(  # type: ignore[misc]
                        place, removals, lives, by_id=by_id
                    )
                )
            except OSError as error:
                if door.is_folder(place):
                    await offload(lambda: door.remove_tree(place))
                if isinstance(error, FileNotFoundError):
                    continue
                raise SystemFailure.from_os(error, place, doing="put together what was removed") from error
            needed = {life for one in removals for life in one.lives.values() if life in lives}
            if needed <= self._lives().keys():
                return await offload(
                    lambda derived=derived: open_removed(  # type: ignore[misc]
                        self._core.layout, derived, self._core.clock, generation
                    )
                )
            await offload(lambda: door.remove_tree(place))
        raise Gone("what was removed")

    def _derive(
        self,
        place: Path,
        removals: Sequence[Removal],
        lives: Mapping[Life, Path],
        *,
        by_id: bool,
    ) -> Derived:
        def body_of(message_id: MessageId) -> Iterator[Path]:
            was = self._bodies.path(message_id)
            yield was
            yield from (file.path for file in self._aside.files() if file.was == was)

        found = self._found(removals, lives)
        return derive(place, sorted(found, key=lambda one: one.message_id) if by_id else found, body_of)

    def _found(self, removals: Sequence[Removal], lives: Mapping[Life, Path]) -> Iterator[Where]:
        for removal in removals:
            for one in removal.places.newest_first() if removal.merged else removal.places:
                path = lives.get(removal.lives[one.file_slot])
                if path is None or one.message_id in removal.back:
                    continue
                place = (path, one.offset, one.size_bytes)
                yield Where(removal.queue, one.message_id, one.source, *place, one.due_ms, removal.time_ms)
            for page in removal.paged:
                yield from self._found_in_page(removal, page)

    def _found_in_page(self, removal: Removal, page: InPage) -> Iterator[Where]:
        """Where it lay, or where it was put aside: a page of its number may be there that is another."""
        for path in (page.path, *(file.path for file in self._aside.files() if file.was == page.path)):
            try:
                scan = scan_page(MappedFile(path))
            except FileNotFoundError:
                continue
            for index, message_id in zip(page.indexes, page.ids, strict=True):
                entry = scan.entry(index) if index < len(scan) else None
                if entry is None or entry.message_id != message_id or message_id in removal.back:
                    continue
                place = (path, entry.payload_offset, entry.payload_bytes)
                yield Where(removal.queue, MessageId(message_id), entry.source, *place, 0, removal.time_ms)

    # ---- what is brought back ----

    async def undo_last(self, *, plans: bool = False, require: Require = all_may) -> Undone:
        return await self.undo(self.removals.last, plans=plans, require=require)

    async def undo_since(self, time_ms: int, *, plans: bool = False, require: Require = all_may) -> Undone:
        return await self.undo(lambda: self.removals.since(time_ms), plans=plans, require=require)

    async def undo(
        self,
        choose: Callable[[], Sequence[Removal]],
        *,
        plans: bool = False,
        require: Require = all_may,
    ) -> Undone:
        """Bring back what is left of removals, to the queues that it came from. Raises what publishing
        raises, and then nothing came back.
        """
        async with self._turn:
            removals = list(choose())
            if not removals:
                return Undone({})
            require({removal.path for removal in removals})
            left = sum(removal.left for removal in removals)
            store = await self._derived(removals, by_id=True)
            try:
                was = {removal.path: removal.queue for removal in removals}
                backs = [_all_of(queue, was[queue.model.address, queue.name]) for queue in store.queues()]
                if not plans:
                    await self._bring(backs)
                    with self._noting.journals.past_commit:
                        self.removals.came_back(removals)
            finally:
                await self._close(store)
            back = {one.target: len(one.ids) for one in backs if one.ids}
        undone = Undone(back, left - sum(back.values()))
        if not plans:
            with self._noting.journals.past_commit:
                self._tell_back(undone)
        return undone

    async def move(self, source: QueuePath, ids: Sequence[MessageId], target: QueuePath) -> int:
        """Bring some messages back that were in a queue, to any queue; how many."""
        wanted: set[int] = set(ids)
        async with self._turn:
            removals = [
                removal
                for removal in self.removals
                if removal.path == source and not wanted.isdisjoint(removal.ids())
            ]
            there = {one for removal in removals for one in removal.ids() if one not in removal.back}
            if not wanted & there:
                return 0
            store = await self._derived(removals, by_id=True)
            try:
                backs = [
                    Back(queue, array("q", (one for one in _ids(queue) if one in wanted)), target)
                    for queue in store.queues()
                ]
                await self._bring(backs)
                with self._noting.journals.past_commit:
                    self.removals.came_back(removals, wanted)
            finally:
                await self._close(store)
        count = sum(len(one.ids) for one in backs)
        self._tell_back(Undone({target: count}))
        return count

    async def _close(self, store: RemovedStore) -> None:
        """Let go of what was read. That it cannot be takes nothing from what came back."""
        with suppress(MemoryError, OSError):
            await offload(store.close)

    def _tell_back(self, undone: Undone) -> None:
        told = [f"{count} in {address}::{queue}" for (address, queue), count in undone.back.items()]
        if undone.gone:
            told.append(f"{undone.gone} are gone, as their room is used again")
        if told:
            text = f"removed messages are back: {', '.join(told)}"
            self._core.events.add("brought-back", text, level=logging.INFO)

    # ---- what is said of it ----

    def status(self) -> Mapping[str, object]:
        last = self.removals.last()
        return {
            "messages": len(self.removals),
            "heldBytes": self.held_bytes,
            "keepS": self._noting.keep_s(),
            "keepBytes": self._noting.keep_bytes(),
            "last": last[0].command.number if last else None,
            "commands": [self._described(one) for one in self.removals.by_command()],
        }

    @staticmethod
    def _described(removals: list[Removal]) -> Mapping[str, object]:
        command = removals[0].command
        return {
            "command": command.number,
            "processGroup": command.by if isinstance(command.by, int) and command.by else None,
            "taken": not isinstance(command.by, int),
            "over": command.is_over(),
            "first": command.first_ms,
            "last": command.last_ms,
            "queues": {f"{address}::{queue}": n for (address, queue), n in queues_of(removals).items()},
        }

    # ---- the end ----

    def close(self) -> None:
        """Let go of everything. Raises OSError."""
        view, self._view = self._view, None
        if view is not None:
            view[1].close()
        self._pool.let_go_of_all()
        self._pool.keeps = self._aside.keeps = False
        if self._noting.on:
            sweep(self._core.root, self._core.layout.journal_dir)


def _ids(queue: StoreQueue) -> array[int]:
    """Of all its messages, those that are not due too, in the order of their arrival."""
    ids = array("q")
    for run in queue.content.live():
        ids += run.ids(queue.content)
    return ids


def _all_of(queue: StoreQueue, was: Queue) -> Back:
    return Back(queue, _ids(queue), (queue.model.address, queue.name), was)
