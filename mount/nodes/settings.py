"""`.settings`: reading it gives the settings in force, writing it changes those that are given otherwise."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyfuse3 import EntryAttributes, FUSEError, SetattrFields

from journalfs_mount.errnos import Refused, refuse
from journalfs_mount.limits import SETTINGS_BYTES_MAX
from journalfs_mount.nodes.base import MountContext, OpenedFile, Unreadable
from journalfs_mount.nodes.report import RenderedFile
from journalfs_mount.nodes.virtual import VirtualFileNode

NOTHING_APPLIES: Final = "; nothing that was written to this file takes effect"


class SettingsFile(VirtualFileNode):
    """The settings of an address, or of a queue (`queue_name`) and the address it is bound to."""

    __slots__ = ("_queue_name", "_target")

    def __init__(
        self,
        context: MountContext,
        render: Callable[[], RenderedFile],
        address_name: str,
        queue_name: str | None = None,
    ) -> None:
        super().__init__(context, render, address_name)
        self._target = address_name
        self._queue_name = queue_name

    def open_to_write(self, flags: int) -> OpenedFile:
        with self.context.noted(self.path):
            self.context.require_settable(self._target, self._queue_name)
        return SettingsBeingWritten(self, appends=bool(flags & os.O_APPEND))

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """Accepted: editors set a mode, and empty the file before they write it."""

    def check(self, text: bytes) -> None:
        """That the store would take `text` over as it is now."""
        self.context.changing().check_settings(self._target, self._queue_name, text)

    async def apply(self, text: bytes) -> None:
        """Set the settings in `text` that differ from the present ones, all of them or none. Settings that it
        does not name stay.
        """
        with self.context.publications.begun(self._target), self.context.noted(self.path):
            await self.context.changing().write_settings(self._target, self._queue_name, text)


class SettingsBeingWritten(OpenedFile):
    """A handle that writes `.settings`.

    The written text takes effect as a whole, at the last close. The result of that reaches no caller, and a
    shell ignores the result of its own close. So the text is checked whenever a line ends, and at each close.
    """

    def __init__(self, node: SettingsFile, *, appends: bool) -> None:
        super().__init__(node.inode, node.context.now_ns(), Unreadable(), direct_io=True, keep_cache=False)
        self._node = node
        self._appends = appends
        self._text = bytearray()
        self._refused_with: int | None = None
        """The errno of what was refused first: nothing of this opening takes effect then."""

    async def write(self, offset: int, data: bytes) -> None:
        self._refuse_again()
        with self._noting():
            start = len(self._text) if self._appends else offset
            if start > len(self._text) or start + len(data) > SETTINGS_BYTES_MAX:
                raise Refused(errno.EFBIG, f"settings are at most {SETTINGS_BYTES_MAX} bytes without holes")
            self._text[start : start + len(data)] = data
            if data.endswith(b"\n"):
                self._node.check(bytes(self._text))

    async def flush(self) -> None:
        self._refuse_again()
        with self._noting():
            if self._text:
                self._node.check(bytes(self._text))

    async def sync(self) -> None:
        await self.flush()

    async def release(self) -> None:
        if self._text and self._refused_with is None:
            await self._node.apply(bytes(self._text))

    async def end(self) -> None:
        """End without a change: its writer has not closed it."""

    def _refuse_again(self) -> None:
        """Raise the earlier error for each further write, without another event."""
        if self._refused_with is not None:
            raise refuse(self._refused_with)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            with self._node.context.noted(self._node.path, lambda: NOTHING_APPLIES):
                yield
        except FUSEError as error:
            self._refused_with = error.errno
            raise
