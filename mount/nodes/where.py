"""`.where/<selector>/`: the messages that a JMS selector accepts, shown like a queue.

The directory's name is the selector itself, percent-decoded: `/` must be written `%2F` and `%` as `%25`.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final
from urllib.parse import unquote_to_bytes

from journalfs.errors import SelectorError
from journalfs.store.api import View
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import refuse
from journalfs_mount.nodes.base import Directory, Entry, Node, Selection
from journalfs_mount.nodes.view import QueueDirectory, ViewDirectory

log = logging.getLogger("journalfs.mount")

_BARE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
"""Taken for itself it would be another one's beginning as soon as two digits follow it."""


class SelectionsDirectory(Directory):
    """Each name in it is a selection of a view; it lists none."""

    __slots__ = ("_of",)

    def __init__(self, context: MountContext, of: ViewDirectory) -> None:
        super().__init__(context, of.inode)
        self._of = of

    @property
    def selection(self) -> Selection | None:
        return self._of.selection

    def mtime_ns(self) -> int:
        return self._of.mtime_ns()

    def concerns(self, address_name: str) -> bool:
        return self._of.concerns(address_name)

    def entries(self) -> Sequence[Entry]:
        return ()


class WhereDirectory(SelectionsDirectory):
    """Every selector is a name in it."""

    __slots__ = ()

    takes_long_names: ClassVar[bool] = True

    async def look_ahead(self, name: bytes) -> None:
        """A selector that is new is read in a thread: that takes tens of milliseconds."""
        selector = self._selector(name)
        try:
            await self._of.view().understand(selector)
        except SelectorError as error:
            raise self._refused(name, str(error)) from None

    def _selector(self, name: bytes) -> str:
        if _BARE.search(name):
            raise self._refused(name, "a % of the selector is to be written %25, and a / %2F")
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            raise self._refused(name, "the selector is not valid UTF-8") from None

    def find(self, name: bytes) -> Node | None:
        """EINVAL for what is no selector: ENOENT would say that there are no such messages."""
        selector = self._selector(name)
        node = self.enter(
            name, partial(SelectionDirectory, self.context, self.inode, self._of, lambda: selector)
        )
        assert isinstance(node, SelectionDirectory)
        try:
            node.view()
        except SelectorError as error:
            self.context.nodes.drop_unused(node)
            raise self._refused(name, str(error)) from None
        return node

    def _refused(self, name: bytes, reason: str) -> Exception:
        log.warning("%s", reason)
        self.context.report.refused(name.decode(errors="replace"), reason)
        return refuse(errno.EINVAL)


class SelectionDirectory(ViewDirectory):
    """What one selector leaves of a view. It has a `.where` of its own, which narrows it further."""

    __slots__ = ("_of", "_selector")

    def __init__(
        self, context: MountContext, parent_inode: int, of: ViewDirectory, selector: Callable[[], str]
    ) -> None:
        super().__init__(context, parent_inode, of.address_name)
        self._of = of
        self._selector = selector

    @property
    def selection(self) -> Selection | None:
        return self

    def view(self) -> View:
        return self._of.view().where(self._selector())

    def queue_directory(self) -> QueueDirectory:
        return self._of.queue_directory()

    def selectors(self) -> Sequence[str] | None:
        of = self._of.selectors()
        return None if of is None else (*of, self._selector())

    def extended_attributes(self) -> Mapping[str, bytes]:
        return {"user.journalfs.selector": self._selector().encode()}
