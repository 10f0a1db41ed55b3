"""Messages as elements of an XML export, those of them that are usual."""

from __future__ import annotations

from typing import BinaryIO, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import uninitialized

ROOM_BYTES: Final = 2 << 20
"""Of elements that are written together; the longest that is made here has half of it."""


class XmlElements:
    """Makes elements and writes many of them at once. Who writes to `out` beside calls `flush` first."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._room = uninitialized("uint8_t[]", ROOM_BYTES)
        self._used = 0
        self._written = ffi.new("uint64_t *")

    def message(self, file: MappedFile, offset: int, size_bytes: int, message_id: int, queues: bytes) -> bool:
        """A message by where its payload lies. False: it is anything but usual, and nothing was made."""
        if self._used > ROOM_BYTES // 2:
            self.flush()
        status = lib.jfs_xml_message(
            file.pointer + offset,
            size_bytes,
            message_id,
            queues,
            len(queues),
            self._room + self._used,
            ROOM_BYTES - self._used,
            self._written,
        )
        self._used += self._written[0]
        return bool(status == lib.JFS_OK and self._written[0])

    def flush(self) -> None:
        self._out.write(ffi.buffer(self._room, self._used))
        self._used = 0
