"""Lines read for what they say of themselves, however long they are: a body of gigabytes is passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from journalfs.windows import windows

if TYPE_CHECKING:
    from journalfs.api import ByteSource

TEXT_BYTES_MAX: Final = 64 * 1024
"""Longer texts are left empty. Names have 255 characters, sentences about damage fewer."""

_SIGNS: Final = re.compile(rb'["{}\[\]]')
# Possessive: what was matched is never given back, so a long text needs no memory for the way back.
_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class Outline:
    """A JSON object that comes in pieces, without long texts and with null for objects and lists in it."""

    __slots__ = ("_depth", "_kept", "_rest", "_text_at", "_too_long", "_within_text", "fed_bytes")

    def __init__(self) -> None:
        self.fed_bytes = 0
        self._kept = bytearray()
        self._depth = 0
        self._within_text = False
        self._text_at = 0
        """Where the text that is being read begins in what is kept."""
        self._too_long = False
        """That text is left out."""
        self._rest = b""
        """The half of an escape that the last piece ended with."""

    def feed(self, piece: bytes) -> None:
        self.fed_bytes += len(piece)
        piece, self._rest = self._rest + piece, b""
        at = 0
        while at < len(piece):
            at = self._text(piece, at) if self._within_text else self._structure(piece, at)

    def taken(self) -> bytes:
        """The whole of it."""
        return bytes(self._kept)

    def _text(self, piece: bytes, at: int) -> int:
        match = _TEXT.match(piece, at)
        assert match is not None, "it matches nothing too"
        end = match.end()
        if self._depth == 1 and not self._too_long:
            self._kept += piece[at:end]
            self._too_long = len(self._kept) - self._text_at > TEXT_BYTES_MAX
            if self._too_long:
                del self._kept[self._text_at :]
        if end == len(piece):
            return end
        if piece[end : end + 1] == b"\\":
            self._rest = piece[end:]
            return len(piece)
        self._within_text = False
        self._keep(b'"')
        return end + 1

    def _structure(self, piece: bytes, at: int) -> int:
        match = _SIGNS.search(piece, at)
        if match is None:
            self._keep(piece[at:])
            return len(piece)
        self._keep(piece[at : match.start()])
        sign = match.group()
        if sign == b'"':
            self._keep(sign)
            self._within_text = True
            self._text_at = len(self._kept)
            self._too_long = False
        elif sign in b"{[":
            self._keep(b"null" if self._depth else sign)
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                self._kept += sign
        return match.end()

    def _keep(self, content: bytes) -> None:
        if self._depth == 1 or not self._depth:
            self._kept += content


def outlined_lines(source: ByteSource) -> Iterator[tuple[list[bytes], int]]:
    """The lines of a file without their ends, as many at a time as a window holds, and how many bytes of it
    they took. Of a line that is in two windows or more there is only the outline.
    """
    begun = Outline()
    for piece in windows(source):
        first, newline, rest = bytes(piece).partition(b"\n")
        begun.feed(first)
        if not newline:
            continue
        lines, taken_bytes = [begun.taken()], begun.fed_bytes + 1
        whole, newline, last = rest.rpartition(b"\n")
        if newline:
            lines += whole.split(b"\n")
            taken_bytes += len(whole) + 1
        yield lines, taken_bytes
        begun = Outline()
        begun.feed(last)
    if begun.fed_bytes:
        yield [begun.taken()], begun.fed_bytes
