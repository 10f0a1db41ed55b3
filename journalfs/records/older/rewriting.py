"""Records and pages of HornetQ and Artemis 1.x, written anew by the C core (docs/format/older.md)."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.engine.status import check

RENAME: int = lib.JFS_OLDER_RENAME
"""Names of properties, addresses and destinations become those of 2.x."""
RECOVER: int = lib.JFS_OLDER_RECOVER
"""Only messages and their references, as if nothing had been acknowledged."""
UNSCHEDULED: int = lib.JFS_OLDER_UNSCHEDULED
"""Messages of the journal do not say themselves when they are due: a record does."""

Routes = Sequence[Sequence[int]]
"""Of each record of a page, the queues that its message goes to."""


class Rewritten:
    """Bytes in the current layout. `memory` is valid as long as this is kept."""

    __slots__ = ("_out", "damaged_at", "memory", "messages", "undecoded")

    def __init__(self, out: Any) -> None:
        self._out = out
        self.memory = ffi.buffer(out.bytes, out.size) if out.size else b""
        self.messages: int = out.messages
        self.undecoded: int = out.undecoded
        """Messages that are not what their place requires: they are kept as they are."""
        self.damaged_at: int | None = None if out.damaged_at == 2**64 - 1 else out.damaged_at
        """Of a page: where something lies that is no record."""


class Counts:
    """How many records each transaction has in the file that is read and in the one that is written, from
    file to file of a journal.
    """

    __slots__ = ("pointer",)

    def __init__(self) -> None:
        out = ffi.new("jfs_older_counts **")
        check(lib.jfs_older_counts_new(out), "counting records of transactions")
        self.pointer = ffi.gc(out[0], lib.jfs_older_counts_free)

    def next_source(self) -> None:
        lib.jfs_older_next_source(self.pointer)

    def next_output(self) -> None:
        lib.jfs_older_next_output(self.pointer)


def rewrite_journal(
    counts: Counts,
    file: MappedFile,
    scan: Scan,
    *,
    first: int = 0,
    rid: int,
    room_bytes: int,
    empty: bool,
    flags: int = 0,
) -> tuple[Rewritten, int]:
    """Records of a scan from number `first` on in layout version 2, all with the file id `rid`, as many as
    there is room for in the file that is written, and the number of the next one. Into an `empty` file the
    first one goes whatever its length.
    """
    place = _place(first, rid, room_bytes, empty=empty, flags=flags)
    rewritten = _rewritten(
        file,
        lambda out: lib.jfs_older_journal(counts.pointer, file.pointer, scan.pointer, place, out),
    )
    return rewritten, place.next


def _place(first: int, rid: int, room_bytes: int, *, empty: bool, flags: int = 0) -> Any:
    place = ffi.new("jfs_older_place *")
    place.room_bytes, place.rid, place.flags = room_bytes, rid, flags
    place.next, place.empty = first, empty
    return place


class Contents(NamedTuple):
    """Byte strings that lie in one."""

    memory: bytes
    offsets: array[int]
    lengths: array[int]

    @classmethod
    def of(cls, contents: Sequence[bytes]) -> Contents:
        lengths = array("I", map(len, contents))
        return cls(b"".join(contents), array("Q", accumulate(lengths[:-1], initial=0)), lengths)

    def each(self) -> list[bytes]:
        return [self.memory[at : at + size] for at, size in zip(self.offsets, self.lengths, strict=True)]


class TableRows(NamedTuple):
    """Rows of a journal's table, in columns."""

    ids: Sequence[int]
    kinds: Sequence[int]
    txs: Sequence[int]
    user_types: Sequence[int]
    contents: Sequence[bytes] | Contents
    """Of a PREPARE what it says beside, else the body."""

    def each(self) -> Iterator[tuple[int, int, int, int, bytes]]:
        contents = self.contents.each() if isinstance(self.contents, Contents) else self.contents
        return zip(self.ids, self.kinds, self.txs, self.user_types, contents, strict=True)


def table_records(
    counts: Counts, rows: TableRows, *, first: int, rid: int, room_bytes: int, empty: bool
) -> tuple[Rewritten, int]:
    """The records that rows from number `first` on say, and the number of the next one; see
    `rewrite_journal`.
    """
    place = _place(first, rid, room_bytes, empty=empty)
    out = ffi.gc(ffi.new("jfs_older_out *"), lib.jfs_older_free)
    contents = rows.contents if isinstance(rows.contents, Contents) else Contents.of(rows.contents)
    columns = [one if isinstance(one, array) else array("q", one) for one in rows[:4]]
    given = _rows_of(columns, contents)
    check(lib.jfs_older_table(counts.pointer, given[0], place, out), "reading rows of a table")
    return Rewritten(out), place.next


