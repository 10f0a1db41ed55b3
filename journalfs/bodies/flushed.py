"""Content that flushes made durable and that is not published yet (docs/operate/folder.md): a note each, and
files for long content.

`ID.note` is the note: short content comes first, so that cutting off the rest leaves the written bytes; then
the destination as JSON; and 16 bytes: the length of the JSON, a checksum of all before it, and a mark.
`ID.body` holds long content. A body without a note was never flushed: no caller was told that it is kept.
"""

from __future__ import annotations

import json
import stat
import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.bodies.writing import write_all
from journalfs.errors import Damaged, DecodeError
from journalfs.limits import NOTE_BYTES_MAX, PUBLISHED_PIECE_BYTES_MAX

_NOTE: Final = ".note"
_BODY: Final = ".body"
_MARK: Final = b"jfsnote1"
_END: Final = struct.Struct(">II8s")


class FlushNote(msgspec.Struct, frozen=True):
    """The note of flushed content and its destination."""

    note_id: str
    """Hexadecimal; never used for another content once that is published."""
    address: str
    queue: str | None
    """None: routed to the queues of the address."""
    file_name: str
    """The name of the file, whose suffix decides its framing."""
    size_bytes: int
    """Of the content that was flushed."""
    has_body_file: bool
    """True if the content is in a file of its own. That file may be longer: bytes behind the noted size were
    not flushed.
    """


def encode_note(note: FlushNote, content: bytes | memoryview) -> bytes:
    """`content` is empty where it is in a file of its own."""
    told = json.dumps(msgspec.structs.asdict(note)).encode()
    checksum = zlib.crc32(told, zlib.crc32(content))
    return b"".join((content, told, _END.pack(len(told), checksum, _MARK)))


def decode_note(data: bytes) -> tuple[FlushNote, bytes]:
    """The note and its content. Raises `DecodeError` where it is not whole."""
    try:
        length, checksum, mark = _END.unpack(data[-_END.size :])
        end = len(data) - _END.size
        if mark != _MARK or length > end or zlib.crc32(data[:end]) != checksum:
            raise ValueError("its end is missing, or it was changed")
        note = msgspec.json.decode(data[end - length : end], type=FlushNote, strict=True)
        if bytes.fromhex(note.note_id).hex() != note.note_id or note.size_bytes < 0:
            raise ValueError("what it says of itself cannot be")
    except (struct.error, ValueError, RecursionError) as error:
        raise DecodeError(max(len(data) - _END.size, 0), f"no note of flushed content: {error}") from None
    return note, data[: end - length]


@dataclass(slots=True)
class FoundNotes:
    """The notes in the folder, oldest first."""

    notes: list[FlushNote] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)
    """Files that should be notes and are none."""
    unreadable: list[tuple[Path, OSError]] = field(default_factory=list)
    """Files of which nobody knows, and why."""


class FlushedFolder:
    """Every method may raise OSError, and takes as long as the disk does."""

    def __init__(self, path: Path, *, sync: bool, keeps: bool = True) -> None:
        """`sync`: durable in a power cut, not only when the process ends. Not `keeps`: it ends with the
        process, so there is nothing to note.
        """
        self.path = path
        self.keeps = keeps
        self._sync = sync

    def make_body(self, note_id: str) -> Path:
        """Where a long content goes; the folder is there then."""
        door.make_folders(self.path)
        return self.body_path(note_id)

    def body_path(self, note_id: str) -> Path:
        return self.path / (note_id + _BODY)

    def files_of(self, note_id: str) -> tuple[Path, Path]:
        """Return the files that a note may have."""
        return self._note_path(note_id), self.body_path(note_id)

    def write(self, note: FlushNote, content: bytes | memoryview) -> None:
        """Note what was flushed, durable on return, in the place of what was noted under this id before.
        `content` is empty where a body holds it, which is durable already.
        """
        door.make_folders(self.path)
        with door.replacing(self._note_path(note.note_id), synced=self._sync) as made:
            write_all(made, encode_note(note, content))

    def read(self, note: FlushNote) -> bytes | Path:
        """Return the flushed content: the bytes, or the path of a file that holds just them.
        Raises `Damaged`.
        """
        if not note.has_body_file:
            return self._read(self._note_path(note.note_id))[1]
        path = self.body_path(note.note_id)
        size_bytes = door.status(path).st_size if door.is_file(path) else 0
        if size_bytes < note.size_bytes:
            raise Damaged(path, size_bytes, f"{note.size_bytes} bytes were flushed to it")
        if size_bytes > note.size_bytes:
            door.truncate(path, note.size_bytes)
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
        for path in self._named(".tmp", ".new", _BODY):
            if path.suffix != _BODY or not door.exists(self._note_path(path.stem)):
                door.remove(path)

    def remove(self, note_ids: Collection[str]) -> None:
        """Remove notes and their bodies, where they are there; durable on return."""
        for note_id in note_ids:
            for path in self.files_of(note_id):
                door.remove_if_there(path)
        self._sync_folder()

    def set_aside(self, note: FlushNote, path: Path) -> None:
        """Leave what was flushed as a file of that name and nothing else of it: its message cannot be
        published. Needs no room on the disk. Where the body is gone, the note is left, which says where it
        was to go.
        """
        note_path = self._note_path(note.note_id)
        if note.has_body_file and not door.exists(self.body_path(note.note_id)):
            door.rename(note_path, path)
        elif note.has_body_file:
            door.rename(self.body_path(note.note_id), path)
            door.remove(note_path)
        else:
            door.rename(note_path, path)
            door.truncate(path, note.size_bytes)
        if self._sync:
            door.sync(path.parent)
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
            size_bytes = door.status(path).st_size
            if size_bytes > PUBLISHED_PIECE_BYTES_MAX + NOTE_BYTES_MAX:
                raise DecodeError(0, f"no note of flushed content is {size_bytes} bytes long")
            return decode_note(door.read(path))
        except DecodeError as error:
            raise Damaged(path, error.offset, error.reason) from None

    def _named(self, *suffixes: str) -> Iterator[Path]:
        """Yield the files of the folder, oldest first. Other kinds of entries stay untouched."""
        try:
            with door.folder(self.path) as held:
                found = {
                    name: door.status_in(held, name)
                    for name in door.names_in(held)
                    if name.endswith(suffixes)
                }
        except FileNotFoundError:
            return iter(())
        files = [(status.st_mtime_ns, name) for name, status in found.items() if stat.S_ISREG(status.st_mode)]
        return (self.path / name for _, name in sorted(files))

    def _sync_folder(self) -> None:
        if self._sync and door.is_folder(self.path):
            door.sync(self.path)
