"""`.journalfs/removed/`: messages removed in the last minutes, by address and queue, and the ways back.

It reads as the mount itself does. A message that is renamed from here to a queue is in that queue again;
`.undo` restores what a whole command removed.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import ClassVar, Final

from pyfuse3 import EntryAttributes

from journalfs.api import OWNER_ALONE, Removed
from journalfs.errors import JournalfsError
from journalfs_mount.errnos import Refused
from journalfs_mount.names.grammar import CONTROL_DIRECTORY, STATUS_NAME, UNDO_NAME
from journalfs_mount.nodes.asking import AnsweringFile
from journalfs_mount.nodes.base import Directory, MountContext, Node, OpenedFile
from journalfs_mount.nodes.report import RenderedFile, json_text
from journalfs_mount.nodes.root import StoreDirectory
from journalfs_mount.nodes.virtual import VirtualFileNode

DIGITS_MAX: Final = 20
_ASKED: Final = "it takes `last`, or `since` and a time in milliseconds since 1970; before them `dry-run`"


class RemovedDirectory(StoreDirectory):
    """The root of what was removed, as it is when somebody looks."""

    opens: ClassVar[bool] = True

    def __init__(self, context: MountContext, parent_inode: int, removed: Removed) -> None:
        super().__init__(context, parent_inode)
        self._mount = context
        self._removed = removed
        self._failure: JournalfsError | None = None

    async def open_up(self) -> None:
        try:
            self.context = self._mount.of_removed(self._removed, await self._removed.opened())
        except JournalfsError as error:
            self._failure = error
        else:
            self._failure = None

    @property
    def steady(self) -> bool:
        return False  # its time is that of the look

    def mtime_ns(self) -> int:
        return self._mount.now_ns()

    def attributes(self) -> EntryAttributes:
        return self._mount.present.directory(
            self.inode, mtime_ns=self.mtime_ns(), name_s=0.0, attributes_s=0.0, given=OWNER_ALONE
        )

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self.enter(name, partial(VirtualFileNode, self._mount, self._status))
        if name == UNDO_NAME:
            return self.enter(name, partial(AnsweringFile, self._mount, self._undo))
        if self._failure is not None:
            raise self._failure
        return None if name == CONTROL_DIRECTORY else super().find(name)

    def _status(self) -> RenderedFile:
        return RenderedFile(lambda: json_text(self._removed.status()), self.mtime_ns)

    async def make_directory(self, name: bytes, mode: int) -> Node:
        return await Directory.make_directory(self, name, mode)

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[Node, OpenedFile]:
        return await Directory.create(self, name, flags, mode)

    async def _undo(self, asked: bytes) -> dict[str, object]:
        """Restore the messages that `last`, or `since MILLISECONDS`, names, and return what came back."""
        self._mount.removing()
        words, removed, require = asked.split(), self._removed, self._mount.rights.require_targets
        plans = words[:1] == [b"dry-run"]
        match words[plans:]:
            case [b"last"]:
                undone = await removed.undo_last(plans=plans, require=require)
            case [b"since", time_ms] if time_ms.isdigit() and len(time_ms) < DIGITS_MAX:
                undone = await removed.undo_since(int(time_ms), plans=plans, require=require)
            case _:
                raise Refused(errno.EINVAL, _ASKED)
        queues = [{"address": path[0], "queue": path[1], "messages": n} for path, n in undone.back.items()]
        return {"queues": queues, "gone": undone.gone}
