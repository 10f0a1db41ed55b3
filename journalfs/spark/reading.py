"""What a task does: maps files, lets pass what is asked for, and makes record batches of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql.types import StructType

from journalfs.bodies.directory import LargeDirectory
from journalfs.engine.buffers import MappedFile
from journalfs.engine.columns import Array, lines_pointer
from journalfs.engine.lines import LineBatch
from journalfs.engine.status import CoreRefused
from journalfs.errors import Damaged, Gone, RecordTooLarge, StaleView, SystemFailure
from journalfs.format.journal_file import read_header
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.live.large_bodies import body_of
from journalfs.message.envelope import decoder_for
from journalfs.selector import Selector, compile_selector
from journalfs.spark.arrow import Reading
from journalfs.spark.pieces import Piece, Pieces
from journalfs.spark.schema import column_name

ROWS_AT_ONCE: Final = 16_384
LARGE_AT_ONCE: Final = 64
"""Bodies mapped, or inflated in memory, at a time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job asks for: sent to every task."""

    schema: StructType
    batch_bytes: int
    selector: str = ""


def read_pieces(wanted: Wanted, pieces: Pieces) -> Iterator[Any]:
    """The messages as record batches. Raises `Gone` and `StaleView` when a file was taken away, used again or
    changed since the job was planned.
    """
    reading = _PieceReading(wanted, LargeDirectory(Path(pieces.large_dir)))
    path, mapped = "", None
    for piece in pieces.pieces:
        if mapped is None or piece.path != path:
            path, mapped = piece.path, _mapped(piece.path)
        yield from reading.batches(piece, mapped)


def _mapped(path: str) -> MappedFile:
    try:
        return MappedFile(path)
    except FileNotFoundError:
        raise Gone(path) from None
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="read the messages in it") from error


class _PieceReading:
    def __init__(self, wanted: Wanted, bodies: LargeDirectory) -> None:
        self._wanted = wanted
        self._bodies = bodies
        self._reading = Reading(wanted.schema)
        self._selector = compile_selector(wanted.selector) if wanted.selector else None

    def batches(self, piece: Piece, mapped: MappedFile) -> Iterator[Any]:
        lines, large = piece.lines(mapped), piece.is_large()
        _check(piece, mapped)
        piece.check(lines, mapped)
        for chunk in _chunks(large):
            yield from self._chunk(piece, mapped, lines[chunk], large[chunk])

    def _chunk(self, piece: Piece, mapped: MappedFile, lines: Array, large: Array) -> Iterator[Any]:
        bodies = self._attach(lines, np.flatnonzero(large))
        if self._selector is not None:
            kept = _accepted(self._selector, lines, piece.queue)
            lines = np.ascontiguousarray(lines[kept])
        while len(lines):
            batch, count = self._read(piece, lines)
            # Only what was read before the header changed is what it seems to be.
            _check(piece, mapped)
            yield batch
            lines = lines[count:]
        del bodies

    def _read(self, piece: Piece, lines: Array) -> tuple[Any, int]:
        try:
            return self._reading.read(lines, piece.queue, self._wanted.batch_bytes)
        except CoreRefused as error:
            size = int(lines["payload_bytes"][0]) + int(lines["large_bytes"][0])
            raise RecordTooLarge(size, (1 << 31) - 1) from error

    def _attach(self, lines: Array, large: Array) -> LineBatch | None:
        """Let lines point to the bodies of large messages; they stay as long as what is returned."""
        if not len(large) or not self._needs_bodies:
            return None
        batch = LineBatch(lines_pointer(lines), len(lines), queue=None)
        for index in map(int, large):
            try:
                body, expected = body_of(self._bodies, batch, index)
            except Damaged:
                body, expected = None, None
            batch.set_large(index, body)
            if body is not None:
                body.detach()
                if expected is not None and body.size_bytes < expected:
                    lines["large_missing"][index] = 1
        return batch

    @property
    def _needs_bodies(self) -> bool:
        names = set(map(column_name, self._wanted.schema.names))
        return bool(self._selector or names & {"body", "bodyBytes", "damage", "rawMessage", "envelope"})


def _chunks(large: Array) -> Iterator[slice]:
    """Stretches of messages with few large ones in each."""
    begin = 0
    at_large = np.flatnonzero(large)
    while begin < len(large):
        end = begin + ROWS_AT_ONCE
        beyond = at_large[at_large >= begin][LARGE_AT_ONCE : LARGE_AT_ONCE + 1]
        if len(beyond):
            end = min(end, int(beyond[0]))
        yield slice(begin, end)
        begin = end


def _accepted(selector: Selector, lines: Array, queue: str) -> Array:
    """Of each message, whether a selector accepts it."""
    decode = decoder_for(selector)
    batch = LineBatch(lines_pointer(lines), len(lines), queue=queue)
    return np.fromiter(
        (selector.accepts(decode(batch, index)) for index in range(len(lines))), "?", len(lines)
    )


def _check(piece: Piece, mapped: MappedFile) -> None:
    if piece.file_id is None:
        return
    if read_header(mapped.copy(0, JOURNAL_HEADER_BYTES)).file_id != piece.file_id:
        raise StaleView(piece.path)
