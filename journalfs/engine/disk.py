"""Journal backends on real files, behind the seam of `journalfs.engine.backend`.

Rare operations (creating, naming, headers) are the same in all three and done at once. Frequent ones go to
the C core, which writes in a thread (NIO, MAPPED) or hands them to the kernel (AIO).
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journalfs import door
from journalfs.engine._native import ffi, lib
from journalfs.engine.backend import BackendKind, Completion, OpenFile
from journalfs.engine.buffers import MappedFile
from journalfs.engine.links import NamedFile, is_linked
from journalfs.engine.stage import Stage
from journalfs.engine.status import check
from journalfs.engine.tail import Tail
from journalfs.errors import OutOfResources
from journalfs.limits import (
    JOURNAL_BLOCK_BYTES_DEFAULT,
    JOURNAL_BLOCK_BYTES_MAX,
    JOURNAL_WRITES_IN_FLIGHT_MAX,
)

log = logging.getLogger(__name__)

PAGE_BYTES = 4096

PROBE_NAME = ".aio-test"
"""The broker's name for its probe file: it must not look like a journal file."""

_KINDS = {
    BackendKind.NIO: lib.JFS_IO_NIO,
    BackendKind.MAPPED: lib.JFS_IO_MAPPED,
    BackendKind.AIO: lib.JFS_IO_AIO,
}


@dataclass(slots=True)
class DiskFile:
    """An open journal file; `map` is its writable mapping for MAPPED."""

    name: str
    size_bytes: int
    fd: int
    place: NamedFile
    alignment_bytes: int = 1
    map: Any = field(default=ffi.NULL)


def _raise(system_error: int, doing: str, name: Path | str) -> None:
    raise OSError(system_error, f"{os.strerror(system_error)} ({doing})", str(name))


