"""Envelope lines and message files, rendered in C a window at a time (docs/reference/envelope.md)."""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile, kept_pointer
from journalfs.engine.status import check
from journalfs.limits import LONG_BODY_BYTES

SOURCE_PERSISTER: Final[int] = lib.JFS_SOURCE_PERSISTER
SOURCE_CORE_LARGE: Final[int] = lib.JFS_SOURCE_CORE_LARGE
SOURCE_UNREADABLE: Final[int] = lib.JFS_SOURCE_UNREADABLE
"""Added to one of them: zeros stand for a part that the disk did not give."""
MESSAGE_MISNAMED: Final[int] = lib.JFS_MESSAGE_MISNAMED
"""Among flags of a message: see `Measure.misnamed`."""

uninitialized = ffi.new_allocator(should_clear_after_alloc=False)
"""`ffi.new` for buffers that are filled at once."""


class Suffix(IntEnum):
    """The content of a message's own file, named by the suffix of that file."""

    TXT = 0
    JSON = 1
    BIN = 2
    SER = 3

    @property
    def text(self) -> str:
        return f".{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Measure:
    """The facts about a message that are known without rendering it again. Times in milliseconds since 1970,
    0: none.
    """

    tail_bytes: int
    """Bytes of its line from `,"address"` up to, not including, the closing brace."""
    body_bytes: int
    """Bytes of its own file."""
    message_id: int
    timestamp_ms: int
    expiration_ms: int
    scheduled_ms: int
    """The message's own schedule; the queue's (record type 36) overrides it."""
    priority: int
    suffix: Suffix
    durable: bool
    large: bool
    damaged: bool
    amqp: bool
    compressed: bool
    """The body file of a large message is a zlib stream, to be inflated before the message is rendered."""
    misnamed: bool
    """True if the message says another id than its record, or none: its first bytes were overwritten."""
    pointer: Any
    """The C struct, for `LiveState.set_measure`."""


