"""Where the live messages of one queue lie in one file: what a task gets to know, small enough to be sent."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql.datasource import InputPartition

from journalfs.engine.buffers import MappedFile
from journalfs.engine.columns import LINE, Array, address_of, first_out_of_place, payload_bytes
from journalfs.errors import StaleView
from journalfs.ids import rid_of

TASK_BYTES_MOST: Final = 512 << 20
"""Starting a task costs Spark and Python together about as much as reading a fortieth of this."""
TASK_BYTES_LEAST: Final = 16 << 20
PIECE_BYTES: Final = 16 << 20
"""What is not cut further, so that tasks can be about equal."""

MARKED_BYTES: Final = 4096
"""Of a payload: its headers, with the time of sending, and the beginning of the body."""

_SAME, _EACH = b"=", b"z"
_FIELDS: Final = ("payload_bytes", "source", "delivery_count", "scheduled_ms")


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of one queue in one journal or page file, in the order of their arrival."""

    path: str
    file_id: int | None
    """Of a journal file whose header can be read: a broker that uses the file again changes it."""
    queue: str
    count: int
    payload_bytes: int
    """Of all of them, as they are stored and without the bodies of large messages."""
    packed: tuple[bytes, ...]
    """One column after the other, see `_pack`."""
    large: bytes
    """Which of them are large messages, a bit each; empty: none."""
    in_page: bool = False
    mark: int = 0
    """Sum of the bytes of the first and of the last message (`mark_of`), which another store's file of the
    same ids and lengths has not.
    """

    @classmethod
    def of(
        cls,
        path: str,
        file_id: int | None,
        queue: str,
        *,
        lines: Array,
        offsets: Array,
        large: Array,
        in_page: bool = False,
    ) -> Piece:
        """`offsets` say where in the file the payloads of the lines begin, which are mapped."""
        sizes = lines["payload_bytes"].astype("i8")
        ends = offsets.astype("i8") + sizes
        # What lies between a message and the one before it is mostly the same all along, ids too.
        between = offsets.astype("i8")
        between[1:] -= ends[:-1]
        ids = np.diff(lines["record_id"], prepend=0)
        return cls(
            path=path,
            file_id=file_id,
            queue=queue,
            count=len(lines),
            payload_bytes=int(lines["payload_bytes"].sum(dtype="u8")),
            packed=tuple(_pack(column) for column in (between, ids, *(lines[name] for name in _FIELDS))),
            large=np.packbits(large).tobytes() if large.any() else b"",
            in_page=in_page,
            mark=mark_of(lines),
        )

    def lines(self, file: MappedFile) -> Array:
        """The messages as lines (dtype `LINE`) that point into the mapped file. Raises `StaleView` when the
        file is too short to be the one that was looked at.
        """
        between, ids, *columns = self.packed
        found = np.zeros(self.count, LINE)
        for name, column in zip(_FIELDS, columns, strict=True):
            found[name] = _unpack(column, LINE[name])
        found["record_id"] = np.cumsum(np.broadcast_to(_unpack(ids, np.dtype("i8")), self.count))
        steps = np.zeros(self.count, "i8")
        steps[1:] = found["payload_bytes"][:-1]
        steps += _unpack(between, np.dtype("i8"))
        offsets = np.cumsum(steps).astype("u8")
        if self.count and int((offsets + found["payload_bytes"]).max()) > file.size_bytes:
            raise StaleView(self.path, missing=f"it has {file.size_bytes} bytes")
        found["payload"] = offsets + np.uint64(address_of(file.pointer))
        return found

    def check(self, lines: Array, file: MappedFile) -> None:
        """Raise `StaleView` unless each of the lines lies behind the head of its record, and the messages are
        those that were looked at.
        """
        rid = None if self.file_id is None else rid_of(self.file_id)
        wrong = first_out_of_place(lines, file.pointer, rid, in_page=self.in_page) if len(lines) else None
        if wrong is not None:
            at = int(lines["payload"][wrong]) - address_of(file.pointer)
            which = "the message" if self.in_page else f"message {int(lines['record_id'][wrong])}"
            raise StaleView(self.path, missing=f"{which} at byte {at} is not there")
        if mark_of(lines) != self.mark:
            raise StaleView(self.path, missing="other messages are in it")

    def is_large(self) -> Array:
        """Of each message, whether its body is in a file of its own."""
        if not self.large:
            return np.zeros(self.count, "?")
        return np.unpackbits(np.frombuffer(self.large, "u1"), count=self.count).astype("?")


def mark_of(lines: Array) -> int:
    """Return a sum of the beginning of the first and of the last payload; 0 of none. Raises FileTorn."""
    found = 0
    for index in (0, len(lines) - 1) if len(lines) else ():
        found = zlib.crc32(payload_bytes(lines, index, MARKED_BYTES), found)
    return found


def _pack(column: Array) -> bytes:
    """A mark, and then the value where it is the same all along, else all values, compressed."""
    if len(column) and bool((column == column[0]).all()):
        return _SAME + column[:1].tobytes()
    return _EACH + zlib.compress(column.tobytes(), 1)


def _unpack(packed: bytes, kind: np.dtype[Any]) -> Array:
    """All values, or the one that stands for all."""
    content = packed[1:] if packed.startswith(_SAME) else zlib.decompress(memoryview(packed)[1:])
    return np.frombuffer(content, kind)


class Pieces(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: Sequence[Piece], large_dir: str) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)
        self.large_dir = large_dir

    def __repr__(self) -> str:
        files = sorted({piece.path for piece in self.pieces})
        return f"Pieces({sum(piece.count for piece in self.pieces)} messages of {', '.join(files)})"


def split(lines: Array, bytes_max: int) -> Iterator[slice]:
    """Cut messages into stretches of about `bytes_max` bytes."""
    ends = np.cumsum(lines["payload_bytes"], dtype="i8")
    begin = 0
    while begin < len(lines):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + bytes_max, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def task_count(bytes_read: int, bytes_wanted: int | None, cores: int) -> int:
    """How many tasks read so much: of about `bytes_wanted` each, or so many that as many cores as the driver
    has are busy together to the end.
    """
    if bytes_wanted is not None:
        return max(1, math.ceil(bytes_read / bytes_wanted))
    if bytes_read <= cores * TASK_BYTES_LEAST:
        return max(1, bytes_read // TASK_BYTES_LEAST)
    return math.ceil(bytes_read / (cores * TASK_BYTES_MOST)) * cores


def partitions(pieces: Sequence[Piece], large_dir: str, tasks: int) -> list[Pieces]:
    """Share pieces out to at most so many tasks, about evenly, in the order of their files."""
    total = sum(piece.payload_bytes for piece in pieces)
    held: dict[int, list[Piece]] = {}
    before = 0
    for piece in sorted(pieces, key=_by_file):
        middle = before + piece.payload_bytes // 2
        held.setdefault(min(middle * tasks // max(total, 1), tasks - 1), []).append(piece)
        before += piece.payload_bytes
    return [Pieces(one, large_dir) for one in held.values()]


def _by_file(piece: Piece) -> tuple[Any, ...]:
    return (piece.path, piece.queue)
