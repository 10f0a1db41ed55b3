"""Notes of messages that were removed in the last minutes: which ones, where their bytes lie, and by which
command.

A removal takes a note of 32 bytes a message in memory and nothing on the disk. It can be undone until its
journal files are used again.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from journalfs.api import REMOVER, QueuePath
from journalfs.bindings.model import Queue
from journalfs.bodies.aside import Aside
from journalfs.change.journals import Journals
from journalfs.change.removing import Chosen
from journalfs.clock import Clock
from journalfs.engine.state_batch import PLACE_BYTES, RecordPlaces, one_place
from journalfs.engine.waiting import checkpoint
from journalfs.ids import FileId, MessageId, PageNumber
from journalfs.live.content import QueueContent
from journalfs.live.core import Core
from journalfs.records.files.pool import KEPT_SHARE
from journalfs.views.queues import StoreQueue

TOGETHER_MS: Final = 10_000
"""Removals of one process group are of one command as long as no more than this lies between two."""

NOTED_BYTES_MAX: Final = 128 << 20
"""Memory for notes; the oldest go first."""

NOTE_BYTES: Final = 512
"""Of a note, roughly, beside what it has for each message."""

MERGED_MS: Final = 500
"""Messages of one queue that one command removes one by one within so long are noted together."""

LIVES_MAX: Final = 4096

Life: TypeAlias = tuple[str, FileId]
"""Name and id of a journal file: with another id it holds other records."""

Noted: TypeAlias = tuple[bytes, int, Life]
"""Where a message lies, and the slot of its file and what that is."""


@dataclass(slots=True)
class Command:
    """Removals that belong together."""

    number: int
    by: Hashable
    """A process group, or the reader of a stream."""
    first_ms: int
    last_ms: int
    is_over: Callable[[], bool]
    """False while a reader has its stream open."""


@dataclass(frozen=True, slots=True)
class InPage:
    """Messages in one page; its number may come again with others."""

    path: Path
    number: PageNumber
    indexes: array[int]
    ids: array[int]


@dataclass(slots=True)
class Removal:
    """Messages of one queue that left it at once."""

    command: Command
    begun_ms: int
    queue: Queue
    time_ms: int = 0
    """When it was durable."""
    places: RecordPlaces = field(default_factory=RecordPlaces)
    lives: dict[int, Life] = field(default_factory=dict)
    """By the slots that `places` name."""
    paged: list[InPage] = field(default_factory=list)
    back: set[int] = field(default_factory=set)
    """Messages that were brought back since."""
    count: int = 0
    merged: bool = False
    """Messages were removed one after the other."""

    @property
    def path(self) -> QueuePath:
        return self.queue.address, self.queue.name

    @property
    def left(self) -> int:
        """Messages that can be brought back yet, if what they lie in is there."""
        return self.count - len(self.back)

    def note(self, chosen: Chosen, ids: array[int]) -> None:
        """Note where some messages of the journal lie, which are about to leave."""
        content = chosen.content
        files = content.files
        before = len(self.places)
        self.places.add(content.state, content.slot, ids, files.slot_limit)
        for slot in self.places.file_slots - self.lives.keys():
            file = files.read_file(slot).file
            self.lives[slot] = file.name, file.file_id
        self.count += len(self.places) - before

    async def note_all(self, chosen: Chosen) -> None:
        """Note all of them, while others are served."""
        for at, ids in enumerate(chosen.pieces()):
            if at:
                await checkpoint()
            self.note(chosen, ids)
        paged = chosen.content.paged
        for one in chosen.paged if paged is not None else ():
            assert paged is not None
            indexes = array("I", one.claim.ids)
            found = chosen.content.page_columns(one.number, indexes).ids
            self.paged.append(InPage(paged.files[one.number].path, one.number, indexes, found))
            self.count += len(indexes)
            await checkpoint()

    @property
    def noted_bytes(self) -> int:
        return PLACE_BYTES * self.count + NOTE_BYTES

    def ids(self) -> Iterator[MessageId]:
        yield from (place.message_id for place in self.places)
        for page in self.paged:
            yield from map(MessageId, page.ids)


def always() -> bool:
    return True


class Removals:
    """All that are noted, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: deque[Removal] = deque()
        self._noted_bytes = 0
        self._commands = 0
        self._last: dict[Hashable, Command] = {}
        self._lives: dict[tuple[int, int], Life] = {}
        """By epoch of the journal's reader and slot."""
        self.version = 0
        """Another one whenever something came or went."""

    def __iter__(self) -> Iterator[Removal]:
        return iter(self._noted)

    def __len__(self) -> int:
        return sum(removal.left for removal in self._noted)

    def __bool__(self) -> bool:
        return bool(self._noted)

    def noted(self, content: QueueContent, message_id: MessageId) -> Noted | None:
        """Where a message of the journal lies that is about to leave alone; None: it is not there."""
        found = one_place(content.state, content.slot, message_id)
        if found is None:
            return None
        place, slot = found
        key = content.core.epoch, slot
        if key not in self._lives:
            if len(self._lives) > LIVES_MAX:
                self._lives.clear()
            file = content.files.read_file(slot).file
            self._lives[key] = file.name, file.file_id
        return place, slot, self._lives[key]

    def add_one(
        self, queue: Queue, noted: Noted, by: Hashable | None = None, is_over: Callable[[], bool] = always
    ) -> None:
        """Note one durable removal. Removals of one command and queue are collected for a moment."""
        place, slot, life = noted
        last, now_ms = self._noted[-1] if self._noted else None, self._clock.now_ms()
        if (
            last is None
            or not last.merged
            or last.queue is not queue
            or last.command.by != (REMOVER.get() if by is None else by)
            or now_ms - last.begun_ms >= MERGED_MS
            or last.back
            or last.lives.setdefault(slot, life) != life
        ):
            last = self.begin(queue, by, is_over)
            last.merged, last.lives[slot] = True, life
            self._append(last)
        last.places.append(place, slot)
        last.count += 1
        last.time_ms = last.command.last_ms = now_ms
        self._noted_bytes += PLACE_BYTES
        self.version += 1

    def begin(
        self, queue: Queue, by: Hashable | None = None, is_over: Callable[[], bool] = always
    ) -> Removal:
        """One that is about to happen; `add` it when it did. `by`: the reader of a stream who takes them."""
        now_ms = self._clock.now_ms()
        who = REMOVER.get() if by is None else by
        known = self._last.get(who)
        if known is None or (by is None and now_ms - known.last_ms > TOGETHER_MS):
            self._commands += 1
            known = self._last[who] = Command(self._commands, who, now_ms, now_ms, is_over)
        return Removal(known, now_ms, queue)

    def add(self, removal: Removal) -> None:
        """Note durable removals."""
        removal.time_ms = removal.command.last_ms = self._clock.now_ms()
        self._append(removal)
        self.version += 1

    def _append(self, removal: Removal) -> None:
        self._noted.append(removal)
        self._noted_bytes += removal.noted_bytes
        while self._noted_bytes > NOTED_BYTES_MAX and len(self._noted) > 1:
            self._forget_oldest()
        if len(self._last) > 64 + 2 * len(self._noted):
            there = {one.command.number for one in self._noted}
            self._last = {by: one for by, one in self._last.items() if one.number in there}

    def _forget_oldest(self) -> None:
        self._noted_bytes -= self._noted.popleft().noted_bytes

    def keep_only(self, is_there: Callable[[Removal], bool]) -> None:
        """Forget the oldest, as long as nothing can be brought back of them any more."""
        while self._noted and not (self._noted[0].left and is_there(self._noted[0])):
            self._forget_oldest()
            self.version += 1

    def came_back(self, removals: Iterator[Removal] | list[Removal], ids: set[int] | None = None) -> None:
        """All messages of some, or of these those that are among `ids`, were brought back."""
        for removal in removals:
            removal.back |= {one for one in removal.ids() if ids is None or one in ids}
        self.version += 1

    def by_command(self) -> list[list[Removal]]:
        """The removals of each command of which something is left, the newest command first."""
        found: dict[int, list[Removal]] = {}
        for removal in self._noted:
            if removal.left:
                found.setdefault(removal.command.number, []).append(removal)
        return sorted(found.values(), key=lambda one: one[-1].command.last_ms, reverse=True)

    def last(self) -> list[Removal]:
        """Return the removals of the newest command that is over; empty if there is none."""
        return next((one for one in self.by_command() if one[0].command.is_over()), [])

    def since(self, time_ms: int) -> list[Removal]:
        return [removal for removal in self._noted if removal.left and removal.time_ms >= time_ms]


