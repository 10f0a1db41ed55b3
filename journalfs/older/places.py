"""Where in a source lies what is wrong in the journal that was derived from it."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Final

import msgspec

from journalfs.config.layout import StoreLayout
from journalfs.config.older import ARTEMIS_1, HORNETQ
from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.errors import JournalfsError
from journalfs.format.journal_file import READABLE_VERSIONS
from journalfs.format.record_types import RecordKind
from journalfs.journal.directory import read_directory
from journalfs.journal.file_ids import written_rid
from journalfs.older.reading import Description

_RECORD_FOR_RECORD: Final = frozenset({HORNETQ, ARTEMIS_1})
"""Kinds of which each file became one with the same records in their order, events left out."""

_EXTENSIONS: Final = ("hq", "amq")


class SourcePlaces:
    """Of one derived store. What a file's records are is found out when one is damaged, once."""

    def __init__(self, made_of: Description, layout: StoreLayout) -> None:
        self._root = Path(made_of.source)
        self._layout = layout
        self._is_told = made_of.kind in _RECORD_FOR_RECORD
        self._known: dict[str, tuple[str, list[int], list[int]]] = {}
        """By a file's name here: its name there, and where its records lie here and there."""

    def told(self, one: Damage) -> Damage:
        """With the source's file and offset, if they can be told; else as it is."""
        if not self._is_told or one.length_bytes:
            return one
        if one.file not in self._known:
            self._known[one.file] = self._found(one.file)
        name, here, there = self._known[one.file]
        at = bisect_right(here, one.offset) - 1
        moved = there[at] - here[at] if at >= 0 else 0  # what is before a body has the same length
        return msgspec.structs.replace(one, file=name, offset=one.offset + moved)

    def _found(self, name: str) -> tuple[str, list[int], list[int]]:
        """Nothing of a file that is not there any more, or has other records now."""
        here = _offsets(self._layout.journal_dir, "amq", Path(name).stem)
        for folder in (self._root / "journal", self._root):
            for extension in _EXTENSIONS if here else ():
                there = _offsets(folder, extension, Path(name).stem)
                if there and len(there) == len(here):
                    path = folder / f"{Path(name).stem}.{extension}"
                    return name_of(path, self._root), here, there
        return name, [], []


def _offsets(folder: Path, extension: str, stem: str) -> list[int]:
    """Of each record of a file, but events."""
    try:
        listing = read_directory(folder, extension=extension, relative_to=folder)
        for file in listing.files:
            if file.path.stem == stem:
                with MappedFile(file.path) as mapped:
                    version = file.version if file.version in READABLE_VERSIONS else 2
                    scan = scan_journal(mapped, rid=file.rid or written_rid(mapped) or 0, version=version)
                    return [one.offset for one in scan if one.kind != RecordKind.EVENT]
    except (JournalfsError, OSError):
        return []  # whoever reads it says why
    return []
