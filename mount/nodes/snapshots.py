"""`.journalfs/snapshots/`: a directory for each snapshot, laid out as the mount itself.

`mkdir` makes one and `rmdir` removes it. A snapshot is read when a process first looks into it, and never
changes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from pyfuse3 import EntryAttributes

from journalfs.api import Snapshot, Snapshots, in_a_thread
from journalfs.errors import JournalfsError
from journalfs_mount.errnos import Refused, gone
from journalfs_mount.names.grammar import STATUS_NAME, encode_name
from journalfs_mount.names.naming import find_named, new_name
from journalfs_mount.nodes.base import Directory, Entry, MountContext, Node
from journalfs_mount.nodes.believed import SELDOM_S
from journalfs_mount.nodes.report import MeasuredText, Status
from journalfs_mount.nodes.root import StoreDirectory
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.process.shares import ASKER
from journalfs_mount.process.staged_room import SNAPSHOT_FILES, Room

_KEEPS_NAME = (
    "a snapshot keeps its name, and the moment it was made at: make another by mkdir, remove this one with "
    "rmdir"
)


class SnapshotsDirectory(Directory):
    """All snapshots of the store."""

    def __init__(self, context: MountContext, parent_inode: int, snapshots: Snapshots) -> None:
        super().__init__(context, parent_inode)
        self._snapshots = snapshots

    async def remove_directory(self) -> None:
        why = "this directory always stays; snapshots that were removed from it are gone"
        raise Refused(errno.EPERM, why)

    def mtime_ns(self) -> int:
        return self._snapshots.mtime_ns

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self.enter(name, partial(_measured, self.context, self._status, self.mtime_ns))
        snapshot = find_named(name, self._snapshots.named, self._snapshots.all)
        return None if snapshot is None else self._node(snapshot)

    def entries(self) -> Sequence[Entry]:
        snapshots = self._snapshots.all()
        return [(encode_name(snapshot.name), partial(self._node, snapshot)) for snapshot in snapshots]

    async def _status(self) -> Mapping[str, object]:
        return await self._snapshots.status()

    async def make_directory(self, name: bytes, mode: int) -> Node:
        context, room = self.context, self.context.staged_room
        snapshots = context.changing().snapshots
        await room.take_entries(SNAPSHOT_FILES)
        await snapshots.create(new_name(name), context.present.made_by(0, ASKER.get()).uid)
        made = snapshots.named(new_name(name))
        if made is not None:
            room.took(Room(*await in_a_thread(made.held_alone)))
        return self.child(name)

    def _node(self, snapshot: Snapshot) -> Node:
        make = partial(SnapshotDirectory, self.context, self.inode, snapshot)
        return self.enter(encode_name(snapshot.name), make, snapshot.identity.encode())


class SnapshotDirectory(StoreDirectory):
    """One snapshot: the root of what was there when it was made."""

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
            return self.enter(name, partial(_measured, self._mount, self._snapshot.status, self.mtime_ns))
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


def _measured(context: MountContext, status: Status, mtime_ns: Callable[[], int]) -> Node:
    file = MeasuredText(status, mtime_ns)
    return VirtualFileNode(context, lambda: file, "")
