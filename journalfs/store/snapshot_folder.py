"""The folder of one snapshot, `journalfs/snapshots/NAME` in the store: what is in it, and what its
description says.

It is laid out as a store is: journal, pages and large messages as second names of the store's own files, the
bindings, and what the store is still writing to, as copies. Where that would be much to copy these are second
names, too, and grow on, so `snapshot.json` says where each of them ended. A folder
whose name begins with a dot is being made or removed, or was when the process died.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from journalfs import door
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.damage import MISSING_FILE, Damage, name_of
from journalfs.engine.checksums import crc32c
from journalfs.errors import Damaged, JournalfsError, WrongCall
from journalfs.format.journal_file import read_header
from journalfs.ids import FileId
from journalfs.limits import JOURNAL_HEADER_BYTES, NAME_BYTES_MAX, NAME_HASH_CHARS, SNAPSHOT_TEXT_BYTES_MAX
from journalfs.records.files.heads import STAT_BLOCK_BYTES, read_regular_file

# JSON with a checksum beside it: `{"crc32c": …, WORD: …}` and a line feed, where `WORD` says what it is.

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


FORMAT: Final = 1
SNAPSHOTS: Final = Path("journalfs", "snapshots")
"""The path of the snapshots in a store."""

DESCRIPTION: Final = "snapshot.json"
JOURNAL, BINDINGS, PAGES, LARGE = "journal", "bindings", "paging", "large-messages"
MAKING, REMOVING = ".making-", ".removing-"


class LinkedFile(msgspec.Struct, frozen=True):
    """A file of the journal. `bytes`: how much of it belongs to the snapshot."""

    name: str
    file_id: int
    bytes: int


class LinkedPage(msgspec.Struct, frozen=True):
    folder: str
    name: str
    bytes: int


class SnapshotDescription(msgspec.Struct, frozen=True):
    format: int
    name: str
    identity: str
    """An identity that no other snapshot has, whatever its name."""
    created_ms: int
    generation: int
    """Of its parts' names."""
    end_file: int
    """Id of the journal file in which the snapshot ends, and the offset there."""
    end_offset: int
    journal: list[LinkedFile]
    pages: list[LinkedPage]
    bodies: int
    """How many files of large messages there are."""
    maker: int = -1
    """The user who made it; -1: the owner of the mount, or unknown."""

    @property
    def limit(self) -> tuple[FileId, int]:
        return FileId(self.end_file), self.end_offset


def encode_description(description: SnapshotDescription) -> bytes:
    return encode_checked("snapshot", description)


def read_description(folder: Path) -> SnapshotDescription:
    """Raises `Damaged`, OSError."""
    path = folder / DESCRIPTION
    content = read_regular_file(path, SNAPSHOT_TEXT_BYTES_MAX)
    description = decode_checked(content, "snapshot", SnapshotDescription, path)
    if description.format != FORMAT:
        raise Damaged(path, 0, f"format {description.format}, this journalfs reads {FORMAT}")
    return description


# ---- names ----


def encoded_name(name: str) -> str:
    """As descriptions have it: any name is text then."""
    return quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe=" !#$&'()*+,-.:;=@[]^_`{}~")


def decoded_name(encoded: str) -> str:
    return unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")


