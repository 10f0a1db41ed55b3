"""The root of the mount."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from pyfuse3 import EntryAttributes

from journalfs.api import Permissions, SlowFile, VirtualDirectory, VirtualFile
from journalfs_mount.names import grammar
from journalfs_mount.nodes.base import Entry, MountContext, Node, OpenedFile
from journalfs_mount.nodes.history import HistoryDirectory
from journalfs_mount.nodes.removed import RemovedDirectory
from journalfs_mount.nodes.report import TextSource
from journalfs_mount.nodes.root import ControlNode, StoreDirectory
from journalfs_mount.nodes.snapshots import SnapshotsDirectory
from journalfs_mount.nodes.transactions import TransactionsDirectory
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.process.proc import groups_of
from journalfs_mount.process.shares import ASKER


class MountControl(ControlNode):
    """`.journalfs/`: the files that the store generates, its snapshots, its history, and removed messages."""

    def find(self, name: bytes) -> Node | None:
        context = self.context
        snapshots, history, removed = context.store.snapshots, context.store.history, context.removed
        if name == grammar.SNAPSHOTS_DIRECTORY and snapshots is not None:
            return self.enter(name, partial(SnapshotsDirectory, context, self.inode, snapshots))
        if name == grammar.HISTORY_DIRECTORY and history:
            return self.enter(name, partial(HistoryDirectory, context, self.inode, history))
        if name == grammar.REMOVED_DIRECTORY and removed is not None:
            return self.enter(name, partial(RemovedDirectory, self.context, self.inode, removed))
        return super().find(name)

    def _node(self, name: bytes, found: VirtualDirectory | VirtualFile) -> Node:
        if name != grammar.TRANSACTIONS_DIRECTORY or self.context.read_only:
            return super()._node(name, found)
        find = partial(self._child, name.decode())
        return self.enter(name, partial(TransactionsDirectory, self.context, self.inode, find))

    def entries(self) -> Sequence[Entry]:
        store = self.context.store
        there = {
            grammar.SNAPSHOTS_DIRECTORY: store.snapshots is not None,
            grammar.HISTORY_DIRECTORY: bool(store.history),
            grammar.REMOVED_DIRECTORY: self.context.removed is not None,
        }
        return [*super().entries(), *((name, partial(self.child, name)) for name in there if there[name])]


EVERYBODY_READS: Final = Permissions(0o444)
READERS_MAX: Final = 64
"""Users, with their groups, of whom the text that they were given last is kept."""


class OwnRefusals(Node):
    """`.refused.jsonl`: the requests of the reading user that were refused, and why. Events of other users
    are not in it.
    """

    def _lines(self) -> bytes:
        return self.context.report.refusals_of(ASKER.get().uid)

    def permissions(self) -> Permissions:
        return EVERYBODY_READS

    def attributes(self) -> EntryAttributes:
        return self.shown(len(self._lines()), self.context.now_ns())

    def open(self) -> OpenedFile:
        content = TextSource(self._lines())
        return OpenedFile(self.inode, self.context.now_ns(), content, direct_io=True, keep_cache=False)


class OwnMetrics(VirtualFileNode):
    """`.metrics`: what Prometheus is told, of queues alone that its reader may read."""

    def __init__(self, context: MountContext) -> None:
        super().__init__(context, self._of_asker)
        self._files: dict[tuple[int, int, frozenset[int] | None], SlowFile] = {}
        """By user, group and further groups of who asked."""

    def permissions(self) -> Permissions | None:
        """Where an address has permissions of its own, its readers are let in here, too."""
        return EVERYBODY_READS if self.context.kept_permissions else None

    def _of_asker(self) -> SlowFile:
        asker = ASKER.get()
        reader = asker.uid, asker.gid, groups_of(asker.thread)
        if reader not in self._files:
            if len(self._files) >= READERS_MAX:
                self._files.clear()
            self._files[reader] = self.context.store.metrics_for(self.context.rights.reads)
        return self._files[reader]


class RootDirectory(StoreDirectory):
    """The store that is mounted."""

    control_type: ClassVar[type[ControlNode]] = MountControl

    def find(self, name: bytes) -> Node | None:
        if name == grammar.REFUSED_NAME:
            return self.enter(name, partial(OwnRefusals, self.context))
        if name == grammar.METRICS_NAME:
            return self.enter(name, partial(OwnMetrics, self.context))
        return super().find(name)
