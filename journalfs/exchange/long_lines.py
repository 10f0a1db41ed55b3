"""The lines of a file, of which one may be longer than memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from journalfs.exchange.outlines import Outline
from journalfs.windows import windows

if TYPE_CHECKING:
    from journalfs.store.api import ByteSource

DIGEST_BYTES: Final = 16

KEPT_BYTES_MAX: Final = 16 << 20
"""Of a longer line there is an outline."""


class Line(NamedTuple):
    text: bytes
    """Without its end."""
    digest: bytes | None = None
    """Of the whole line, where `text` is its outline."""


class _Begun:
    """A line that comes in pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size_bytes = 0
        self._outline: Outline | None = None
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def feed(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self.pieces.append(piece)
        if self.size_bytes <= KEPT_BYTES_MAX:
            return
        if self._outline is None:
            self._outline = Outline()
        for one in self.pieces:
            self._outline.feed(one)
            self._digest.update(one)
        self.pieces.clear()

    def taken(self) -> Line:
        if self._outline is None:
            return Line(b"".join(self.pieces))
        return Line(self._outline.taken(), self._digest.digest())


def lines_of(source: ByteSource) -> Iterator[Line]:
    """All lines of an open file, which is closed in the end."""
    begun = _Begun()
    try:
        for piece in windows(source):
            *whole, last = bytes(piece).split(b"\n")
            for text in whole:
                begun.feed(text)
                yield begun.taken()
                begun = _Begun()
            begun.feed(last)
        if begun.size_bytes:
            yield begun.taken()
    finally:
        source.close()
