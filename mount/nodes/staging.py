"""The area of staged files: real files and directories in a folder of the store that is disposable.

They outlive the mount. A file that was not touched for a week is swept when the store is mounted again, and
so is a file of an address, queue or job that is no more.

A discarded directory may hold any number of files: its name goes at once, its files go in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import trio

from journalfs import door
from journalfs.api import in_a_thread
from journalfs_mount.limits import STAGED_AGE_MAX_S
from journalfs_mount.names.fates import is_backup
from journalfs_mount.process.reader import Reader
from journalfs_mount.process.staged_room import ENTRY_BYTES, Room

# Which process made a staged directory of a job, so that it goes when that process has ended.
#
# Spark's committers take every finished task below `_temporary` for one of their own job. What a killed job
# left would be published by the next one, so it must be gone by then.

JOB_DIRECTORY: Final = b"_temporary"
"""Where Hadoop's committers keep what the tasks of a job wrote."""

_ATTEMPT: Final = b"0"
"""The directory in a job's folder once the job has begun: for its only attempt."""

_ATTRIBUTE: Final = "user.journalfs.maker"
"""Of the real directory, so that the next mount knows it too."""


def note_maker(path: bytes, thread: int) -> None:
    """Keep with a directory which process made it. One that cannot be told, and one on a file system without
    attributes, stays until it is swept.
    """
    process = Reader.of(thread, 0)
    where = _where()
    if process is None or where is None:
        return
    with contextlib.suppress(OSError):
        made_by = " ".join((*where, str(process.pid), process.began)).encode()
        with door.held(path) as descriptor:
            os.setxattr(descriptor, _ATTRIBUTE, made_by)


def is_left(path: bytes) -> bool:
    """Whether a directory holds a job, and the process that made it is no more. False where that cannot be
    told.
    """
    where = _where()
    if where is None or not door.is_folder(os.path.join(path, _ATTEMPT)):
        return False
    try:
        with door.held(path) as descriptor:
            said = os.getxattr(descriptor, _ATTRIBUTE)
        boot, namespace, pid, began = said.decode("ascii").split()
        process = Reader(int(pid), began, 0)
    except (OSError, ValueError):
        return False
    if boot != where[0]:
        return True
    return namespace == where[1] and process.has_ended()


def _where() -> tuple[str, str] | None:
    """The run of the system and the space of process numbers in which a number means a process."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return boot, str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return None


# Staged directories that were just used, held open: what is asked of a name in one costs the same however
# deep it lies.

PINNED_MAX: Final = 64
"""So many descriptors. The kernel asks for one directory of a path after the other, so that each finds the
one above it among the last."""


class Pins:
    """Descriptors of directories, by the number of their nodes."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, int] = OrderedDict()

    def find(self, inode: int, number: int) -> int | None:
        """The descriptor of a node's directory, whose own number that is. None: there is none, or the
        directory is gone. Good until the next `hold`.
        """
        descriptor = self._held.get(inode)
        if descriptor is None:
            return None
        found = os.fstat(descriptor)
        if found.st_ino != number or not found.st_nlink:
            os.close(self._held.pop(inode))
            return None
        self._held.move_to_end(inode)
        return descriptor

    def hold(self, inode: int, descriptor: int) -> None:
        """Take over a descriptor of that node's directory; the one that was used longest ago may go."""
        before = self._held.pop(inode, None)
        if before is not None:
            os.close(before)
        self._held[inode] = descriptor
        while len(self._held) > PINNED_MAX:
            os.close(self._held.popitem(last=False)[1])

    def close(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])


log = logging.getLogger(__name__)

PlaceName: TypeAlias = tuple[bytes, ...]
"""File names of an address, or of an address and a queue; empty for the root."""

_FOLDERS: Final = (b"root", b"addresses", b"queues")
"""Folders by the length of a place's name, so that a name staged in an address cannot be taken for one of its
queues.
"""

_DISCARDED: Final = b"discarded"
"""Where directories are that are nobody's any more, until they are removed."""


BLOCK_BYTES: Final = 512
"""As the system counts what a file takes."""

UNCOUNTED: Final = 1 << 62
"""Inodes of a file system that has no number of them."""

GIVEN: Final = "user.journalfs.staged"
"""An attribute of the real file: the mode, owner and group that it was given, where its own are others."""


