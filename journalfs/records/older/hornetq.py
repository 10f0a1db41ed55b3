"""HornetQ 2.1 to 2.4, Artemis 1.0 to 1.5 and what came between: the same journals under several names.

Their records are those of today but for the layout of messages, the bindings, and pages. So every file of a
journal becomes one of the derived store, record for record; transactions, acknowledgements and what was
deleted stay what they are.
"""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.bindings.interpret import Emitted
from journalfs.config.older import NO_BINDINGS
from journalfs.damage import name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import LineBatch
from journalfs.engine.pages import PageScan, scan_page
from journalfs.engine.scan import GapKind, Scan, scan_journal
from journalfs.errors import DecodeError, SelectorError, UnknownVersion
from journalfs.format.bindings import RoutingType
from journalfs.format.core_message import stored_bytes
from journalfs.format.journal_file import READABLE_VERSIONS
from journalfs.format.page_folder import (
    ADDRESS_FILE_NAME,
    REPLICA_MARK,
    decode_address_file,
    parse_page_name,
)
from journalfs.format.primitives import Reader
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.format.server_lock import SERVER_LOCK_NAME
from journalfs.ids import QueueId
from journalfs.limits import ADDRESS_FILE_BYTES_MAX
from journalfs.records.files.directory import JournalFile, read_directory, written_rid
from journalfs.records.older.bindings import (
    ADDRESSES,
    MARKER_FILTERS,
    WITHOUT_EQUAL,
    Names,
    OldQueue,
    current_filter,
    decode_old_queue,
    decode_old_setting,
    describe_jms,
    live_records,
    without_prefix,
)
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import Source
from journalfs.records.older.moves import Moves
from journalfs.records.older.rewriting import RECOVER, RENAME, UNSCHEDULED, Routes, rewrite_page
from journalfs.selector import Selector, compile_selector
from journalfs.selector.identifiers import SIZE_BYTES

# What counts when acknowledged messages are brought back: the first record of each message and reference.

_ADDED = frozenset({RecordKind.ADD, RecordKind.ADD_TX})
_UPDATED = frozenset({RecordKind.UPDATE, RecordKind.UPDATE_TX})
_MESSAGES = frozenset({MessageType.MESSAGE, MessageType.LEGACY_MESSAGE, MessageType.LARGE_MESSAGE})


class FirstSeen:
    """Compaction, and a file that is used again, leave a message on the disk more than once."""

    def __init__(self, queues: Collection[int]) -> None:
        self.queues = queues
        self.moves = Moves(queues)
        self._messages: set[int] = set()
        self._references: set[tuple[int, int]] = set()
        self.unbound = 0
        """References to queues that are gone."""
        self.paging: set[int] = set()
        """Transactions that paged messages, and said so in the journal."""

    def counts(self) -> Counter[int]:
        """Return how many messages of the journal each queue has by its id, once all was read."""
        return Counter(queue for one, queue in self._references if one in self._messages)

    def keep_first(self, mapped: MappedFile, scan: Scan) -> None:
        """Pass over records of the scan that say something again, or are about a queue that is gone."""
        records = scan.pointer.records
        for index in range(scan.count):
            record = records[index]
            if record.kind in _ADDED and record.user_type in _MESSAGES:
                known = record.record_id in self._messages or record.record_id in self.moves.copies
                if not known:
                    self._messages.add(record.record_id)
            elif record.kind in _ADDED and record.user_type == MessageType.PAGE_TRANSACTION:
                body = mapped.copy(record.body_offset, min(8, record.body_bytes))
                self.paging.add(int.from_bytes(body, "big", signed=True))
                continue
            elif record.kind in _UPDATED and record.user_type == MessageType.ADD_REFERENCE:
                known = self._knows(record.record_id, mapped.copy(record.body_offset, record.body_bytes))
            else:
                continue
            if known:
                record.kind = RecordKind.EVENT

    def _knows(self, message_id: int, body: bytes) -> bool:
        queue = int.from_bytes(body[:8], "big", signed=True)
        if queue not in self.queues:
            self.unbound += 1
            return True
        reference = (message_id, queue)
        if reference in self.moves.origins or message_id in self.moves.copies:
            return True
        known = reference in self._references
        self._references.add(reference)
        return known


# Which queues a paged message of HornetQ 2.1 goes to: its page says nothing, so filters decide.

PIECE = 1024
"""Messages whose lines are made at once."""


