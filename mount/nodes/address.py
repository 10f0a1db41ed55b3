"""An address: one directory for each queue bound to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from journalfs.api import Address, Queue
from journalfs.errors import NameRefused
from journalfs_mount.errnos import gone
from journalfs_mount.names.fates import Fate, fate_of
from journalfs_mount.names.grammar import SETTINGS_NAME, STATUS_NAME, decode_name, encode_name
from journalfs_mount.names.naming import find_named, new_name
from journalfs_mount.nodes.base import Directory, EmptyDirectory, Entry, MadeEntries, MountContext, Node
from journalfs_mount.nodes.destination import DestinationDirectory
from journalfs_mount.nodes.queue import QueueDirectory
from journalfs_mount.nodes.report import RenderedFile, json_text
from journalfs_mount.nodes.settings import SettingsFile
from journalfs_mount.nodes.staged import Staged
from journalfs_mount.nodes.staging import PlaceName
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.nodes.written import Destination


class AddressDirectory(DestinationDirectory):
    """An address of the store."""

    __slots__ = ("address_name",)

    lasting: ClassVar[bool] = True

    def __init__(self, context: MountContext, parent_inode: int, address_name: str) -> None:
        super().__init__(context, parent_inode)
        self.address_name = address_name

    @property
    def steady(self) -> bool:
        return self.context.brings_back is None

    def address(self) -> Address:
        """The address as the store has it now. ESTALE when it went."""
        address = self.context.store.address(self.address_name)
        if address is None:
            raise gone()
        return address

    def mtime_ns(self) -> int:
        return self.address().mtime_ns

    def extended_attributes(self) -> Mapping[str, bytes]:
        return self.address().attributes()

    def place_name(self) -> PlaceName:
        return (encode_name(self.address_name),)

    def destination(self) -> Destination:
        return Destination(self.address_name, None)

    async def set_extended(self, name: str, value: bytes) -> None:
        self.context.require_settable(self.address_name, None)
        await self.context.setting().set_attribute(self.address_name, None, name, value)

    async def remove_extended(self, name: str) -> None:
        self.context.require_settable(self.address_name, None)
        await self.context.setting().remove_attribute(self.address_name, None, name)

    async def remove_directory(self) -> None:
        await self.context.removing().delete_address(self.address_name)
        self.discard_staged()

    async def receive(self, staged: Staged, name: bytes) -> None:
        """A staged directory that is given the name of a queue, or that of one that was just deleted, has
        what this is to get: Hadoop removes what it is to overwrite, and renames. A partition's queue is made
        where there is none: published to the address, it would be there twice after the next overwrite.
        """
        fills = isinstance(staged, Directory) and fate_of(name) is Fate.PUBLISHED
        found = self.find(name) if fills else None
        queue = found
        if fills and found is None:
            made = self._make_shown if staged.is_partition() else self._made_again
            queue = await made(name)
        if not isinstance(queue, QueueDirectory):
            await super().receive(staged, name)
            return
        try:
            await queue.publish(staged, name)
            if queue is found:
                # To the kernel another directory took its place: it serves the one that was there no more.
                self.context.nodes.retire(queue, EmptyDirectory(self.context, self.inode, queue.path()))
        finally:
            self.context.nodes.drop_unused(queue)

    async def _made_again(self, name: bytes) -> Node | None:
        """The queue of this name, if there was one until just now."""
        try:
            queue_name = decode_name(name)
        except NameRefused:
            return None
        was_there = self.context.changing().was_deleted(self.address_name, queue_name)
        return await self._make_shown(name) if was_there else None

    async def _make_shown(self, name: bytes) -> Node:
        queue_name = new_name(name)
        await self.context.changing().create_queue(self.address_name, queue_name)
        self.note_maker(Destination(self.address_name, queue_name))
        made = self.address().queue(queue_name)
        if made is not None:
            self.context.without_tail[self.address_name, queue_name] = made.content_version
        return self.child(name)

    def concerns(self, address_name: str) -> bool:
        return self.address_name == address_name

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self.enter(name, partial(VirtualFileNode, self.context, self._status, self.address_name))
        if name == SETTINGS_NAME:
            return self.enter(name, partial(SettingsFile, self.context, self._settings, self.address_name))
        address = self.address()
        queue = find_named(name, address.queue, address.queues)
        return None if queue is None else self._queue(queue)

    def entries(self) -> Sequence[Entry]:
        return MadeEntries(self.address().queues(), self._entry)

    def _entry(self, queue: Queue) -> Entry:
        return encode_name(queue.name), partial(self._queue, queue)

    def _queue(self, queue: Queue) -> Node:
        make = partial(QueueDirectory, self.context, self.inode, self.address_name, queue.name)
        return self.enter(encode_name(queue.name), make)

    def _status(self) -> RenderedFile:
        return RenderedFile(lambda: json_text(self.address().status()), self.mtime_ns)

    def _settings(self) -> RenderedFile:
        return RenderedFile(lambda: self.address().settings_toml().encode(), self.mtime_ns)
