"""`.journalfs/snapshots/`: a directory for each snapshot, laid out as the mount itself.

`mkdir` makes one and `rmdir` removes it. What is in one is read when somebody looks into it for the first
time, and never changes.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from pyfuse3 import EntryAttributes

from journalfs.errors import JournalfsError
from journalfs.store.api import OWNER_ALONE, Permissions, Snapshot, VirtualDirectory, VirtualFile
from journalfs_mount.caching import SELDOM_S
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import gone
from journalfs_mount.names import (
    HISTORY_DIRECTORY,
    REMOVED_DIRECTORY,
    SNAPSHOTS_DIRECTORY,
    STATUS_NAME,
    TRANSACTIONS_DIRECTORY,
    encode_name,
)
from journalfs_mount.naming import find_named, new_name
from journalfs_mount.nodes.base import Directory, Entry, Node, OpenedFile
from journalfs_mount.nodes.removed import RemovedDirectory
from journalfs_mount.nodes.root import RootDirectory
from journalfs_mount.nodes.transactions import TransactionsDirectory
from journalfs_mount.nodes.virtual import VirtualDirectoryNode
from journalfs_mount.refusals import Refused
from journalfs_mount.report import TextSource, json_text

_KEEPS_NAME = (
    "a snapshot keeps its name, and the moment it was made at: make another by mkdir, remove this one with "
    "rmdir"
)


class ControlNode(VirtualDirectoryNode):
    """`.journalfs/`: what the store makes up, its snapshots, of which a snapshot has none, and what was
    removed.
    """

    __slots__ = ()
    private: ClassVar[bool] = True

    def permissions(self) -> Permissions | None:
        """What is here is of all addresses: nobody gets at it whom one of them keeps out."""
        return OWNER_ALONE if self.context.kept_permissions else None

    def find(self, name: bytes) -> Node | None:
        if name == SNAPSHOTS_DIRECTORY and not self.context.fixed:
            return self.enter(name, partial(SnapshotsDirectory, self.context, self.inode))
        if name == HISTORY_DIRECTORY and self._has_history():
            from journalfs_mount.nodes.history import HistoryDirectory  # noqa: PLC0415  (it imports this)

            return self.enter(name, partial(HistoryDirectory, self.context, self.inode))
        removed = self.context.removed
        if name == REMOVED_DIRECTORY and removed is not None:
            return self.enter(name, partial(RemovedDirectory, self.context, self.inode, removed))
        return super().find(name)

    def _has_history(self) -> bool:
        return not self.context.fixed and bool(self.context.store.history)

    def _node(self, name: bytes, found: VirtualDirectory | VirtualFile) -> Node:
        if name != TRANSACTIONS_DIRECTORY or self.context.read_only:
            return super()._node(name, found)
        find = partial(self._child, name.decode())
        return self.enter(name, partial(TransactionsDirectory, self.context, self.inode, find))

    def entries(self) -> Sequence[Entry]:
        entries = list(super().entries())
        if not self.context.fixed:
            entries.append((SNAPSHOTS_DIRECTORY, partial(self.child, SNAPSHOTS_DIRECTORY)))
        if self._has_history():
            entries.append((HISTORY_DIRECTORY, partial(self.child, HISTORY_DIRECTORY)))
        if self.context.removed is not None:
            entries.append((REMOVED_DIRECTORY, partial(self.child, REMOVED_DIRECTORY)))
        return entries


class SnapshotsDirectory(Directory):
    """All snapshots of the store."""

    __slots__ = ()

    async def remove_directory(self) -> None:
        why = "this directory always stays; snapshots that were removed from it are gone"
        raise Refused(errno.EPERM, why)

    def mtime_ns(self) -> int:
        return self.context.store.snapshots.mtime_ns

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self.enter(name, partial(MeasuredFile, self.context, self._status, self.mtime_ns))
        snapshots = self.context.store.snapshots
        snapshot = find_named(name, snapshots.named, snapshots.all)
        return None if snapshot is None else self._node(snapshot)

    def entries(self) -> Sequence[Entry]:
        snapshots = self.context.store.snapshots.all()
        return [(encode_name(snapshot.name), partial(self._node, snapshot)) for snapshot in snapshots]

    async def _status(self) -> Mapping[str, object]:
        return await self.context.store.snapshots.status()

    async def make_directory(self, name: bytes, mode: int) -> Node:
        await self.context.changing().snapshots.create(new_name(name))
        return self.child(name)

    def _node(self, snapshot: Snapshot) -> Node:
        make = partial(SnapshotDirectory, self.context, self.inode, snapshot)
        return self.enter(encode_name(snapshot.name), make, snapshot.identity.encode())


class SnapshotDirectory(RootDirectory):
    """One snapshot: the root of what was there when it was made."""

    __slots__ = ("_failure", "_mount", "_snapshot")

    opens: ClassVar[bool] = True

    def __init__(self, context: MountContext, parent_inode: int, snapshot: Snapshot) -> None:
        super().__init__(context, parent_inode)
        self._mount = context
        self._snapshot = snapshot
        self._failure: JournalfsError | None = None

    async def open_up(self) -> None:
        """From here on this is of the snapshot, in which nothing changes."""
        if self.context is not self._mount:
            return
        try:
            store = await self._snapshot.opened()
        except JournalfsError as error:
            self._failure = error
        else:
            self._failure = None
            self.context = self._mount.of_snapshot(self._snapshot, store)

    def mtime_ns(self) -> int:
        return self._snapshot.mtime_ns

    def attributes(self) -> EntryAttributes:
        # Others who have the store may remove it.
        return self.context.present.directory(
            self.inode, mtime_ns=self.mtime_ns(), name_s=SELDOM_S, attributes_s=SELDOM_S
        )

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self.enter(name, partial(MeasuredFile, self._mount, self._snapshot.status, self.mtime_ns))
        self._require_opened()
        return super().find(name)

    def entries(self) -> Sequence[Entry]:
        self._require_opened()
        return super().entries()

    async def move(self, target: Directory, name: bytes) -> None:
        self._mount.changing()
        raise Refused(errno.EPERM, _KEEPS_NAME)

    async def remove_directory(self) -> None:
        snapshots = self._mount.changing().snapshots
        if self._mount.snapshot_open(self._snapshot):
            raise Refused(errno.EBUSY, "somebody has a file of it open")
        await snapshots.delete(self._snapshot.name)
        self._mount.forget_snapshot(self._snapshot)

    def _require_opened(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.context is self._mount:
            raise gone()


class MeasuredFile(Node):
    """A made file whose text is measured on the disk whenever somebody asks."""

    __slots__ = ("_mtime_ns", "_status", "_text")

    measured: ClassVar[bool] = True

    def __init__(
        self,
        context: MountContext,
        status: Callable[[], Awaitable[Mapping[str, object]]],
        mtime_ns: Callable[[], int],
    ) -> None:
        super().__init__(context)
        self._status = status
        self._mtime_ns = mtime_ns
        self._text = b""

    async def measure(self) -> None:
        self._text = json_text(await self._status())

    def attributes(self) -> EntryAttributes:
        lasting_s = self.context.caching.live_s
        return self.context.present.file(
            self.inode,
            size_bytes=len(self._text),
            mtime_ns=self._mtime_ns(),
            name_s=lasting_s,
            attributes_s=lasting_s,
        )

    def open(self) -> OpenedFile:
        return OpenedFile(
            self.inode, self._mtime_ns(), TextSource(self._text), direct_io=True, keep_cache=False
        )
