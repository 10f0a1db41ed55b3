"""Replay, done: window after window, each in one transaction with a mark that says how far it came.

A mark is a duplicate id of a name that no client sends to: brokers keep such records and look at none of
them. It holds for a kill at any moment that a window and its mark are there together, or neither is.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from journalfs import door
from journalfs.api import RequireCopy, all_may_copy
from journalfs.broker.consume.copies import Copies, run_of
from journalfs.broker.consume.copies import Replayed as ReplayedCopies
from journalfs.broker.consume.leaving import StageAlso
from journalfs.broker.consume.removals import Back
from journalfs.change.journals import Journals
from journalfs.change.store_parts import StoreParts
from journalfs.engine.waiting import offload, unbroken
from journalfs.errors import AddressFull, Damaged, DecodeError, WrongCall
from journalfs.format import record_bodies
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType
from journalfs.ids import RecordId, TxId
from journalfs.live.core import Core
from journalfs.live.stored_runs import each_stored
from journalfs.records.files.history import Kept
from journalfs.store.history import History, HistoryStore, require_history
from journalfs.store.replay_plan import (
    BEGIN,
    DAMAGED,
    Asked,
    Chosen,
    Plan,
    Replayed,
    Window,
    chosen_of,
    plan,
    require_sources,
)
from journalfs.store.write.snapshotting import SnapshotMaking
from journalfs.times import Range, range_between

MARKS: Final = "journalfs.replay"

BringBack = Callable[[Sequence[Back], type[Copies], StageAlso], Awaitable[None]]
"""Publishes messages anew, all in one transaction, in which more may be staged."""

Progress = Callable[[int, int], None]
"""Told of bytes of the history that are done, and of all."""


class Mark(msgspec.Struct, frozen=True):
    name: str
    from_ms: int
    to_ms: int
    below_id: int
    """Messages from this id on came after the replay was begun."""
    position: tuple[bool, int] = BEGIN
    sent: int = 0
    done_ms: int = 0
    """When all of it was done; 0: it is not."""
    words: str = ""
    """Of which words; "": a mark of before these were kept."""


@dataclass(slots=True)
class Marked:
    """The mark of a replay, as it is on the disk."""

    core: Core
    journals: Journals
    mark: Mark
    record: RecordId | None = None

    def stage(self, tx: TxId, mark: Mark) -> None:
        """As part of a transaction; the one before goes with it."""
        writer, record = self.journals.messages, RecordId(self.journals.ids.draw())
        body = record_bodies.duplicate_id(MARKS, msgspec.json.encode(mark))
        writer.stage_add_in(tx, record, MessageType.DUPLICATE_ID, body)
        if self.record is not None:
            writer.stage_delete_in(tx, self.record)
        self.record, self.mark = record, mark


def _marks(core: Core) -> dict[str, tuple[RecordId, Mark]]:
    found: dict[str, tuple[RecordId, Mark]] = {}
    for operation in core.loader.state.side(MessageType.DUPLICATE_ID):
        body = core.loader.files[operation.file_slot].copy(operation.body_offset, operation.body_bytes)
        try:
            reader = Reader(body)
            if reader.simple_string() != MARKS:
                continue
            mark = msgspec.json.decode(reader.byte_array(), type=Mark)
        except (DecodeError, ValueError, RecursionError):
            continue  # whoever reads duplicate ids says so
        found[mark.name] = RecordId(operation.record_id), mark
    return found


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `journalfs replay` asks a mount for."""

    asked: Asked
    again: bool = False