class StagingArea:
    """The folder. Paths are bytes, because names are."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._discarded = trio.Event()

    def folder(self, place: PlaceName) -> bytes:
        """Return the folder of a place's staged names. It need not exist."""
        return os.path.join(self._root, _FOLDERS[len(place)], *place)

    def used(self, user: int) -> Room:
        """Return the room that files and directories of a user take here, for users other than the owner of
        the mount.
        """
        used_bytes = used_files = 0
        for folder, folders, files in door.below(self._root, lambda error: None):
            with suppress(OSError), door.folder(folder) as held:
                for name in (*folders, *files):
                    size_bytes = _bytes_of(held, name, user)
                    used_bytes += size_bytes
                    used_files += size_bytes > 0
        return Room(used_bytes, used_files)

    def free(self) -> Room:
        """Return the free room of the disk. Some file systems make inodes as they need them.
        Raises OSError.
        """
        door.make_folders(self._root)
        found = door.disk_of(self._root)
        return Room(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else UNCOUNTED)

    def discard_place(self, place: PlaceName) -> None:
        """Forget what was staged in a place that was removed."""
        self.discard(self.folder(place))

    def discard(self, path: bytes) -> None:
        """Remove a file, or a directory with all its content, if it is there. Raises OSError."""
        try:
            door.remove(path)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            door.rename(path, os.path.join(self._aside(), uuid.uuid4().hex.encode()))
            self._discarded.set()

    def _aside(self) -> bytes:
        """The folder of directories that are nobody's any more."""
        aside = os.path.join(self._root, _DISCARDED)
        door.make_folders(aside)
        return aside

    async def run(self) -> None:
        """Remove directories that were discarded, until cancelled."""
        while True:
            await self._discarded.wait()
            self._discarded = trio.Event()
            await in_a_thread(self._remove_discarded)

    def _remove_discarded(self) -> None:
        aside = os.path.join(self._root, _DISCARDED)
        try:
            names = door.names(aside)
        except OSError as error:
            log.warning("what was staged is left until the next mount: %s", error)
            return
        for name in names:
            _remove(os.path.join(aside, os.fsencode(name)))

    def sweep(self, exists: Callable[[PlaceName], bool], now_s: float) -> list[str]:
        """Remove files that are too old, and places that do not exist any more. Returns their paths within
        the area.
        """
        oldest_s, swept = now_s - STAGED_AGE_MAX_S, []
        for place in list(self._places()):
            folder = self.folder(place)
            if exists(place):
                swept += _old(folder, oldest_s)
            else:
                swept.append(folder)
        _remove(os.path.join(self._root, _DISCARDED))
        return [self._relative(path) for path in swept if _remove(path)]

    def _places(self) -> Iterator[PlaceName]:
        if door.is_folder(self.folder(())):
            yield ()
        for address in _directories(os.path.join(self._root, _FOLDERS[1])):
            yield (address,)
        for address in _directories(os.path.join(self._root, _FOLDERS[2])):
            for queue in _directories(os.path.join(self._root, _FOLDERS[2], address)):
                yield (address, queue)

    def _relative(self, path: bytes) -> str:
        return os.fsdecode(os.path.relpath(path, self._root))


def _remove(path: bytes) -> bool:
    """Remove a file, or a directory with all its content, if it is there. Returns True once it is gone."""
    try:
        door.remove_tree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("what was staged is left until the next mount: %s", error)
        return False
    return True


def files_below(path: bytes) -> list[tuple[bytes, bytes]]:
    """Return the files that a staged directory brings along when it is published: path, and path within it,
    in the order of their paths. Hidden files and editors' backups stay unpublished. Raises OSError if a part
    of it cannot be listed, since files would be lost.
    """
    found: list[bytes] = []
    for folder, directories, names in door.below(path, _raised):
        directories[:] = [name for name in directories if name[:1] not in (b".", b"_")]
        shown = (name for name in names if name[:1] not in (b".", b"_") and not is_backup(name))
        found += [os.path.join(folder, name) for name in shown]
    return [(file, os.path.relpath(file, path)) for file in sorted(found)]


def _raised(error: OSError) -> None:
    """Raise an error of listing, except below a file, where there is nothing."""
    if not isinstance(error, NotADirectoryError):
        raise error


def write_all(descriptor: int, offset: int, data: bytes) -> None:
    """Write all of `data`, which one call need not do."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        view, offset = view[written:], offset + written


def _directories(path: bytes) -> list[bytes]:
    try:
        with door.entries(path) as entries:
            return [os.fsencode(one.name) for one in entries if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _old(folder: bytes, oldest_s: float) -> list[bytes]:
    """Return the names in a folder that were not touched since, and those of jobs whose process has ended;
    none if that cannot be found out.
    """
    try:
        found = [(name, os.path.join(folder, os.fsencode(name))) for name in door.names(folder)]
        return [
            path
            for name, path in found
            if (os.fsencode(name) == JOB_DIRECTORY and is_left(path)) or _newest_s(path) < oldest_s
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("what was staged is left until the next mount: %s", error)
        return []


def _newest_s(path: bytes) -> float:
    """Return when anything in it last changed, or was put there: content that was moved or copied there may
    keep old times.
    """
    newest = _touched_s(path)
    for folder, directories, names in door.below(path, _raised):
        for name in [*directories, *names]:
            newest = max(newest, _touched_s(os.path.join(folder, name)))
    return newest


def _touched_s(path: bytes) -> float:
    found = door.status(path)
    return max(found.st_mtime, found.st_ctime)


def _bytes_of(held: int, name: bytes, user: int) -> int:
    try:
        descriptor = door.pin_in(held, name)
    except OSError:
        return 0  # it went meanwhile
    try:
        given = os.getxattr(b"/proc/self/fd/%d" % descriptor, GIVEN).split()
        found = os.fstat(descriptor)
        return found.st_blocks * BLOCK_BYTES + ENTRY_BYTES if int(given[1]) == user else 0
    except (OSError, ValueError, IndexError):
        return 0
    finally:
        os.close(descriptor)