def queues_of(removals: list[Removal]) -> Counter[QueuePath]:
    """How many messages of each queue are left of some."""
    counts: Counter[QueuePath] = Counter()
    for removal in removals:
        counts[removal.path] += removal.left
    return counts


@dataclass(frozen=True, slots=True)
class Back:
    """Messages of a queue of a store that was derived, which are to go to a queue; `made` says what that was,
    where it is to be made again.
    """

    source: StoreQueue
    ids: array[int]
    target: QueuePath
    made: Queue | None = None


BringBack = Callable[[Sequence[Back]], Awaitable[None]]
"""A call that publishes messages again, all in one transaction, or raises and publishes none."""


class Noting:
    """Notes what leaves, while anybody is to have it back. Use on the trio thread."""

    def __init__(self, core: Core, journals: Journals, aside: Aside) -> None:
        self._core = core
        self.journals = journals
        self.pool = journals.messages.pool
        self.writer = journals.messages
        self._aside = aside
        self.on = False
        """True if removals are noted: a part of the store that shows them asked for it."""
        self.removals = Removals(core.clock)

    async def leaving(
        self, chosen: Chosen, by: Hashable | None = None, is_over: Callable[[], bool] = always
    ) -> Callable[[], None]:
        """Messages of a queue are about to be removed; call what this returns when that is durable."""
        queue, only = chosen.content.model, chosen.only()
        if not self._keeps():
            return lambda: None
        if only is None:
            removal = self.removals.begin(queue, by, is_over)
            await removal.note_all(chosen)
            return lambda: self.removals.add(removal)
        noted = self.removals.noted(chosen.content, only)
        return lambda: None if noted is None else self.removals.add_one(queue, noted, by, is_over)

    def one(self, content: QueueContent, message_id: MessageId) -> Noted | None:
        """Return the note of one message of the journal, for `Removals.add_one`."""
        return self.removals.noted(content, message_id) if self._keeps() else None

    def _keeps(self) -> bool:
        if not self.pool.keeps:
            if not self.on or not self.keep_s():
                return False
            self.pool.keeps = self._aside.keeps = True
            self._aside.most_bytes = self.keep_bytes()
        return True

    def keep_s(self) -> int:
        return int(self._core.layout.value_in_force("removed-keep-s") or 0)

    def keep_bytes(self) -> int:
        """Nothing where somebody needs the room more."""
        if self.pool.crowded or self.writer.short_of_space:
            return 0
        given = int(self._core.layout.value_in_force("removed-keep-bytes") or 0)
        return min(given, self.writer.backend.free_bytes() // KEPT_SHARE)
