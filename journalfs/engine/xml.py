"""Messages as elements of an XML export, those of them that are usual, many at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.lines import uninitialized
from journalfs.engine.status import OK

ROOM_BYTES: Final = 1 << 20
"""Of elements that are written together, so few that the processor still has them then. Longer ones are not
made here.
"""
LEFT_OUT: Final[int] = lib.JFS_XML_LEFT_OUT


class XmlElements:
    """Makes elements and writes them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._room = uninitialized("uint8_t[]", ROOM_BYTES)
        self._written = ffi.new("uint64_t *")
        self._next = ffi.new("uint64_t *")

    def write(
        self,
        lines: Any,
        ids: array[int],
        first: int,
        queues: Sequence[bytes],
        numbers: array[int] | None,
    ) -> int:
        """Write messages from number `first` on: a `jfs_line[]`, and their ids. `numbers` says which of
        `queues` is of which message, or `LEFT_OUT`; None: all have the first. Returns the number of the next
        one, which is anything but usual or cannot be read, or how many there are.
        """
        texts = b"".join(queues)
        starts = array("I", [0])
        for text in queues:
            starts.append(starts[-1] + len(text))
        held = [ffi.from_buffer("int64_t[]", ids), ffi.from_buffer("uint8_t[]", texts)]
        held += [ffi.from_buffer("uint32_t[]", starts)]
        numbered = ffi.NULL if numbers is None else ffi.from_buffer("int32_t[]", numbers)
        messages = ffi.new("jfs_xml_messages *", [lines, held[0], len(ids), *held[1:], numbered])
        self._next[0] = first
        while first < len(ids):
            status = lib.jfs_xml_elements(messages, self._next, self._room, ROOM_BYTES, self._written)
            if status != OK:
                return first
            first = self._next[0]
            if not self._written[0]:
                break
            self._out.write(ffi.buffer(self._room, self._written[0]))
        return first
