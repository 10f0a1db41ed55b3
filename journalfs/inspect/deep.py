"""Everything that a store says, looked at piece by piece, and each against the others.

A journal file, a page or a body at a time: memory does not grow with the store, but for what it has open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from journalfs.account.advice import MESSAGE, advice_of
from journalfs.account.contradictions import given_twice
from journalfs.account.entries import NONE, UNKNOWN, Account, Entry, Standing, exactly
from journalfs.account.taking import LARGE, account_of, entries_of, orphan_entry
from journalfs.damage import MISSING_FILE, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE
from journalfs.engine.scan import RecordInfo, scan_journal
from journalfs.engine.state_types import AnomalyKind, Operation
from journalfs.engine.status import FileTorn
from journalfs.errors import DecodeError
from journalfs.exchange.outlines import outlined_lines
from journalfs.exchange.sorting import in_order
from journalfs.format.record_types import MessageType, RecordKind, user_type_name
from journalfs.format.server_lock import NodeState
from journalfs.ids import PageNumber, QueueId
from journalfs.inspect.bodies import name_of_body, wrong_bodies
from journalfs.inspect.findings import Finding, Places, file_in
from journalfs.inspect.record_bodies import check_message, wrong_in_bindings_record, wrong_in_message_record
from journalfs.live.bindings import EXTENSION
from journalfs.live.undecided import adds_message
from journalfs.message.envelope import decode_envelope
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.store.node_lock import server_lock_of
from journalfs.store.store import JournalStore

if TYPE_CHECKING:
    from journalfs.api import ByteSource, Store
    from journalfs.live.core import Core
    from journalfs.pages.address import PagedAddress


# What the journal says of pages against what is in them.


def wrong_counts(core: Core) -> Iterator[Finding]:
    """Page transactions and page counters. All of pages and journal has to be whole."""
    yield from _transactions(core)
    yield from _counters(core)


def _transactions(core: Core) -> Iterator[Finding]:
    """Each counts the pairs of message and queue that are still to be consumed: with fewer a broker forgets
    it, and with it what is left of them. More are harmless.
    """
    waiting: Counter[int] = Counter()
    for address, paged in core.pages.items():
        queues = {queue.queue_id for queue in core.bindings.queues_of(address)}
        for number in paged.numbers():
            if paged.summary(number).has_transactions:
                waiting.update(_pairs(paged, number, queues))
    for record in core.loader.state.side(MessageType.PAGE_TRANSACTION):
        left = core.cursors.transactions.get(record.a, (0, 0))[1]
        if waiting[record.a] > left:
            reason = (
                f"page transaction {record.a} has {left} messages left to consume in queues, "
                f"and {waiting[record.a]} are in pages"
            )
            yield _at(core, record, "page-transaction", reason)


def _pairs(paged: PagedAddress, number: PageNumber, queues: set[QueueId]) -> Iterator[int]:
    scan = paged.scan(number)
    ids, starts = scan.queue_ids()
    for index, tx_id in enumerate(scan.tx_ids()):
        if tx_id > 0:
            for queue in queues.intersection(map(QueueId, ids[starts[index] : starts[index + 1]])):
                standing = paged.standing(number, queue)
                if not standing.complete and index not in standing.gone:
                    yield tx_id


def _counters(core: Core) -> Iterator[Finding]:
    """They are what was true when a broker stopped. One that was killed leaves old ones."""
    lock = server_lock_of(core.layout)
    if lock is None or lock.state is not NodeState.STOPPED or core.live_broker:
        return
    counted: Counter[int] = Counter()
    said: dict[int, list[Operation]] = {}
    for address, paged in core.pages.items():
        for queue in core.bindings.queues_of(address):
            for number in paged.numbers():
                counted[queue.queue_id] += len(paged.live(number, queue.queue_id))
                counted[queue.queue_id] += len(paged.delivering(number, queue.queue_id))
    for record in core.loader.state.side(MessageType.PAGE_COUNTER_VALUE):
        said.setdefault(record.a, []).append(record)
    for queue_id, records in said.items():
        last, there = records[-1], counted[queue_id]
        if QueueId(queue_id) in core.bindings.queues and last.b != there:
            reason = f"it says that queue {queue_id} has {last.b} messages in pages, and {there} are there"
            yield _at(core, last, "page-counter", reason)


def _at(core: Core, record: Operation, kind: str, reason: str) -> Finding:
    return Finding(file_in(core, record.file_slot), record.body_offset, record.body_bytes, kind, reason)


# Reading all of a store: every message, and what was found wrong on the way.


@dataclass(slots=True)
class Read:
    messages: int = 0
    delivering: int = 0
    """Messages that consumers or prepared transactions have: listed apart from the others."""
    prepared: int = 0
    """Messages that transactions sent which are prepared or undecided: in no queue yet."""
    bytes_read: int = 0
    damage: list[Finding] = field(default_factory=list)
    """The messages that do not decode."""

    def counted(self) -> str:
        apart = {
            "being delivered": self.delivering,
            "sent by transactions that have not ended": self.prepared,
        }
        *others, last = f"{self.messages} messages", *(f"{n} {what}" for what, n in apart.items() if n)
        return f"{', '.join(others)} and {last}" if others else last

    def count(self, source: ByteSource, where: str, queue: str | None = None) -> int:
        """How many messages a file has, all of which are read. `where`: how people say what has them."""
        messages = 0
        try:
            for lines, size_bytes in outlined_lines(source):
                messages += len(lines)
                self.bytes_read += size_bytes
                doubtful = [line for line in lines if b'"damage":' in line]
                self.damage += [one for line in doubtful for one in _damage_in(line, where, queue)]
        finally:
            source.close()
        return messages


def read_everything(store: Store) -> Read:
    read = Read()
    # First, for a broker at work may decide them meanwhile.
    for transaction, source in store.prepared_sends():
        read.prepared += read.count(source, f"of transaction {transaction}")
    for address in store.addresses():
        for queue in address.queues():
            name = f"{address.name}::{queue.name}"
            read.messages += read.count(queue.open_all(), f"in {name}", name)
            read.delivering += read.count(queue.delivering().open_all(), f"in {name}", name)
    return read


def _damage_in(line: bytes, where: str, queue: str | None) -> Iterator[Finding]:
    envelope = decode_envelope(line)
    if "damage" in envelope:
        number = envelope.get("id")
        yield Finding(
            f"message {number} {where}", None, None, MESSAGE, str(envelope["damage"]),
            queue, number if isinstance(number, int) else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checked:
    read: Read
    account: Account
    """All that is wrong; after a deep look each place once."""
    records: int | None = None
    """How many were looked at one by one; None: the store was read only."""
    left_out: Sequence[str] = ()

    @property
    def findings(self) -> Sequence[Entry]:
        """The losses that the account lists."""
        return self.account.losses

    def counted(self) -> str:
        records = "" if self.records is None else f", and {self.records} records"
        left_out = "".join(f"; not compared, for what is damaged: {one}" for one in self.left_out)
        return f"{self.read.counted()} ({self.read.bytes_read} bytes as lines) read{records}{left_out}"


def checked(store: Store, *, deep: bool) -> Checked:
    """Read a store that is open for reading and say what is wrong with it. Raises what reading a directory
    raises.
    """
    assert isinstance(store, JournalStore), "all that are open for reading are"
    core = store.core
    read = read_everything(store)
    known = entries_of(core)
    listed = {(one.queue, one.id) for one in known if one.id is not None}
    of_transactions = {one.id for one in known if one.transaction is not None}
    more = [
        one
        for one in read.damage
        if (one.queue, one.id) not in listed and (one.queue is not None or one.id not in of_transactions)
    ]
    notes = [orphan_entry(name) for name in store.orphaned_bodies()]
    if not deep:
        return Checked(read, account_of(store, [*map(_entry, more), *notes]))
    bodies = {one.file for one in known if one.kind == LARGE}
    found = Places(known)
    of_records = (one for one in more if name_of_body(core, one.id) not in bodies)
    findings = [*found.new(_located(core, one) for one in of_records)]
    look = Deep(core, bodies)
    findings += found.new(look.findings())
    account = account_of(store, [*map(_entry, findings), *notes], not_looked_at=())
    return Checked(read, account, look.records, look.left_out)


def _entry(finding: Finding) -> Entry:
    """Return what a look at everything found as an entry of the account."""
    standing = Standing.MISSING if finding.kind == MISSING_FILE else Standing.DAMAGED
    count = exactly(1) if finding.kind == MESSAGE else UNKNOWN if standing is Standing.MISSING else NONE
    return Entry(
        standing, finding.queue, finding.kind, finding.file, finding.offset, finding.bytes, finding.reason,
        advice_of(finding.kind), count, id=finding.id,
    )  # fmt: skip


def _located(core: Core, message: Finding) -> Finding:
    """A message that could not be read, where its record is."""
    place = None if message.id is None else next(_places_of(core, message.id), None)
    if place is None:
        return message
    name, offset, length = place
    return replace(message, file=name, offset=offset, bytes=length)


def _places_of(core: Core, message_id: int) -> Iterator[tuple[str, int, int]]:
    """File, offset and length of its record: in the journal, in a transaction, or in a page."""
    state = core.loader.state
    for ref in state.message_refs(message_id)[:1]:
        info = state.ref(ref)
        yield file_in(core, info.file_slot), info.offset, info.body_bytes
    for op in chain.from_iterable(one.operations for one in state.transactions()):
        if op.record_id == message_id and adds_message(op):
            yield file_in(core, op.file_slot), op.body_offset, op.body_bytes
    for paged in core.pages.values():
        for number in paged.numbers():
            summary = paged.summary(number)
            if summary.first_id <= message_id <= summary.last_id:
                for entry in paged.scan(number):
                    if entry.message_id == message_id:
                        name = name_of(paged.files[number].path, core.root)
                        yield name, entry.offset, entry.record_bytes


@dataclass(slots=True)
class Deep:
    """One look at all of an open store that nobody writes to meanwhile."""

    core: Core
    bad_bodies: Set[str]
    """Files of bodies of which it is known that something is wrong."""
    records: int = 0
    left_out: list[str] = field(default_factory=list)
    """What was not compared, since damage explains whatever differs."""
    _highest_id: int = 0

    def findings(self) -> Iterator[Finding]:
        """Of each file, then of what they say of each other. Raises what reading a directory raises."""
        yield from self._journal()
        yield from self._bindings()
        yield from self._pages()
        yield from (one for one in wrong_bodies(self.core) if one.file not in self.bad_bodies)
        core = self.core
        damaged = any(core.loader.damage()) or any(core.other_damage())
        journal_whole = not core.missing_journal_files and not damaged
        if core.bindings_damage or core.lost.queues:
            self.left_out.append("bindings with the journal")
        else:
            yield from self._references()
            yield from self._id_generator()
        if journal_whole and not any(core.damage_of_pages()):
            yield from wrong_counts(core)
        else:
            self.left_out.append("what the journal says of pages with the pages")
        yield from self._duplicate_ids()

    # ---- each record ----

    def _journal(self) -> Iterator[Finding]:
        for read in self.core.loader.files.read_files():
            mapped = self.core.loader.files[read.slot]
            yield from self._records(read.file, mapped, self._wrong_in_journal)

    def _bindings(self) -> Iterator[Finding]:
        layout = self.core.layout
        listing = read_directory(layout.bindings_dir, extension=EXTENSION, relative_to=layout.root)
        for file in listing.files:
            with MappedFile(file.path) as mapped:
                yield from self._records(file, mapped, self._wrong_in_bindings)

    def _records(
        self, file: JournalFile, mapped: MappedFile, wrong: Callable[[str, RecordInfo, bytes], str | None]
    ) -> Iterator[Finding]:
        name = name_of(file.path, self.core.root)
        for record in scan_journal(mapped, rid=file.rid, version=file.version):
            self.records += 1
            self._highest_id = max(self._highest_id, record.record_id, record.tx_id)
            reason = wrong(name, record, _copied(mapped, record.body_offset, record.body_bytes))
            if reason is not None:
                yield Finding(name, record.offset, record.length, "record", reason)

    def _wrong_in_journal(self, _name: str, record: RecordInfo, body: bytes) -> str | None:
        reason = wrong_in_message_record(record.kind, record.user_type, record.record_id, body)
        return reason and f"{_called(record)}: {reason}"

    def _wrong_in_bindings(self, name: str, record: RecordInfo, body: bytes) -> str | None:
        reason = wrong_in_bindings_record(record.kind, record.user_type, body)
        return reason and f"{_called(record)}: {reason}"

    def _pages(self) -> Iterator[Finding]:
        for paged in self.core.pages.values():
            for number in paged.numbers():
                scan, mapped = paged.scan(number), paged.mapped(number)
                name = name_of(paged.files[number].path, self.core.root)
                for entry in scan:
                    self.records += 1
                    self._highest_id = max(self._highest_id, entry.message_id)
                    large = entry.source == SOURCE_CORE_LARGE
                    user_type = MessageType.LARGE_MESSAGE if large else MessageType.MESSAGE
                    try:
                        check_message(user_type, _copied(mapped, entry.payload_offset, entry.payload_bytes))
                    except DecodeError as error:
                        reason = f"message {entry.message_id}, byte {error.offset} of it: {error.reason}"
                        yield Finding(name, entry.offset, entry.record_bytes, "page-record", reason)

    # ---- what they say of each other ----

    def _references(self) -> Iterator[Finding]:
        core = self.core
        state, names = core.loader.state, core.queue_names()
        for anomaly in state.anomalies():
            read = core.loader.files.get_read(anomaly.file_slot)
            if anomaly.kind is AnomalyKind.ACK_WITHOUT_REF and read is not None and anomaly.b in names:
                reason = f"message {anomaly.a} is acknowledged in {names[anomaly.b]}, where it never was"
                name = name_of(read.file.path, core.root)
                yield Finding(name, anomaly.offset, 0, "reference", reason, names[anomaly.b], anomaly.a)

    def _id_generator(self) -> Iterator[Finding]:
        """Every record counts here, also those that are about nothing any more."""
        for one in given_twice(self.core, self.core.bindings, self._highest_id):
            yield Finding(one.file, one.offset, one.length_bytes, one.kind, one.reason)

    def _duplicate_ids(self) -> Iterator[Finding]:
        loader = self.core.loader

        def records() -> Iterator[tuple[bytes, bytes]]:
            for one in loader.state.side(MessageType.DUPLICATE_ID):
                body = loader.files[one.file_slot].copy(one.body_offset, one.body_bytes)
                place = f"{one.file_slot} {one.body_offset}".encode()
                yield body, place

        for _, same in groupby(in_order(records()), key=itemgetter(0)):
            _first, *again = same
            for _, place in again:
                slot, offset = map(int, place.split())
                yield Finding(
                    file_in(self.core, slot),
                    offset,
                    0,
                    "duplicate-id",
                    "a duplicate id that another record has, too",
                )


def _copied(mapped: MappedFile, offset: int, length: int) -> bytes:
    try:
        return mapped.copy(offset, length)
    except FileTorn:
        return mapped.reading(lambda: mapped.copy(offset, length))


def _called(record: RecordInfo) -> str:
    if record.kind == RecordKind.PREPARE:
        return f"prepare of transaction {record.tx_id}"
    return f"{user_type_name(record.user_type)} record {record.record_id}"
