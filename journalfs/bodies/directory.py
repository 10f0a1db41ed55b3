"""Bodies of large messages: files named after the message, docs/format/large-messages.md.

A body that its client compressed is inflated when it is asked for (`inflated.py`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from journalfs import door
from journalfs.bodies.inflated import InflatedBodies
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.errors import Damaged, refuse_shortage
from journalfs.format.large_file import LargeFileKind, format_large_name, parse_large_name
from journalfs.ids import MessageId


@dataclass(frozen=True, slots=True)
class LargeFile:
    """One file of the directory, as listed."""

    name: str
    message_id: MessageId
    kind: LargeFileKind
    size_bytes: int
    mtime_ns: int


class BodyUnreadable(Damaged):
    """The body's file is there and cannot be opened or read; it may be another time."""


@dataclass(slots=True)
class LargeDirectory:
    path: Path
    inflated: InflatedBodies = field(default_factory=InflatedBodies)
    _problems: tuple[int, tuple[tuple[str, str, str], ...]] = (-1, ())
    """Modification time of the directory, and what was wrong with entries then: name, kind and reason."""

    def files(self) -> list[LargeFile]:
        """All body files, by message id. A missing directory holds none; `problems` says what is no file."""
        listed = (self.listed(name) for name in self._names())
        found = (file for file in listed if file is not None)
        return sorted(found, key=lambda file: (file.message_id, file.name))

    def listed(self, name: str) -> LargeFile | None:
        """The body file of a name; `None`: it is not there, or one of the problems."""
        parsed = parse_large_name(name)
        status = None if parsed is None else self._status(name)
        if parsed is None or status is None:
            return None
        return LargeFile(name, parsed.message_id, parsed.kind, status.st_size, status.st_mtime_ns)

    def _names(self) -> list[str]:
        try:
            return door.names(self.path)
        except OSError as error:
            refuse_shortage(error, self.path)
            return []  # missing, or one of the problems

    def problems(self, relative_to: Path) -> list[Damage]:
        """Return the files that are named like bodies and are none, or the error that kept the directory from
        being listed.
        """
        try:
            mtime_ns = door.status(self.path).st_mtime_ns
            if mtime_ns != self._problems[0]:
                self._problems = mtime_ns, tuple(_problems_in(self.path))
        except FileNotFoundError:
            return []
        except OSError as error:
            return [Damage(name_of(self.path, relative_to), 0, 0, *door.kind_and_reason(error))]
        return [
            Damage(name_of(self.path / name, relative_to), 0, 0, kind, reason)
            for name, kind, reason in self._problems[1]
        ]

    def body(self, message_id: MessageId, *, compressed: bool) -> MappedFile | None:
        """The body of a message, inflated; `None` when there is no file. Raises `Damaged` when a compressed
        body cannot be inflated to its end, or is longer than it may be, `BodyUnreadable` when there is
        something that cannot be read.
        """
        path = self.path / format_large_name(message_id)
        try:
            if self._existing(path) is None:
                return None
            return self.inflated.body(path) if compressed else MappedFile(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            refuse_shortage(error, path)
            raise BodyUnreadable(path, 0, door.kind_and_reason(error)[1]) from error

    def stamp(self, message_id: MessageId) -> FileStamp | None:
        """Return the stamp of a body's file; `None` if there is none that could be read."""
        status = self._status(format_large_name(message_id))
        return None if status is None else FileStamp.of(status)

    def _status(self, name: str) -> os.stat_result | None:
        """Of a regular file of the directory."""
        try:
            status = door.status(self.path / name)
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def file(self, message_id: MessageId | None) -> Path | None:
        """The body's file as it is on the disk, if there is one. Raises `BodyUnreadable`."""
        if message_id is None:
            return None
        path = self.path / format_large_name(message_id)
        try:
            return self._existing(path)
        except OSError as error:
            raise BodyUnreadable(path, 0, door.kind_and_reason(error)[1]) from error

    def _existing(self, path: Path) -> Path | None:
        try:
            mode = door.status(path).st_mode
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(mode):
            raise door.refused(path, mode)
        return path


def _problems_in(directory: Path) -> Iterator[tuple[str, str, str]]:
    with door.entries(directory) as entries:
        for entry in entries:
            if parse_large_name(entry.name) is None or entry.is_file(follow_symlinks=False):
                continue
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue  # deleted meanwhile
            yield entry.name, *door.kind_and_reason(door.refused(entry.name, mode))
