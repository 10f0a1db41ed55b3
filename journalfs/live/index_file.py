"""The index on disk: a header, described sections and one checksum over all of it. Derived and disposable.

Layout: 8 bytes magic, u64 length of the description, the description (JSON), the sections one after the
other, and 4 bytes CRC-32C of everything before. All integers little-endian. A file that is short, changed or
of another version is not repaired: the store is scanned instead.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from journalfs import door, store_owner
from journalfs.engine.checksums import crc32c
from journalfs.errors import IndexUnusable

MAGIC = b"JFSINDX1"
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_START_BYTES = len(MAGIC) + _LENGTH.size

DESCRIPTION_BYTES_MAX = 1 << 30
"""A description has some hundred bytes for each file, page and large message."""

INDEX_BYTES_MAX = 1 << 35
"""Upper bound of an index: a live state takes about a hundred bytes for each of at most four billion
messages, but no machine has memory for that many.
"""

FOLDER = "journalfs"
"""Everything of ours beside the broker's directories is below this name."""

T = TypeVar("T")


class Described(msgspec.Struct, frozen=True):
    """The first part of an index file: the description of its owner, and the length of each section."""

    description: msgspec.Raw
    section_bytes: list[int]


def index_place(root: Path) -> Path | None:
    """Where the index is; None where root acts as the owner of a store that cannot be changed: root's cache
    directory is not that user's.
    """
    path = index_path(root)
    return None if store_owner.has_adopted() and path.parent != root / FOLDER else path


def index_path(root: Path) -> Path:
    """Beside the store when it can be written there, else in the user's cache directory under the store's
    real path.
    """
    folder = root / FOLDER
    if door.may_change(folder if door.is_folder(folder) else root):
        return folder / "index"
    # Seldom needed, and every command imports this module.
    import hashlib  # noqa: PLC0415

    import platformdirs  # noqa: PLC0415

    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return door.resolved(Path(platformdirs.user_cache_dir("journalfs"))) / key / "index"


def write_index(path: Path, description: object, sections: list[bytes]) -> None:
    """Replace the index in one step: a crash leaves the old or the new one."""
    raw = msgspec.Raw(msgspec.json.encode(description))
    head = msgspec.json.encode(Described(raw, [len(section) for section in sections]))
    pieces = [MAGIC, _LENGTH.pack(len(head)), head, *sections]
    checksum = 0
    for piece in pieces:
        checksum = crc32c(piece, checksum)
    door.make_folders(path.parent)
    door.sweep_replacements(path)
    with door.replacing(path) as made, open(made, "wb", closefd=False) as file:
        for piece in pieces:
            file.write(piece)
        file.write(_CHECKSUM.pack(checksum))


def read_index(path: Path, kind: type[T]) -> tuple[T, list[memoryview]] | None:
    """The description as `kind` and the sections; `None` when there is no index. Raises `IndexUnusable`."""
    try:
        with open(door.open_file(path), "rb") as file:
            content = _content(path, file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IndexUnusable(path, f"cannot be read: {error.strerror}") from error
    except MemoryError as error:
        raise IndexUnusable(path, "there is no memory for it") from error
    view = memoryview(content)
    if _CHECKSUM.unpack(view[-_CHECKSUM.size :])[0] != crc32c(view[: -_CHECKSUM.size]):
        raise IndexUnusable(path, "the checksum does not match its content")
    (length,) = _LENGTH.unpack_from(view, len(MAGIC))
    start = _START_BYTES
    try:
        head = msgspec.json.decode(view[start : start + length], type=Described)
        description = msgspec.json.decode(head.description, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IndexUnusable(path, "written by another version of journalfs") from error
    at = start + length
    sections: list[memoryview] = []
    for section_bytes in head.section_bytes:
        sections.append(view[at : at + section_bytes])
        at += section_bytes
    return description, sections


def _content(path: Path, file: BinaryIO) -> bytes:
    """All of an index that is as long as it says. Raises `IndexUnusable`, OSError, MemoryError."""
    size_bytes = os.fstat(file.fileno()).st_size
    start = file.read(_START_BYTES)
    if len(start) < _START_BYTES or not start.startswith(MAGIC):
        raise IndexUnusable(path, "not an index of this version")
    (length,) = _LENGTH.unpack_from(start, len(MAGIC))
    if length > min(size_bytes, DESCRIPTION_BYTES_MAX):
        raise IndexUnusable(path, "its description is said to be longer than it can be")
    head = file.read(length)
    try:
        section_bytes = msgspec.json.decode(head, type=Described).section_bytes
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IndexUnusable(path, f"its description cannot be read: {error}") from error
    rest_bytes = sum(section_bytes) + _CHECKSUM.size
    if size_bytes != _START_BYTES + length + rest_bytes or min(section_bytes, default=0) < 0:
        raise IndexUnusable(path, "sections and file length disagree")
    if size_bytes > INDEX_BYTES_MAX:
        raise IndexUnusable(path, f"longer than {INDEX_BYTES_MAX} bytes")
    # From the start again: putting the pieces together would copy it, and it is tens of megabytes.
    file.seek(0)
    content = file.read(size_bytes)
    if len(content) != size_bytes:
        raise IndexUnusable(path, "it became shorter while it was read")
    return content