def line_prefix(queue: str | None) -> bytes:
    """Return the beginning of every line of a queue. Without a queue its name is null."""
    # A name may hold lone surrogates, which only escapes can carry.
    try:
        return b'{"queue":' + json.dumps(queue, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return b'{"queue":' + json.dumps(queue).encode()


def measure(
    payload: bytes,
    *,
    source: int = SOURCE_PERSISTER,
    large: MappedFile | bytes | None = None,
) -> Measure:
    """Measure one message.

    `payload` is what its record or page entry holds, `large` its body file, inflated if it was compressed.
    Never fails on what the payload holds: `damaged` says that it could not be decoded. Raises FileTorn.
    """
    batch = LineBatch.of_payloads([payload], queue=None, sources=[source])
    if large is not None:
        batch.set_large(0, large)
    return batch.measure(0)


def measure_of(found: Any) -> Measure:
    """The Python form of a `jfs_measure` that nobody else will change."""
    return Measure(
        tail_bytes=found.tail_bytes,
        body_bytes=found.body_bytes,
        message_id=found.message_id,
        timestamp_ms=found.timestamp_ms,
        expiration_ms=found.expiration_ms,
        scheduled_ms=found.scheduled_ms,
        priority=found.priority,
        suffix=Suffix(found.suffix),
        durable=bool(found.flags & lib.JFS_MESSAGE_DURABLE),
        large=bool(found.flags & lib.JFS_MESSAGE_LARGE),
        damaged=bool(found.flags & lib.JFS_MESSAGE_DAMAGED),
        amqp=bool(found.flags & lib.JFS_MESSAGE_AMQP),
        compressed=bool(found.flags & lib.JFS_MESSAGE_COMPRESSED),
        misnamed=bool(found.flags & MESSAGE_MISNAMED),
        pointer=found,
    )


def _counted(count: int) -> bytes:
    return b',"deliveryCount":%d' % count if count else b""


class LineBatch:
    """Consecutive lines, readable at any offset. A line is rendered when it is read.

    `lines` is a C array of `count` `jfs_line` that point into mapped files; `keep` holds the objects that
    must live as long as the batch (the pointers of those files). `starts` holds the offset of each line and
    at last the total size, as an index knows them; without it the messages are measured when the first size
    is asked for.
    """

    __slots__ = (
        "_batch",
        "_body_measures",
        "_cursor",
        "_keep",
        "_large",
        "_lock",
        "_prefix",
        "_starts",
        "_starts_view",
        "count",
        "has_large",
        "has_long",
        "lines",
    )

    def __init__(
        self,
        lines: Any,
        count: int,
        *,
        queue: str | None,
        starts: array[int] | None = None,
        keep: Any = None,
    ) -> None:
        self.lines = lines
        self.count = count
        self._keep = keep
        self._large: dict[int, Any] = {}
        self.has_large = False
        """A body is in a file of its own, or is to be."""
        self.has_long = False
        """To come to a place in one of the lines may take as long as to render millions of bytes."""
        self._body_measures: dict[int, Measure] = {}
        self._lock = threading.Lock()
        self._cursor: Any = None
        self._prefix = line_prefix(queue)
        self._starts: array[int] | None = None
        self._starts_view: Any = None
        self._batch = ffi.new("jfs_lines *")
        self._batch.lines = lines
        self._batch.prefix = ffi.from_buffer("uint8_t[]", self._prefix)
        self._batch.prefix_bytes = len(self._prefix)
        self._batch.count = count
        if starts is not None:
            if len(starts) != count + 1 or starts.itemsize != 8:
                raise ValueError(f"{count} lines need {count + 1} starts of 8 bytes")
            self._use_starts(starts)

    @classmethod
    def of_payloads(
        cls,
        payloads: Sequence[bytes],
        *,
        queue: str | None,
        sources: Sequence[int] | None = None,
        delivery_counts: Sequence[int] | None = None,
        scheduled_ms: Sequence[int] | None = None,
        record_ids: Sequence[int] | None = None,
    ) -> LineBatch:
        """Make a batch of message payloads in memory. Messages of the journal must be given the ids of their
        records.
        """
        lines = ffi.new("jfs_line[]", len(payloads))
        keep = []
        for index, payload in enumerate(payloads):
            pointer = kept_pointer(payload)
            keep.append(pointer)
            line = lines[index]
            line.payload = pointer
            line.payload_bytes = len(payload)
            if sources is not None:
                line.source = sources[index]
            if delivery_counts is not None:
                line.delivery_count = delivery_counts[index]
            if scheduled_ms is not None:
                line.scheduled_ms = scheduled_ms[index]
            if record_ids is not None:
                line.record_id = record_ids[index]
        return cls(lines, len(payloads), queue=queue, keep=keep)

    def _use_starts(self, starts: array[int]) -> None:
        self._starts = starts
        self._starts_view = ffi.from_buffer("uint64_t[]", starts)
        self._batch.starts = self._starts_view

    def set_delivery_count(self, index: int, count: int) -> None:
        """Say that line `index` was delivered so often, unless it says more."""
        line = self.lines[index]
        if count <= line.delivery_count:
            return
        more_bytes = len(_counted(count)) - len(_counted(line.delivery_count))
        line.delivery_count = count
        starts = self._starts
        for at in range(index + 1, self.count + 1) if starts is not None else ():
            starts[at] += more_bytes  # type: ignore[index] # there are some

    def set_large(self, index: int, body: MappedFile | bytes | None) -> None:
        """Give line `index` its large body, inflated if it was compressed. None: the body's
        file is missing.
        """
        line = self.lines[index]
        self.has_large = True
        if body is None:
            line.large = ffi.NULL
            line.large_bytes = 0
            line.large_missing = 1
            self._large.pop(index, None)
        elif isinstance(body, MappedFile):
            # A file of no bytes has no mapping, but is there all the same.
            pointer = body.pointer if body.size_bytes else ffi.from_buffer("uint8_t[]", b"\0")
            line.large = pointer
            line.large_bytes = body.size_bytes
            self._large[index] = pointer
        else:
            pointer = kept_pointer(body or b"\0")
            line.large = pointer
            line.large_bytes = len(body)
            self._large[index] = pointer
        self.has_long = self.has_long or line.large_bytes > LONG_BODY_BYTES
        self._body_measures.pop(index, None)
        self._cursor = None  # it remembers the line as it was

    @property
    def starts(self) -> array[int]:
        """Offset of each line, and at last the total size: `count` + 1 numbers. Raises FileTorn."""
        if self._starts is None:
            starts = array("Q", bytes(8 * (self.count + 1)))
            view = ffi.from_buffer("uint64_t[]", starts)
            check(lib.jfs_lines_starts(self.lines, self.count, len(self._prefix), view), "measuring messages")
            self._use_starts(starts)
            return starts
        return self._starts

    @property
    def size_bytes(self) -> int:
        return self.starts[self.count]

    def read_view(self, offset: int, length: int) -> memoryview:
        """Like `read`, without the last copy."""
        size_bytes = self.size_bytes
        if offset < 0 or length < 0:
            raise ValueError(f"no window: {length} bytes from {offset}")
        length = max(0, min(length, size_bytes - offset))
        if length == 0:
            return memoryview(b"")
        out = uninitialized("uint8_t[]", length)
        written = ffi.new("uint64_t *")
        with _Cursor(self) as cursor:
            check(lib.jfs_lines_read(self._batch, offset, out, length, written, cursor), "rendering messages")
        return memoryview(ffi.buffer(out, written[0]))

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes [offset, offset + length) of all lines together, fewer only at their end.

        Raises FileTorn when a file under the batch was truncated, and CoreRefused when a message is no longer
        what it was when it was measured.
        """
        return bytes(self.read_view(offset, length))

    def prefetch(self, begin: int, end: int) -> None:
        """Begin to read from the disk what rendering bytes [begin, end) will need. Waits for nothing."""
        if self._starts is not None:
            lib.jfs_lines_prefetch(self._batch, begin, end)

    def line(self, index: int) -> bytes:
        """Return line `index`, its newline included."""
        if not 0 <= index < self.count:
            raise IndexError(f"line {index} of {self.count}")
        starts = self.starts
        return self.read(starts[index], starts[index + 1] - starts[index])

    def payload(self, index: int) -> bytes:
        """Return what the record or page entry of message `index` holds. Raises FileTorn."""
        line = self.lines[index]
        out = uninitialized("uint8_t[]", line.payload_bytes)
        check(lib.jfs_copy(out, line.payload, line.payload_bytes), "reading a message")
        return bytes(ffi.buffer(out))

    def measure(self, index: int) -> Measure:
        """Measure message `index`; kept for `read_body`."""
        if not 0 <= index < self.count:
            raise IndexError(f"line {index} of {self.count}")
        known = self._body_measures.get(index)
        if known is None:
            out = ffi.new("jfs_measure *")
            check(lib.jfs_lines_measure(self.lines + index, 1, out), "measuring a message")
            known = self._body_measures[index] = measure_of(out)
        return known

    def measures(self) -> list[Measure]:
        """Measure all messages."""
        out = ffi.new("jfs_measure[]", self.count)
        check(lib.jfs_lines_measure(self.lines, self.count, out), "measuring messages")
        copies = [ffi.new("jfs_measure *", out[index]) for index in range(self.count)]
        return [measure_of(copy) for copy in copies]

    def body_bytes(self, index: int) -> int:
        """Size of the message's own file."""
        return self.measure(index).body_bytes

    def read_body(self, index: int, offset: int, length: int, *, body_bytes: int | None = None) -> bytes:
        """Return bytes [offset, offset + length) of the message's own file, fewer only at its end.

        `body_bytes` is its size where an index knows it; otherwise the message is measured first.
        """
        size_bytes = self.body_bytes(index) if body_bytes is None else body_bytes
        if offset < 0 or length < 0:
            raise ValueError(f"no window: {length} bytes from {offset}")
        length = max(0, min(length, size_bytes - offset))
        if length == 0:
            return b""
        out = uninitialized("uint8_t[]", length)
        written = ffi.new("uint64_t *")
        with _Cursor(self) as cursor:
            check(
                lib.jfs_body_read(self.lines + index, size_bytes, offset, out, length, written, cursor),
                "reading a message",
            )
        return bytes(ffi.buffer(out, written[0]))


class _Cursor:
    """The batch's cursor, or none where another thread is using it: then long lines are only slower."""

    __slots__ = ("_batch", "_held")

    def __init__(self, batch: LineBatch) -> None:
        self._batch = batch
        self._held = False

    def __enter__(self) -> Any:
        batch = self._batch
        self._held = batch._lock.acquire(blocking=False)
        if not self._held:
            return ffi.NULL
        if batch._cursor is None:
            out = ffi.new("jfs_cursor **")
            check(lib.jfs_cursor_new(out), "preparing to render")
            batch._cursor = ffi.gc(out[0], lib.jfs_cursor_free)
        return batch._cursor

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._batch._lock.release()
