"""Preserves unreadable bytes of a journal file when that file is used again or deleted.

Each piece is two files below `journalfs/damaged`: `<journal file>-<file id>@<offset>.bin` holds the bytes,
and the `.json` beside it says where they were and what was wrong. They count as damage until a person removes
them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from journalfs import door
from journalfs.damage import Damage, name_of
from journalfs.engine.backend import Backend
from journalfs.records.files.file_gaps import DeletedFiles, Range
from journalfs.records.files.pool import WriteFile

log = logging.getLogger(__name__)

FOLDER = Path("journalfs/damaged")


@dataclass(frozen=True, slots=True)
class KeptDamage:
    """Preserves pieces of one journal of the store in `root`."""

    root: Path
    journal: str
    """The path of the journal's directory in the store."""

    def there(self) -> Iterator[Damage]:
        """Yield the preserved pieces of all journals of the store."""
        return kept_damage(self.root)

    def note_deleted(self, ranges: Iterable[Range]) -> None:
        """Note ids that this process deleted, so that nobody takes them for lost files."""
        try:
            DeletedFiles(self.root, self.journal).note(ranges)
        except OSError as error:
            log.warning("`check` will not know why journal files are missing: %s", error)

    def keep(self, backend: Backend, file: WriteFile) -> None:
        """Copy what could not be read of a file; durable on return. Raises OSError."""
        folder = self.root / FOLDER
        door.make_folders(folder)
        for gap in file.unreadable:
            kept = folder / f"{file.name}-{file.file_id}@{gap.offset}.bin"
            where = f"{self.journal}/{file.name}, byte {gap.offset}"
            reason = (
                f"{where}: could not be read, and was kept when that file went (compact --discard-damage)"
            )
            damage = Damage(name_of(kept, self.root), 0, gap.length, gap.kind.name.lower(), reason)
            door.replace(kept, backend.read(file.name, gap.offset, gap.length))
            door.replace(kept.with_suffix(".json"), msgspec.json.encode(damage))
        door.sync(folder)


def note_hole(root: Path, damage: Damage) -> None:
    """Note a place of the store in `root` that holds zeros where bytes are lost: nothing in the
    file says so, and a file of zeros would be taken for one that is kept ready. Durable on return. Raises
    OSError.
    """
    folder = root / FOLDER
    door.make_folders(folder)
    name = f"{'-'.join(damage.file.split('/'))}@{damage.offset}.json"
    door.replace(folder / name, msgspec.json.encode(damage))
    door.sync(folder)


def kept_damage(root: Path) -> Iterator[Damage]:
    """Yield the preserved pieces of a store as damage. A piece without its description was cut off while it
    was written, and is left out.
    """
    for path in (root / FOLDER / name for name in sorted(_names(root)) if name.endswith(".json")):
        try:
            yield msgspec.json.decode(door.read(path), type=Damage)
        except (OSError, ValueError, RecursionError):
            yield Damage(name_of(path, root), 0, 0, "garbage", "it does not say what is kept beside it")


def discard_damage(root: Path) -> int:
    """Delete what is kept; how many places that were. Raises OSError."""
    found = list(kept_damage(root))
    for name in _names(root):
        if "@" in name:
            door.remove(root / FOLDER / name)
    return len(found)


def _names(root: Path) -> list[str]:
    """None in a store without such a folder. Raises OSError."""
    try:
        return door.names(root / FOLDER)
    except FileNotFoundError:
        return []
