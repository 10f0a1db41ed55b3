"""Who may remove what holds messages, and what that takes away: to remove is to acknowledge.

Those who remove a file to put another one in its place mean no acknowledging. They are known by their names,
and refused. Whoever does so under another name is found out when it makes the file anew: too late for what it
held, but an event says so.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from journalfs_mount.given_names import RefusedChanges
from journalfs_mount.inodes import ROOT, parent_and_name
from journalfs_mount.nodes.base import Node
from journalfs_mount.nodes.message import MessageFile
from journalfs_mount.nodes.part import LinesFile, TailFile
from journalfs_mount.readings import Readings
from journalfs_mount.recent import Recent
from journalfs_mount.refusals import COMES_BACK, Refused

if TYPE_CHECKING:
    from journalfs_mount.context import MountContext

Taking: TypeAlias = Callable[[], Awaitable[None]]

MADE_AGAIN_S: Final = 10.0
"""How long after removing a file who makes it anew has put another one in its place."""

_CHANGED: Final = "a change of it was just refused, and removing it would acknowledge its messages"
_REPLACED: Final = (
    "putting another file in its place, or making the queue like another folder, would acknowledge its "
    "messages, and replace nothing: copy into the queue under another name, and acknowledge with rm"
)
_NOTHING_TO_BRING: Final = (
    "the body of this message is empty, so mv would bring nothing: take its line, as mv QUEUE/.all.jsonl "
    "does, or acknowledge it with rm"
)
_ADDRESS_KEPT: Final = (
    "the address was not empty when it was to be deleted; give queues for a job to overwrite, or remove the "
    "address with rm -r"
)
_MADE_AGAIN: Final = (
    "the same program removed it, which acknowledged its messages, and makes it anew: its content is "
    f"published as new messages; copy into the queue under another name{COMES_BACK}"
)


@dataclass(frozen=True, slots=True)
class _Removed:
    parent_inode: int
    name: bytes
    inode: int


class Removals:
    """Of one mount."""

    def __init__(self, context: MountContext) -> None:
        self._context = context
        self.readings = Readings()
        self.refused_changes = RefusedChanges(errno.EPERM)
        self.kept_addresses = RefusedChanges(errno.ENOTEMPTY)
        self._removed = Recent[_Removed](MADE_AGAIN_S)
        """What each thread removed last that held messages."""

    @contextmanager
    def of(
        self, node: LinesFile | MessageFile, parent_inode: int, name: bytes, thread: int
    ) -> Iterator[Taking | None]:
        """Around a removal: what is to be done, or None for an empty tail that makes way for another file.
        Raises `Refused`.
        """
        if not self._allows(node, parent_inode, thread):
            yield None
            return
        held = not isinstance(node, TailFile) or not node.holds_nothing()
        shown = self.readings.shown(thread, node.inode) if isinstance(node, TailFile) else None
        if isinstance(node, TailFile) and shown is not None:
            yield partial(node.remove_shown, shown)
        else:
            yield node.remove
        if held:
            self._removed.did(thread, _Removed(parent_inode, name, node.inode))

    def made(self, node: Node, thread: int) -> None:
        """A file was made, or opened to be written to."""
        removed = self._removed.of(thread)
        if removed is None or (removed.parent_inode, removed.name) != parent_and_name(node.key):
            return
        self._removed.forget(thread)
        # Asked only now: it takes a look at all threads of the process, and few make again what they removed.
        if not self.readings.has_read(thread, removed.inode):
            self._context.changing().replaced(node.path(), _MADE_AGAIN)

    def _allows(self, node: LinesFile | MessageFile, parent_inode: int, thread: int) -> bool:
        if self.refused_changes.has(thread, node.inode):
            raise Refused(errno.EPERM, _CHANGED)
        if self.readings.replaces(thread, node.inode):
            if isinstance(node, TailFile) and node.makes_way():
                return False
            raise Refused(errno.EPERM, _REPLACED)
        if isinstance(node, MessageFile) and node.is_empty() and self.readings.brings(thread):
            raise Refused(errno.EPERM, _NOTHING_TO_BRING)
        self.spare(parent_inode, thread)
        return True

    def spare(self, inode: int, thread: int) -> None:
        """Refuse what would empty an address that the caller was just refused to delete as it is."""
        while inode != ROOT and (node := self._context.nodes.node(inode)) is not None:
            if self.kept_addresses.has(thread, inode):
                raise Refused(errno.EPERM, _ADDRESS_KEPT)
            inode, _ = parent_and_name(node.key)
