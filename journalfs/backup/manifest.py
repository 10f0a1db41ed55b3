"""What a backup is: the files of a store, each as the pieces that its content is put together of.

`backups/NAME.json` names it, `objects/XX/HASH` are pieces, each by the BLAKE2b-256 of its bytes. Backups
share pieces, so one costs what changed since the others.
"""

from __future__ import annotations

import hashlib
import os
from typing import Annotated, Final

import msgspec

from journalfs.backup.kept_account import KeptAccount
from journalfs.config.files import TOML_NAME
from journalfs.errors import Damaged, DamagedBackup
from journalfs.records.files.file_gaps import NOTED
from journalfs.records.files.kept_damage import FOLDER as KEPT_DAMAGE
from journalfs.showing import printable
from journalfs.store.snapshot_folder import decode_checked, encode_checked

FORMAT: Final = 1
PIECE_BYTES: Final = 1 << 20
"""Every piece of a file but its last one."""

MANIFEST_BYTES_MAX: Final = 1 << 30

_FOLDERS: Final = frozenset(("journal", "bindings", "paging", "large-messages"))
OURS: Final = (TOML_NAME, "journalfs/permissions", os.fspath(NOTED))
"""Files of ours that say how a store is used, and why ids are missing; all others are derived, or
not published yet.
"""
_Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

BACKUPS, OBJECTS = "backups", "objects"
SUFFIX: Final = ".json"


class BackedUpFile(msgspec.Struct, frozen=True):
    """One file. `pieces`: the hash of each, `None` where all is zeros. The facts of the file as it was say
    whether it is the same the next time.
    """

    path: str
    """Below the store: `journal/…`, `bindings/…`, `paging/…`, `large-messages/…`, or a file of ours."""
    size_bytes: _Size
    content_bytes: _Size
    """So much was read; zeros follow."""
    mtime_ns: int
    inode: int
    pieces: list[_Hash | None]

    @property
    def is_laid_out(self) -> bool:
        """It takes all of its room, as brokers want it."""
        return self.path.startswith(("journal/", "bindings/"))

    @property
    def is_possible(self) -> bool:
        """Others may have written what says it."""
        top, *names = parts = self.path.split("/")
        folder, _, kept = self.path.rpartition("/")
        of_ours = self.path in OURS or (folder == os.fspath(KEPT_DAMAGE) and "@" in kept)
        named = of_ours or (top in _FOLDERS and bool(names))
        pieces = -(-self.content_bytes // PIECE_BYTES)
        return (
            named
            and "\0" not in self.path
            and not {"", ".", ".."} & {*parts}
            and len(self.pieces) == pieces
            and self.content_bytes <= self.size_bytes
        )

    def length_of(self, index: int) -> int:
        """Of a piece."""
        return min(PIECE_BYTES, self.content_bytes - index * PIECE_BYTES)


class Manifest(msgspec.Struct, frozen=True):
    format: int
    name: str
    created_ms: int
    source: str
    how: str
    """`snapshot` of a mount, `closed` store, or `beside` a running broker."""
    journal_file_bytes: int
    files: list[BackedUpFile]
    account: KeptAccount | None = None
    """What the store had and had not; None: made by a journalfs that took none."""

    @property
    def content_bytes(self) -> int:
        return sum(file.content_bytes for file in self.files)

    def hashes(self) -> set[str]:
        return {piece for file in self.files for piece in file.pieces if piece is not None}


def encode(manifest: Manifest) -> bytes:
    return encode_checked("backup", manifest)


def decode(content: bytes, where: str) -> Manifest:
    """Raises `DamagedBackup`."""
    try:
        manifest = decode_checked(content, "backup", Manifest, where)
    except Damaged as damaged:
        raise DamagedBackup(damaged.file, damaged.offset, damaged.reason) from None
    if manifest.format != FORMAT:
        raise DamagedBackup(where, 0, f"format {manifest.format}, this journalfs reads {FORMAT}")
    for file in manifest.files:
        if not file.is_possible:
            raise DamagedBackup(where, 0, f"no backup has such a file: {printable(file.path)}")
    return manifest


def hash_of(piece: bytes) -> str:
    return hashlib.blake2b(piece, digest_size=32).hexdigest()


def object_name(piece_hash: str) -> str:
    return f"{OBJECTS}/{piece_hash[:2]}/{piece_hash}"


def manifest_name(name: str) -> str:
    return f"{BACKUPS}/{name}{SUFFIX}"
