"""Lists handed out by the C core: it fills what room there is, and says how much all would take."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from journalfs.engine._native import ffi
from journalfs.engine.status import FULL, check

ROOM_FIRST: Final = 64
"""Room of the first attempt where nothing is known of how much there is."""

Fill: TypeAlias = Callable[[Any, int, Any], int]
"""`fill(out, capacity, count)` of the core: a status, and in `count[0]` how many there are."""


def u32_pointer(values: array[int]) -> Any:
    """The items of an array('I') for C; NULL if it has none."""
    return ffi.from_buffer("uint32_t[]", values) if len(values) else ffi.NULL


def kept_pointer(content: Any) -> Any:
    """The bytes of a buffer for C, for as long as the pointer is kept. A view is copied: CPython 3.11 ends
    the process when it finds a memoryview and a pointer to it in garbage that refers to itself.
    """
    return ffi.from_buffer("uint8_t[]", bytes(content) if isinstance(content, memoryview) else content)


def index_list(fill: Fill, doing: str, *, room: int = ROOM_FIRST) -> array[int]:
    """A list of u32 indexes as array('I')."""
    count = ffi.new("uint32_t *")
    while True:
        out = array("I", bytes(4 * room))
        status = fill(u32_pointer(out), room, count)
        if status == FULL and count[0] > room:
            room = count[0]
            continue
        check(status, doing)
        del out[count[0] :]
        return out


def struct_list(kind: str, fill: Fill, doing: str) -> Iterator[Any]:
    """C structs one by one. An item is a reference into memory that this iterator owns: use it up before the
    next, and do not keep it.
    """
    out, count = _structs(kind, fill, doing)
    for i in range(count):
        yield out[i]


def struct_array(kind: str, fill: Fill, doing: str) -> Any:
    """C structs in memory that the caller owns."""
    return _structs(kind, fill, doing)[0]


def struct_bytes(kind: str, fill: Fill, doing: str, *, room: int = ROOM_FIRST) -> bytes:
    """C structs one behind the other, as they lie in memory."""
    out, count = _structs(kind, fill, doing, room)
    return bytes(ffi.buffer(out, count * ffi.sizeof(kind)))


def _structs(kind: str, fill: Fill, doing: str, room: int = ROOM_FIRST) -> tuple[Any, int]:
    """Memory with room for all that there are, and how many there are."""
    count = ffi.new("uint32_t *")
    while True:
        out = ffi.new(f"{kind}[]", room)
        status = fill(out, room, count)
        if status == FULL and count[0] > room:
            room = count[0]
            continue
        check(status, doing)
        return out, count[0]
