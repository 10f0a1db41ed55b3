"""The data logs of an AMQ Message Store (ActiveMQ 5.0 to 5.8): frames of OpenWire commands in files
`data-N`, and what replaying them leaves (shared rules in docs/use/older.md).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from journalfs.damage import Damage
from journalfs.records.older.activemq5 import Place, numbered_files
from journalfs.records.older.rewriting import Row, amq_rows

HEAD_BYTES: Final = 29
TAIL_BYTES: Final = 3
START, END = b"SOR", b"EOR"
USER_RECORD: Final = 1
_SIZE: Final = struct.Struct(">i")
_NAME: Final = re.compile(r"data-(\d+)")


def log_files(folder: Path) -> dict[int, Path]:
    """The data logs of a folder by number, in their order."""
    return numbered_files(folder, _NAME)


def commands(content: bytes, number: int, name: str, damage: list[Damage]) -> Iterator[Row | Place]:
    """The commands of one data log in order: taken apart by the core as far as they are regular, else where
    they lie. What is no record is passed over and noted in `damage`, with what lies behind it still found;
    the zeros of a file that was not closed are its end.
    """
    at = 0
    while at < len(content):
        regular, behind = amq_rows(content, at)
        yield from regular
        if behind > at:
            at = behind
            continue
        found, at = _next(content, at, number, name, damage)
        if found is not None:
            yield found


def _next(content: bytes, at: int, number: int, name: str, damage: list[Damage]) -> tuple[Place | None, int]:
    """The command at an offset, if one is there, and where what is behind it begins."""
    size = _frame_bytes(content, at)
    if size is None:
        found = _next_frame(content, at)
        if found is None and not content[at:].strip(b"\0"):
            return None, len(content)
        end = len(content) if found is None else found
        reason = "no record begins here" if found else "no record from here to the end of the file"
        damage.append(Damage(name, at, end - at, "garbage", reason))
        return None, end
    if content[at + 4] == USER_RECORD and size > HEAD_BYTES + TAIL_BYTES + 4:
        start = at + HEAD_BYTES + 4
        length = int(_SIZE.unpack_from(content, at + HEAD_BYTES)[0])
        if 0 < length <= size - HEAD_BYTES - TAIL_BYTES - 4:
            return Place(number, start, length), at + size
        reason = f"a command cannot have {length} bytes in a record of {size}"
        damage.append(Damage(name, at, size, "garbage", reason))
    return None, at + size


def records_end(content: bytes) -> int:
    """Behind the last record of a data log, of whatever kind."""
    at = end = 0
    while at < len(content):
        size = _frame_bytes(content, at)
        if size is not None:
            at = end = at + size
            continue
        found = _next_frame(content, at)
        if found is None:
            break
        at = found
    return end


def _frame_bytes(content: bytes, at: int) -> int | None:
    """Size of the record at an offset; None: there is none."""
    if at + HEAD_BYTES + TAIL_BYTES > len(content):
        return None
    size = int(_SIZE.unpack_from(content, at)[0])
    if size < HEAD_BYTES + TAIL_BYTES or at + size > len(content):
        return None
    ends = content[at + size - TAIL_BYTES : at + size]
    marked = content[at + 26 : at + HEAD_BYTES] == START and ends == END
    return size if marked else None


def _next_frame(content: bytes, at: int) -> int | None:
    found = content.find(START, at + 27)
    while found >= 0:
        if _frame_bytes(content, found - 26) is not None:
            return found - 26
        found = content.find(START, found + 1)
    return None