def routes_of(page: PageScan, filters: Mapping[QueueId, str | None]) -> list[list[int]]:
    """Of each record of a page, the queues whose filter accepts its message. A filter that nobody can read
    accepts all: twice is better than never.
    """
    chosen = {queue: _compiled(text) for queue, text in filters.items()}
    everyone = [int(queue) for queue, selector in chosen.items() if selector is None]
    judges = {int(queue): selector for queue, selector in chosen.items() if selector is not None}
    if not judges:
        return [list(everyone) for _ in range(page.count)]
    routes: list[list[int]] = []
    for start in range(0, page.count, PIECE):
        indexes = range(start, min(start + PIECE, page.count))
        made = page.fill_lines(indexes, queue=None, now_ms=0)
        batch = LineBatch(made.lines, len(indexes), queue=None, keep=made)
        for index in range(len(indexes)):
            envelope = json.loads(batch.line(index))
            large = bool(envelope.get("largeMessage"))
            envelope[SIZE_BYTES] = stored_bytes(batch.payload(index), large=large)
            accepting = [queue for queue, selector in judges.items() if selector.accepts(envelope)]
            routes.append(sorted([*everyone, *accepting]))
    return routes


def _compiled(text: str | None) -> Selector | None:
    try:
        return compile_selector(current_filter(text) or "") if text else None
    except SelectorError:
        return None


_DAMAGED_GAPS: Final = {GapKind.ZEROED, GapKind.GARBAGE, GapKind.TORN}
_EXTENSIONS: Final = ("hq", "amq")
_FIRST_VERSION: Final = 1
"""Of journals whose pages name no queues."""


def fill_hornetq(source: Source, out: DerivedStore) -> None:
    """The adapter."""
    reading = JournalReading(source, out, UNSCHEDULED)
    reading.bindings()
    reading.journal()
    reading.pages()
    reading.rest()
    reading.tell_counts()


