"""Mends a piece of a backup that rotted or is gone, from the store that was backed up, if that still has it.

`journalfs scrub` calls it. A piece is named by the hash of its bytes, so what has that hash is the piece,
wherever it was read; every backup that shares it can be restored again. The store is only read.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.backup.backups import Backups
from journalfs.backup.manifest import PIECE_BYTES, hash_of, object_name
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import Damaged, JournalfsError, NoSuchName

PLACES_SHOWN_MAX: Final = 3


class PiecePlace(NamedTuple):
    """Where a piece belongs in a store."""

    backup: str
    source: str
    file: str
    """Below the store, as manifests have it."""
    offset: int
    length: int

    def text(self) -> str:
        return f"{self.file} at byte {self.offset} of backup {self.backup}"


@dataclass(slots=True)
class Unmended:
    """Why a piece stays as it is."""

    places: list[PiecePlace]
    reason: str

    def text(self) -> str:
        """Return the reason, with the files that cannot be restored without the piece."""
        shown = ", ".join(one.text() for one in self.places[:PLACES_SHOWN_MAX])
        more = len(self.places) - PLACES_SHOWN_MAX
        return f"{self.reason}; it is of {shown or 'no backup'}" + (f" and {more} more" if more > 0 else "")


@dataclass
class Mending:
    """Mends pieces of the backups at one place. `store`: the store to read; None: the one that each backup
    was made of.
    """

    backups: Backups
    store: Path | None = None
    _layouts: dict[str, StoreLayout | str] = field(default_factory=dict)

    def mend(self, piece_hash: str) -> str | Unmended:
        """Write a piece anew, durably, and return where it was read. Raises `SystemFailure` where the place
        of the backups takes nothing.
        """
        places = self._places.get(piece_hash, [])
        reasons = []
        for one in places:
            found = self._read(one)
            if isinstance(found, str):
                reasons.append(found)
            elif hash_of(found) == piece_hash:
                self.backups.place.write(object_name(piece_hash), found)
                self.backups.place.sync()
                return f"{self.store or one.source}: {one.file} at byte {one.offset}"
            else:
                reasons.append(f"{self.store or one.source} has other bytes there now")
        return Unmended(places, reasons[0] if reasons else "no backup has it, so nothing is lost")

    @cached_property
    def _places(self) -> dict[str, list[PiecePlace]]:
        """By hash, the newest backup first."""
        found: dict[str, list[PiecePlace]] = defaultdict(list)
        for name in reversed(self.backups.names()):
            try:
                manifest = self.backups.manifest(name)
            except (Damaged, NoSuchName):
                continue
            for file in manifest.files:
                for index, piece in enumerate(file.pieces):
                    if piece is not None:
                        at = index * PIECE_BYTES
                        length = file.length_of(index)
                        found[piece].append(PiecePlace(name, manifest.source, file.path, at, length))
        return found

    def _read(self, one: PiecePlace) -> bytes | str:
        """Return what the store has there, or why nothing can be read."""
        layout = self._layout(str(self.store or one.source))
        if isinstance(layout, str):
            return layout
        try:
            with door.opened(_path(layout, one.file)) as descriptor:
                return b"".join(_pieces(descriptor, one.offset, one.length))
        except OSError as error:
            return f"{layout.root}/{one.file}: {error.strerror or error}"

    def _layout(self, source: str) -> StoreLayout | str:
        if source not in self._layouts:
            try:
                layout = locate_store(Path(source), adopting=False)
                layout.enter()
                self._layouts[source] = layout
            except (JournalfsError, OSError) as error:
                self._layouts[source] = str(error)
        return self._layouts[source]


def _pieces(descriptor: int, at: int, length: int) -> Iterator[bytes]:
    while length and (piece := os.pread(descriptor, length, at)):
        yield piece
        at, length = at + len(piece), length - len(piece)


def _path(layout: StoreLayout, file: str) -> Path:
    folder, _, name = file.partition("/")
    folders = {
        "journal": layout.journal_dir,
        "bindings": layout.bindings_dir,
        "paging": layout.paging_dir,
        "large-messages": layout.large_dir,
    }
    return folders[folder] / name if folder in folders else layout.root / file
