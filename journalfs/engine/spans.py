"""Mapped files by slot, in the form in which the core takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from journalfs.engine._native import ffi
from journalfs.engine.buffers import MappedFile

ROOM_FIRST = 16


def spans_of(files: Mapping[int, MappedFile]) -> tuple[Any, int]:
    """A `jfs_span[]`, by slot, and its length. Who passes it to the core holds the files."""
    count = max(files, default=-1) + 1
    spans = ffi.new("jfs_span[]", max(count, 1))
    for slot, file in files.items():
        _fill(spans[slot], file.pointer, file.size_bytes)
    return spans, count


def _fill(span: Any, pointer: Any, size_bytes: int) -> None:
    span.bytes = pointer
    span.size_bytes = size_bytes


class NamedFiles:
    """Files that are named one by one, whose spans are kept: one more does not cost a look at all of them."""

    __slots__ = ("_pointers", "_room", "_spans", "files")

    def __init__(self, files: Iterable[tuple[int, MappedFile]] = ()) -> None:
        self.files: dict[int, MappedFile] = {}
        self._room = ROOM_FIRST
        self._spans: Any = ffi.new("jfs_span[]", self._room)
        self._pointers: dict[int, Any] = {}
        """They own what the spans point to: a file may be mapped anew in its place."""
        for slot, file in files:
            self.put(slot, file)

    def put(self, slot: int, file: MappedFile) -> None:
        """Name a file as it is mapped now; again when it was mapped anew."""
        if slot >= self._room:
            self._grow(slot + 1)
        self.files[slot] = file
        self._pointers[slot] = file.pointer
        _fill(self._spans[slot], file.pointer, file.size_bytes)

    def drop(self, slot: int) -> None:
        if self.files.pop(slot, None) is not None:
            _fill(self._spans[slot], ffi.NULL, 0)
            del self._pointers[slot]

    def spans(self) -> tuple[Any, int]:
        """As `spans_of` gives them; good until the next change."""
        return self._spans, self._room

    def _grow(self, needed: int) -> None:
        room = max(needed, 2 * self._room)
        spans = ffi.new("jfs_span[]", room)
        ffi.memmove(spans, self._spans, ffi.sizeof("jfs_span") * self._room)
        self._spans, self._room = spans, room
