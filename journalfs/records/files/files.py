"""The journal files of one message journal while they are in use: slots, mappings, and how far each was
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from journalfs.damage import Damage, FileStamp
from journalfs.engine.buffers import MappedFile, Unreadable
from journalfs.ids import FileId
from journalfs.limits import JOURNAL_FILES_MAPPED_MAX
from journalfs.records.files.directory import JournalFile, reading_order
from journalfs.showing import shown


class KnownFile(msgspec.Struct, frozen=True):
    """A journal file at its last reading, as the index keeps it."""

    slot: int
    name: str
    file_id: int
    stamp: FileStamp
    """From before anything of the file was read."""
    position: int
    records: int
    prefix_crc: int
    """Of the bytes between header and position, as they were when they were read."""
    window_crc: int | None
    """Of bytes behind the position, which were found to hold nothing new."""
    gaps: tuple[Damage, ...]


@dataclass(slots=True)
class ReadFile:
    """How far one file was read. `slot` is the number the live state knows it by; slots are never reused."""

    slot: int
    file: JournalFile
    position: int
    """Offset behind the last record that was accepted."""
    records: int = 0
    prefix_crc: int = 0
    """CRC-32C of the bytes between header and `position`, as they were when they were read."""
    stamp: FileStamp = field(init=False)
    """The file's stamp before any of the read bytes was read: while the file has it, they are unchanged. It
    follows the file's stamp only after a right checksum.
    """
    end_crc: int | None = None
    """CRC-32C of the last bytes before `position`; `None` while nobody looked."""
    window_crc: int | None = None
    """CRC-32 of the bytes behind `position` when they were last looked at."""

    def __post_init__(self) -> None:
        self.stamp = self.file.stamp

    def known(self, gaps: tuple[Damage, ...] = ()) -> KnownFile:
        name, read = shown(self.file.name), (self.position, self.records, self.prefix_crc, self.window_crc)
        return KnownFile(self.slot, name, self.file.file_id, self.stamp, *read, gaps)


class FileSet(Mapping[int, MappedFile]):
    """Maps journal files on first use. Open handles keep what they use alive, so dropping a mapping is always
    safe.
    """

    def __init__(self) -> None:
        self._paths: dict[int, ReadFile] = {}
        self._mapped: dict[int, MappedFile] = {}
        self._stamps: dict[int, FileStamp] = {}
        """Of the moment of mapping."""
        self.unreadable: dict[int, tuple[Unreadable, ...]] = {}
        """By slot, what the disk did not give when the file was last read."""

    def add(self, read: ReadFile, mapped: MappedFile | None = None) -> None:
        self._paths[read.slot] = read
        if mapped is not None:
            self._remember(read.slot, mapped)

    @property
    def slot_limit(self) -> int:
        """One more than the highest slot."""
        return max(self._paths, default=-1) + 1

    def forget(self, slot: int) -> None:
        self._paths.pop(slot, None)
        self._mapped.pop(slot, None)
        self._stamps.pop(slot, None)
        self.unreadable.pop(slot, None)

    def read_file(self, slot: int) -> ReadFile:
        return self._paths[slot]

    def get_read(self, slot: int) -> ReadFile | None:
        """The file of a slot, `None` once it is gone."""
        return self._paths.get(slot)

    def of_id(self, file_id: FileId) -> ReadFile | None:
        """A file by its id; mostly one of the last is asked for."""
        return next((read for read in reversed(self._paths.values()) if read.file.file_id == file_id), None)

    def read_files(self) -> list[ReadFile]:
        """All files in reading order, which is not that in which they were found: of files that get new ids
        one after the other a listing may see a later one first.
        """
        return sorted(self._paths.values(), key=lambda read: reading_order(read.file))

    def __getitem__(self, slot: int) -> MappedFile:
        mapped = self._mapped.get(slot)
        if mapped is None:
            mapped = self.remap(slot)
        return mapped

    def remap(self, slot: int) -> MappedFile:
        """Map a file as long as it is now. Its descriptor is not kept, so that any number can be mapped."""
        file = self._paths[slot].file
        mapped = MappedFile(file.path)
        mapped.detach()
        if slot in self.unreadable:
            mapped.mend()
        self._remember(slot, mapped)
        self._stamps[slot] = file.stamp
        return mapped

    def may_have_healed(self, slot: int) -> bool:
        """Whether a file that could not be read everywhere was written to since it was mapped."""
        return slot in self.unreadable and self._stamps.get(slot) != self._paths[slot].file.stamp

    def note_unreadable(self, slot: int, mapped: MappedFile) -> None:
        """Remember what reading the file brought to light."""
        if mapped.unreadable:
            self.unreadable[slot] = mapped.unreadable
        else:
            self.unreadable.pop(slot, None)

    def mapped(self) -> list[tuple[int, MappedFile]]:
        """Return the mapped files, by slot."""
        return list(self._mapped.items())

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def _remember(self, slot: int, mapped: MappedFile) -> None:
        while len(self._mapped) >= JOURNAL_FILES_MAPPED_MAX:
            del self._mapped[next(iter(self._mapped))]
        self._mapped[slot] = mapped