def copied_rows(copied: bytes, count: int, id_max: int) -> tuple[TableRows, array[int]] | None:
    """So many rows as PostgreSQL copies them in binary (see `jfs_older_copied`), and the sequence number of
    each. None: one is not as brokers write them, or has an id beyond `id_max`.
    """
    ids, kinds, txs, types, seqs = (array("q", bytes(8 * count)) for _ in range(5))
    contents = Contents(copied, array("Q", bytes(8 * count)), array("I", bytes(4 * count)))
    given = _rows_of((ids, kinds, txs, types), contents)
    status = lib.jfs_older_copied(given[1], len(copied), id_max, given[0], _view("int64_t[]", seqs))
    if status == lib.JFS_MALFORMED:
        return None
    check(status, "reading rows of a table")
    return TableRows(ids, kinds, txs, types, contents), seqs


def _rows_of(columns: Sequence[array[int]], contents: Contents) -> tuple[Any, ...]:
    """For C; what lies behind the first is what that points to."""
    memory = _view("uint8_t[]", contents.memory)
    numbers = [_view("int64_t[]", one) for one in columns]
    lengths = _view("uint64_t[]", contents.offsets), _view("uint32_t[]", contents.lengths)
    given = (*numbers, *lengths, memory, len(contents.memory), len(contents.lengths))
    return ffi.new("jfs_older_rows *", given), memory, given


def rewrite_page(file: MappedFile, *, flags: int = 0, routes: Routes | None = None) -> Rewritten:
    """A page of the older layout. Records keep their numbers. `routes` are for pages whose records name no
    queues.
    """
    if routes is not None:
        flags |= lib.JFS_OLDER_UNROUTED
    starts, queues = array("I", [0]), array("q")
    for one in routes or ():
        queues.extend(one)
        starts.append(len(queues))
    routed = ffi.from_buffer("int64_t[]", queues) if queues else ffi.NULL
    from_ = ffi.from_buffer("uint32_t[]", starts)
    return _rewritten(
        file,
        lambda out: lib.jfs_older_page(
            file.pointer, file.size_bytes, flags, routed, from_, len(starts) - 1, out
        ),
    )


def _rewritten(file: MappedFile, rewrite: Callable[[Any], int]) -> Rewritten:
    out = ffi.gc(ffi.new("jfs_older_out *"), lib.jfs_older_free)

    def attempt() -> Rewritten:
        check(rewrite(out), f"reading {file.path}")
        return Rewritten(out)

    return file.reading(attempt)


# The journals of ActiveMQ 5 taken apart by the C core, many commands at a time.

ROWS: Final = 4096
"""Commands that the core is asked for at once."""

_ROW: Final = struct.Struct("=14Iq")
assert _ROW.size == ffi.sizeof("jfs_replay_row"), "the core was built for another layout of rows"


class Row(NamedTuple):
    """One command of a file, as offsets and lengths in it. What it does not have lies at 0."""

    start: int
    """KahaDB: of its record; AMQ: of the command."""
    command: int
    offset: int
    """Of its fields (KahaDB), or from its type on (AMQ)."""
    length: int
    usual: int
    """What follows is known."""
    transaction: int
    transaction_bytes: int
    destination: int
    destination_bytes: int
    id: int
    """KahaDB: the text; AMQ: the id of the producer, from its type on."""
    id_bytes: int
    extra: int
    """KahaDB: of an add the message, of a remove the subscription; AMQ: name and client of one."""
    extra_bytes: int
    reserved: int
    sequence: int
    """AMQ: of the message among its producer's."""


def kahadb_rows(content: bytes, at: int) -> tuple[Iterator[Row], int]:
    """Commands of a file from an offset on, and where what follows is for somebody else to look at, or for
    the next call.
    """
    return _rows(lib.jfs_replay_kahadb, content, at)


def amq_rows(content: bytes, at: int) -> tuple[Iterator[Row], int]:
    """The same of a data log."""
    return _rows(lib.jfs_replay_amq, content, at)


