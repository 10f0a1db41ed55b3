"""Reading backups against their checksums."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from journalfs.backup.backups import Backups, piece_of
from journalfs.backup.manifest import PIECE_BYTES
from journalfs.errors import Damaged


class Problem(msgspec.Struct, frozen=True):
    """What of a backup cannot be restored."""

    backup: str
    file: str | None
    """Of the store; None: the backup's description."""
    offset: int
    reason: str

    def line(self) -> str:
        return f"{self.backup}: {self.file or 'its description'} at byte {self.offset}: {self.reason}"


def verify(backups: Backups, names: list[str]) -> Iterator[Problem]:
    """Read every piece of these backups once."""
    checked: dict[str, str | None] = {}
    """By hash why a piece is none; None: it is one."""
    for name in names:
        try:
            manifest = backups.manifest(name)
        except Damaged as damaged:
            yield Problem(name, None, damaged.offset, damaged.reason)
            continue
        for file in manifest.files:
            for index, piece in enumerate(file.pieces):
                if piece is None:
                    continue
                at = index * PIECE_BYTES
                if piece not in checked:
                    checked[piece] = None
                    try:
                        piece_of(backups.place, piece, file.length_of(index), f"{file.path} at byte {at}")
                    except Damaged as damaged:
                        checked[piece] = f"{damaged.file}: {damaged.reason}"
                    backups.advance(file.length_of(index))
                reason = checked[piece]
                if reason is not None:
                    yield Problem(name, file.path, at, reason)