def folder_name(name: str) -> str:
    """The folder of a snapshot of that name, which never begins with a dot."""
    encoded = encoded_name(name)
    if encoded[:1] in {".", ""}:
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= NAME_BYTES_MAX:
        return encoded
    import hashlib  # noqa: PLC0415 - whoever opens a store imports this module, and few names are so long

    digest = hashlib.blake2b(encoded.encode(), digest_size=NAME_HASH_CHARS // 2).hexdigest()
    return f"{encoded[: NAME_BYTES_MAX - NAME_HASH_CHARS - 1]}~{digest}"


# ---- folders ----


def folders(root: Path) -> list[Path]:
    """The folders of a store's snapshots, by name. Raises OSError where there may be some."""
    try:
        with door.entries(root / SNAPSHOTS) as entries:
            shown = (one for one in entries if not one.name.startswith("."))
            return sorted(root / SNAPSHOTS / one.name for one in shown if one.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def sweep(root: Path) -> list[str]:
    """Remove what a crash left of snapshots that were being made or removed; the names. Raises OSError."""
    try:
        left = [name for name in door.names(root / SNAPSHOTS) if name.startswith((MAKING, REMOVING))]
    except FileNotFoundError:
        return []
    for name in left:
        door.remove_tree(root / SNAPSHOTS / name)
    return left


def is_snapshot(folder: Path) -> bool:
    return door.is_file(folder / DESCRIPTION)


def refuse_writing(folder: Path) -> None:
    """Raises `WrongCall` for the folder of a snapshot: its files are the store's own."""
    if is_snapshot(folder):
        advice = f"open it read-only, or delete {DESCRIPTION} in a copy of it"
        raise WrongCall(f"{folder}: this is a snapshot, which can only be read; {advice}")


def layout_of(folder: Path, store: StoreLayout) -> StoreLayout:
    """Where the parts of a snapshot are. Its settings are those of its store."""
    return replace(
        store,
        root=folder,
        journal_dir=folder / JOURNAL,
        bindings_dir=folder / BINDINGS,
        paging_dir=folder / PAGES,
        large_dir=folder / LARGE,
        node_manager_lock_dir=folder / JOURNAL,
        retention_dir=None,
        warnings=(),
    )


def layout_found(layout: StoreLayout) -> StoreLayout:
    """Return the layout of a snapshot's folder that was found as a store by itself."""
    folder = layout.root
    beside = SNAPSHOTS.parts
    if folder.parent.parts[-len(beside) :] == beside:
        try:
            return layout_of(folder, locate_store(folder.parents[len(beside)]))
        except JournalfsError as error:
            return replace(layout_of(folder, layout), warnings=(*layout.warnings, str(error)))
    return layout_of(folder, layout)


# ---- what became of it ----


def damage_of(folder: Path, description: SnapshotDescription) -> Iterator[Damage]:
    """Files that are not what they were: gone, cut off, or used again by a broker that knew nothing of their
    second names.
    """
    for file in description.journal:
        path = folder / JOURNAL / file.name
        problem = _shorter(path, file.bytes) or _used_again(path, file)
        if problem is not None:
            yield Damage(name_of(path, folder), 0, 0, *problem)
    for page in description.pages:
        path = folder / PAGES / page.folder / page.name
        problem = _shorter(path, page.bytes)
        if problem is not None:
            yield Damage(name_of(path, folder), 0, 0, *problem)
    bodies = _count(folder / LARGE)
    if bodies < description.bodies:
        reason = f"{description.bodies - bodies} of {description.bodies} files of large messages are gone"
        yield Damage(name_of(folder / LARGE, folder), 0, 0, MISSING_FILE, reason)


def _shorter(path: Path, length: int) -> tuple[str, str] | None:
    try:
        size_bytes = door.status(path).st_size
    except OSError as error:
        return MISSING_FILE, f"belongs to the snapshot: {error.strerror or error}"
    if size_bytes < length:
        return "short-file", f"had {length} bytes when the snapshot was made, and has {size_bytes}"
    return None


def _used_again(path: Path, file: LinkedFile) -> tuple[str, str] | None:
    try:
        header = read_header(read_regular_file(path, JOURNAL_HEADER_BYTES))
    except (OSError, JournalfsError):
        return None  # whoever reads the journal says so
    if header.file_id == file.file_id:
        return None
    was = f"it was file {file.file_id} when the snapshot was made and is file {header.file_id}"
    return "used-again", f"a broker wrote into it: {was}; what it held is lost to the snapshot"


def _count(folder: Path) -> int:
    try:
        return len(door.names(folder))
    except OSError:
        return 0


def sizes(of: Iterable[Path]) -> tuple[int, int]:
    """Bytes on disk of all that snapshots hold, and of what would be free without them. Raises OSError."""
    names: Counter[int] = Counter()
    found: dict[int, os.stat_result] = {}
    for folder in of:
        for place, _, files in door.below(folder):
            with door.folder(place) as held:
                for status in (door.status_in(held, name) for name in (b".", *files)):
                    names[status.st_ino] += 1
                    found[status.st_ino] = status
    alone = (
        status
        for inode, status in found.items()
        if stat.S_ISDIR(status.st_mode) or status.st_nlink == names[inode]
    )
    return _on_disk(found.values()), _on_disk(alone)


def held_alone(folder: Path) -> tuple[int, int]:
    """Return bytes on disk, and files, that would be free without a snapshot. Raises OSError."""
    alone = []
    for place, _, files in door.below(folder):
        with door.folder(place) as held:
            for status in (door.status_in(held, name) for name in (b".", *files)):
                if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
                    alone.append(status)
    return _on_disk(alone), len(alone)


def _on_disk(files: Iterable[os.stat_result]) -> int:
    return sum(file.st_blocks for file in files) * STAT_BLOCK_BYTES