@dataclass(slots=True)
class JournalReading:
    """Reads a store that has journals of files, whatever their version."""

    source: Source
    out: DerivedStore
    layout: int = 0
    """Flags of `engine.older` that say how messages are."""
    queues: list[OldQueue] = field(default_factory=list)
    first_seen: FirstSeen = field(init=False)
    first_version: bool = False
    """The journal is of HornetQ 2.1."""
    paged: Counter[int] = field(default_factory=Counter)
    """How many messages of pages each queue has by its id, consumed ones too; only where these count."""

    def tell_counts(self) -> None:
        """Say how many messages each queue has where consumed ones count."""
        if self.out.flags & RECOVER:
            self.out.on_disk = dict(self.first_seen.counts() + self.paged)

    def rest(self) -> None:
        """Who the broker is, and where bodies of large messages lie."""
        lock = self.source.journal_dir / SERVER_LOCK_NAME
        try:
            if not self.source.is_locked and door.exists(lock):
                door.copy(lock, self.out.journal_dir / SERVER_LOCK_NAME)
        except OSError as error:
            self.out.refused(lock, self.source.root, error)
        if door.is_folder(self.source.large_dir):
            self.out.bodies_in(self.source.large_dir)

    # -- journals --------------------------------------------------------------------------------------------

    def journal(self) -> None:
        """Every file of the message journal."""
        if self.out.flags & RECOVER:
            self._moves()
        names: set[str] = set()
        for extension in _EXTENSIONS:
            for file in self._files(self.source.journal_dir, extension):
                self.first_version |= file.version == _FIRST_VERSION
                stem = file.name.rpartition(".")[0]
                while stem in names:
                    stem += "-2"
                names.add(stem)
                self._journal_file(file, stem)

    def _moves(self) -> None:
        """Find out which messages are copies of others, before any of them is written."""
        moves = self.first_seen.moves
        for extension in _EXTENSIONS:
            for file in read_directory(
                self.source.journal_dir, extension=extension, relative_to=self.source.root
            ).files:
                with suppress(OSError):  # what cannot be read is told when it is taken over
                    mapped = MappedFile(file.path)
                    moves.feed(mapped, self._scan(file, mapped))
                    mapped.detach()
        moves.settle()
        if moves.origins:
            told = f"{len(moves.origins)} messages that were moved are only where they were moved to last"
            self.out.note("moved", told)

    def _journal_file(self, file: JournalFile, stem: str) -> None:
        found = self._scanned(file)
        if found is None:
            return
        mapped, scan = found
        with mapped:
            if self.out.flags & RECOVER:
                self.first_seen.keep_first(mapped, scan)
            flags = self.out.flags | self.layout
            self.count(file.path, self.out.take_over(mapped, scan, file.file_id, stem, flags))
        self.out.progress(file.stamp.size_bytes)

    def _files(self, directory: Path, extension: str) -> Sequence[JournalFile]:
        try:
            listing = read_directory(directory, extension=extension, relative_to=self.source.root)
        except UnknownVersion as error:
            self.out.damage(self.name(directory), 0, 0, "bad-header", error.found)
            return ()
        self.out.damaged += listing.problems
        return listing.files

    def _scanned(self, file: JournalFile) -> tuple[MappedFile, Scan] | None:
        """A file and its records; what lies between them is damage."""
        name = self.name(file.path)
        try:
            mapped = MappedFile(file.path)
        except OSError as error:
            self.out.damage(name, 0, file.stamp.size_bytes, *door.kind_and_reason(error))
            return None
        scan = self._scan(file, mapped)
        for gap in scan.gaps():
            if gap.kind in _DAMAGED_GAPS:
                kind = gap.kind.name.lower()
                self.out.damage(name, gap.offset, gap.length, kind, "no record can be read here")
        for hole in mapped.unreadable:
            reason = f"cannot be read: {hole.reason}"
            self.out.damage(name, hole.offset, hole.length, "unreadable", reason)
        return mapped, scan

    @staticmethod
    def _scan(file: JournalFile, mapped: MappedFile) -> Scan:
        version = file.version if file.version in READABLE_VERSIONS else 2
        return scan_journal(mapped, rid=file.rid or written_rid(mapped) or 0, version=version)

    def count(self, path: Path, undecoded: int) -> None:
        if undecoded:
            reason = f"{undecoded} messages are not laid out as messages are"
            self.out.damage(self.name(path), 0, 0, "undecodable", reason)

    def name(self, path: Path) -> str:
        return name_of(path, self.source.root)

    # -- bindings --------------------------------------------------------------------------------------------

    def tell_without_bindings(self) -> None:
        """List it as damage where there is a message journal and no file of bindings: names are lost."""
        has_journal = any(self._files(self.source.journal_dir, one) for one in _EXTENSIONS)
        if has_journal and not self._files(self.source.bindings_dir, "bindings"):
            self.out.damage(self.name(self.source.bindings_dir), 0, 0, "missing", f"a journal {NO_BINDINGS}")

    def live(self, extension: str) -> tuple[list[Emitted], int]:
        """What of a small journal took effect, and the highest id in it."""
        found: list[tuple[JournalFile, MappedFile, Scan]] = []
        for file in self._files(self.source.bindings_dir, extension):
            scanned = self._scanned(file)
            if scanned is not None:
                found.append((file, *scanned))
                self.out.progress(file.stamp.size_bytes)
        try:
            return live_records([(self.name(file.path), mapped, scan) for file, mapped, scan in found])
        finally:
            for _, mapped, _ in found:
                mapped.close()

    def bindings(self) -> None:
        """The bindings journal, and the JMS journal beside it."""
        self.tell_without_bindings()
        records, highest = self.live("bindings")
        self.out.ids_from(highest + 1)
        for record in records:
            try:
                self._binding(record)
            except DecodeError as error:
                reason = f"record {record.record_id} of type {record.user_type}: {error}"
                self.out.damage(record.file, record.offset, 0, "undecodable", reason)
        names = Names(self.queues) if self.out.flags & RENAME else None
        for queue in self.queues:
            if names is not None and queue.filter in MARKER_FILTERS:
                topic = names.address(queue.address)
                self.out.address(topic, RoutingType.MULTICAST)
                self.out.renamed[f"{queue.address}::{queue.name}"] = topic
                continue
            name = queue.name if names is None else names.queue(queue)
            address = queue.address if names is None else names.address(queue.address)
            if (address, name) != (queue.address, queue.name):
                self.out.renamed[f"{queue.address}::{queue.name}"] = f"{address}::{name}"
            self.out.queue(
                name,
                address,
                queue.routing_type,
                filter=queue.filter if names is None else current_filter(queue.filter),
                queue_id=queue.queue_id,
                metadata=queue.metadata or "",
            )
        if names is not None:
            self._tell_names(names)
        self.first_seen = FirstSeen({int(one.queue_id) for one in self.queues} | self.source.also_bound)
        jms, _ = self.live("jms")
        describe_jms(jms, self.out)

    def _binding(self, record: Emitted) -> None:
        match record.user_type:
            case BindingType.QUEUE_BINDING:
                self.queues.append(decode_old_queue(record))
            case BindingType.ID_COUNTER:
                self.out.ids_from(Reader(record.body).i64())
            case BindingType.ADDRESS_SETTING:
                self._setting(record)
            case BindingType.SECURITY_SETTING | BindingType.GROUP | BindingType.QUEUE_STATUS:
                self.out.binding(record.record_id, record.user_type, record.body)

    def _tell_names(self, names: Names) -> None:
        for old, new in names.changed():
            self.out.note("name", f"{old!r} is {new!r} now, as current clients call it")

    def _setting(self, record: Emitted) -> None:
        match, values = decode_old_setting(record.body)
        for name in sorted(WITHOUT_EQUAL & values.keys()):
            self.out.note("setting", f"setting {name}={values.pop(name)} of {match!r} has no equal")
        if self.out.flags & RENAME:
            match = without_prefix(match)
            for name in ADDRESSES & values.keys():
                values[name] = without_prefix(str(values[name]))
        self.out.address_setting(record.record_id, match, values)

    # -- pages -----------------------------------------------------------------------------------------------

    def pages(self) -> None:
        """Every page of every address."""
        for folder in self._page_folders():
            to = self.out.paging_dir / folder.name
            try:
                address = self._address_of(folder)
                names = door.names_if_there(folder)
            except OSError as error:
                self.out.refused(folder / ADDRESS_FILE_NAME, self.source.root, error)
                continue
            if address is None and (self.first_version or self.source.folders is not None):
                told = "nothing says which address it is of"
                self.out.damage(self.name(folder), 0, 0, "page-folder", told)
                continue
            door.make_folder(to)
            if address is not None:
                named = without_prefix(address) if self.out.flags & RENAME else address
                door.write(to / ADDRESS_FILE_NAME, named.encode(errors="surrogatepass"))
            bound = [one for one in self.queues if one.address == address]
            if self.first_version and not bound:
                reason = f"no queue is bound to {address!r}, so messages of its pages are in none"
                self.out.damage(self.name(folder / ADDRESS_FILE_NAME), 0, 0, "page-folder", reason)
            for name in names:
                parsed = parse_page_name(name)
                if parsed is not None and not parsed.invalid:
                    self.page(folder / name, to / name, bound)
                    if self.out.flags & RECOVER and door.is_file(to / name):
                        self._count_page(to / name)

    def _address_of(self, folder: Path) -> str | None:
        """Return the address of a page folder: as the store that reads them found it, else as it says. None:
        nothing says it here.
        """
        if self.source.folders is not None:
            return self.source.folders.get(folder.name)
        try:
            content = door.read(folder / ADDRESS_FILE_NAME, ADDRESS_FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        with suppress(DecodeError):
            return decode_address_file(content)
        return None

    def _count_page(self, path: Path) -> None:
        """Count what queues have in a page that was written."""
        with MappedFile(path) as mapped:
            scan = scan_page(mapped)
            for entry, tx_id in zip(scan, scan.tx_ids(), strict=True):
                if not entry.undecoded and (tx_id < 0 or tx_id in self.first_seen.paging):
                    self.paged.update(one for one in entry.queue_ids if one in self.first_seen.queues)

    def _page_folders(self) -> Iterator[Path]:
        """Yield the folders of pages, without those that replication left. A link is damage. Raises OSError
        where the directory cannot be listed: nobody knows then what is in it.
        """
        directory = self.source.paging_dir
        for name in door.names_if_there(directory):
            mode = door.mode_of(directory / name)
            if REPLICA_MARK in name:
                continue
            if stat.S_ISDIR(mode):
                yield directory / name
            elif not stat.S_ISREG(mode):
                self.out.refused(directory / name, self.source.root, door.refused(name, mode))

    def page(self, path: Path, to: Path, bound: Sequence[OldQueue]) -> None:
        name = self.name(path)
        try:
            mapped = MappedFile(path)
        except OSError as error:
            self.out.refused(path, self.source.root, error)
            return
        with mapped:
            routes: Routes | None = None
            if self.first_version:
                door.write(to, rewrite_page(mapped, routes=()).memory)
                with MappedFile(to) as unrouted:
                    chosen = {one.queue_id: one.filter for one in bound}
                    routes = routes_of(scan_page(unrouted), chosen)
                door.remove(to)
            rewritten = rewrite_page(mapped, routes=routes, flags=self.out.flags)
            door.write(to, rewritten.memory)
            if rewritten.damaged_at is not None:
                length = mapped.size_bytes - rewritten.damaged_at
                self.out.damage(name, rewritten.damaged_at, length, "garbage", "no record begins here")
            self.count(path, rewritten.undecoded)
            self.out.progress(mapped.size_bytes)