def _rows(take: Any, content: bytes, at: int) -> tuple[Iterator[Row], int]:
    rows, count = ffi.new("jfs_replay_row[]", ROWS), ffi.new("uint32_t *")
    place = ffi.new("uint64_t *", at)
    check(take(ffi.from_buffer(content), len(content), place, rows, ROWS, count), "reading a journal")
    found = bytes(ffi.buffer(rows, count[0] * _ROW.size))
    return map(Row._make, _ROW.iter_unpack(found)), int(place[0])


# Messages of ActiveMQ 5 as records, made by the C core many at a time (docs/format/kahadb.md).

KAHADB: int = lib.JFS_OPENWIRE_KAHADB
AMQ: int = lib.JFS_OPENWIRE_AMQ
"""How the length of a message is found where nothing else says it."""


class OpenWireBatch:
    """Messages by where they lie, in the order in which they are to be written."""

    def __init__(self, *, layout: int, topic: bool) -> None:
        self._layout = layout
        self._topic = topic
        self.files: dict[int, int] = {}
        """Numbers of files, as messages name them, to the place in `_mapped`."""
        self._mapped: list[tuple[Any, int]] = []
        self._file = array("I")
        self._offset = array("Q")
        self._length = array("I")
        self._address = array("I")
        self._starts = array("I", [0])
        self._queues = array("q")
        self._addresses: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offset)

    def file(self, number: int, file: MappedFile) -> None:
        """Messages of file `number` lie in it."""
        self.files[number] = len(self._mapped)
        self._mapped.append((file.pointer, file.size_bytes))

    def add(self, places: Sequence[tuple[int, int, int]], address: bytes, queues: Sequence[int]) -> None:
        """Messages that all are for these queues, by file, offset and length, which is 0 where only what lies
        around it says so. `address` is encoded, a nullable SimpleString.
        """
        count = len(places)
        numbers, offsets, lengths = zip(*places, strict=True)
        self._file.extend(map(self.files.__getitem__, numbers))
        self._offset.extend(offsets)
        self._length.extend(lengths)
        self._address.extend([self._addresses.setdefault(address, len(self._addresses))] * count)
        first, each = len(self._queues), len(queues)
        self._queues.extend(array("q", queues) * count)
        self._starts.extend(first + each * number for number in range(1, count + 1))

    def records(
        self, first: int, *, message_id: int, rid: int, room_bytes: int, body_bytes_max: int
    ) -> tuple[Rewritten, int]:
        """Records of the messages from number `first` on, as many as are usual, can be read and fit into the
        room that the file has; and the number of the first of which none was made.
        """
        starts, encoded = array("I", [0]), bytearray()
        for address in self._addresses:
            encoded += address
            starts.append(len(encoded))
        files = ffi.new("const uint8_t *[]", [pointer for pointer, _ in self._mapped])
        sizes = ffi.new("uint64_t[]", [size_bytes for _, size_bytes in self._mapped])
        batch = ffi.new("jfs_openwire_batch *")
        kept = [
            _view("uint32_t[]", self._file),
            _view("uint64_t[]", self._offset),
            _view("uint32_t[]", self._length),
            _view("uint32_t[]", self._address),
            _view("uint32_t[]", self._starts),
            _view("int64_t[]", self._queues),
            _view("uint8_t[]", encoded),
            _view("uint32_t[]", starts),
        ]
        batch.file, batch.offset, batch.length, batch.address, batch.starts, batch.queues = kept[:6]
        batch.addresses, batch.address_starts = kept[6:]
        batch.files, batch.file_bytes, batch.file_count = files, sizes, len(self._mapped)
        batch.count, batch.address_count, batch.queue_count = len(self), len(starts) - 1, len(self._queues)
        batch.layout, batch.topic, batch.rid = self._layout, self._topic, rid
        batch.room_bytes, batch.body_bytes_max = room_bytes, body_bytes_max
        progress = ffi.new("jfs_openwire_progress *")
        progress.next, progress.message_id = first, message_id
        out = ffi.gc(ffi.new("jfs_older_out *"), lib.jfs_older_free)
        status = lib.jfs_openwire_records(batch, progress, out)
        if status != lib.JFS_TORN:
            check(status, "reading messages of ActiveMQ")
        out.size = out.whole
        return Rewritten(out), int(progress.next)


def _view(kind: str, content: Any) -> Any:
    return ffi.from_buffer(kind, content) if len(content) else ffi.NULL
