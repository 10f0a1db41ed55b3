"""Bodies that clients compressed: any range of the inflated bytes, in a few megabytes of memory.

The C core inflates a stretch when it is read, and keeps places in the stream to go on from. The length of a
body must be known before: it is counted in steps, so that the caller may stop in between.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

from journalfs import door
from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.status import FULL, check
from journalfs.errors import Damaged

STEP_BYTES: Final = 16 << 20
"""Inflated at a call: some ten milliseconds."""


def inflate_bytes(content: bytes, bytes_max: int) -> bytes:
    """Return the inflated bytes of a stream in memory. Raises ValueError if it is no stream, or inflates to
    more than `bytes_max`.
    """
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(content, bytes_max)
    except zlib.error as error:
        raise ValueError(f"no zlib stream: {error}") from None
    if not stream.eof:
        raise ValueError(f"a zlib stream that ends early, or of more than {bytes_max} bytes")
    return inflated


class Inflating:
    """A zlib stream (RFC 1950) whose length is not known yet. Bytes behind its end are ignored,
    as in a broker.
    """

    def __init__(self, path: Path, *, bytes_max: int) -> None:
        """Raises OSError."""
        self.path = path
        self._bytes_max = bytes_max
        out = ffi.new("jfs_inflated **")
        descriptor = door.open_file(path)
        check(lib.jfs_inflated_new(descriptor, out), f"inflating {path}")
        self._body: Any = ffi.gc(out[0], lib.jfs_inflated_free)
        self.size_bytes = 0

    def step(self, step_bytes: int = STEP_BYTES) -> bool:
        """Count on for a while; whether that was all. Raises `Damaged` where the stream is broken, ends
        early, or is longer than it may be. May be called in any thread.
        """
        size_bytes, consumed = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        status = lib.jfs_inflated_count(self._body, step_bytes, self._bytes_max, size_bytes, consumed)
        self.size_bytes = int(size_bytes[0])
        if status == FULL:
            return False
        if status == lib.JFS_RANGE:
            reason = f"the compressed body inflates to more than the {self._bytes_max} bytes it may have"
            raise Damaged(self.path, int(consumed[0]), reason)
        if status == lib.JFS_MALFORMED:
            reason = "the compressed body is broken, or ends before its stream does"
            raise Damaged(self.path, int(consumed[0]), reason)
        check(status, f"inflating {self.path}")
        return True

    def expect(self, size_bytes: int) -> None:
        """Set a length that was counted before. If the stream is shorter, reading behind its end fails as for
        a torn file.
        """
        self.size_bytes = size_bytes
        lib.jfs_inflated_expect(self._body, size_bytes)

    def shown(self) -> InflatedBody:
        """Return the inflated body, once its length is known."""
        out = ffi.new("const uint8_t **")
        check(lib.jfs_inflated_show(self._body, out), f"mapping {self.path}")
        body = self._body
        # Whoever keeps the pointer keeps the body.
        pointer = ffi.gc(out[0], lambda _: ffi.release(body)) if self.size_bytes else ffi.NULL
        return InflatedBody(self.path, pointer, self.size_bytes)


class InflatedBody(MappedFile):
    """Inflated content, for what works on mapped files."""

    __slots__ = ()

    def __init__(self, path: Path, pointer: Any, size_bytes: int) -> None:
        self.path = path
        self._fd = -1
        self.pointer = pointer
        self._whole = None
        self.size_bytes = size_bytes
        self.unreadable = ()
        self.holes = ()
        self.is_copy = False

    def mend(self) -> bool:
        """A stream of which something is missing is broken from there on."""
        return False
