"""`.journalfs/history/`: the messages sent in a range of time, for any range that a name says.

Days are listed. A range is laid out as the mount itself, and read when a process first looks into it. One
that reaches into the present shows new messages at the next look.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar
from urllib.parse import unquote

from journalfs.api import History, Snapshot
from journalfs.errors import JournalfsError, WrongCall
from journalfs_mount.errnos import Refused
from journalfs_mount.names.grammar import REPLAY_NAME
from journalfs_mount.nodes.asking import AnsweringFile
from journalfs_mount.nodes.base import Directory, Entry, MountContext, Node
from journalfs_mount.nodes.snapshots import SnapshotDirectory

_STAYS = "what was sent is history: settings say how long it is kept (journal-retention-directory)"


class HistoryDirectory(Directory):
    """All ranges."""

    opens: ClassVar[bool] = True

    def __init__(self, context: MountContext, parent_inode: int, history: History) -> None:
        super().__init__(context, parent_inode)
        self._history = history
        self._days: Sequence[str] = ()

    async def open_up(self) -> None:
        self._days = await self._history.days()

    def mtime_ns(self) -> int:
        return self._history.mtime_ns

    def find(self, name: bytes) -> Node | None:
        if name == REPLAY_NAME and not self.context.read_only:
            return self.enter(name, partial(AnsweringFile, self.context, self._replay))
        text = unquote(os.fsdecode(name))
        if text.startswith(".") and not text.startswith(".."):
            return None
        try:
            found = self._history.named(text)
        except WrongCall:
            return None
        return self.enter(name, partial(RangeDirectory, self.context, self.inode, found))

    async def _replay(self, asked: bytes) -> Mapping[str, object]:
        return await self._history.replay(asked, self.context.rights.require_copy)

    def entries(self) -> Sequence[Entry]:
        return [(day.encode(), partial(self.child, day.encode())) for day in self._days]

    async def remove_directory(self) -> None:
        raise Refused(errno.EPERM, _STAYS)


class RangeDirectory(SnapshotDirectory):
    """One range: the root of what was sent then."""

    def __init__(self, context: MountContext, parent_inode: int, of: Snapshot) -> None:
        super().__init__(context, parent_inode, of)

    async def open_up(self) -> None:
        try:
            store = await self._snapshot.opened()
        except JournalfsError as error:
            self._failure = error
            return
        self._failure = None
        context = self._mount.of_snapshot(self._snapshot, store)
        context.store = store
        # What reaches into the present grows, and what is at its beginning goes as files do.
        context.caching = replace(context.caching, name_s=0.0, directory_attributes_s=0.0, tail_s=0.0)
        self.context = context

    async def move(self, target: Directory, name: bytes) -> None:
        raise Refused(errno.EPERM, _STAYS)

    async def remove_directory(self) -> None:
        raise Refused(errno.EPERM, _STAYS)
