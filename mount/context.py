"""What every node of one mount shares."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from journalfs.store.api import Queue, Store, View
from journalfs_mount.caching import Caching, caching_for
from journalfs_mount.errnos import gone
from journalfs_mount.limits import SELECTIONS_MAX
from journalfs_mount.options import MountOptions
from journalfs_mount.present import Presenter
from journalfs_mount.report import MountReport

if TYPE_CHECKING:
    from journalfs_mount.inodes import NodeTable
    from journalfs_mount.nodes.base import Node


class MountContext:
    """The store, the kernel's view of it, and how to find one from the other."""

    __slots__ = ("_queue_names", "caching", "nodes", "options", "present", "report", "selections", "store")

    nodes: NodeTable[Node]

    def __init__(self, store: Store, options: MountOptions, report: MountReport) -> None:
        self.store = store
        self.options = options
        self.report = report
        self.caching: Caching = caching_for(follow=options.follow)
        self.present = Presenter(options, mounted_ns=report.started_ms * 1_000_000)
        self.selections = Selections()
        self._queue_names: dict[int, tuple[str, str]] = {}

    def queue(self, address_name: str, queue_name: str) -> Queue:
        """The queue as the store has it now. ESTALE when it went."""
        address = self.store.address(address_name)
        queue = None if address is None else address.queue(queue_name)
        if queue is None:
            raise gone()
        return queue

    def remember_slot(self, queue: Queue, address_name: str) -> None:
        """Make the numbers of this queue's messages mean something. Kept for good: one entry per queue."""
        self._queue_names[queue.slot] = (address_name, queue.name)

    def queue_of_slot(self, slot: int) -> tuple[str, str]:
        """Address and queue of a slot. ESTALE when no message number with it was ever given out."""
        names = self._queue_names.get(slot)
        if names is None:
            raise gone()
        return names

    def takes_long_names(self, parent_inode: int) -> bool:
        """True for a directory whose names are selectors: those may be as long as the kernel passes on."""
        parent = self.nodes.node(parent_inode)
        return parent is not None and parent.takes_long_names


class Selections:
    """Views made from selectors: a bounded number is kept, so that asking for many costs no memory for
    good."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[int, View] = OrderedDict()

    def view(self, inode: int, make: Callable[[], View]) -> View:
        """The view of the selector directory with this number. `make` may raise `SelectorError`."""
        view = self._kept.get(inode)
        if view is None:
            view = self._kept[inode] = make()
            if len(self._kept) > SELECTIONS_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(inode)
        return view

    def clear(self) -> None:
        """Forget all of them: what they were made of may be another queue of the same name now."""
        self._kept.clear()
