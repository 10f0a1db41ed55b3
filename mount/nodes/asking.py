"""Files that run a command: a write to one runs it, and the same file then reads as its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from pyfuse3 import EntryAttributes, SetattrFields

from journalfs.api import OWNER_ALONE, Permissions
from journalfs_mount.nodes.base import MountContext, Node, OpenedFile
from journalfs_mount.nodes.report import TextSource, json_text
from journalfs_mount.process.shares import ASKER

Answer: TypeAlias = Callable[[bytes], Awaitable[Mapping[str, object]]]
"""Does what one write asks for, and returns what is read then, to be JSON."""


class AnsweringFile(Node):
    """A command file. Only its owner may write to it."""

    def __init__(self, context: MountContext, answer: Answer) -> None:
        super().__init__(context)
        self._answer = answer

    def attributes(self) -> EntryAttributes:
        return self.shown(0, self.context.now_ns())

    def permissions(self) -> Permissions:
        return OWNER_ALONE

    def open(self) -> OpenedFile:
        return self.open_to_write(0)

    def open_to_write(self, flags: int) -> OpenedFile:
        return _Asking(self, self._answer)

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """Accepted: a shell empties what it writes to."""


class _Asking(OpenedFile):
    """One opening of it: each write is done when it returns."""

    def __init__(self, node: AnsweringFile, answer: Answer) -> None:
        now_ns = node.context.now_ns()
        super().__init__(node.inode, now_ns, TextSource(b""), direct_io=True, keep_cache=False)
        self._node = node
        self._answer = answer
        self._asker = ASKER.get()

    async def write(self, offset: int, data: bytes) -> None:
        ASKER.set(self._asker)  # a write says only which handle it is of
        with self._node.context.noted(self._node.path):
            answer = await self._answer(data)
        self.source = TextSource(json_text(answer))
