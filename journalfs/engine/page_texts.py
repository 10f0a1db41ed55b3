"""Text messages, many at once, from the UTF-8 that was written to the records of pages (in C)."""

from __future__ import annotations

from typing import Any

from journalfs.engine._native import ffi
from journalfs.engine.lines import uninitialized
from journalfs.engine.stage import NO_ROOM
from journalfs.engine.status import check
from journalfs.engine.text_batch import TextBatch


class PageTexts:
    """A buffer in which batches become records, a piece at a time. Whoever has a piece is done with it before
    the next one is made.
    """

    __slots__ = ("_keep", "_room")

    def __init__(self, piece_bytes: int) -> None:
        """`piece_bytes`: length of a piece at most, unless one record alone is longer."""
        self._room: Any = ffi.new("jfs_page_room *")
        self._take(piece_bytes)

    def _take(self, buffer_bytes: int) -> None:
        self._keep = uninitialized("uint8_t[]", buffer_bytes)
        self._room.buffer, self._room.buffer_bytes = self._keep, buffer_bytes

    def next(
        self, batch: TextBatch, *, page_bytes: int, page_records: int, page_bytes_max: int
    ) -> tuple[memoryview, int]:
        """Records of the next messages of a batch, as many as go into a piece and into a page that has so
        many bytes and records already, and how many records they are: none where the page is full.
        """
        room, used = self._room, ffi.new("uint64_t *")
        room.page_bytes, room.page_records, room.page_bytes_max = page_bytes, page_records, page_bytes_max
        status = batch.page(room, used)
        if status == NO_ROOM and not batch.staged_records and batch.needed_bytes:
            self._take(batch.needed_bytes)
            status = batch.page(room, used)
        if status != NO_ROOM:
            check(status, "making records of a page")
        return memoryview(ffi.buffer(self._keep, used[0])), batch.staged_records
