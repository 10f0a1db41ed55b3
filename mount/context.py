"""What every node of one mount shares."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

from journalfs.store.api import Queue, QueuePath, Store, WritableStore
from journalfs_mount.caching import Caching, caching_for
from journalfs_mount.endings import Endings
from journalfs_mount.errnos import gone, refuse
from journalfs_mount.interruptions import Interruptions
from journalfs_mount.names import encode_name
from journalfs_mount.options import MountOptions
from journalfs_mount.present import Presenter
from journalfs_mount.publications import Publications
from journalfs_mount.refusals import Noted, Refused
from journalfs_mount.report import MountReport
from journalfs_mount.staging import PlaceName, StagingArea
from journalfs_mount.written import WrittenNames

if TYPE_CHECKING:
    from journalfs_mount.inodes import NodeTable
    from journalfs_mount.nodes.base import Node


class MountContext:
    """The store, the kernel's view of it, and how to find one from the other."""

    __slots__ = (
        "_changing",
        "_queue_names",
        "_staging",
        "caching",
        "endings",
        "interruptions",
        "nodes",
        "options",
        "present",
        "publications",
        "publishing",
        "report",
        "staged_directories",
        "store",
        "untouched",
        "written",
    )

    nodes: NodeTable[Node]

    def __init__(self, store: Store, options: MountOptions, report: MountReport) -> None:
        self.store = store
        self.options = options
        self.report = report
        self._staging: StagingArea | None = None
        self._changing: WritableStore | None = None
        if not (options.read_only or store.read_only):
            self._changing = cast(WritableStore, store)
        self.caching: Caching = caching_for(changes=options.follow or self._changing is not None)
        self.present = Presenter(options, mounted_ns=report.started_ms * 1_000_000)
        self.publications = Publications()
        self.interruptions = Interruptions()
        self.endings = Endings()
        self.written = WrittenNames()
        self.untouched: set[QueuePath] = set()
        """Queues made by this mount that have held no message yet."""
        self.publishing: set[bytes] = set()
        """Real paths of what is staged and being published."""
        self.staged_directories: WeakValueDictionary[int, Node] = WeakValueDictionary()
        """The node that each number of a real directory had last."""
        self._queue_names: dict[int, tuple[str, str]] = {}

    @property
    def read_only(self) -> bool:
        """True for a mount that changes nothing, whatever the store would take."""
        return self._changing is None

    def changing(self) -> WritableStore:
        """The store, to be changed. EROFS on a mount that changes nothing."""
        if self._changing is None:
            raise refuse(errno.EROFS)
        return self._changing

    def removing(self) -> WritableStore:
        """The store, to have something taken away. Refused where the mount is for looking and publishing."""
        if self.options.browse:
            raise Refused(errno.EPERM, "mounted with -o browse: nothing is taken away")
        return self.changing()

    def noted(self, path: Callable[[], str]) -> Noted:
        """What goes on within it may fail, and then the store's events say of which path, and why."""
        return Noted(self.changing(), path)

    def staging(self) -> StagingArea:
        if self._staging is None:
            self._staging = StagingArea(self.changing().staging_directory())
        return self._staging

    def sweep_staging(self) -> list[str]:
        """Remove what is staged for nobody any more; the paths of it."""
        places: set[PlaceName] = {()}
        for address in self.store.addresses():
            places.add((encode_name(address.name),))
            places |= {(encode_name(address.name), encode_name(queue.name)) for queue in address.queues()}
        return self.staging().sweep(lambda place: place in places, self.report.clock.now_ms() / 1000)

    def is_publishing_below(self, path: bytes) -> bool:
        """Whether something in a real directory is being published, or all of it."""
        return any(taken == path or taken.startswith(path + b"/") for taken in self.publishing)

    def now_ns(self) -> int:
        return self.report.clock.now_ms() * 1_000_000

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
