"""Views: a queue's messages, all of them or a selection, as parts, tail, listing and single messages."""

from __future__ import annotations

import contextlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast
from weakref import ref

from journalfs.api import ByteSource, Memory, Part
from journalfs.clock import NS_PER_MS
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.engine.waiting import checkpoint, offload
from journalfs.errors import Gone
from journalfs.ids import MessageId, QueueId
from journalfs.live.content import NOT_AS_MEASURED, OVERTAKEN, CloserLook, QueueContent, looking_again
from journalfs.live.open_lists import OpenList, Shared, segment_memory
from journalfs.live.page_parts import PAGE_PART_BASE, PageParts
from journalfs.live.runs import JournalRun, PageRun, Run
from journalfs.live.sources import WatchedSource
from journalfs.views.filters import Filter, SelectorFilter
from journalfs.views.following import Follower
from journalfs.views.message import SUFFIXES, StoreMessage

if TYPE_CHECKING:
    from journalfs.views.origins import Origins


# The selections of a process: how much memory they have, and which of them goes when there are too many.

SELECTION_BYTES = 16_384
"""Bytes that a selection takes beside its facts about messages: its steps, functions and names."""

PART_BYTES = 640
"""Bytes that it keeps for a part."""


class Selection(Protocol):
    @property
    def kept_bytes(self) -> int: ...

    @property
    def awaited(self) -> int:
        """How many wait for it."""

    def forget(self) -> None:
        """Give the memory back."""


class Selections:
    """The selections of the process, the last used one at the end. They are owned by their makers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[ref[Selection], int]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def used(self, selection: Selection, bytes_max: int) -> None:
        """Note a use of a selection: count its bytes again, and drop the selections used longest ago if all
        take more than `bytes_max`.
        """
        key, size_bytes = id(selection), selection.kept_bytes
        self._drop(key)
        self._kept[key] = ref(selection, lambda _: self._drop(key)), size_bytes
        self.size_bytes += size_bytes
        for other, (known, _) in list(self._kept.items()) if self.size_bytes > bytes_max else ():
            oldest = known()
            if oldest is not None and oldest is not selection and not oldest.awaited:
                self._drop(other)
                oldest.forget()
            if self.size_bytes <= bytes_max:
                break

    def _drop(self, key: int) -> None:
        _, size_bytes = self._kept.pop(key, (None, 0))
        self.size_bytes -= size_bytes


SELECTIONS = Selections()
"""One budget for all stores that a process has open: a mount's snapshots are stores of their own."""


ALL_NAME = ".all.jsonl"
PART_PREFIX = "part-"
TAIL_PREFIX = "_tail-"
TAIL_NAME = "_tail.jsonl"


@dataclass(frozen=True, slots=True)
class PartRuns:
    """A part together with where its messages are."""

    part: Part
    runs: tuple[Run, ...]


class _Sealed(NamedTuple):
    """A part of a queue. Its content is unchanged while `as_of` is."""

    number: int
    mtime_ms: int
    as_of: Hashable
    run: Callable[[], Run]
    measured: tuple[int, int] | None = None
    """Bytes of all its lines, and how many messages; None: one has to look."""


LISTED_BYTES = 25
"""Bytes that a listing takes for a message."""


class MessageListing:
    """Columns of a view's messages in delivery order, taken at one moment: 25 bytes a message."""

    def __init__(self, content: QueueContent, runs: Sequence[Run]) -> None:
        self._ids = array("q")
        self._sizes = array("Q")
        self._mtimes = array("q")
        self._suffixes = bytearray()
        for run in runs:
            columns = run.columns(content)
            self._ids += columns.ids
            self._sizes += columns.sizes
            self._mtimes += columns.mtimes_ms
            self._suffixes += columns.suffixes

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def memory(self) -> Memory:
        return Memory(self, LISTED_BYTES * len(self._ids), 0)

    def name(self, index: int) -> bytes:
        return b"%d%s" % (self._ids[index], SUFFIXES[self._suffixes[index]])

    def message_id(self, index: int) -> MessageId:
        return MessageId(self._ids[index])

    def size_bytes(self, index: int) -> int:
        return self._sizes[index]

    def mtime_ns(self, index: int) -> int:
        return self._mtimes[index] * NS_PER_MS


class QueueView:
    """All live messages of a queue, or those that a filter lets through."""

    def __init__(
        self,
        content: QueueContent,
        page_parts: PageParts,
        selected: Filter | None = None,
        of: tuple[QueueView, str] | None = None,
    ) -> None:
        """`of`: the view that a selector, which made `selected`, was given to."""
        self.content = content
        self.page_parts = page_parts
        self._selected = selected
        self._of = of
        self.awaited = 0
        """How many wait until it is found out what is in the view."""
        self._version = 0
        self._seen: Hashable = None
        self._mtime_ms = 0
        self.made_ms = 0
        """When the queue was made, if that was while the store was open."""
        self._parts: dict[str, PartRuns] = {}
        self._known: dict[int, tuple[Hashable, list[PartRuns]]] = {}
        """Parts by number, and as of when: empty where nothing is left."""
        self._tail: tuple[Run, ...] = ()
        self._wheres: dict[str, QueueView] = {}
        self._lists: Shared[OpenList] | None = None
        self._listings: Shared[MessageListing] | None = None
        """None until somebody opens one: there may be 100,000 queues."""
        self._origins: Origins | None = None

    # -- what changed ----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        self._refresh()
        return self._version

    def _refresh(self) -> None:
        """Make the parts again if the queue changed, or the facts that the filter looks at."""
        if self._now() != self._seen:
            looking_again(self.content, self._choose_parts)

    def _now(self) -> Hashable:
        return (
            self.content.version,
            self.page_parts.version,
            self.content.core.names.generation,
            self.content.core.bodies.version,
            self.content.core.in_delivery.version,
            self._selected.moment() if self._selected else 0,
        )

    def _choose_parts(self, look: CloserLook) -> None:
        now = self._now()
        if self._selected is not None:
            look.at(self.content.live())
        parts = self._chosen_parts()
        self._parts = {entry.part.name: entry for entry in parts}
        self._tail = self._filtered(self._tail_runs())
        self._seen = now
        self._version += 1
        self._mtime_ms = self.content.now_ms if self._version > 1 else self._newest_ms(parts)

    def _newest_ms(self, parts: Sequence[PartRuns]) -> int:
        return max((entry.part.mtime_ns // NS_PER_MS for entry in parts), default=self.made_ms)

    @property
    def mtime_ns(self) -> int:
        self._refresh()
        return self._mtime_ms * NS_PER_MS

    # -- parts -----------------------------------------------------------------------------------------------

    def _sealed(self) -> Iterator[_Sealed]:
        """The parts of the queue, the journal's first."""
        content, bodies = self.content, self.content.core.bodies
        for info in content.state.parts(content.slot):
            # A part only shrinks, so how much is left of it says what is.
            as_of = info.live_count, content.core.epoch, bodies.version
            size_bytes = info.live_bytes + info.live_count * len(content.prefix)
            run = partial(self._journal_run, info.number)
            yield _Sealed(info.number, info.mtime_ms, as_of, run, (size_bytes, info.live_count))
        paged = content.paged
        for part in self.page_parts.parts if paged is not None else ():
            assert paged is not None
            as_of_page = paged.standing(part.page, content.queue_id), bodies.version
            yield _Sealed(part.number, part.sealed_ms, as_of_page, partial(self.page_parts.run, paged, part))

    def _chosen_parts(self) -> list[PartRuns]:
        found: list[PartRuns] = []
        before, self._known = self._known, {}
        for one in self._sealed():
            if self._selected is None and one.measured is not None:
                size_bytes, messages = one.measured
                found.append(PartRuns(self._part(one.number, size_bytes, one.mtime_ms, messages), ()))
                continue
            # Most are as they were: a queue may have very many.
            known = before.get(one.number)
            if known is None or known[0] != one.as_of:
                known = one.as_of, self._chosen_part(one)
            if self._selected is None or self._selected.lasting:
                self._known[one.number] = known
            found += known[1]
        return found

    def _journal_run(self, number: int) -> JournalRun:
        return JournalRun(self.content.state.part_refs(self.content.slot, number), sealed=True)

    def _chosen_part(self, one: _Sealed) -> list[PartRuns]:
        """A part with what the filter leaves of it, if that is anything."""
        runs = self._filtered([one.run()])
        if not runs:
            return []
        size_bytes = sum(run.size_bytes(self.content) for run in runs)
        part = self._part(one.number, size_bytes, one.mtime_ms, sum(map(len, runs)))
        lasting = self._selected is not None and self._selected.lasting
        # What is found again whenever it is read takes no memory until then.
        return [PartRuns(part, () if lasting else runs)]

    def _part(self, number: int, size_bytes: int, mtime_ms: int, messages: int) -> Part:
        name = format_part_name(self.content.core.names.generation, self.content.queue_id, number)
        return Part(name, number, size_bytes, mtime_ms * NS_PER_MS, messages, self.content.core.edition)

    def _filtered(self, runs: Sequence[Run]) -> tuple[Run, ...]:
        if self._selected is None:
            return tuple(run for run in runs if len(run))
        return tuple(run for run in (self._selected.apply(run) for run in runs) if len(run))

    def _tail_runs(self) -> list[Run]:
        content = self.content
        refs = content.state.tail_refs(content.slot)
        pages = self.page_parts.tail(content.paged) if content.paged is not None else []
        return [JournalRun(refs), *pages]

    def _runs_of(self, name: str) -> tuple[Run, ...]:
        entry = self._parts[name]
        if entry.runs or not (self._selected is None or self._selected.lasting):
            return entry.runs
        number = entry.part.number
        if number < PAGE_PART_BASE:
            return self._filtered([self._journal_run(number)])
        paged = self.content.paged
        page_part = self.page_parts.numbered(number)
        return self._filtered([self.page_parts.run(paged, page_part)]) if paged and page_part else ()

    def part_runs(self, name: str) -> Sequence[Run]:
        """Return the current content of a part, the tail or `.all.jsonl`. Raises `Gone` if there is no such
        part now.
        """
        self._refresh()
        if name == ALL_NAME:
            parts = [run for part_name in self._parts for run in self._runs_of(part_name)]
            return [*parts, *self._tail]
        if name == TAIL_NAME:
            return self._tail
        part_name = became(name)
        if part_name in self._parts and not self._pending(name):
            return self._runs_of(part_name)
        if part_name == name:
            raise Gone(name)
        return self._pending(name)

    def parts(self) -> Sequence[Part]:
        self._refresh()
        return [entry.part for entry in self._parts.values()]

    def part(self, name: str) -> Part | None:
        self._refresh()
        entry = self._parts.get(name)
        return entry.part if entry is not None else None

    def open_part(self, part: Part) -> ByteSource:
        return self._laid_out(part) or self._opened(lambda: self._sized(part), part.name, part)

    def is_laid_out(self, part: Part) -> bool:
        return self._content_of(part.name) in self.content.core.laid_out

    def _laid_out(self, part: Part) -> ByteSource | None:
        """As it was laid out for the reader before."""
        self._refresh()
        found = self.content.core.laid_out.get(self._content_of(part.name))
        if found is None:
            return None
        run, segment = found
        look = CloserLook(self.content)
        look.at([run])
        return WatchedSource(segment.open(), look, segment_memory(segment))

    def _content_of(self, name: str) -> Hashable:
        """Return a key that identifies the content of a part of the whole queue; None: the content is not to
        be kept.
        """
        entry, core = self._parts.get(name), self.content.core
        if entry is None or self._selected is not None or core.live_broker:
            return None
        return self.content.queue_id, core.epoch, core.bodies.version, entry.part

    def _opened(
        self, choose: Callable[[], Sequence[tuple[Run, int]]], name: str, part: Part | None = None
    ) -> ByteSource:
        """Open what `choose` gives of the file of a name."""

        def opened(look: CloserLook) -> ByteSource:
            self._refresh()
            runs = choose()
            look.at(run for run, _ in runs)
            key = self._content_of(part.name) if part is not None else None
            run, size_bytes = runs[0] if key is not None and len(runs) == 1 else (None, 0)
            if isinstance(run, JournalRun):
                segment = run.segment(self.content, size_bytes)
                self.content.core.laid_out.keep(key, run, segment)
                return WatchedSource(segment.open(), look, segment_memory(segment))
            return self._open_list(runs, look, name)

        return looking_again(self.content, opened)

    def _open_list(self, runs: Sequence[tuple[Run, int]], look: CloserLook, name: str) -> ByteSource:
        """Open the list that other readers of this moment have open, if there is one: a message that becomes
        due in between changes its lengths.
        """
        key = name, self._seen, tuple(size_bytes for _, size_bytes in runs)
        lists = self._lists = self._lists or Shared()
        try:
            found = lists.get(key, lambda: OpenList(runs, self.content))
            look.at(found.runs)
            source = found.open()
        except BaseException:
            lists.forget(key)
            raise

        def failed(error: FileTorn | CoreRefused) -> None:
            lists.forget(key)
            look(error)

        return WatchedSource(source, failed, found.memory)

    def _sized(self, part: Part) -> list[tuple[Run, int]]:
        """The runs of a part with the lengths of their lines. Raises `Gone` when nothing is left of it."""
        entry = self._parts.get(part.name)
        if entry is None:
            raise Gone(part.name)
        part = entry.part
        runs = self._runs_of(part.name)
        if len(runs) == 1:
            return [(runs[0], part.size_bytes)]
        return [(run, run.size_bytes(self.content)) for run in runs]

    def _sized_tail(self, name: str = TAIL_NAME) -> list[tuple[Run, int]]:
        sized: list[tuple[Run, int]] = []
        for run in self._tail if name == TAIL_NAME else self._pending(name):
            with contextlib.suppress(Gone):  # all of it was consumed since the last look
                sized.append((run, run.size_bytes(self.content)))
        return sized

    # -- the tail: a part to be for what came to the journal, and one for each page --------------------------

    def _pending(self, name: str) -> tuple[Run, ...]:
        """Return the content so far of the future part of this name."""
        return tuple(run for run in self._tail if self._tail_name(run) == name)

    def _tail_name(self, run: Run | None) -> str:
        """The name of the part that `run` is going to be, which it is promised by this."""
        content, parts = self.content, self.page_parts
        if isinstance(run, PageRun) and content.paged is not None:
            number = parts.promise_page(content.core.names, content.paged, run.number)
        else:
            number = parts.promise(content.core.names, content.state.queue(content.slot).next_part)
        if number is None:
            return TAIL_NAME
        return TAIL_PREFIX + format_part_name(
            content.core.names.generation, content.queue_id, number
        ).removeprefix(PART_PREFIX)

    def tails(self) -> Sequence[Part]:
        self._refresh()
        runs = self._tail or (() if self._parts else (None,))
        return [self.tail(name) for name in dict.fromkeys(map(self._tail_name, runs))]

    def tail(self, name: str = TAIL_NAME) -> Part:
        self._refresh()
        sized = self._sized_tail(name)
        messages = sum(len(run) for run, _ in sized)
        return Part(name, 0, sum(size_bytes for _, size_bytes in sized), self.mtime_ns, messages)

    def open_tail(self, name: str = TAIL_NAME) -> ByteSource:
        return self._opened(partial(self._sized_tail, name), name)

    def all(self) -> Part:
        tail = self.tail()
        parts = self.parts()
        return Part(
            ALL_NAME,
            0,
            sum(part.size_bytes for part in parts) + tail.size_bytes,
            self.mtime_ns,
            sum(part.messages for part in parts) + tail.messages,
        )

    def open_all(self) -> ByteSource:
        return self._opened(self._sized_all, ALL_NAME)

    def _sized_all(self) -> list[tuple[Run, int]]:
        parts = [sized for entry in self._parts.values() for sized in self._sized(entry.part)]
        return [*parts, *self._sized_tail()]

    # -- messages --------------------------------------------------------------------------------------------

    def _delivery(self) -> Sequence[Run]:
        return self._filtered(self.content.delivery())

    def __len__(self) -> int:
        self._refresh()
        return sum(entry.part.messages for entry in self._parts.values()) + sum(map(len, self._tail))

    def listing(self) -> MessageListing:
        """Return the listing, the same object for all callers until the queue changes or a
        message becomes due.
        """
        self._refresh()
        due_ms = self.content.next_due_ms()
        listings = self._listings = self._listings or Shared()
        return listings.get((self._now(), due_ms), lambda: MessageListing(self.content, self._delivery()))

    def message_ids(self, name: str) -> Sequence[MessageId]:
        ids = array("q")
        for run in self.part_runs(name):
            ids += run.columns(self.content).ids
        return cast("Sequence[MessageId]", ids)

    def message(self, message_id: MessageId) -> StoreMessage | None:
        run = self.message_run(message_id)
        return StoreMessage(self.content, run) if run is not None else None

    def message_run(self, message_id: MessageId) -> Run | None:
        """The one message, if it is in the view."""
        run = self.content.find(message_id)
        if run is None:
            return None
        return run if self._filtered([self._not_delivering(run)]) else None

    def _not_delivering(self, run: Run) -> Run:
        if isinstance(run, JournalRun) and self.content.state.ref(run.refs[0]).delivering:
            return JournalRun(array("I"))
        return run

    # -- other views -----------------------------------------------------------------------------------------

    @property
    def selected(self) -> Filter | None:
        """The filter that chooses the view's messages; None: all messages of the queue are in the view."""
        return self._selected

    def origins(self) -> Origins:
        from journalfs.views.origins import Origins  # noqa: PLC0415 - few ask for it

        if self._origins is None:
            self._origins = Origins(self)
        return self._origins

    def follow(self) -> Follower:
        return Follower(self.content, self._selected)

    def where(self, selector: str) -> QueueView:
        view = self._wheres.get(selector)
        if view is None:
            from journalfs.selector import compile_selector  # noqa: PLC0415 - most views are whole queues

            chosen = SelectorFilter(self.content, compile_selector(selector), self._selected)
            view = self._wheres[selector] = type(self).narrowed(self, selector, chosen)
        SELECTIONS.used(view, self.content.core.selection_bytes_max)
        return view

    async def understand(self, selector: str) -> None:
        """Raises `SelectorError`."""
        from journalfs.selector import compile_selector  # noqa: PLC0415 - as above

        if selector not in self._wheres:
            await offload(partial(compile_selector, selector))

    @staticmethod
    def narrowed(view: QueueView, selector: str, chosen: Filter) -> QueueView:
        return QueueView(view.content, view.page_parts, chosen, (view, selector))

    # -- what takes long -------------------------------------------------------------------------------------

    def is_found(self) -> bool:
        """Whether it is known what is in the view, so that asking for it takes no time."""
        return self.content.is_settled() and (self._selected is None or self._now() == self._seen)

    async def find(self) -> None:
        """Find out which messages are selected, while other requests are served. Messages that cannot be
        read, or left meanwhile, raise an error for the callers that ask for them.
        """
        await self.content.settled()
        if self._selected is None:
            return
        self.awaited += 1
        try:
            if isinstance(self._selected, SelectorFilter):
                self._selected.forget_gone(self.content.count())
            await self._find(self._selected)
            if self._of is not None:
                SELECTIONS.used(self, self.content.core.selection_bytes_max)
        finally:
            self.awaited -= 1
        self._refresh()

    async def _find(self, selected: Filter) -> None:
        for one in list(self._sealed()):
            known = self._known.get(one.number)
            if known is None or known[0] != one.as_of:
                with contextlib.suppress(*NOT_AS_MEASURED, *OVERTAKEN):
                    await selected.learn(one.run())
                    if selected.lasting:
                        self._known[one.number] = one.as_of, self._chosen_part(one)
                await checkpoint()
        with contextlib.suppress(*NOT_AS_MEASURED, *OVERTAKEN):
            for run in self._tail_runs():
                await selected.learn(run)

    @property
    def kept_bytes(self) -> int:
        """Memory that only this view needs, roughly."""
        known = self._selected.size_bytes if self._selected is not None else 0
        tail = sum(4 * len(run) for run in self._tail)
        return SELECTION_BYTES + known + tail + PART_BYTES * len(self._known)

    def forget(self) -> None:
        """Give back the memory of the selection. The next caller makes it again, and so does an
        open reader.
        """
        if self._selected is not None:
            self._selected.forget()
        self._parts, self._known, self._tail, self._seen = {}, {}, (), None
        if self._of is not None:
            of, selector = self._of
            if of._wheres.get(selector) is self:
                del of._wheres[selector]


class DeliveringView(QueueView):
    """Messages that a prepared transaction has acknowledged, and those that readers have: all in the tail,
    for here they have no parts.
    """

    def _sealed(self) -> Iterator[_Sealed]:
        yield from ()

    def _tail_runs(self) -> list[Run]:
        return [*self.content.delivering(), *self.content.with_readers()]

    def tails(self) -> Sequence[Part]:
        return [self.tail()]

    def _delivery(self) -> Sequence[Run]:
        return self._filtered(self._tail_runs())

    def message_run(self, message_id: MessageId) -> Run | None:
        run = self._held_run(message_id)
        return run if run is not None and self._filtered([run]) else None

    def _held_run(self, message_id: MessageId) -> Run | None:
        run = self.content.find(message_id)
        if isinstance(run, JournalRun) and self.content.state.ref(run.refs[0]).delivering:
            return run
        if run is not None and self.content.is_with_reader(run):
            return run
        for held in self.content.page_runs(delivering=True):
            ids = held.columns(self.content).ids
            if message_id in ids:
                return PageRun(held.number, array("I", [held.indexes[ids.index(message_id)]]))
        return None

    @staticmethod
    def narrowed(view: QueueView, selector: str, chosen: Filter) -> QueueView:
        return DeliveringView(view.content, view.page_parts, chosen, (view, selector))


def format_part_name(generation: int, queue_id: QueueId, number: int) -> str:
    """`part-0001-23-0000000007.jsonl`: unique in a store; of a queue they sort by generation, then number."""
    return f"{PART_PREFIX}{generation:04d}-{queue_id}-{number:010d}.jsonl"


def became(name: str) -> str:
    """The name of the part that what was listed by the name of a tail becomes."""
    return PART_PREFIX + name.removeprefix(TAIL_PREFIX) if name.startswith(TAIL_PREFIX) else name
