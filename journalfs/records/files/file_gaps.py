"""Finds ids that no journal file has, though a file must have had each: ids are drawn one after the other.

An id goes away with its file: when the file is used again under a later id (its name keeps the number that it
was made with), when a broker deletes a file above the number it is to keep, or when compaction rewrites the
journal. Any other missing id is a file that was removed or lost. Files that this product deletes are noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Protocol

import msgspec

from journalfs import door

NOTED: Final = Path("journalfs/deleted-journal-files.json")
RANGES_MAX: Final = 256
"""Of ids that were deleted; of more the nearest are taken together."""

_Id = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Range = tuple[int, int]
"""The first and the last id."""


class Identified(Protocol):
    """A journal file by its header and its name."""

    @property
    def file_id(self) -> int: ...

    @property
    def compacted(self) -> bool: ...

    @property
    def header_damaged(self) -> bool: ...


def missing_ids(
    files: Sequence[tuple[int, Identified]], pool_files: int, deleted: Iterable[Range] = ()
) -> list[Range]:
    """Ranges of ids that nothing explains. `files`: each with the number in its name. `pool_files`: with so
    many files, a broker deletes those that it needs no more; negative: never.
    """
    if 0 <= pool_files <= len(files) + 1:
        return []  # one is free, and goes when the journal is closed
    last = max((max(number, file.file_id) for number, file in files), default=0)
    known = list(deleted)
    for number, file in files:
        # Compaction gives a file that had any later id one of those that it writes anew.
        is_older = file.compacted or file.header_damaged or file.file_id < number
        known += [(number, last if is_older else file.file_id), (file.file_id, file.file_id)]
    return list(_between(merged(known), last))


def _between(known: Sequence[Range], last: int) -> Iterator[Range]:
    at = 1
    for first, end in known:
        if first > at:
            yield at, min(first - 1, last)
        at = max(at, end + 1)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the same ids, each once and in order."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


class DeletedFiles:
    """The note of files that writers of this product deleted from one journal of the store in `root`. If the
    note is lost, only the reason of missing ids is lost.
    """

    def __init__(self, root: Path, journal: str) -> None:
        """`journal`: the path of the journal's directory in the store."""
        self._path = root / NOTED
        self._journal = journal

    def ranges(self) -> list[Range]:
        return self._noted().get(self._journal, [])

    def note(self, ranges: Iterable[Range]) -> None:
        """These ids are had by no file any more. Raises OSError."""
        noted = self._noted()
        before = noted.get(self._journal, [])
        found = merged([*before, *ranges])
        while len(found) > RANGES_MAX:
            at = min(range(1, len(found)), key=lambda i: found[i][0] - found[i - 1][1])
            found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
        if found == before:
            return
        door.make_folders(self._path.parent)
        door.sweep_replacements(self._path)
        # Without the file, a healthy store has files missing that nothing explains: damage, for ever.
        door.replace(self._path, msgspec.json.encode({**noted, self._journal: found}))

    def _noted(self) -> dict[str, list[Range]]:
        try:
            return msgspec.json.decode(door.read(self._path), type=dict[str, list[tuple[_Id, _Id]]])
        except (OSError, ValueError, RecursionError):
            return {}


def told(first: int, last: int) -> str:
    """A range as people write it."""
    return str(first) if first == last else f"{first}-{last}"
