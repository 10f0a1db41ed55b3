"""Which messages a file of envelope lines holds, for views whose parts the store does not keep by name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from journalfs.ids import MessageId
from journalfs.store.api import ByteSource
from journalfs_mount.limits import LINES_READ_BYTES


class _Line(msgspec.Struct):
    id: int | None = None


_DECODER = msgspec.json.Decoder(_Line)


def message_ids(source: ByteSource, piece_bytes: int = LINES_READ_BYTES) -> list[MessageId]:
    """The ids of all lines. Lines of what could not be decoded have none."""
    ids = (_DECODER.decode(line).id for line in _lines(source, piece_bytes))
    return [MessageId(number) for number in ids if number is not None]


def _lines(source: ByteSource, piece_bytes: int) -> Iterator[bytes]:
    rest, offset = b"", 0
    while piece := bytes(source.read(offset, piece_bytes)):
        offset += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest
