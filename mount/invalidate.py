"""Drop from the kernel's caches what the store says went or changed.

Names are dropped by pyfuse3's own thread, because a drop waits for lookups in the same directory. Pages never
need dropping: no content changes under one inode number. So nothing here can block the request loop.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyfuse3
from pyfuse3 import FileNameT

from journalfs.store.api import Change, QueueChange
from journalfs_mount.context import MountContext
from journalfs_mount.inodes import ROOT, node_key
from journalfs_mount.limits import INVALIDATED_MESSAGES_MAX
from journalfs_mount.names import MESSAGES_DIRECTORY, encode_name
from journalfs_mount.nodes.address import AddressDirectory
from journalfs_mount.nodes.base import Node
from journalfs_mount.nodes.view import QueueDirectory


class Invalidator:
    """Given to `Store.subscribe`."""

    __slots__ = ("_context",)

    def __init__(self, context: MountContext) -> None:
        self._context = context

    def __call__(self, change: Change) -> None:
        if change.addresses:
            self._drop_gone_directories()
        for (address_name, queue_name), queue_change in change.queues.items():
            address = self._known(ROOT, encode_name(address_name))
            queue = None if address is None else self._known(address.inode, encode_name(queue_name))
            if queue is not None:
                self._queue_changed(queue, queue_change)

    def _queue_changed(self, queue: Node, change: QueueChange) -> None:
        self._drop(queue, (name.encode() for name in change.parts_gone))
        self._drop(queue, (name.encode() for name in change.parts_changed))
        messages = self._known(queue.inode, MESSAGES_DIRECTORY)
        if messages is not None and len(change.messages_gone) <= INVALIDATED_MESSAGES_MAX:
            self._drop(messages, (name for _, name in change.messages_gone))

    def _drop_gone_directories(self) -> None:
        # Rare, so a walk over all nodes is cheaper than keeping these apart.
        self._context.selections.clear()
        store = self._context.store
        for node in self._context.nodes:
            if isinstance(node, QueueDirectory):
                address = store.address(node.address_name)
                if address is None or address.queue(node.queue_name) is None:
                    self._drop_from(node.parent_inode, [encode_name(node.queue_name)])
            elif isinstance(node, AddressDirectory) and store.address(node.address_name) is None:
                self._drop_from(ROOT, [encode_name(node.address_name)])

    def _known(self, parent_inode: int, name: bytes) -> Node | None:
        return self._context.nodes.known(node_key(parent_inode, name))

    def _drop(self, parent: Node, names: Iterable[bytes]) -> None:
        self._drop_from(parent.inode, names)

    @staticmethod
    def _drop_from(parent_inode: int, names: Iterable[bytes]) -> None:
        for name in names:
            pyfuse3.invalidate_entry_async(pyfuse3.InodeT(parent_inode), FileNameT(name), ignore_enoent=True)
