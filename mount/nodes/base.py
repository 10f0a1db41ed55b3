"""What all kinds of nodes have in common, and how directories answer readdir."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from pyfuse3 import EntryAttributes, FileNameT, ReaddirToken, readdir_reply

from journalfs.ids import Inode
from journalfs.store.api import ByteSource
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import refuse
from journalfs_mount.inodes import node_key

NO_ATTRIBUTES: Final[Mapping[str, bytes]] = {}
DOTS: Final = 2
"""`.` and `..` take the first two places of every listing, so entry 0 is followed by offset 3."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file handle: fixed content, and how the kernel may treat it."""

    inode: Inode
    mtime_ns: int
    source: ByteSource
    direct_io: bool
    keep_cache: bool


class Node(ABC):
    """A file or directory as the kernel knows it. `inode`, `key` and `lookups` are the node table's."""

    __slots__ = ("context", "inode", "key", "lookups")

    takes_long_names: ClassVar[bool] = False
    """True when children's names may be longer than statfs says."""

    inode: Inode
    key: bytes
    lookups: int

    def __init__(self, context: MountContext) -> None:
        self.context = context

    @abstractmethod
    def attributes(self) -> EntryAttributes:
        """Fill in and return the shared attribute object. ESTALE when the thing is gone."""

    def extended_attributes(self) -> Mapping[str, bytes]:
        return NO_ATTRIBUTES

    def open(self) -> OpenedFile:
        raise refuse(errno.EISDIR)

    def child(self, name: bytes) -> Node:
        raise refuse(errno.ENOTDIR)

    def snapshot(self) -> Snapshot:
        raise refuse(errno.ENOTDIR)


class Snapshot(Protocol):
    """A directory's entries, frozen when it was opened. Offsets are places in it, so they never move."""

    def reply(self, token: ReaddirToken, start: int) -> None:
        """Answer one readdir request from offset `start` on."""


Entry = tuple[bytes, Callable[[], Node]]
"""A listed name and what makes or finds its node."""


class Directory(Node):
    """A directory. `parent_inode` is for `..` alone."""

    __slots__ = ("parent_inode",)

    def __init__(self, context: MountContext, parent_inode: int) -> None:
        super().__init__(context)
        self.parent_inode = parent_inode

    @abstractmethod
    def mtime_ns(self) -> int: ...

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """What readdir lists: much less than what can be reached by name."""

    def name_s(self) -> float:
        return self.context.caching.name_s

    def attributes(self) -> EntryAttributes:
        caching = self.context.caching
        return self.context.present.directory(
            self.inode,
            mtime_ns=self.mtime_ns(),
            name_s=self.name_s(),
            attributes_s=caching.directory_attributes_s,
        )

    def enter(self, name: bytes, make: Callable[[], Node], version: bytes = b"") -> Node:
        """The child of this name, made if the kernel does not know it. Another version is another file."""
        return self.context.nodes.enter(node_key(self.inode, name, version), make)

    def snapshot(self) -> Snapshot:
        return EntrySnapshot(self, self.entries())


class EntrySnapshot:
    """A listing in which every entry has a node."""

    __slots__ = ("_directory", "_entries")

    def __init__(self, directory: Directory, entries: Sequence[Entry]) -> None:
        self._directory = directory
        self._entries = entries

    def reply(self, token: ReaddirToken, start: int) -> None:
        if not reply_dots(self._directory, token, start):
            return
        nodes = self._directory.context.nodes
        for place in range(max(start - DOTS, 0), len(self._entries)):
            name, find = self._entries[place]
            node = find()
            if not readdir_reply(token, FileNameT(name), node.attributes(), place + DOTS + 1):
                nodes.drop_unused(node)
                return
            node.lookups += 1


def reply_dots(directory: Directory, token: ReaddirToken, start: int) -> bool:
    """List `.` and `..` where the listing begins with them. The kernel counts no lookup for these.

    Returns False when there was no room left.
    """
    present = directory.context.present
    for place, name, inode in ((0, b".", directory.inode), (1, b"..", directory.parent_inode)):
        if place < start:
            continue
        entry = present.directory(inode, mtime_ns=0, name_s=0.0, attributes_s=0.0)
        if not readdir_reply(token, FileNameT(name), entry, place + 1):
            return False
    return True