class DiskBackend:
    """Files of one directory through NIO, MAPPED or AIO. Raises OSError where the kernel refuses."""

    performs = True
    defers = False

    def __init__(
        self,
        directory: Path,
        kind: BackendKind,
        *,
        depth: int = 1,
        datasync: bool = True,
        block_bytes: int | None = None,
    ) -> None:
        self.directory = directory
        self.kind = kind
        self.depth = max(1, min(depth, JOURNAL_WRITES_IN_FLIGHT_MAX))
        self._datasync = datasync
        self.alignment_bytes = _alignment(directory, block_bytes) if kind is BackendKind.AIO else 1
        out, error = ffi.new("jfs_io **"), ffi.new("int *")
        status = lib.jfs_io_open(out, _KINDS[kind], self.depth, error)
        if status == lib.JFS_SYSTEM:
            _raise(error[0], f"preparing {kind} writes", directory)
        check(status, "preparing writes")
        self._io: Any = out[0]
        self.event_fd: int | None = int(lib.jfs_io_event_fd(self._io))
        self._done = ffi.new("jfs_io_done[]", self.depth)
        self._count = ffi.new("uint32_t *")
        self._error = ffi.new("int *")
        self._took = ffi.new("uint64_t *")

    # ---- names and contents ----

    def free_bytes(self) -> int:
        found = door.disk_of(self.directory)
        return found.f_bavail * found.f_frsize

    def names(self) -> list[str]:
        with door.entries(self.directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    def size_bytes(self, name: str) -> int:
        return door.status(self.directory / name).st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        with open(door.open_file(self.directory / name), "rb") as file:
            file.seek(offset)
            return file.read(length)

    def view(self, name: str) -> MappedFile:
        try:
            return MappedFile(self.directory / name)
        except OutOfResources as error:
            # Whoever writes undoes or gives up what an OSError interrupts.
            raise OSError(error.system_errno, str(error)) from error

    def allocate(self, name: str, size_bytes: int) -> None:
        fd = door.create_instead(self.directory / name)
        try:
            error = ffi.new("int *")
            # A mapped page is written back with all of the large page that it is part of, and those are made
            # by large writes; direct writes have no pages.
            chunk = 0 if self.kind is BackendKind.AIO else PAGE_BYTES
            status = lib.jfs_file_fill(fd, size_bytes, chunk, self._datasync, error)
            if status == lib.JFS_SYSTEM:
                _raise(error[0], "filling with zeros", name)
            check(status, f"filling {name}")
            if self.kind is BackendKind.AIO:
                # Direct writes have to throw the cached pages out one by one otherwise.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        with door.opened(self.directory / name, door.WRITE) as fd:
            while data:
                written = os.pwrite(fd, data, offset)
                data, offset = data[written:], offset + written

    def sync(self, name: str) -> None:
        if self._datasync:
            with door.opened(self.directory / name, door.WRITE) as fd:
                os.fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        door.rename(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        door.remove(self.directory / name)

    def make_folder(self, name: str) -> None:
        door.make_folders(self.directory / name)

    def is_linked(self, name: str) -> bool:
        return is_linked(self.directory / name)

    def folder_size(self, name: str) -> int:
        try:
            return len(door.names(self.directory / name))
        except FileNotFoundError:
            return 0

    def sync_directory(self) -> None:
        if self._datasync:
            door.sync(self.directory)

    # ---- writing ----

    def open(self, name: str, *, dense: bool = False) -> DiskFile:
        # Through the page cache the kernel completes blocks, as it does for NIO.
        direct = os.O_DIRECT if self.kind is BackendKind.AIO and self._datasync and not dense else 0
        path = self.directory / name
        fd = door.open_file(path, door.WRITE | direct)
        try:
            alignment_bytes = 1 if dense else self.alignment_bytes
            file = DiskFile(name, os.fstat(fd).st_size, fd, NamedFile.of(fd, path), alignment_bytes)
            if self.kind is BackendKind.MAPPED:
                out, error = ffi.new("uint8_t **"), ffi.new("int *")
                if lib.jfs_file_map(fd, file.size_bytes, out, error) == lib.JFS_SYSTEM:
                    _raise(error[0], "mapping", name)
                file.map = out[0]
        except BaseException:
            os.close(fd)
            raise
        return file

    def close_file(self, file: OpenFile) -> None:
        assert isinstance(file, DiskFile)
        lib.jfs_file_unmap(file.map, file.size_bytes)
        os.close(file.fd)
        file.fd, file.map = -1, ffi.NULL

    def lost(self, file: OpenFile) -> OSError | None:
        assert isinstance(file, DiskFile)
        return file.place.lost(file.size_bytes)

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        assert isinstance(file, DiskFile)
        pointer = stage.pointer
        status = lib.jfs_io_perform(
            self._io,
            file.fd,
            file.map,
            pointer.file_offset,
            pointer.bytes,
            length,
            self._datasync,
            self._took,
            self._error,
        )
        if status != lib.JFS_SYSTEM:
            check(status, f"writing to {file.name}")
        return int(self._error[0])

    def lend(self, file: OpenFile, tail: Tail) -> None:
        assert isinstance(file, DiskFile)
        place = file.place
        tail.by_disk(self._io, file.fd, file.map, durable=self._datasync)
        with door.place(place.path) as (directory, name):
            tail.at(directory, name, place.device, place.inode, file.size_bytes)

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        assert isinstance(file, DiskFile)
        pointer = stage.pointer
        status = lib.jfs_io_submit(
            self._io,
            file.fd,
            file.map,
            pointer.file_offset,
            pointer.bytes,
            length,
            durable and self._datasync,
            tag,
            self._error,
        )
        if status == lib.JFS_SYSTEM:
            _raise(self._error[0], "submitting a write", file.name)
        check(status, f"submitting a write to {file.name}")

    def completed(self, timeout_ns: int) -> list[Completion]:
        status = lib.jfs_io_wait(self._io, timeout_ns, self._done, self.depth, self._count, self._error)
        if status == lib.JFS_SYSTEM:
            _raise(self._error[0], "asking for completed writes", self.directory)
        done, count = self._done, self._count[0]
        if count:
            self._took[0] = done[count - 1].took_ns
        return [Completion(done[i].tag, done[i].error) for i in range(count)]

    def took_ns(self) -> int | None:
        return int(self._took[0]) or None

    def ring(self) -> None:
        if self.event_fd is not None:
            os.eventfd_write(self.event_fd, 1)

    def close(self) -> None:
        if self._io != ffi.NULL:
            lib.jfs_io_close(self._io)
            self._io, self.event_fd = ffi.NULL, None


def _alignment(directory: Path, configured: int | None) -> int:
    """The block size of direct writes: as configured, else the file system's; never below a sector."""
    if configured:
        return max(512, configured)
    size = door.status(directory).st_blksize
    return size if 512 <= size <= JOURNAL_BLOCK_BYTES_MAX else JOURNAL_BLOCK_BYTES_DEFAULT


def open_backend(
    directory: Path,
    kind: BackendKind,
    *,
    writes_in_flight_max: int | None = None,
    datasync: bool = True,
    block_bytes: int | None = None,
    warn: Callable[[str], None] = log.warning,
) -> DiskBackend:
    """The backend of that kind; NIO, with a warning, where the system refuses AIO, as a broker does.

    `writes_in_flight_max` is `journal-max-io`: None stands for 1, and for the limit with AIO.
    """
    if kind is BackendKind.AIO:
        depth = writes_in_flight_max or JOURNAL_WRITES_IN_FLIGHT_MAX
        try:
            return _probed(
                DiskBackend(directory, kind, depth=depth, datasync=datasync, block_bytes=block_bytes)
            )
        except OSError as error:
            spent = (
                "; the system's rings are spent, see /proc/sys/fs/aio-max-nr"
                if error.errno == errno.EAGAIN
                else ""
            )
            why = error.strerror or error
            warn(f"{directory}: asynchronous I/O is refused ({why}{spent}); writing with NIO instead")
            kind, writes_in_flight_max = BackendKind.NIO, None
    return DiskBackend(directory, kind, depth=writes_in_flight_max or 1, datasync=datasync)


def _probed(backend: DiskBackend) -> DiskBackend:
    """Write one block as the journal will be written: opening alone does not show that direct writes work."""
    try:
        backend.allocate(PROBE_NAME, backend.alignment_bytes)
        try:
            done = _written_block(backend)
        finally:
            backend.remove(PROBE_NAME)
        if done.error:
            _raise(done.error, "writing directly", backend.directory)
    except BaseException:
        backend.close()
        raise
    return backend


def _written_block(backend: DiskBackend) -> Completion:
    file = backend.open(PROBE_NAME)
    try:
        stage = Stage(backend.alignment_bytes)
        stage.begin(slot=0, rid=0, file_offset=0, room_bytes=backend.alignment_bytes)
        stage.zero(backend.alignment_bytes)
        backend.submit(file, stage, backend.alignment_bytes, durable=True, tag=0)
        done: list[Completion] = []
        while not done:
            done = backend.completed(1_000_000_000)
        return done[0]
    finally:
        backend.close_file(file)
