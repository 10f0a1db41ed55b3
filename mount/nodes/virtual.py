"""Files and directories that journalfs makes itself: `.status`, `.settings`, everything under
`.journalfs/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeGuard

from pyfuse3 import EntryAttributes

from journalfs.api import SlowFile, VirtualDirectory, VirtualFile
from journalfs_mount.errnos import gone
from journalfs_mount.nodes.base import Directory, Entry, MountContext, Node, OpenedFile

Found = VirtualDirectory | VirtualFile | None


class VirtualFileNode(Node):
    """A generated file. Its content is fetched again at each request, so it may change or go at any time."""

    __slots__ = ("_address_name", "_find")

    measured: ClassVar[bool] = True

    def __init__(
        self, context: MountContext, find: Callable[[], Found], address_name: str | None = None
    ) -> None:
        """`address_name` where it tells of one address only."""
        super().__init__(context)
        self._find = find
        self._address_name = address_name

    def concerns(self, address_name: str) -> bool:
        return self._address_name is None or self._address_name == address_name

    async def measure(self) -> None:
        file = self._file()
        if is_slow(file):
            await file.prepare()

    def listed_attributes(self) -> EntryAttributes:
        file = self._file()
        if not is_slow(file):
            return self.attributes()
        return self.shown(0, file.mtime_ns)

    def attributes(self) -> EntryAttributes:
        file = self._file()
        caching = self.context.caching
        lasting_s = caching.live_s if file.live else caching.directory_attributes_s
        size_bytes = file.prepared_bytes if is_slow(file) else file.size_bytes
        return self.shown(size_bytes, file.mtime_ns, lasting_s)

    def open(self) -> OpenedFile:
        file = self._file()
        return OpenedFile(
            self.inode, file.mtime_ns, file.open(), direct_io=file.live, keep_cache=not file.live
        )

    def _file(self) -> VirtualFile:
        file = self._find()
        if file is None or not is_file(file):
            raise gone()
        return file


class VirtualDirectoryNode(Directory):
    """A generated directory. It is fetched again at each request, since its source may have moved."""

    def __init__(self, context: MountContext, parent_inode: int, find: Callable[[], Found]) -> None:
        super().__init__(context, parent_inode)
        self._find = find

    def mtime_ns(self) -> int:
        return self._directory().mtime_ns

    def name_s(self) -> float:
        # Nobody reports when a made directory goes, for instance that of a transaction.
        return self.context.caching.directory_attributes_s

    def concerns(self, address_name: str) -> bool:
        return True

    def find(self, name: bytes) -> Node | None:
        found = self._child(name.decode("utf-8", "surrogateescape"))
        return None if found is None else self._node(name, found)

    def entries(self) -> Sequence[Entry]:
        entries: list[Entry] = []
        for name, found in self._directory().children():
            encoded = name.encode("utf-8", "surrogateescape")
            entries.append((encoded, partial(self._node, encoded, found)))
        return entries

    def _node(self, name: bytes, found: VirtualDirectory | VirtualFile) -> Node:
        find = partial(self._child, name.decode("utf-8", "surrogateescape"))
        if is_file(found):
            return self.enter(name, partial(VirtualFileNode, self.context, find), b"file")
        return self.enter(name, partial(VirtualDirectoryNode, self.context, self.inode, find))

    def _child(self, name: str) -> Found:
        return self._directory().child(name)

    def _directory(self) -> VirtualDirectory:
        directory = self._find()
        if directory is None or not is_directory(directory):
            raise gone()
        return directory


def is_file(found: VirtualDirectory | VirtualFile) -> TypeGuard[VirtualFile]:
    """Tell a file from a directory by an attribute that only files have, and whose look-up is cheap: the size
    may take work.
    """
    return hasattr(found, "open")


def is_slow(file: VirtualFile) -> TypeGuard[SlowFile]:
    return hasattr(file, "prepare")


def is_directory(found: VirtualDirectory | VirtualFile) -> TypeGuard[VirtualDirectory]:
    return hasattr(found, "children")
