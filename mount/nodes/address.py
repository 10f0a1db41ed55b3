"""An address: one directory for each queue bound to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from journalfs.store.api import Address, Queue
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import gone, no_such_name
from journalfs_mount.names import SETTINGS_NAME, STATUS_NAME, encode_name
from journalfs_mount.naming import find_named
from journalfs_mount.nodes.base import Directory, Entry, Node
from journalfs_mount.nodes.view import QueueDirectory, json_text
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.report import RenderedFile


class AddressDirectory(Directory):
    """An address of the store."""

    __slots__ = ("address_name",)

    def __init__(self, context: MountContext, parent_inode: int, address_name: str) -> None:
        super().__init__(context, parent_inode)
        self.address_name = address_name

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

    def child(self, name: bytes) -> Node:
        if name == STATUS_NAME:
            return self.enter(name, partial(VirtualFileNode, self.context, self._status))
        if name == SETTINGS_NAME:
            return self.enter(name, partial(VirtualFileNode, self.context, self._settings))
        address = self.address()
        queue = find_named(name, address.queue, address.queues)
        if queue is None:
            raise no_such_name()
        return self._queue(name, queue)

    def entries(self) -> Sequence[Entry]:
        named = ((encode_name(queue.name), queue) for queue in self.address().queues())
        return [(name, partial(self._queue, name, queue)) for name, queue in named]

    def _queue(self, name: bytes, queue: Queue) -> Node:
        make = partial(QueueDirectory, self.context, self.inode, self.address_name, queue.name)
        return self.enter(name, make)

    def _status(self) -> RenderedFile:
        return RenderedFile(lambda: json_text(self.address().status()), self.mtime_ns)

    def _settings(self) -> RenderedFile:
        return RenderedFile(lambda: self.address().settings_toml().encode(), self.mtime_ns)
