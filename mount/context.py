"""What every node of one mount shares."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from weakref import WeakValueDictionary

from journalfs.store.api import (
    KeptPermissions,
    Permissions,
    Queue,
    QueuePath,
    Removed,
    Snapshot,
    Store,
    WritableStore,
)
from journalfs_mount.believed import Believed
from journalfs_mount.caching import Caching, caching_for
from journalfs_mount.detached import Detachment
from journalfs_mount.endings import Endings
from journalfs_mount.errnos import gone
from journalfs_mount.inodes import SLOT_MAX
from journalfs_mount.interruptions import Interruptions
from journalfs_mount.names import encode_name
from journalfs_mount.options import MountOptions
from journalfs_mount.pins import Pins
from journalfs_mount.present import Presenter
from journalfs_mount.publications import Publications
from journalfs_mount.refusals import Noted, Refused, nothing_else
from journalfs_mount.report import MountReport
from journalfs_mount.shares import Shares
from journalfs_mount.staged_room import SETTING, StagedRoom
from journalfs_mount.staging import PlaceName, StagingArea
from journalfs_mount.written import RefusedNames, WrittenNames

if TYPE_CHECKING:
    from journalfs_mount.inodes import NodeTable
    from journalfs_mount.nodes.base import Node


_ONLY_READS: Final = "mounted to be read only; mount it without --read-only or -o ro to change the store"
_BROWSES: Final = "mounted with -o browse: nothing is taken away"
_NEVER_CHANGES: Final = "a snapshot never changes; it is removed as a whole, by rmdir of its directory"
WAS_REMOVED: Final = (
    "this was removed, and goes by itself; mv it into the directory of a queue to have it back, or all that "
    "one command removed by journalfs undo MNT"
)

SlotTable: TypeAlias = "dict[int, tuple[MountContext, str, str]]"


class MountContext:
    """The store, the kernel's view of it, and how to find one from the other."""

    __slots__ = (
        "_changing",
        "_own_slots",
        "_queues",
        "_removed_context",
        "_slots_given",
        "_snapshots",
        "_staging",
        "believed",
        "brings_back",
        "caching",
        "detachment",
        "endings",
        "fixed",
        "interruptions",
        "is_open",
        "kept_permissions",
        "left_published",
        "making_way",
        "nodes",
        "options",
        "pins",
        "present",
        "publications",
        "publishing",
        "refused_names",
        "removed",
        "report",
        "shares",
        "staged_directories",
        "staged_room",
        "store",
        "without_tail",
        "written",
    )

    nodes: NodeTable[Node]

    def __init__(
        self,
        store: Store,
        options: MountOptions,
        report: MountReport,
        *,
        of: MountContext | None = None,
        brings_back: Removed | None = None,
    ) -> None:
        """`of` for the context of what nobody changes within a mount: a snapshot, or what was removed, which
        `brings_back` has.
        """
        self.store = store
        self.options = options
        self.report = report
        self.fixed = of is not None
        self._staging: StagingArea | None = None
        self._changing: WritableStore | None = None
        if not (options.read_only or store.read_only or self.fixed):
            self._changing = cast(WritableStore, store)
        self.brings_back = brings_back
        self.removed: Removed | None = None
        if self._changing is not None and not options.browse:
            self.removed = self._changing.keep_removed()
        self._removed_context: MountContext | None = None
        changes = (options.follow or self._changing is not None) and not self.fixed
        changes |= brings_back is not None
        self.caching: Caching = caching_for(changes=changes, read_only=self._changing is None)
        if brings_back is not None:
            self.caching = replace(self.caching, name_s=0.0, directory_attributes_s=0.0)
        self.present = Presenter(options, store.hidden_bits, mounted_ns=report.started_ms * 1_000_000)
        self.kept_permissions: KeptPermissions = store.permissions if of is None else of.kept_permissions
        self.believed = Believed()
        self.publications = Publications()
        self.shares: Shares = Shares(store.user_limits()) if of is None else of.shares
        self.shares.tell = report.refused
        self.staged_room = StagedRoom(store.user_limits().get(SETTING, -1), self.shares, self.staging)
        self.interruptions = Interruptions(self.shares)
        self.detachment, self.endings = Detachment(), Endings()
        self.written = WrittenNames()
        self.without_tail: dict[QueuePath, Hashable] = {}
        """Queues that this mount made, whose tail is not there, and the version of their content then."""
        self.making_way: dict[QueuePath, int] = {}
        """Queues whose empty tail was removed, and how many messages they had then."""
        self.publishing: set[bytes] = set()
        """Real paths of what is staged and being published."""
        self.refused_names = RefusedNames()
        self.left_published: dict[bytes, tuple[int, int]] = {}
        """By real path, what is published and could not be removed from where it was staged."""
        self.pins: Pins = Pins() if of is None else of.pins
        self.staged_directories: WeakValueDictionary[int, Node] = WeakValueDictionary()
        """The node that each number of a real directory had last."""
        self._queues: SlotTable = {} if of is None else of._queues
        """The queue of each slot that numbers of messages were made with. Kept for good."""
        self._own_slots: dict[tuple[str, str], int] = {}
        self._slots_given: Iterator[int] = count(SLOT_MAX, -1) if of is None else of._slots_given
        self._snapshots: dict[str, MountContext] = {}
        self.is_open: Callable[[MountContext], bool] = lambda _context: False
        """Whether somebody has a file of a context open. Set by those who know the open files."""
        if of is not None:
            self.nodes, self.present = of.nodes, of.present

    @property
    def read_only(self) -> bool:
        """True for a mount that changes nothing, whatever the store would take."""
        return self._changing is None

    def changing(self) -> WritableStore:
        """The store, to be changed. Refused on a mount that changes nothing, and in a snapshot."""
        if self._changing is None:
            if self.brings_back is not None:
                raise Refused(errno.EROFS, WAS_REMOVED)
            raise Refused(errno.EROFS, _NEVER_CHANGES if self.fixed else _ONLY_READS)
        return self._changing

    def removing(self) -> WritableStore:
        """The store, to have something taken away. Refused where the mount is for looking and publishing."""
        if self.options.browse:
            raise Refused(errno.EPERM, _BROWSES)
        return self.changing()

    def setting(self) -> WritableStore:
        """The store, to have a setting or a message changed, by which messages may go. As `removing`."""
        if self.options.browse:
            raise Refused(errno.EPERM, f"{_BROWSES}, and no setting changed that might do it")
        return self.changing()

    def noted(self, path: Callable[[], str], consequence: Callable[[], str] = nothing_else) -> Noted:
        """What goes on within it may fail, and then the store's events say of which path, why, and what else
        becomes of it.
        """
        return Noted(self.store, path, consequence)

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

    def permissions(self, address_name: str, queue_name: str | None) -> Permissions | None:
        """What was said of who may do what with an address or queue. None: as the mount says."""
        kept = self.kept_permissions
        return kept.of(address_name, queue_name) if kept else None

    def slot_of(self, queue: Queue, address_name: str) -> int:
        """The slot that the numbers of this queue's messages are made with; from here on they can be taken
        apart. A queue of the store has its own, one of a snapshot gets one from the other end.
        """
        names = (address_name, queue.name)
        slot = self._own_slots.get(names) if self.fixed else queue.slot
        if slot is None:
            slot = self._own_slots[names] = next(self._slots_given)
        self._queues[slot] = (self, *names)
        return slot

    def of_snapshot(self, snapshot: Snapshot, store: Store) -> MountContext:
        """The context of a snapshot that is open: the same one each time."""
        context = self._snapshots.get(snapshot.identity)
        if context is None:
            context = MountContext(store, self.options, self.report, of=self)
            self._snapshots[snapshot.identity] = context
        return context

    def of_removed(self, removed: Removed, store: Store) -> MountContext:
        """The context of what was removed, as it is now: always the same one."""
        if self._removed_context is None:
            self._removed_context = MountContext(
                store, self.options, self.report, of=self, brings_back=removed
            )
        self._removed_context.store = store
        return self._removed_context

    def snapshot_open(self, snapshot: Snapshot) -> bool:
        """Whether somebody has a file of a snapshot open."""
        context = self._snapshots.get(snapshot.identity)
        return context is not None and self.is_open(context)

    def forget_snapshot(self, snapshot: Snapshot) -> None:
        """It was removed. Its slots are given to no other: the kernel may know messages by them."""
        context = self._snapshots.pop(snapshot.identity, None)
        if context is not None:
            for slot in context._own_slots.values():
                del self._queues[slot]

    def queue_of_slot(self, slot: int) -> tuple[MountContext, str, str]:
        """Context, address and queue of a slot. ESTALE when no message number with it was ever given out."""
        found = self._queues.get(slot)
        if found is None:
            raise gone()
        return found

    def takes_long_names(self, parent_inode: int) -> bool:
        """True for a directory whose names are selectors: those may be as long as the kernel passes on."""
        parent = self.nodes.node(parent_inode)
        return parent is not None and parent.takes_long_names
