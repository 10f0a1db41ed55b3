"""A note of what a flush made durable and no publication has taken over yet (docs/operate/folder.md).

The content comes first, so that cutting the rest off leaves nothing but what somebody wrote. Behind it stand
where it is to be published, as JSON, and 16 bytes: the length of the JSON, a checksum of all before it, and a
mark.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from journalfs.errors import DecodeError

_MARK: Final = b"jfsnote1"
_END: Final = struct.Struct(">II8s")


@dataclass(frozen=True, slots=True)
class FlushNote:
    """What was flushed, and where it is to be published."""

    note_id: str
    """Hexadecimal; never used for another content once that is published."""
    address: str
    queue: str | None
    """None: routed to the queues of the address."""
    file_name: str
    """Its suffix says what one message is."""
    size_bytes: int
    """Of the content that was flushed."""
    has_body_file: bool
    """The content is in a file of its own, which may be longer: what came later was not flushed."""


def encode_note(note: FlushNote, content: bytes | memoryview) -> bytes:
    """`content` is empty where it is in a file of its own."""
    told = json.dumps(asdict(note)).encode()
    checksum = zlib.crc32(told, zlib.crc32(content))
    return b"".join((content, told, _END.pack(len(told), checksum, _MARK)))


def decode_note(data: bytes) -> tuple[FlushNote, bytes]:
    """The note and its content. Raises `DecodeError` where it is not whole."""
    try:
        length, checksum, mark = _END.unpack(data[-_END.size :])
        end = len(data) - _END.size
        if mark != _MARK or length > end or zlib.crc32(data[:end]) != checksum:
            raise ValueError("its end is missing, or it was changed")
        note = msgspec.json.decode(data[end - length : end], type=FlushNote, strict=True)
        if bytes.fromhex(note.note_id).hex() != note.note_id or note.size_bytes < 0:
            raise ValueError("what it says of itself cannot be")
    except (struct.error, ValueError, RecursionError) as error:
        raise DecodeError(max(len(data) - _END.size, 0), f"no note of flushed content: {error}") from None
    return note, data[: end - length]
