"""Replay: what a history holds of a range of time, into queues once more. What is to be done, in windows.

A window is some files of the history, and the messages whose records lie in them; so windows part what there
is, whatever times messages say, and each takes as much memory as its files do. What compaction wrote comes
first: only what no other file has of it counts.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from journalfs.api import QueuePath
from journalfs.engine import history
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan, scan_journal
from journalfs.engine.status import FileTorn
from journalfs.engine.waiting import offload
from journalfs.errors import NoSuchName
from journalfs.records.files.directory import JournalFile
from journalfs.records.files.history import Choice, HistoryFile, Kept
from journalfs.store.history import History, HistoryStore
from journalfs.times import Range
from journalfs.views.queues import StoreQueue
from journalfs.views.views import QueueView

WINDOW_BYTES: Final = 32 << 20
"""Of files that are read, and published in one transaction, at a time; the next ones are opened meanwhile. At
least one file."""

Position = tuple[bool, int]
"""Of the last file of a window: whether compaction wrote none of it, and its id. Windows ascend."""
BEGIN: Final[Position] = (False, -1)


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asked for, in his words."""

    begin: str | None = None
    end: str | None = None
    selector: str | None = None
    sources: tuple[str, ...] = ()
    """As `ADDRESS::QUEUE` or `ADDRESS`; none: all."""
    target: QueuePath | None = None
    """None: each into the queue that it was in."""
    name: str | None = None

    def require_selector(self) -> None:
        """Raises `SelectorError`, whether or not there is anything to select from."""
        from journalfs.selector import compile_selector  # noqa: PLC0415 - few replays have one

        if self.selector is not None:
            compile_selector(self.selector)

    @property
    def identity(self) -> str:
        """The same for the same words: whoever repeats them goes on."""
        return self.words if self.name is None else self.name

    @property
    def words(self) -> str:
        said = (self.begin, self.end, self.selector, *self.sources, self.target and "::".join(self.target))
        return hashlib.sha256("\0".join(map(str, said)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


FILTERED, ONCE, DAMAGED = "filtered", "once", "damaged"
"""Why a message of a history did not go: an option leaves it out; all go to one queue, and it went from
another one; nobody can read all of it.
"""


class Window(NamedTuple):
    choice: Choice
    position: Position
    size_bytes: int


@dataclass(slots=True)
class Plan:
    """All windows of a range, those that are left. `total_bytes` are of all."""

    windows: Sequence[Window]
    total_bytes: int
    done_bytes: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """Messages of a queue of a window."""

    source: StoreQueue
    ids: array[int]
    target: QueuePath


@dataclass(slots=True)
class Replayed:
    """How many messages went, or would go, by queue."""

    sent: dict[QueuePath, int] = field(default_factory=dict)
    before: int = 0
    """How many went when this was begun earlier."""
    looked_at: set[QueuePath] = field(default_factory=set)
    """Queues that were there, and those of which there was anything."""
    undecided: int = 0
    """Transactions of which no file near them says how they ended: what they sent did not go."""
    damaged: int = 0
    """Messages that did not go as nobody can read all of them: for most the large body is not kept."""

    source: Counter[str] = field(default_factory=Counter)
    """Messages that the history has, by the queue that they were in (`ADDRESS::QUEUE`)."""
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those that did not go, with why: `FILTERED`, `ONCE`, `DAMAGED`."""
    unread: set[tuple[str, int]] = field(default_factory=set)
    """Places of the history that could not be read, by file and offset: what lay there did not go."""

    def told(self) -> dict[str, object]:
        """For JSON."""
        queues = [
            {"address": address, "queue": queue, "messages": count}
            for (address, queue), count in self.sent.items()
        ]
        left_out = {"undecided": self.undecided, "damaged": self.damaged, "unread": len(self.unread)}
        rows = [{"queue": name, "why": why, "messages": count} for (name, why), count in self.left.items()]
        books = {"source": dict(self.source), "left": rows}
        return {"queues": queues, "before": self.before, **left_out, "books": books}

    def count(self, chosen: Iterable[Chosen]) -> None:
        for one in chosen:
            self.sent[one.target] = self.sent.get(one.target, 0) + len(one.ids)


def plan(kept_by: History, kept: Kept, wanted: Range, below_id: int, after: Position = BEGIN) -> Plan:
    """Reads what compaction wrote whole, and the beginning of files that nobody looked through before."""
    choice = kept_by.choice(kept, wanted)
    left = list(_windows(kept, replace(choice, below_id=below_id, ends_bytes=0), after))
    total = sum(one.file.stamp.size_bytes for one in choice.taken)
    return Plan(left, total, total - sum(one.size_bytes for one in left))


def _position(file: JournalFile) -> Position:
    return not file.compacted, file.file_id


def _windows(kept: Kept, choice: Choice, after: Position) -> Iterator[Window]:
    """Of what lies behind a position: other files may be there than when that was noted, so it is files that
    are done, not windows.
    """
    compacted = [one for one in choice.taken if one.file.compacted]
    elsewhere = _elsewhere(compacted, kept.files)
    plain = [one for one in kept.files if not one.file.compacted]
    for at, (one, ids) in enumerate(zip(compacted, elsewhere, strict=True), 1):
        if _position(one.file) > after:
            yield _window(replace(choice, taken=[one], later=[*compacted[at:], *plain], left_out=ids))
    left = [one for one in choice.taken if not one.file.compacted and _position(one.file) > after]
    for piece in _pieces(left):
        yield _window(replace(choice, taken=piece, later=plain[plain.index(piece[-1]) + 1 :]))


def _window(choice: Choice) -> Window:
    last = choice.taken[-1].file
    size_bytes = sum(one.file.stamp.size_bytes for one in choice.taken)
    return Window(choice, _position(last), size_bytes)


def _pieces(files: Sequence[HistoryFile]) -> Iterator[Sequence[HistoryFile]]:
    """Copies of one file stay together."""
    some: list[HistoryFile] = []
    size_bytes = 0
    for one in files:
        full = size_bytes + one.file.stamp.size_bytes > WINDOW_BYTES
        if some and full and some[-1].file.file_id != one.file.file_id:
            yield some
            some, size_bytes = [], 0
        some.append(one)
        size_bytes += one.file.stamp.size_bytes
    if some:
        yield some


def _elsewhere(compacted: Sequence[HistoryFile], files: Sequence[HistoryFile]) -> list[frozenset[int]]:
    """For each file that compaction wrote, those of its messages that another one has, or one before it."""
    own = [array("q", sorted(_ids(one.file))) for one in compacted]
    ids = array("q", sorted({one for some in own for one in some}))
    found = bytearray(len(ids))
    for one in files if ids else ():
        for scan in _scanned(one.file):
            history.mark_originals(scan, ids, found)
    known = {one for one, there in zip(ids, found, strict=True) if there}
    left_out: list[frozenset[int]] = []
    for some in own:
        left_out.append(frozenset(known.intersection(some)))
        known.update(some)
    return left_out


def _ids(file: JournalFile) -> Iterator[int]:
    for scan in _scanned(file):
        yield from history.compacted_ids(scan)


def _scanned(file: JournalFile) -> Iterator[Scan]:
    with suppress(OSError, FileTorn), MappedFile(file.path) as mapped:  # listed with what is damaged
        yield scan_journal(mapped, rid=file.rid, version=file.version)


# ---- what is chosen of a window ----------------------------------------------------------------------------


async def chosen_of(store: HistoryStore, asked: Asked, replayed: Replayed) -> list[Chosen]:
    """Each message once, if all go to one queue, else once for each queue that it was in."""
    found: list[Chosen] = []
    seen: set[int] = set()
    replayed.undecided += store.loader.undecided
    damage = await offload(store.core.damage)
    replayed.unread.update((Path(one.file).name, one.offset) for one in damage)
    for queue in store.queues():
        path = (queue.model.address, queue.name)
        replayed.looked_at.add(path)
        if queue.model.binding.internal:
            continue
        name, there = "::".join(path), len(queue)
        replayed.source[name] += there
        if not _is_source(path, asked.sources):
            replayed.left[name, FILTERED] += there
            continue
        ids = await _ids_of(queue, asked.selector)
        replayed.left[name, FILTERED] += there - len(ids)
        if asked.target is not None:
            found_ids = len(ids)
            ids = array("q", (one for one in ids if one not in seen)) if seen else ids
            replayed.left[name, ONCE] += found_ids - len(ids)
            seen.update(ids)
        if ids:
            found.append(Chosen(queue, ids, asked.target or path))
    return found


def _is_source(path: QueuePath, sources: Sequence[str]) -> bool:
    return not sources or path[0] in sources or "::".join(path) in sources


async def _ids_of(queue: StoreQueue, selector: str | None) -> array[int]:
    view: QueueView = queue
    if selector is not None:
        await queue.understand(selector)
        view = queue.where(selector)
        await view.find()
    return array("q", view.message_ids(".all.jsonl"))


async def planned(kept_by: History, asked: Asked, wanted: Range) -> Replayed:
    """What would go. Nothing changes. Raises as the replay would."""
    replayed = Replayed()
    await offload(asked.require_selector)
    for window in plan(kept_by, kept_by.kept(), wanted, history.ANY_ID).windows:
        store = kept_by.open_choice(window.choice)
        try:
            chosen = await chosen_of(store, asked, replayed)
            if asked.target is not None and asked.target not in replayed.looked_at:
                raise NoSuchName(f"{'::'.join(asked.target)}: there is no such queue")
            replayed.count(chosen)
        finally:
            store.close()
    require_sources(replayed, asked)
    return replayed


def require_sources(replayed: Replayed, asked: Asked) -> None:
    """Raises NoSuchName for a source that is not there, and of which nothing was found."""
    known = {"::".join(path) for path in replayed.looked_at} | {path[0] for path in replayed.looked_at}
    for source in asked.sources if known else ():
        if source not in known:
            raise NoSuchName(f"{source}: there is no such address or queue")
