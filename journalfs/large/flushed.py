"""What flushes made durable and no publication has taken over yet: a note each, and bodies that are long.

`ID.note` is the note, with the content where that is short; `ID.body` is the content where it is long. A body
without a note was never flushed: nobody was told that it is kept.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs.engine.links import sync
from journalfs.errors import Damaged, DecodeError
from journalfs.format.flush_note import FlushNote, decode_note, encode_note
from journalfs.large.writing import write_all
from journalfs.limits import NOTE_BYTES_MAX, PUBLISHED_PIECE_BYTES_MAX
from journalfs.ownership import give_to_owner, make_directory

_NOTE: Final = ".note"
_BODY: Final = ".body"
_NEW: Final = ".new"
"""A note that takes the place of an earlier one of its id, until it is whole."""


@dataclass(slots=True)
class FoundNotes:
    """What lies in the folder, oldest first."""

    notes: list[FlushNote] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)
    """Files that should be notes and are none."""
    unreadable: list[tuple[Path, OSError]] = field(default_factory=list)
    """Files of which nobody knows, and why."""


class FlushedFolder:
    """Every method may raise OSError, and takes as long as the disk does."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        """`sync`: durable in a power cut, not only when the process ends."""
        self.path = path
        self._sync = sync

    def make_body(self, note_id: str) -> Path:
        """Where a long content goes; the folder is there then."""
        make_directory(self.path)
        return self.body_path(note_id)

    def body_path(self, note_id: str) -> Path:
        return self.path / (note_id + _BODY)

    def write(self, note: FlushNote, content: bytes | memoryview) -> None:
        """Note what was flushed, durable on return, in the place of what was noted under this id before.
        `content` is empty where a body holds it, which is durable already.
        """
        make_directory(self.path)
        path = self._note_path(note.note_id)
        again = path.exists()
        made = path.with_suffix(_NEW) if again else path
        try:
            self._make(made, encode_note(note, content))
            if again:
                made.rename(path)
        except OSError:
            # Half a note says nothing; and where the disk is full it would take the last of it.
            with contextlib.suppress(OSError):
                made.unlink(missing_ok=True)
            raise
        self._sync_folder()

    def _make(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            give_to_owner(descriptor, self.path)
            write_all(descriptor, data)
            if self._sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, note: FlushNote) -> bytes | Path:
        """What was flushed: the bytes, or a body that holds them and nothing else. Raises `Damaged`."""
        if not note.has_body_file:
            return self._read(self._note_path(note.note_id))[1]
        path = self.body_path(note.note_id)
        size_bytes = path.stat().st_size if _is_file(path) else 0
        if size_bytes < note.size_bytes:
            raise Damaged(path, size_bytes, f"{note.size_bytes} bytes were flushed to it")
        if size_bytes > note.size_bytes:
            os.truncate(path, note.size_bytes)
        return path

    def notes(self) -> FoundNotes:
        found = FoundNotes()
        for path in self._named(_NOTE):
            try:
                found.notes.append(self._note(path))
            except Damaged:
                found.broken.append(path)
            except OSError as error:
                found.unreadable.append((path, error))
        return found

    def tidy(self) -> None:
        """Remove what no flush ended with: called when nobody is writing."""
        for path in [*self._named(_NEW), *self._named(_BODY)]:
            if path.suffix == _NEW or not self._note_path(path.stem).exists():
                path.unlink()

    def remove(self, note_ids: Collection[str]) -> None:
        """Remove notes and their bodies, where they are there; durable on return."""
        for note_id in note_ids:
            self._note_path(note_id).unlink(missing_ok=True)
            self.body_path(note_id).unlink(missing_ok=True)
        self._sync_folder()

    def set_aside(self, note: FlushNote, path: Path) -> None:
        """Leave what was flushed as a file of that name and nothing else of it: its message cannot be
        published. Needs no room on the disk. Where the body is gone, the note is left, which says where it
        was to go.
        """
        note_path = self._note_path(note.note_id)
        if note.has_body_file and not os.path.lexists(self.body_path(note.note_id)):
            note_path.rename(path)
        elif note.has_body_file:
            self.body_path(note.note_id).rename(path)
            note_path.unlink()
        else:
            note_path.rename(path)
            os.truncate(path, note.size_bytes)
        if self._sync:
            sync(path.parent)
            self._sync_folder()

    def _note_path(self, note_id: str) -> Path:
        return self.path / (note_id + _NOTE)

    def _note(self, path: Path) -> FlushNote:
        note = self._read(path)[0]
        if note.note_id != path.stem:
            raise Damaged(path, 0, "it is a copy of another note")
        return note

    @staticmethod
    def _read(path: Path) -> tuple[FlushNote, bytes]:
        try:
            size_bytes = path.stat().st_size
            if size_bytes > PUBLISHED_PIECE_BYTES_MAX + NOTE_BYTES_MAX:
                raise DecodeError(0, f"no note of what was flushed is {size_bytes} bytes long")
            return decode_note(path.read_bytes())
        except DecodeError as error:
            raise Damaged(path, error.offset, error.reason) from None

    def _named(self, suffix: str) -> Iterator[Path]:
        """Oldest first. Whatever is no file is not ours, and stays."""
        try:
            paths = [path for path in self.path.iterdir() if path.suffix == suffix and _is_file(path)]
        except FileNotFoundError:
            return iter(())
        return iter(sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name)))

    def _sync_folder(self) -> None:
        if self._sync and self.path.is_dir():
            sync(self.path)


def _is_file(path: Path) -> bool:
    """False for links, too: what they lead to belongs to somebody else."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
