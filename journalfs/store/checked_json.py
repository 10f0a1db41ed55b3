"""JSON with a checksum beside it: `{"crc32c": …, WORD: …}` and a line feed, where `WORD` says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from journalfs.engine.checksum import crc32c
from journalfs.errors import Damaged

T = TypeVar("T")


def encode_checked(word: str, value: object) -> bytes:
    text = msgspec.json.encode(value)
    return msgspec.json.encode({"crc32c": crc32c(text), word: msgspec.Raw(text)}) + b"\n"


def decode_checked(content: bytes, word: str, wanted: type[T], where: Path | str) -> T:
    """`where` is the file, for errors. Raises `Damaged`."""
    try:
        written = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        text = bytes(written[word])
        if crc32c(text) != msgspec.json.decode(written["crc32c"], type=int):
            raise Damaged(where, 0, "the checksum does not match the content")
        return msgspec.json.decode(text, type=wanted)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(where, 0, f"no description of a {word}: {error}") from error
