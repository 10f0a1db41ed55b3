"""The files of a history: the copies that a broker or we kept of closed journal files, and the journal's own,
which are not copied yet or say what is left.

Names hold when a file was copied, which may be long after it was closed. When messages came is said by them
alone: a message came at the latest time that one up to it in its file says, and not after the file was
copied. So the first of a file tells, with its name, of which time it is. That is looked up once, and kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine import history
from journalfs.engine.buffers import MappedFile
from journalfs.engine.history import NONE_STAYS, FileTimes
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from journalfs.engine.scan import Scan, scan_journal
from journalfs.engine.state_types import Unmeasured
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.format.journal_file import parse_history_name
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.files.directory import DirectoryReader, JournalFile, reading_order
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.records.files.retention import TIME_FORMAT
from journalfs.times import FOREVER_MS

PROBE_BYTES: Final = 256 * 1024
"""Of a file's beginning, where its first message is mostly found."""
ENDS_BYTES: Final = 256 << 20
"""Behind it that are read for what became of the messages."""
FOLLOWED_BYTES: Final = 256 << 20
"""Behind the last file that was asked for, to find how transactions ended that were open then."""

_ADDS: Final = frozenset((RecordKind.ADD, RecordKind.ADD_TX, RecordKind.EVENT))
_MESSAGES: Final = frozenset((MessageType.MESSAGE, MessageType.LARGE_MESSAGE))


@dataclass(frozen=True, slots=True)
class HistoryFile:
    file: JournalFile
    copied_ms: int | None
    """The time in the name of the copy; None for a file of the journal itself."""


@dataclass(frozen=True, slots=True)
class Kept:
    """All files of a history, in reading order."""

    files: Sequence[HistoryFile]
    problems: tuple[Damage, ...] = ()


def list_history(copies: Path | None, journals: Sequence[Path], extension: str, relative_to: Path) -> Kept:
    """`copies`: the retention folder. Of a file of the journal that has a copy there the copy counts, but
    what compaction wrote has no other.
    """
    found: list[HistoryFile] = []
    problems: tuple[Damage, ...] = ()
    if copies is not None:
        if not door.is_folder(copies):
            reason = "no such directory, for the history"
            problems += (Damage(name_of(copies, relative_to), 0, 0, "missing-directory", reason),)
        listing = DirectoryReader(copies, extension=extension, relative_to=relative_to).read()
        found = [HistoryFile(file, _copied_ms(file.path.name, extension)) for file in listing.files]
        problems += tuple(one for one in listing.problems if one.kind != "same-id")
    copied = {one.file.file_id: one.file.stamp.size_bytes for one in found if not one.file.header_damaged}
    for directory in journals:
        listing = DirectoryReader(directory, extension=extension, relative_to=relative_to).read()
        problems += listing.problems
        found += [
            HistoryFile(file, None)
            for file in listing.files
            if file.compacted or copied.get(file.file_id, -1) < file.stamp.size_bytes
        ]
    return Kept(sorted(found, key=lambda one: reading_order(one.file)), problems)


def _copied_ms(name: str, extension: str) -> int | None:
    parsed = parse_history_name(name, extension=extension)
    try:
        return None if parsed is None else _end_of_second_ms(parsed.copied_at)
    except (ValueError, OverflowError):
        return None


def _end_of_second_ms(copied_at: str) -> int:
    return int(time.mktime(time.strptime(copied_at, TIME_FORMAT))) * 1000 + 999


# ---- which files are of a time -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """The known messages of a file. `whole`: all of them, not only the first."""

    times: FileTimes
    whole: bool
    empty: bool = False
    """There is no message in it."""


class TimeIndex:
    """Times by name and stamp of a file. A cache: a lost one is made again by reading."""

    def __init__(self, known: Mapping[str, tuple[FileStamp, Known]] | None = None) -> None:
        self.known = dict(known or {})
        self.changed = False

    def learn(self, file: JournalFile, known: Known) -> None:
        self.known[file.path.name] = file.stamp, known
        self.changed = True

    def of(self, one: HistoryFile) -> Known:
        """Of a file that cannot be read nothing is known, so it is of any time."""
        found = self.known.get(one.file.path.name)
        if found is not None and found[0] == one.file.stamp:
            return found[1]
        known = _first_message(one.file)
        if one.copied_ms is not None:  # the journal's own are written to
            self.learn(one.file, known)
        return known


def _first_message(file: JournalFile) -> Known:
    """Of a file that cannot be read, or in which none says a time, that is not known."""
    any_time = Known(FileTimes(0, 0), whole=False)
    try:
        with MappedFile(file.path) as mapped:
            there = False
            for stop in (PROBE_BYTES, None):
                scan = scan_journal(mapped, rid=file.rid, version=file.version, stop=stop)
                for time_ms in _times(mapped, scan):
                    there = True
                    if time_ms > 0:
                        return Known(FileTimes(time_ms, 0), whole=False)
                if stop is not None and mapped.size_bytes <= stop:
                    break
            return (
                any_time if there or file.header_damaged else Known(FileTimes(0, 0), whole=True, empty=True)
            )
    except (OSError, FileTorn, CoreRefused):
        return any_time


def _times(mapped: MappedFile, scan: Scan) -> Iterator[int]:
    records = scan.pointer.records
    for index in range(scan.count):
        record = records[index]
        if record.kind in _ADDS and record.user_type in _MESSAGES:
            source = SOURCE_CORE_LARGE if record.user_type == MessageType.LARGE_MESSAGE else SOURCE_PERSISTER
            yield timestamp_ms(mapped.copy(record.body_offset, record.body_bytes), source)


