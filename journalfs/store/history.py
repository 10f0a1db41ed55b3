"""What was sent in a range of time, as a store of its own: read in place from the files of the history.

Nothing in it ever left: each message is in the queues that it came to, in the order of arrival, and says as
far as records say what became of it. What of that is not in files as they lie is put together in a folder of
ours beside the index: bodies of large messages, and files that the journal goes on with.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from journalfs import door
from journalfs.api import RequireCopy, all_may_copy
from journalfs.clock import NS_PER_MS, Clock, StoppedClock
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage, FileStamp
from journalfs.engine import history
from journalfs.engine.buffers import MappedFile
from journalfs.engine.history import Piece
from journalfs.engine.links import put_together
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import Unmeasured
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.engine.waiting import FairLock, offload
from journalfs.errors import IndexUnusable, NotAStore, ReadOnlyStore, SystemFailure
from journalfs.format.large_file import format_large_name
from journalfs.ids import MessageId
from journalfs.limits import LOST_QUEUES_SHOWN_MAX
from journalfs.live.core import Core
from journalfs.live.index_file import index_path, index_place, read_index, write_index
from journalfs.live.lost_bindings import LostBindings
from journalfs.live.runs import Run
from journalfs.records.files.history import (
    Choice,
    HistoryFile,
    HistoryLoader,
    Kept,
    Known,
    TimeIndex,
    choose,
    list_history,
)
from journalfs.store.opening import Opening
from journalfs.store.outcomes import Ends, HistoryMessage
from journalfs.store.refused import refuse_unopenable
from journalfs.store.store import JournalStore
from journalfs.times import Range, named_range
from journalfs.views.message import StoreMessage
from journalfs.views.queues import StoreQueue

VIEWS: Final = "history-views"
INDEX: Final = "history"
OPENED_MAX: Final = 8
"""Ranges that are kept open."""
LASTS_MS: Final = 10_000
"""How long a range that reaches into the present, or moves with it, is shown as it was when it was opened."""
DAY_MS: Final = 86_400_000
LASTING: Final = "until-"
"""Before the time at which a view may be removed that others read than those who made it."""
_opened = itertools.count(1)


class HistoryQueue(StoreQueue):
    """Messages are listed in their order, whatever their priority."""

    ends: Ends

    def _delivery(self) -> Sequence[Run]:
        return self._filtered(self.content.live())

    def message(self, message_id: MessageId) -> StoreMessage | None:
        run = self.message_run(message_id)
        return None if run is None else HistoryMessage(self.content, run, self.ends)


class HistoryStore(JournalStore):
    """Never changes. `close` it."""

    queue_type: ClassVar[type[StoreQueue]] = HistoryQueue

    place: Path
    ends: Ends

    @property
    def loader(self) -> HistoryLoader:
        loader = self.core.loader
        assert isinstance(loader, HistoryLoader), "it is opened with one"
        return loader

    def status(self) -> Mapping[str, object]:
        choice = self.loader.choice
        return {
            **super().status(),
            "historyFrom": choice.from_ms,
            "historyTo": choice.to_ms,
            "historyFiles": len(choice.taken),
            "undecidedTransactions": self.loader.undecided,
        }

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.core.let_go()
            if not self.place.name.startswith(LASTING):
                door.remove_tree(self.place)


class _Queues(LostBindings):
    """Every queue that a message came to: it may have been deleted since."""

    def look(self) -> bool:
        before = self.queues
        found = sorted(self._in_journal())[:LOST_QUEUES_SHOWN_MAX]
        self.queues = {one: before.get(one) or self._queue(one) for one in found}
        return self.queues.keys() != before.keys()

    def damage(self) -> Iterator[Damage]:
        yield from ()


class _Opening(Opening):
    def __init__(self, layout: StoreLayout, clock: Clock, choice: Choice, bodies: Path) -> None:
        generation = clock.now_ms() * 1000 + next(_opened) % 1000
        super().__init__(layout, clock, index=False, ours=True, generation=generation)
        self._choice = choice
        self._bodies = bodies

    def _loader(self, state: LiveState | None = None) -> HistoryLoader:
        layout = self.layout
        return HistoryLoader(
            layout.journal_dir,
            layout.journal_extension,
            layout.root,
            self.clock,
            state if state is not None else LiveState(),
            choice=self._choice,
            fetch_bodies=_Fetching(self._bodies, layout.large_dir),
        )

    def _core(self, loader: HistoryLoader) -> Core:  # type: ignore[override]
        core = super()._core(loader)
        core.lost = core.totals.lost = _Queues(core)
        return core


# ---- bodies of large messages ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fetching:
    """Puts bodies into the folder of a view: second names of those that the store has, and the others put
    together of the pieces that the history has.
    """

    store: Path
    view: Path

    def __call__(self, loader: HistoryLoader, found: Sequence[Unmeasured]) -> None:
        wanted: dict[int, set[int]] = {}
        for one in found:
            if not self._linked(one.message_id):
                wanted.setdefault(one.file_slot, set()).add(one.message_id)
        if wanted:
            self._put_together(loader, wanted)

    def _linked(self, message_id: int) -> bool:
        name = format_large_name(MessageId(message_id))
        if not door.is_file(self.store / name):
            return False
        try:
            door.link(self.store / name, self.view / name)
        except FileNotFoundError:
            return False
        except OSError:
            door.copy(self.store / name, self.view / name)
        return True

    def _put_together(self, loader: HistoryLoader, wanted: Mapping[int, set[int]]) -> None:
        """Pieces stand before their message, in its file and in those right before that."""
        files = {slot: loader.files.read_file(slot).file for slot in wanted}
        kept = [one.file for one in loader.choice.around]
        places: dict[int, list[tuple[Path, Piece]]] = {}
        looking: set[int] = set()
        for at in range(len(kept) - 1, -1, -1):
            own = {one for slot, ids in wanted.items() if files[slot].path == kept[at].path for one in ids}
            looking |= own
            if not looking or kept[at].compacted:
                continue
            there = _pieces(kept[at].path, kept[at].rid, kept[at].version, looking)
            for message_id, some in there.items():
                places[message_id] = [*some, *places.get(message_id, ())]
            # Who had some and has none here began behind it. A message's own file may have none.
            looking = {one for one in looking if one in there or one in own}
        for message_id, some in places.items():
            self._write(message_id, some)

    def _write(self, message_id: int, places: Sequence[tuple[Path, Piece]]) -> None:
        name = self.view / format_large_name(MessageId(message_id))
        put_together(name, [(path, piece.offset, piece.length) for path, piece in places])


def _pieces(path: Path, rid: int, version: int, ids: set[int]) -> dict[int, list[tuple[Path, Piece]]]:
    found: dict[int, list[tuple[Path, Piece]]] = {}
    try:
        with MappedFile(path) as mapped:
            for piece in history.pieces(scan_journal(mapped, rid=rid, version=version), ids):
                found.setdefault(piece.message_id, []).append((path, piece))
    except (OSError, FileTorn, CoreRefused):
        return {}  # the loader lists it with what is damaged
    return found


# ---- the index by time -------------------------------------------------------------------------------------


class _Indexed(msgspec.Struct, frozen=True):
    files: dict[str, tuple[FileStamp, Known]]


def _read_times(path: Path | None) -> TimeIndex:
    if path is None:
        return TimeIndex()
    try:
        found = read_index(path, _Indexed)
    except IndexUnusable:
        return TimeIndex()
    return TimeIndex(found[0].files if found is not None else None)


def _write_times(path: Path | None, index: TimeIndex) -> None:
    """What cannot be written is looked up again."""
    if path is None or not index.changed:
        return
    try:
        write_index(path, _Indexed(index.known), [])
    except OSError:
        return
    index.changed = False


# ---- the history of a store --------------------------------------------------------------------------------

HoldJournal = Callable[[Path], Awaitable[Path]]
"""Gives the files of a journal that goes on second names in a folder below a new one, and copies what is
still written to: the folder.
"""


@dataclass(slots=True)
class HistoryRange:
    """One range, by the name that somebody gave it. As a snapshot it is opened when it is first read."""

    history: History
    name: str
    _turn: FairLock = field(default_factory=FairLock)
    _opened: HistoryStore | None = None
    _range: Range | None = None
    _opened_ms: int = 0

    @property
    def identity(self) -> str:
        return f"history {self.name}"

    @property
    def mtime_ns(self) -> int:
        now_ms = self.history.clock.now_ms()
        return min(named_range(self.name, now_ms).to_ms, now_ms) * NS_PER_MS

    async def status(self) -> Mapping[str, object]:
        return (await self.opened()).status()

    async def opened(self) -> HistoryStore:
        async with self._turn:
            now_ms = self.history.clock.now_ms()
            wanted = named_range(self.name, now_ms)
            ends = self._range is not None and not wanted.moves and self._range.to_ms <= self._opened_ms
            if self._opened is None or not (ends or now_ms - self._opened_ms < LASTS_MS):
                store = await self.history.open(wanted)
                before, self._opened = self._opened, store
                self._range, self._opened_ms = wanted, now_ms
                if before is not None:
                    await offload(before.close)
            self.history.used(self)
            return self._opened

    def close(self) -> None:
        store, self._opened = self._opened, None
        if store is not None:
            store.close()


class History:
    """Of one store. `close` it. `hold`: for who writes the journal, or sees it being written."""

    def __init__(self, layout: StoreLayout, clock: Clock, hold: HoldJournal | None = None) -> None:
        self.layout = layout
        self.clock = clock
        self._hold = hold
        index = index_place(layout.root)
        self._folder = None if index is None else index.parent
        self._ranges: dict[str, HistoryRange] = {}
        self._used: list[HistoryRange] = []
        self._times: TimeIndex | None = None

    def __bool__(self) -> bool:
        """Whether the store has one."""
        return self.layout.retention_dir is not None

    @property
    def mtime_ns(self) -> int:
        try:
            return door.status(self.layout.retention_dir or self.layout.journal_dir).st_mtime_ns
        except OSError:
            return 0

    def named(self, name: str) -> HistoryRange:
        """Raises WrongCall where it names no range of time."""
        named_range(name, self.clock.now_ms())
        found = self._ranges.get(name)
        if found is None:
            if len(self._ranges) > 8 * OPENED_MAX:
                self._ranges = {one.name: one for one in self._used}
            found = self._ranges[name] = HistoryRange(self, name)
        return found

    def used(self, one: HistoryRange) -> None:
        """Keep it open, and close one that was not used for the longest time."""
        if one in self._used:
            self._used.remove(one)
        self._used.append(one)
        if len(self._used) > OPENED_MAX:
            self._used.pop(0).close()

    async def days(self) -> Sequence[str]:
        return await offload(self._days)

    def _days(self) -> Sequence[str]:
        """Days, in local time, in which messages were sent, as far as looking at each file's first tells."""
        from datetime import datetime, timedelta  # noqa: PLC0415 - few list them

        times = self._index()
        now_ms = self.clock.now_ms()  # who sends says when, and nothing was sent later
        found_ms = (times.of(file).times.first_ms for file in self.kept().files)
        firsts = [min(one, now_ms) for one in found_ms if one > 0]
        if not firsts:
            return []
        day = datetime.fromtimestamp(min(firsts) / 1000).date()
        last = datetime.fromtimestamp(max(firsts) / 1000).date()
        found = []
        while day <= last:
            found.append(day.isoformat())
            day += timedelta(days=1)
        return found

    def kept(self, journals: Sequence[Path] | None = None) -> Kept:
        layout = self.layout
        own = [layout.journal_dir] if journals is None else journals
        for directory in (layout.retention_dir, *own):
            if directory is not None:
                refuse_unopenable(directory, f".{layout.journal_extension}")
        return list_history(layout.retention_dir, own, layout.journal_extension, layout.root)

    async def replay(self, asked: bytes, require: RequireCopy = all_may_copy) -> Mapping[str, object]:
        raise ReadOnlyStore(f"{len(asked)} bytes ask for a replay")

    async def open(self, wanted: Range) -> HistoryStore:
        """What was sent then. Raises what `open_store` raises."""
        place = self.new_place()
        if self._hold is None:
            return await offload(lambda: self.open_now(wanted, place=place))
        journal = await self._hold(place)
        return await offload(lambda: self.open_now(wanted, place=place, journals=[journal]))

    def open_now(
        self, wanted: Range, *, place: Path | None = None, journals: Sequence[Path] | None = None
    ) -> HistoryStore:
        """The same, waited for."""
        choice = self.choice(self.kept(journals), wanted)
        store = self.open_choice(choice, place=place)
        self._learn(choice.taken, store.loader)
        return store

    def choice(self, kept: Kept, wanted: Range) -> Choice:
        return choose(kept, self._index(), wanted.from_ms, wanted.to_ms)

    def open_choice(self, choice: Choice, *, place: Path | None = None) -> HistoryStore:
        place = self.new_place() if place is None else place
        layout = self.layout
        try:
            for folder in ("large-messages", "paging"):
                door.make_folders(place / folder)
            view = replace(
                layout,
                paging_dir=place / "paging",
                large_dir=place / "large-messages",
                warnings=(),
            )
            opening = _Opening(view, StoppedClock(self.clock.now_ms()), choice, layout.large_dir)
            store = opening.store(HistoryStore)
        except BaseException as error:
            door.remove_tree(place)
            if isinstance(error, OSError):
                doing = "read the history"
                raise SystemFailure.from_os(error, error.filename or place, doing=doing) from error
            raise
        store.place = place
        store.ends = Ends(store.core, store.loader)
        if choice.ends_bytes:
            store.ends.find()
        for queue in store.queues():
            if isinstance(queue, HistoryQueue):
                queue.ends = store.ends
        return store

    def _index(self) -> TimeIndex:
        if self._times is None:
            self._times = _read_times(self._index_path)
        return self._times

    @property
    def _index_path(self) -> Path | None:
        return None if self._folder is None else self._folder / INDEX

    def _learn(self, taken: Sequence[HistoryFile], loader: HistoryLoader) -> None:
        index = self._index()
        copied = {one.file.path for one in taken if one.copied_ms is not None}
        for read in loader.files.read_files():
            if read.slot < loader.taken_slots and read.file.path in copied:
                times = loader.times[read.slot]
                if times.last_ms:
                    index.learn(read.file, Known(times, whole=True))
        _write_times(self._index_path, index)

    def new_place(self, *, lasting: bool = False) -> Path:
        """A folder for a view, that nobody has. It goes with its store, or `lasting` a day after it was made.
        Raises OSError.
        """
        base = self._views()
        own = f"{os.getpid()}-{next(_opened)}"
        place = base / (f"{LASTING}{self.clock.now_ms() + DAY_MS}-{own}" if lasting else own)
        door.make_folders(place)
        return place

    def _views(self) -> Path:
        base = index_path(self.layout.root).parent / VIEWS
        for name in door.names_if_there(base):
            process = name.partition("-")[0]
            over = process.isdecimal() and not door.is_running(int(process))
            until = name.removeprefix(LASTING).partition("-")[0] if name.startswith(LASTING) else ""
            if over or (until.isdecimal() and int(until) < self.clock.now_ms()):
                door.remove_tree(base / name)
        return base

    def close(self) -> None:
        for one in self._ranges.values():
            one.close()
        self._ranges.clear()
        self._used.clear()
        _write_times(self._index_path, self._index()) if self._times is not None else None


def history_of(layout: StoreLayout, clock: Clock) -> History:
    """That of a store that nobody opened. Raises NotAStore where it keeps none."""
    require_history(layout)
    return History(layout, clock)


KEEP_HISTORY: Final = (
    "set journal-retention-directory, and journal-retention-period or -max-bytes, in broker.xml or "
    "journalfs.toml; what was written before that is not in it"
)


def require_history(layout: StoreLayout) -> None:
    """Raises NotAStore where it keeps none."""
    if layout.retention_dir is None:
        raise NotAStore(layout.root, "it keeps no history", give=f"one that does: {KEEP_HISTORY}")
    if not door.is_folder(layout.retention_dir):
        reason = "no such directory, for the history (`journal-retention-directory`)"
        raise NotAStore(layout.retention_dir, reason, give="a store whose history is there")
