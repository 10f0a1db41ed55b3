"""The fields of fixed size of many messages, as lists.

`journalfs.python.rows` calls it. Nothing here reads a body, and nothing needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.status import check

_ROW_BYTES: Final = 40
_WORDS: Final = _ROW_BYTES // 8
_PRIORITY_AT: Final[int] = ffi.offsetof("jfs_row", "priority")
_FLAGS_AT: Final[int] = ffi.offsetof("jfs_row", "flags")
assert ffi.sizeof("jfs_row") == _ROW_BYTES, "the core was built for another layout of rows"

KNOWN: Final[int] = lib.JFS_ROW_HAS_ID | lib.JFS_ROW_HAS_HEADER
"""Flags of a message whose id and header can be read."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Of messages that follow each other. Times in milliseconds since 1970; 0: none."""

    ids: Sequence[int]
    timestamps_ms: Sequence[int]
    priorities: Sequence[int]
    flags: bytes

    @property
    def are_known(self) -> bool:
        """True where each has an id and a header that can be read."""
        return all(flags & KNOWN == KNOWN for flags in set(self.flags))


def read_heads(lines: Any, begin: int, end: int) -> Heads:
    """Read messages [begin, end), at least one, of a `jfs_line[]`. Raises FileTorn."""
    out = ffi.gc(ffi.new("jfs_columns *"), lib.jfs_columns_free)
    check(lib.jfs_columns_read(lines + begin, end - begin, 0, 0, out), "reading messages")
    assert out.count == end - begin, "nothing of them has a length"
    rows = memoryview(ffi.buffer(out.rows, out.count * _ROW_BYTES))
    words, small, bare = rows.cast("q"), rows.cast("b"), rows.cast("B")
    return Heads(
        words[0::_WORDS].tolist(),
        words[1::_WORDS].tolist(),
        small[_PRIORITY_AT::_ROW_BYTES].tolist(),
        bare[_FLAGS_AT::_ROW_BYTES].tobytes(),
    )