def timestamp_ms(payload: bytes, source: int) -> int:
    """Return when a message says it was sent; 0 if it says nothing. `source` says how its
    record is encoded.
    """
    batch = LineBatch.of_payloads([payload], queue=None, sources=[source], record_ids=[0])
    return max(0, batch.measure(0).timestamp_ms)


@dataclass(frozen=True, slots=True)
class Choice:
    """The part of a history to read: messages of some files, and the fate of these messages in
    later files.
    """

    taken: Sequence[HistoryFile]
    later: Sequence[HistoryFile] = ()
    problems: tuple[Damage, ...] = ()
    from_ms: int = 0
    to_ms: int = FOREVER_MS
    below_id: int = history.ANY_ID
    """Messages from this id on are not of it."""
    left_out: frozenset[int] = frozenset()
    """Ids of further messages to leave out, since they are found elsewhere."""
    ends_bytes: int = ENDS_BYTES
    """Bytes of later files that are read for the fate of the messages; 0 where it is not asked for."""
    around: Sequence[HistoryFile] = ()
    """All files, for what belongs to a message and was written before it."""


def choose(kept: Kept, index: TimeIndex, from_ms: int, to_ms: int) -> Choice:
    """The files in which messages lie that were sent in [from_ms, to_ms). Reads no more than the beginning of
    those that nobody looked through before.
    """
    files = kept.files
    bounds = [_bounds(one, index.of(one)) for one in files]
    chosen = [at for at, (first, last) in enumerate(bounds) if first < to_ms and last >= from_ms]
    later = files[chosen[-1] + 1 :] if chosen else ()
    taken = [files[at] for at in chosen]
    return Choice(taken, later, kept.problems, from_ms, to_ms, around=files)


def _bounds(one: HistoryFile, known: Known) -> tuple[int, int]:
    """The first and last time at which a message of a file may have come."""
    copied_ms = FOREVER_MS if one.copied_ms is None else one.copied_ms
    if known.empty:
        return FOREVER_MS, -1
    last_ms = known.times.last_ms if known.whole else copied_ms
    return min(known.times.first_ms, copied_ms), last_ms


# ---- reading them ------------------------------------------------------------------------------------------

Bodies = Callable[["HistoryLoader", Sequence[Unmeasured]], None]
"""Puts the bodies of large messages where they are looked for."""


def no_choice() -> Choice:
    return Choice(())


def no_bodies(_loader: HistoryLoader, _found: Sequence[Unmeasured]) -> None:
    """None are needed."""


@dataclass(slots=True)
class HistoryLoader(JournalLoader):
    """Reads the chosen files of a history into a live state from which no message leaves."""

    choice: Choice = field(default_factory=no_choice)
    fetch_bodies: Bodies = no_bodies
    times: list[FileTimes] = field(default_factory=list)
    """By slot, of each file that was taken."""
    undecided: int = 0
    """Ids of transactions whose end is not known: their messages are not listed."""
    taken_slots: int = 0
    """Files below this slot are those that were asked for."""

    def load(self) -> None:
        choice, state = self.choice, self.state
        self._problems = choice.problems
        history.begin(state)
        for file in self._identified([one.file for one in choice.taken]):
            self._take(file)
        self.taken_slots = self.files.slot_limit
        history.follow(state, self.taken_slots)
        followed = self._follow()
        self.undecided = history.undecided(state)
        state.finish()
        self._keep()
        if any(one.file.compacted for one in choice.taken):
            history.sort(state)
        history.end(state)
        left_bytes = choice.ends_bytes
        for one in choice.later[followed:]:
            left_bytes -= one.file.stamp.size_bytes
            if left_bytes < 0 or not state.counts().messages:
                break
            self._take(one.file)

    def _follow(self) -> int:
        """The place of the last message in a queue may be said in the file behind, and how a transaction
        ended in one further on. Returns how many were read.
        """
        left_bytes = FOLLOWED_BYTES
        for number, one in enumerate(self.choice.later, 1):
            self._take(one.file)
            left_bytes -= one.file.stamp.size_bytes
            if left_bytes < 0 or not history.undecided(self.state):
                return number
        return len(self.choice.later)

    def _take(self, file: JournalFile) -> None:
        read = self._open(file)
        self._map(read, must_exist=False)
        self._load_file(read)

    def _keep(self) -> None:
        """Drop the messages that were not chosen, before anything that takes long is found out about them."""
        choice, state = self.choice, self.state
        large = state.measure(self.files)
        history.say_sent(state, {one.message_id: self._timestamp(one) for one in large})
        slot_ms = self._slot_times(self.files.slot_limit)
        compacted = [self.files.read_file(slot).file.compacted for slot in range(len(slot_ms))]
        bounds = history.Bounds(choice.from_ms, choice.to_ms, choice.below_id)
        self.times = history.keep(state, bounds, slot_ms, compacted)
        history.drop(state, choice.left_out)
        self.fetch_bodies(self, state.unmeasured())

    def _timestamp(self, one: Unmeasured) -> int:
        payload = self.files[one.file_slot].copy(one.offset, one.body_bytes)
        return timestamp_ms(payload, one.source)

    def _slot_times(self, slots: int) -> list[int]:
        """When files were copied, or now."""
        copied = {one.file.path: one.copied_ms for one in self.choice.taken}
        now_ms, found = self.clock.now_ms(), []
        for slot in range(slots):
            time_ms = copied.get(self.files.read_file(slot).file.path, NONE_STAYS)
            found.append(now_ms if time_ms is None else time_ms)
        return [time_ms if slot < self.taken_slots else NONE_STAYS for slot, time_ms in enumerate(found)]

    def poll(self, *, settled: bool = False) -> PollResult:
        """Return that nothing changed: a history is read once."""
        return PollResult.UNCHANGED

    def _doubtful(self) -> Iterator[Damage]:
        yield from ()  # a piece of a history begins and ends anywhere
