"""Sets of ids, 8 bytes each where they are ascending, otherwise 11 to 21 (in C)."""

from __future__ import annotations

from array import array
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.status import check


class IdSet:
    __slots__ = ("_pointer",)

    def __init__(self, ids: array[int]) -> None:
        out = ffi.new("jfs_ids **")
        check(lib.jfs_ids_new(out), "making a set of ids")
        self._pointer: Any = ffi.gc(out[0], lib.jfs_ids_free)
        if ids:
            view = ffi.from_buffer("int64_t[]", ids)
            check(lib.jfs_ids_fill(self._pointer, view, len(ids)), "filling a set of ids")

    def without(self, ids: array[int]) -> array[int]:
        """Those that are not in the set, in their order."""
        out = array("q", bytes(8 * len(ids)))
        if not ids:
            return out
        view, target = ffi.from_buffer("int64_t[]", ids), ffi.from_buffer("int64_t[]", out)
        count = lib.jfs_ids_without(self._pointer, view, len(ids), target)
        ffi.release(target)
        del out[count:]
        return out