class OwnHistory(History):
    """That of a store that is open for writing."""

    def __init__(self, parts: StoreParts, snapshotting: SnapshotMaking, bring_back: BringBack) -> None:
        super().__init__(parts.core.layout, parts.core.clock, snapshotting.hold_journal)
        self._parts = parts
        self._snapshotting = snapshotting
        self._bring_back = bring_back

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Kept]:
        """All files that there are now, which stay for as long as this is entered. Raises what `open_store`
        raises.
        """
        retention = self._parts.journals.messages.retention
        place = await offload(self.new_place)
        try:
            with nullcontext() if retention is None else retention.read():
                journal = await self._snapshotting.hold_journal(place)
                yield await offload(lambda: self.kept([journal]))
        finally:
            await unbroken(lambda: offload(lambda: door.remove_tree(place)))

    async def replay(self, asked: bytes, require: RequireCopy = all_may_copy) -> Mapping[str, object]:
        try:
            request = msgspec.json.decode(asked, type=Request)
        except (ValueError, RecursionError) as error:
            raise WrongCall(f"no JSON that `journalfs replay` writes: {error}") from error
        done = await self.publish(
            request.asked, again=request.again, progress=lambda *_: None, require=require
        )
        return done.told()

    def begun(self, asked: Asked, *, again: bool) -> Marked:
        """The replay that was begun by the same words, or a new one. Raises WrongCall where it was done."""
        core, journals = self._parts.core, self._parts.journals
        found = _marks(core).get(asked.identity)
        if found is not None and not (again and found[1].done_ms):
            if found[1].words not in {"", asked.words}:
                raise WrongCall(
                    f"--name {asked.name} is known of a replay with other options, which is not done: "
                    "repeat those, or say another name"
                )
            if found[1].done_ms:
                raise WrongCall(
                    f"this was replayed already, {found[1].sent} messages; say --again to have them once more"
                )
            return Marked(core, journals, found[1], found[0])
        wanted = range_between(asked.begin, asked.end, core.clock.now_ms())
        below_id = journals.ids.last + 1
        mark = Mark(asked.identity, wanted.from_ms, wanted.to_ms, below_id, words=asked.words)
        return Marked(core, journals, mark, None if found is None else found[0])

    async def publish(
        self, asked: Asked, *, again: bool, progress: Progress, require: RequireCopy = all_may_copy
    ) -> Replayed:
        """Returns what went. Raises what publishing raises, and what `require` raises of a window's queues;
        what went before that is marked, and is not sent when the same is asked for once more.
        """
        core = self._parts.core
        require_history(core.layout)
        marked = self.begun(asked, again=again)
        replayed = Replayed(before=marked.mark.sent)
        if asked.target is not None:
            self._parts.routing.of_any(*asked.target)
        await offload(asked.require_selector)
        async with self.held() as kept:
            mark = marked.mark
            wanted = Range(mark.from_ms, mark.to_ms, moves=False)
            found: Plan = await offload(lambda: plan(self, kept, wanted, mark.below_id, mark.position))
            done_bytes = found.done_bytes
            progress(done_bytes, found.total_bytes)
            async with _Views(self, found.windows) as views:
                while (window := await views.open_next()) is not None:
                    chosen = await chosen_of(views.opened, asked, replayed)
                    sources = {(one.source.model.address, one.source.name) for one in chosen}
                    require(sources, {one.target for one in chosen})
                    try:
                        await self._send(marked, chosen, window.position)
                    except Damaged:
                        chosen = await offload(partial(_readable, chosen, replayed))
                        await self._send(marked, chosen, window.position)
                    replayed.count(chosen)
                    _let_go_of_memory(core)
                    done_bytes += window.size_bytes
                    progress(done_bytes, found.total_bytes)
            if not found.done_bytes:  # else what others were sent of is not looked at again
                require_sources(replayed, asked)
        last = msgspec.structs.replace(marked.mark, done_ms=core.clock.now_ms())
        async with self._parts.changes.one() as change:
            marked.stage(change.tx, last)
            position = change.commit()
        await self._parts.settle(position)
        return replayed

    async def _send(self, marked: Marked, chosen: Sequence[Chosen], position: tuple[bool, int]) -> None:
        if not chosen:
            return
        backs = [Back(one.source, one.ids, one.target, one.source.model) for one in chosen]
        count = sum(len(one.ids) for one in chosen)
        mark = msgspec.structs.replace(marked.mark, position=position, sent=marked.mark.sent + count)
        before = marked.record, marked.mark
        try:
            await self._bring_back(backs, ReplayedCopies, lambda tx: marked.stage(tx, mark))
        except BaseException as error:
            marked.record, marked.mark = before
            if isinstance(error, AddressFull):
                then = ", and repeat the same replay: what went is not sent again"
                raise AddressFull(error.address, error.limit, then) from error
            raise


class _Views:
    """Of windows: one is open, and the one behind it is opened meanwhile. Enter it to use it."""

    def __init__(self, history: History, windows: Sequence[Window]) -> None:
        self._history = history
        self._left = iter(windows)
        self._thread = ThreadPoolExecutor(1)
        self._coming: tuple[Window, Future[HistoryStore]] | None = None
        self._opened: HistoryStore | None = None

    @property
    def opened(self) -> HistoryStore:
        assert self._opened is not None, "open one"
        return self._opened

    async def open_next(self) -> Window | None:
        """Closes the one before. Raises what `History.open_choice` raises."""
        await offload(self._close)
        if self._coming is None:
            return None
        window, future = self._coming
        self._opened = await offload(future.result)
        self._begin()
        return window

    def _begin(self) -> None:
        window = next(self._left, None)
        opened = None if window is None else self._thread.submit(self._history.open_choice, window.choice)
        self._coming = None if window is None or opened is None else (window, opened)

    def _close(self) -> None:
        view, self._opened = self._opened, None
        if view is not None:
            _let_go_of_memory(view.core)
            view.close()

    async def __aenter__(self) -> _Views:
        self._begin()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await unbroken(lambda: offload(self._end))

    def _end(self) -> None:
        self._thread.shutdown()
        self._close()
        if self._coming is not None and self._coming[1].exception() is None:
            self._coming[1].result().close()


def _let_go_of_memory(core: Core) -> None:
    """Of files that are read no more: else all that was ever replayed stays."""
    for _slot, mapped in core.loader.files.mapped():
        mapped.release()


def _readable(chosen: Sequence[Chosen], replayed: Replayed) -> list[Chosen]:
    """Those of them that can be copied."""
    found: list[Chosen] = []
    for one in chosen:
        stored = each_stored(one.source.content, run_of(one.source.content, one.ids))
        damaged = {message_id for message_id, message in stored if isinstance(message, Damaged)}
        replayed.damaged += len(damaged)
        replayed.left[f"{one.source.model.address}::{one.source.name}", DAMAGED] += len(damaged)
        found.append(replace(one, ids=array("q", (id_ for id_ in one.ids if id_ not in damaged))))
    return [one for one in found if one.ids]
