"""Writes a store of HornetQ 2.4 of one of the current format: `convert --to hornetq`.

What is read was compacted, so every transaction in it is whole, or in doubt. Record for record it becomes one
of the older layout (docs/format/older.md); each keeps its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.bindings.interpret import Emitted
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageEntry, scan_page
from journalfs.engine.scan import RecordInfo, Scan, scan_journal
from journalfs.format import bindings, primitives
from journalfs.format.address_settings import SettingValue, decode_address_setting_json
from journalfs.format.bindings import encode_id_counter
from journalfs.format.core_message import split_header
from journalfs.format.page_folder import ADDRESS_FILE_NAME, decode_address_file
from journalfs.format.record_types import USER_TYPE_NAMES, BindingType, MessageType, RecordKind
from journalfs.format.server_lock import SERVER_LOCK_NAME
from journalfs.ids import QueueId
from journalfs.records.files.directory import read_directory
from journalfs.records.new_store import BINDINGS_FILE_BYTES, JournalFiles, plain_queue
from journalfs.records.older.bindings import (
    BINDINGS,
    DESTINATION,
    HORNETQ_SETTINGS,
    MARKER_FILTERS,
    QUEUE_PREFIX,
    TOPIC_PREFIX,
    live_records,
    old_filter,
)
from journalfs.records.older.hornetq_log import HornetqRecords, page_record

MARKER_FILTER: Final = "__HQX=-1"
"""Of the queue that stands for a topic: it matches nothing."""

PAGED_BYTES_MAX: Final = 20 << 20
"""More than the 10 MiB that a page has unless something else is said."""

_TOPIC: Final = 1
_QUEUE: Final = 2
"""Kinds of JMS destinations."""


@dataclass(slots=True)
class HornetqStore:
    """Made at `place` of the store at `made`. `current_names`: destinations have the names of current
    clients, and get those that clients of HornetQ ask for. `jms` has the JMS journal of a HornetQ, if there
    is one.
    """

    made: Path
    place: Path
    file_bytes: int
    current_names: bool
    jms: Path | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
    """What has no equal there: a stable word, and a sentence."""
    renamed: dict[str, str] = field(default_factory=dict)
    """`ADDRESS::QUEUE` in the store at `made` -> there, of queues with another name there."""
    _routing: dict[str, bindings.RoutingType] = field(default_factory=dict)
    _queues: dict[QueueId, bindings.QueueBinding] = field(default_factory=dict)
    _next_id: int = 1
    _dropped: set[int] = field(default_factory=set)
    """Messages that HornetQ does not understand."""
    _sent: set[int] = field(default_factory=set)
    """Transactions whose paged messages count."""
    _records: HornetqRecords = field(init=False)

    def __post_init__(self) -> None:
        self._records = HornetqRecords(self._address)

    @property
    def left_out(self) -> set[int]:
        """Messages that have no equal there."""
        return self._dropped

    def write(self) -> None:
        for name in ("bindings", "journal", "paging"):
            door.make_folders(self.place / name)
        self._bindings()
        self._journal()
        self._pages()
        if self._dropped:
            count = len(self._dropped)
            self._note("message", f"{count} messages of other protocols than core are left out")
            for message_id in self._dropped:
                door.remove_if_there(self.made / "large-messages" / f"{message_id}.msg")

    def _note(self, kind: str, text: str) -> None:
        if (kind, text) not in self.notes:
            self.notes.append((kind, text))

    # -- names -----------------------------------------------------------------------------------------------

    def _address(self, name: str) -> str:
        if not self.current_names or name not in self._routing:
            return name
        queue = self._routing[name] is bindings.RoutingType.ANYCAST
        return (QUEUE_PREFIX if queue else TOPIC_PREFIX) + name

    def _queue(self, binding: bindings.QueueBinding) -> str:
        return self._address(binding.address) if self._is_jms(binding) else binding.name

    def _is_jms(self, binding: bindings.QueueBinding) -> bool:
        return (
            binding.name == binding.address
            and self._routing.get(binding.address) is bindings.RoutingType.ANYCAST
        )

    # -- bindings --------------------------------------------------------------------------------------------

    def _bindings(self) -> None:
        records, highest = _live(self.made / "bindings", "bindings")
        self._next_id = highest + 1
        kept: list[Emitted] = []
        for record in records:
            match record.user_type:
                case BindingType.QUEUE_BINDING:
                    binding = bindings.decode_queue_binding(record.body)
                    self._queues[QueueId(record.record_id)] = binding
                case BindingType.ADDRESS_BINDING:
                    address = bindings.decode_address_binding(record.body)
                    anycast = bindings.RoutingType.ANYCAST in address.routing_types
                    only = bindings.RoutingType.ANYCAST if anycast else bindings.RoutingType.MULTICAST
                    self._routing[address.name] = only
                case BindingType.ID_COUNTER:
                    self._next_id = max(self._next_id, primitives.Reader(record.body).i64())
                case _:
                    kept.append(record)
        journal = JournalFiles(
            self.place / "bindings", "hornetq-bindings", "bindings", BINDINGS_FILE_BYTES, lasting=True
        )
        for queue_id, binding in self._queues.items():
            self._put_queue(journal, queue_id, binding)
        if self.current_names:
            self._page_settings(journal)  # what a client said counts, which comes behind
        for record in kept:
            self._put_other(journal, record)
        self._markers(journal)
        self._jms()
        counter = encode_id_counter(bindings.IdCounter(self._next_id + 1))
        journal.add(self._new_id(), BindingType.ID_COUNTER, counter)
        journal.close()

    def _put_queue(self, journal: JournalFiles, queue_id: QueueId, binding: bindings.QueueBinding) -> None:
        name, address = self._queue(binding), self._address(binding.address)
        if (name, address) != (binding.name, binding.address):
            self._note("name", f"queue {binding.name!r} of {binding.address!r} is {name!r} of {address!r}")
            self.renamed[f"{binding.address}::{binding.name}"] = f"{address}::{name}"
        plain = plain_queue(binding.name, binding.address, binding.routing_type, None, "")
        odd = [one for one in _QUEUE_SETTINGS if getattr(binding, one) not in (getattr(plain, one), None)]
        if odd:
            self._note("queue", f"queue {binding.name!r} has {', '.join(odd)}, which has no equal")
        filter_text = MARKER_FILTER if binding.filter in MARKER_FILTERS else old_filter(binding.filter)
        body = (
            primitives.simple_string(name)
            + primitives.simple_string(address)
            + primitives.nullable_simple_string(filter_text)
        )
        journal.add(queue_id, BindingType.QUEUE_BINDING, body)

    def _put_other(self, journal: JournalFiles, record: Emitted) -> None:
        if record.user_type == BindingType.ADDRESS_SETTING_JSON:
            stored = decode_address_setting_json(record.body)
            self._put_setting(journal, stored.match, stored.values)
        elif record.user_type == BindingType.SECURITY_SETTING:
            reader = primitives.Reader(record.body)
            for match in self._matches(reader.simple_string()):
                journal.add(
                    self._new_id(), record.user_type, primitives.simple_string(match) + bytes(reader.peek())
                )
        elif record.user_type == BindingType.GROUP:
            journal.add(record.record_id, record.user_type, record.body)
        else:
            kind = USER_TYPE_NAMES.get(record.user_type, str(record.user_type))
            self._note("binding", f"a {kind} has no equal")

    def _matches(self, match: str) -> tuple[str, ...]:
        """What matches the same there."""
        if not self.current_names or match == "#":
            return (match,)
        return (QUEUE_PREFIX + match, TOPIC_PREFIX + match)

    def _put_setting(self, journal: JournalFiles, match: str, values: Mapping[str, SettingValue]) -> None:
        known = {key for key, _ in HORNETQ_SETTINGS}
        for name in sorted(values.keys() - known):
            self._note("setting", f"setting {name}={values[name]} of {match!r} has no equal")
        fields = []
        for key, kind in HORNETQ_SETTINGS:
            value = values.get(key)
            if key in ("deadLetterAddress", "expiryAddress") and value is not None:
                value = self._address(str(value))
            fields.append(_setting(kind, value))
        for one in self._matches(match):
            body = primitives.simple_string(one) + b"".join(fields)
            journal.add(self._new_id(), BindingType.ADDRESS_SETTING, body)

    def _page_settings(self, journal: JournalFiles) -> None:
        """HornetQ gives nothing of a page where it is not told that an address pages."""
        for folder in _files_in(self.made / "paging"):
            address = self._address(decode_address_file(door.read(folder / ADDRESS_FILE_NAME)))
            values: dict[str, SettingValue] = {
                "addressFullMessagePolicy": "PAGE",
                "maxSizeBytes": PAGED_BYTES_MAX,
            }
            fields = [_setting(kind, values.get(key)) for key, kind in HORNETQ_SETTINGS]
            body = primitives.simple_string(address) + b"".join(fields)
            journal.add(self._new_id(), BindingType.ADDRESS_SETTING, body)
            self._note("setting", f"{address!r} pages from {PAGED_BYTES_MAX} bytes on, as it has pages")

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # -- JMS -------------------------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        multicast = bindings.RoutingType.MULTICAST
        if self.current_names:
            return [name for name, routing in self._routing.items() if routing is multicast]
        names = {one.address for one in self._queues.values() if one.address.startswith(TOPIC_PREFIX)}
        return sorted(name.removeprefix(TOPIC_PREFIX) for name in names)

    def _markers(self, journal: JournalFiles) -> None:
        """The queue of each topic."""
        there = {self._queue(one) for one in self._queues.values()}
        for topic in self._topics():
            name = TOPIC_PREFIX + topic
            if name not in there:
                body = primitives.simple_string(name) * 2 + primitives.nullable_simple_string(MARKER_FILTER)
                journal.add(self._new_id(), BindingType.QUEUE_BINDING, body)
                self.renamed[topic] = f"{name}::{name}"

    def _jms(self) -> None:
        """Where JMS clients find destinations."""
        there = [] if self.jms is None else [one for one in _files_in(self.jms) if one.suffix == ".jms"]
        for path in there:
            door.copy(path, self.place / "bindings" / f"hornetq-jms-{path.stem.rpartition('-')[2]}.jms")
        if there:
            return
        journal = JournalFiles(
            self.place / "bindings", "hornetq-jms", "jms", BINDINGS_FILE_BYTES, lasting=True
        )
        journal.make_room(0)
        queues = [
            self._queue(one).removeprefix(QUEUE_PREFIX)
            for one in self._queues.values()
            if self._queue(one) == self._address(one.address) and self._queue(one).startswith(QUEUE_PREFIX)
        ]
        for kind, word, names in ((_QUEUE, "queue", queues), (_TOPIC, "topic", self._topics())):
            for name in names:
                what = primitives.i8(kind) + primitives.simple_string(name)
                journal.add(
                    self._new_id(),
                    DESTINATION,
                    what + primitives.nullable_simple_string(None) + primitives.boolean(True),
                )
                bound_to = primitives.i32(1) + primitives.simple_string(f"/{word}/{name}")
                journal.add(self._new_id(), BINDINGS, what + bound_to)
        journal.close()

    # -- messages --------------------------------------------------------------------------------------------

    def _journal(self) -> None:
        journal = JournalFiles(self.place / "journal", "hornetq-data", "hq", self.file_bytes, lasting=True)
        journal.make_room(0)
        for mapped, scan in _scans(self.made / "journal", "amq"):
            with mapped:
                for record in scan:
                    tx = record.tx_id if record.kind in _IN_TX else None
                    body = mapped.copy(record.body_offset, record.body_bytes)
                    if record.kind in _ENDS:
                        journal.end(RecordKind(record.kind), record.tx_id, body)
                    elif record.kind in _DELETES:
                        if record.record_id not in self._dropped:
                            journal.change(RecordKind.DELETE, record.record_id, 0, body, tx)
                    else:
                        self._put_record(journal, record, body, tx)
        journal.close()
        lock = self.made / "journal" / SERVER_LOCK_NAME
        if door.exists(lock):
            door.copy(lock, self.place / "journal" / SERVER_LOCK_NAME)

    def _put_record(self, journal: JournalFiles, record: RecordInfo, body: bytes, tx: int | None) -> None:
        if record.user_type == MessageType.PAGE_TRANSACTION and record.kind in _ADDS:
            self._sent.add(primitives.Reader(body).i64())
        old = self._records.record(record.user_type, body)
        if old is None and record.user_type == MessageType.MESSAGE:
            self._dropped.add(record.record_id)
        if old is not None and record.record_id not in self._dropped:
            kind = RecordKind.ADD if record.kind in _ADDS else RecordKind.UPDATE
            journal.change(kind, record.record_id, *old, tx)

    # -- pages -----------------------------------------------------------------------------------------------

    def _pages(self) -> None:
        for folder in _files_in(self.made / "paging"):
            address = decode_address_file(door.read(folder / ADDRESS_FILE_NAME))
            to = self.place / "paging" / folder.name
            door.make_folder(to)
            door.write(to / ADDRESS_FILE_NAME, self._address(address).encode())
            for path in (one for one in _files_in(folder) if one.suffix == ".page"):
                with MappedFile(path) as mapped:
                    pieces = [self._page_record(mapped, entry) for entry in scan_page(mapped)]
                door.write(to / path.name, b"".join(pieces))

    def _page_record(self, mapped: MappedFile, entry: PageEntry) -> bytes:
        """What HornetQ does not understand, or warns of, leaves an empty place: one in no queue."""
        payload = mapped.copy(entry.payload_offset, entry.payload_bytes)
        large = abs(entry.kind) == 1
        message = None
        if not entry.undecoded and (entry.tx_id <= 0 or entry.tx_id in self._sent):
            of_header = large and self._records.header(split_header(primitives.Reader(payload)))
            message = of_header or self._records.message(payload)
            if message is None:
                self._dropped.add(entry.message_id)
        queues = entry.queue_ids or ()
        return page_record(entry.tx_id, message, queues, large=large, message_id=entry.message_id)


_ADDS: Final = frozenset({RecordKind.ADD, RecordKind.ADD_TX})
_IN_TX: Final = frozenset({RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX})
_ENDS: Final = frozenset({RecordKind.PREPARE, RecordKind.COMMIT, RecordKind.ROLLBACK})
_DELETES: Final = frozenset({RecordKind.DELETE, RecordKind.DELETE_TX})
_QUEUE_SETTINGS: Final = (
    "max_consumers", "purge_on_no_consumers", "exclusive", "last_value", "last_value_key", "non_destructive",
    "group_first_key", "ring_size",
)  # fmt: skip


def _files_in(directory: Path) -> list[Path]:
    return [directory / name for name in door.names_if_there(directory)]


def _live(directory: Path, extension: str) -> tuple[list[Emitted], int]:
    found = list(_scans(directory, extension))
    try:
        return live_records([(mapped.path.name, mapped, scan) for mapped, scan in found])
    finally:
        for mapped, _ in found:
            mapped.close()


def _scans(directory: Path, extension: str) -> Iterator[tuple[MappedFile, Scan]]:
    listing = read_directory(directory, extension=extension, relative_to=directory)
    for file in listing.files:
        mapped = MappedFile(file.path)
        yield mapped, scan_journal(mapped, rid=file.rid, version=file.version)


def _setting(kind: str, value: SettingValue | None) -> bytes:
    """A value that may be null, of a kind that `HORNETQ_SETTINGS` names."""
    match kind:
        case _ if value is None:
            return primitives.NULL
        case "S":
            return primitives.PRESENT + primitives.simple_string(str(value))
        case "B":
            return primitives.PRESENT_FF + primitives.boolean(bool(value))
        case "D":
            return primitives.PRESENT_FF + primitives.f64(float(value))
        case "L":
            return primitives.PRESENT_FF + primitives.i64(int(value))
        case _:
            return primitives.PRESENT_FF + primitives.i32(int(value))
