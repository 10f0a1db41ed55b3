"""Bytes of a journal that nobody could read, kept when the file that they lie in is used again or deleted.

Below `journalfs/damaged` each is two files: `<journal file>-<file id>@<offset>.bin` is what lay there, and
`.json` beside it says where and what was wrong. They count as damage until somebody says that they may go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from journalfs.damage import Damage, name_of
from journalfs.engine.backend import Backend
from journalfs.journal.pool import WriteFile
from journalfs.ownership import give_to_owner, make_directory

FOLDER = Path("journalfs/damaged")


@dataclass(frozen=True, slots=True)
class KeptDamage:
    """Of one journal of the store in `root`."""

    root: Path
    journal: str
    """What its directory is called in the store."""

    def keep(self, backend: Backend, file: WriteFile) -> None:
        """Copy what could not be read of a file; durable on return. Raises OSError."""
        folder = self.root / FOLDER
        make_directory(folder)
        for gap in file.unreadable:
            kept = folder / f"{file.name}-{file.file_id}@{gap.offset}.bin"
            where = f"{self.journal}/{file.name}, byte {gap.offset}"
            reason = (
                f"{where}: could not be read, and was kept when that file went (compact --discard-damage)"
            )
            damage = Damage(name_of(kept, self.root), 0, gap.length, gap.kind.name.lower(), reason)
            _write(kept, backend.read(file.name, gap.offset, gap.length))
            _write(kept.with_suffix(".json"), msgspec.json.encode(damage))
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        give_to_owner(file.fileno(), path.parent)


def kept_damage(root: Path) -> Iterator[Damage]:
    """What is kept in a store, as damage. What does not say what it is was not written to its end."""
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=Damage)
        except (OSError, msgspec.DecodeError):
            yield Damage(name_of(path, root), 0, 0, "garbage", "it does not say what is kept beside it")


def discard_damage(root: Path) -> int:
    """Delete what is kept; how many places that were. Raises OSError."""
    found = list(kept_damage(root))
    for path in (root / FOLDER).glob("*@*"):
        path.unlink()
    return len(found)
