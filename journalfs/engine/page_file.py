"""Page files and their folders on the disk: appended to, cut back, made and removed.

Every function may raise OSError and takes as long as the disk does. With `datasync` off nothing is synced, as
for journals.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from journalfs import door
from journalfs.engine.links import NamedFile


class PageFile:
    """One page, open for appending. It is made if it is not there; an empty one's name is durable at once."""

    __slots__ = ("_datasync", "_descriptor", "_place", "path", "size_bytes")

    def __init__(self, path: Path, *, datasync: bool) -> None:
        self.path = path
        self._datasync = datasync
        self._descriptor = door.open_or_create(path)
        try:
            self._place = NamedFile.of(self._descriptor, path)
            self.size_bytes = os.fstat(self._descriptor).st_size
            # Not only of a new one: a sync that failed may have left it behind.
            if not self.size_bytes:
                sync_folder(path.parent, datasync=datasync)
        except BaseException:
            os.close(self._descriptor)
            raise

    def begin(self) -> None:
        """Make sure that the page exists, empty, even if nothing more is written. A file exists once it is
        opened.
        """

    def append(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, self.size_bytes)
            self.size_bytes += written
            view = view[written:]

    def cut(self, size_bytes: int) -> None:
        """Take back what was appended behind `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        if self._datasync:
            os.fdatasync(self._descriptor)

    def lost(self) -> OSError | None:
        """Return why a reader would not find the appended bytes under the page's name; None: it would."""
        return self._place.lost(self.size_bytes)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def make_page_folder(folder: Path, address_file: str, content: bytes, *, datasync: bool) -> None:
    """Make a folder with the file that names its address; both are durable on return. A crash leaves a folder
    that nobody looks into, or a whole one; an error leaves none, if that can be.
    """
    door.make_folders(folder.parent)
    if door.is_folder(folder):
        remove_page_folder(folder, datasync=datasync)  # of an attempt that failed
    door.make_folder(folder)
    try:
        _name_address(folder, address_file, content, datasync=datasync)
    except BaseException:
        # A second folder of the address would be damage: nobody is shown what is in it.
        with suppress(OSError):
            remove_page_folder(folder, datasync=datasync)
        raise


def _name_address(folder: Path, address_file: str, content: bytes, *, datasync: bool) -> None:
    descriptor = door.create(folder / address_file)
    try:
        door.write_all(descriptor, content)
        if datasync:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(folder, datasync=datasync)
    sync_folder(folder.parent, datasync=datasync)


def remove_page(path: Path, *, instead: Path | None, datasync: bool) -> None:
    """Remove a page durably, or rename it to `instead`. It may be gone."""
    try:
        if instead is None:
            door.remove(path)
        else:
            door.rename(path, instead)
    except FileNotFoundError:
        return
    sync_folder(path.parent, datasync=datasync)


def remove_page_folder(folder: Path, *, datasync: bool) -> None:
    """Remove a folder and the files in it, the one that names the address last."""
    for name in sorted(door.names(folder)):
        door.remove(folder / name)
    door.remove_folder(folder)
    sync_folder(folder.parent, datasync=datasync)


def sync_folder(folder: Path, *, datasync: bool) -> None:
    """Make names in a folder durable."""
    if datasync:
        door.sync(folder)


class PageStore:
    """Where pages are kept: files below the paging directory, and for a store in a database its tables."""

    page_bytes_max = sys.maxsize
    """Upper bound of a page, whatever an address's settings say."""

    def __init__(self, *, datasync: bool) -> None:
        self.datasync = datasync

    def new_folder(self, parent: Path, new_id: Callable[[], int]) -> Path:
        """Return the name of a new address folder. `new_id` draws an id that nothing has."""
        return parent / str(uuid.uuid1())

    def make_folder(self, folder: Path, name: str, address: str) -> None:
        content = f"{address}\n".encode("utf-8", "surrogatepass")
        make_page_folder(folder, name, content, datasync=self.datasync)

    def open(self, path: Path) -> PageFile:
        return PageFile(path, datasync=self.datasync)

    def remove(self, path: Path, *, instead: Path | None = None) -> None:
        remove_page(path, instead=instead, datasync=self.datasync)

    def take_back(self, path: Path) -> None:
        """Remove a page that came about by what failed."""
        self.remove(path)

    def remove_folder(self, folder: Path) -> None:
        remove_page_folder(folder, datasync=self.datasync)
