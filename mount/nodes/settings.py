"""`.settings`: reading it gives the settings in force, writing it changes those that are given otherwise."""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping

from pyfuse3 import EntryAttributes, SetattrFields

from journalfs_mount.context import MountContext
from journalfs_mount.limits import SETTINGS_BYTES_MAX
from journalfs_mount.nodes.base import OpenedFile, Unreadable
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.refusals import Refused
from journalfs_mount.report import RenderedFile

ADDRESS_TABLE = "address"
"""The table of a queue's settings that belong to its address."""


class SettingsFile(VirtualFileNode):
    """The settings of an address, or of a queue (`queue_name`) and the address it is bound to."""

    __slots__ = ("_queue_name", "_render", "_target")

    def __init__(
        self,
        context: MountContext,
        render: Callable[[], RenderedFile],
        address_name: str,
        queue_name: str | None = None,
    ) -> None:
        super().__init__(context, render, address_name)
        self._render = render
        self._target = address_name
        self._queue_name = queue_name

    def open_to_write(self, flags: int) -> OpenedFile:
        return SettingsBeingWritten(self, appends=bool(flags & os.O_APPEND))

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """Accepted: editors set a mode, and empty the file before they write it."""

    async def apply(self, text: bytes) -> None:
        """Set what `text` says otherwise than it is. What it does not name stays."""
        store = self.context.changing()
        for of_address, name, value in list(changes(self._now(), _parsed(text))):
            queue_name = None if of_address else self._queue_name
            await store.set_attribute(self._target, queue_name, f"user.journalfs.{name}", value)

    def _now(self) -> Mapping[str, object]:
        source = self._render().open()
        return tomllib.loads(bytes(source.read(0, source.size_bytes)).decode())


class SettingsBeingWritten(OpenedFile):
    """A handle that `.settings` is written by.

    Settings change with the write that ends a line: a shell does not look at what closing a file says. The
    rest of a text that ends otherwise is applied at the close.
    """

    __slots__ = ("_appends", "_applied", "_node", "_text")

    def __init__(self, node: SettingsFile, *, appends: bool) -> None:
        super().__init__(node.inode, node.context.now_ns(), Unreadable(), direct_io=True, keep_cache=False)
        self._node = node
        self._appends = appends
        self._text = bytearray()
        self._applied = b""

    async def write(self, offset: int, data: bytes) -> None:
        start = len(self._text) if self._appends else offset
        with self._node.context.noted(self._node.path):
            if start > len(self._text) or start + len(data) > SETTINGS_BYTES_MAX:
                raise Refused(errno.EFBIG, f"settings are at most {SETTINGS_BYTES_MAX} bytes without holes")
            before = bytes(self._text)
            self._text[start : start + len(data)] = data
            if data.endswith(b"\n"):
                try:
                    await self._apply()
                except BaseException:
                    self._text[:] = before
                    raise

    async def flush(self) -> None:
        with self._node.context.noted(self._node.path):
            await self._apply()

    async def _apply(self) -> None:
        text = bytes(self._text)
        if text != self._applied:
            await self._node.apply(text)
            self._applied = text

    async def sync(self) -> None:
        await self.flush()

    async def end(self) -> None:
        """Whoever writes it has not closed it: nothing is changed."""


def changes(now: Mapping[str, object], wanted: Mapping[str, object]) -> Iterator[tuple[bool, str, bytes]]:
    """What to set: whether it is the address's, its name, and its value as text."""
    address_now = now.get(ADDRESS_TABLE)
    for name, value in wanted.items():
        if isinstance(value, dict) and name == ADDRESS_TABLE and isinstance(address_now, dict):
            yield from ((True, one, as_text(of)) for one, of in value.items() if address_now.get(one) != of)
        elif now.get(name) != value:
            yield False, name, as_text(value)


def as_text(value: object) -> bytes:
    """As extended attributes give it."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, str | int | float):
        return str(value).encode()
    raise Refused(errno.EINVAL, f"a setting is a text, a number, true or false, not {value!r}")


def _parsed(text: bytes) -> Mapping[str, object]:
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused(errno.EINVAL, f"this is no TOML: {error}") from None
