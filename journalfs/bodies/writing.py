"""Bodies of large messages on their way to the disk: a file each, durable before any record names it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.bodies.aside import Aside
from journalfs.format.large_file import format_large_name
from journalfs.ids import MessageId

_NO_LINKS: Final = frozenset(
    (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
)
"""Errors of `link` between two file systems, and on file systems without links."""


@dataclass(frozen=True, slots=True)
class NewBody:
    """A body that is to become a file, given in pieces."""

    message_id: MessageId
    pieces: Iterable[bytes | memoryview]
    file: Path | None = None
    """A file that holds exactly this, and that nobody changes any more: it needs no copy."""


class BodyStore:
    """Makes and removes body files. Every method may raise OSError, and takes as long as the disk does."""

    def __init__(self, directory: Path, aside: Aside, *, sync: bool) -> None:
        """`sync`: as `large-message-sync` says. `aside`: where bodies go that are removed."""
        self.directory = directory
        self.aside = aside
        self._sync = sync
        self.removals = threading.Lock()
        """While somebody has it no body is removed."""

    def write(self, bodies: Iterable[NewBody]) -> None:
        """Write bodies; durable on return."""
        door.make_folders(self.directory)
        for body in bodies:
            path = self.path(body.message_id)
            if body.file is None or not self._link(body.file, path):
                self._write(path, body.pieces)
        if self._sync:
            door.sync(self.directory)

    def _link(self, file: Path, path: Path) -> bool:
        """Give a file the name of a body; False where it cannot have two."""
        try:
            door.link(file, path)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        if self._sync:
            door.sync(path)
        return True

    def _write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        descriptor = door.create(path)
        try:
            for piece in pieces:
                write_all(descriptor, piece, self.aside.let_go_of_all)
            if self._sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, message_id: MessageId, offset: int, length: int) -> bytes:
        """A piece of a body that was written."""
        with open(door.open_file(self.path(message_id)), "rb") as file:
            file.seek(offset)
            return file.read(length)

    def remove(self, message_ids: Collection[MessageId]) -> None:
        """Remove those that are there."""
        with self.removals:
            for message_id in message_ids:
                self.aside.keep(self.path(message_id))
                door.remove_if_there(self.path(message_id))

    def path(self, message_id: MessageId) -> Path:
        return self.directory / format_large_name(message_id)


def no_room() -> bool:
    """None can be made."""
    return False


def write_all(
    descriptor: int, data: bytes | bytearray | memoryview, make_room: Callable[[], bool] = no_room
) -> None:
    """Write all of it, however many calls that takes. Nothing holds on to `data` afterwards. `make_room` is
    called on a full disk: whether it made some.
    """
    done = 0
    with memoryview(data) as view:
        while done < len(view):
            with view[done:] as rest:
                try:
                    done += os.write(descriptor, rest)
                except OSError as error:
                    if error.errno != errno.ENOSPC or not make_room():
                        raise


# Bytes of one message that is being written: in memory while they are few, then in a file.


class Spool:
    """Methods that touch the disk may raise OSError. The file is nobody's before its message is published."""

    def __init__(self, make_path: Callable[[], Path], *, memory_bytes_max: int) -> None:
        """`make_path` says where the file goes, in a directory that is there, if it comes to that."""
        self._make_path = make_path
        self._memory_bytes_max = memory_bytes_max
        self._memory = bytearray()
        self._descriptor = -1
        self.path: Path | None = None
        """None while all of it is in memory."""

    def fits(self, length: int) -> bool:
        """Whether that much more can be taken without touching the disk."""
        return self.path is None and len(self._memory) + length <= self._memory_bytes_max

    def take(self, data: bytes | memoryview) -> None:
        """More bytes that fit."""
        self._memory += data

    def append(self, data: bytes) -> None:
        """More bytes, to the file."""
        if self.path is None:
            self._to_file(self._make_path())
        write_all(self._descriptor, data)

    def sync(self) -> None:
        if self.path is not None:
            os.fsync(self._descriptor)

    def content(self) -> bytes:
        """All of it, while it is in memory."""
        return bytes(self._memory)

    def keep(self, path: Path) -> None:
        """Leave what there is as a file of that name, durable: its message could not be published."""
        if self.path is None:
            self._to_file(path)
        assert self.path is not None
        os.fsync(self._descriptor)
        door.rename(self.path, path)
        self.close()

    def discard(self) -> None:
        path = self.path
        self.close()
        if path is not None:
            door.remove_if_there(path)

    def close(self) -> None:
        """Let go of it; the file stays."""
        self._memory.clear()
        if self.path is not None:
            os.close(self._descriptor)
            self._descriptor, self.path = -1, None

    def _to_file(self, path: Path) -> None:
        """All in memory, and no file, where that fails."""
        # As a body is made: it may become one.
        descriptor = door.create(path)
        try:
            write_all(descriptor, self._memory)
        except BaseException:
            os.close(descriptor)
            door.remove_if_there(path)
            raise
        self._descriptor, self.path = descriptor, path
        self._memory.clear()
