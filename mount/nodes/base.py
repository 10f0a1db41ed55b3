"""The common base of all nodes: opened files, directories and their answers to readdir, and the context that
all nodes of one mount share.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, cast, overload
from weakref import WeakValueDictionary

import trio
from pyfuse3 import EntryAttributes, FileNameT, ReaddirToken, SetattrFields, readdir_reply

from journalfs import api
from journalfs.errors import NamesUnset
from journalfs.ids import Inode, MessageId
from journalfs_mount.errnos import COMES_BACK, Noted, Refused, gone, no_such_name, nothing_else, refuse
from journalfs_mount.names.being_written import Publications, RefusedNames, WrittenNames
from journalfs_mount.names.grammar import encode_name
from journalfs_mount.nodes.attributes import Presenter
from journalfs_mount.nodes.believed import Believed, Caching, caching_for
from journalfs_mount.nodes.inodes import ROOT, SLOT_MAX, NodeTable, node_key, parent_and_name
from journalfs_mount.nodes.report import MountReport
from journalfs_mount.nodes.rights import Rights
from journalfs_mount.nodes.staging import Pins, PlaceName, StagingArea
from journalfs_mount.options import MountOptions
from journalfs_mount.process.endings import Endings
from journalfs_mount.process.interruptions import Interruptions
from journalfs_mount.process.shares import OWNER, Shares
from journalfs_mount.process.staged_room import DRAFT_FILES, ENTRY_BYTES, Room, StagedRoom

_ONLY_READS: Final = "mounted to be read only; mount it without --read-only or -o ro to change the store"
_BROWSES: Final = "mounted with -o browse: nothing is taken away"
_NEVER_CHANGES: Final = "a snapshot never changes; it is removed as a whole, by rmdir of its directory"
WAS_REMOVED: Final = (
    "this was removed, and goes by itself; mv it into the directory of a queue to have it back, or all that "
    "one command removed by journalfs undo MNT"
)

SlotTable: TypeAlias = "dict[int, tuple[MountContext, str, str]]"
NO_ATTRIBUTES: Final[Mapping[str, bytes]] = {}
DOTS: Final = 2
"""`.` and `..` take the first two places of every listing, so entry 0 is followed by offset 3."""


@dataclass(slots=True, eq=False)
class OpenedFile:
    """A file handle: its content, and how the kernel may cache it. Handles that take writes are
    subclasses.
    """

    inode: Inode
    mtime_ns: int
    source: api.ByteSource
    direct_io: bool
    keep_cache: bool
    selection: Selection | None = field(default=None, kw_only=True)
    """The selection to find before the file is read; None: none."""
    in_front: bool = field(default=False, kw_only=True)
    """True if its content never changes, and reading it concerns no other process: C may answer for it."""
    read_to: int = field(default=0, kw_only=True)
    """Where the last reading of it ended."""

    def opened_by(self, thread: int) -> None:
        """Note the opening process. It matters only where the mount may have to wait for other processes."""

    async def read(self, offset: int, length: int) -> api.Bytes:
        if self.selection is not None:
            await self.selection.find_out()
        await read_ahead(self.source, offset, length)
        return self.source.read(offset, length)

    async def write(self, offset: int, data: bytes) -> None:
        raise refuse(errno.EBADF)

    async def flush(self) -> None:
        """Note that a descriptor of this handle is closed, not necessarily the last one."""

    async def sync(self) -> None:
        """fsync."""

    async def release(self) -> None:
        """The last close. The kernel tells no caller of an error."""
        self.source.close()

    async def end(self) -> None:
        """The mount ends while the file is open."""
        await self.release()


RENDERINGS_MAX: Final = 2
_rendering = trio.CapacityLimiter(RENDERINGS_MAX)


async def read_ahead(source: api.ByteSource, offset: int, length: int) -> None:
    """Have rendered in a thread what `read` would take long for."""
    work = source.ahead(offset, length)
    if work is not None:
        await api.in_a_thread(work, limiter=_rendering, abandon=True)


class Unreadable:
    """The content of a file that is open for writing only."""

    __slots__ = ()

    @property
    def size_bytes(self) -> int:
        return 0

    def read(self, offset: int, length: int) -> api.Bytes:
        raise refuse(errno.EBADF)

    def ahead(self, offset: int, length: int) -> None:
        """Nothing is rendered."""

    def close(self) -> None:
        """There is nothing to let go of."""


class Selection(Protocol):
    """Messages of which it takes long to say which they are, where a selector chooses them, or how long."""

    def is_found(self) -> bool:
        """Whether that is known."""

    async def find_out(self) -> None:
        """Find that out, while others are served."""


class Node(ABC):
    """A file or directory as the kernel knows it. `inode`, `key` and `lookups` are the node table's."""

    __slots__ = ("context", "inode", "key", "lookups")

    takes_long_names: ClassVar[bool] = False
    """True when children's names may be longer than statfs says."""

    opens: ClassVar[bool] = False
    """True when `open_up` has to be awaited before anything in it is looked for."""

    measured: ClassVar[bool] = False
    """True when `measure` has to be awaited before anything is said of it or it is opened."""

    holds_many: ClassVar[bool] = False
    """True for what may stand for any number of messages, so that removing or renaming it may take long."""

    inode: Inode
    key: bytes
    lookups: int

    def __init__(self, context: MountContext) -> None:
        self.context = context

    @property
    def selection(self) -> Selection | None:
        """The selection to find before any question about this node is answered; None: none."""
        return None

    @property
    def steady(self) -> bool:
        """True if answers about this node, and about names in it, follow from the store's state alone:
        neither the time nor the caller matters.
        """
        return False

    lasting: ClassVar[bool] = False
    """True if answers about this node, where it is steady, follow from the addresses and queues alone."""

    @abstractmethod
    def attributes(self) -> EntryAttributes:
        """Fill in and return the shared attribute object. ESTALE when the thing is gone."""

    def shown(
        self, size_bytes: int, mtime_ns: int, name_s: float = 0.0, attributes_s: float | None = None
    ) -> EntryAttributes:
        """Return the attributes of a file. `attributes_s`: how long the kernel may cache them, if not as long
        as the name.
        """
        return self.context.present.file(
            self.inode,
            size_bytes=size_bytes,
            mtime_ns=mtime_ns,
            name_s=name_s,
            attributes_s=name_s if attributes_s is None else attributes_s,
            given=self.permissions(),
        )

    def extended_attributes(self) -> Mapping[str, bytes]:
        return NO_ATTRIBUTES

    def permissions(self) -> api.Permissions | None:
        """Return the permissions set for the node's address or queue; None: none were set."""
        if not self.context.kept_permissions or self.inode == ROOT:
            return None
        parent = self.context.nodes.node(parent_and_name(self.key)[0])
        return None if parent is None else parent.permissions()

    def concerns(self, address_name: str) -> bool:
        """True when what is shown of this depends on what is being published in an address."""
        return False

    def path(self) -> str:
        """Where it is in the mount, for people."""
        nodes = self.context.nodes
        names: list[str] = []
        node: Node | None = self
        while node is not None and node.inode != ROOT:
            parent, name = parent_and_name(node.key)
            names.append(name.decode(errors="replace"))
            node = nodes.node(parent)
        return "/".join(reversed(names))

    def open(self) -> OpenedFile:
        raise refuse(errno.EISDIR)

    def open_to_write(self, flags: int) -> OpenedFile:
        raise Refused(errno.EPERM, "nothing is written here: write to a new name in an address or a queue")

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """chmod, chown, utimensat, truncate; `opened` is the handle that the caller has, if any."""
        raise Refused(errno.EPERM, "messages and parts have no mode, owner, time or size to set")

    async def set_extended(self, name: str, value: bytes) -> None:
        raise Refused(errno.EOPNOTSUPP, f"{name} cannot be set here")

    async def remove_extended(self, name: str) -> None:
        """Remove an attribute that is there."""
        raise Refused(errno.EPERM, "this attribute shows a state, and cannot be removed")

    async def remove(self) -> None:
        """unlink."""
        raise Refused(errno.EPERM, "this cannot be removed")

    async def move(self, target: Directory, name: bytes) -> None:
        """rename: this becomes `name` in `target`."""
        raise Refused(errno.EPERM, "only messages, parts and staged names can be given another name")

    async def open_up(self) -> None:
        """Read what takes long to read. A failure is raised to the request that looks into the node."""
        raise AssertionError("nothing here has to be opened")

    def listed_attributes(self) -> EntryAttributes:
        """Return the attributes for a listing, without what takes long to find: the kernel has to ask for the
        rest.
        """
        return self.attributes()

    async def measure(self) -> None:
        """Find out what takes long to find out, while others are served."""
        raise AssertionError("nothing here has to be measured")

    def child(self, name: bytes) -> Node:
        raise refuse(errno.ENOTDIR)

    def snapshot(self) -> FrozenEntries:
        raise refuse(errno.ENOTDIR)


async def move_messages(
    context: MountContext,
    source: api.QueuePath,
    message_ids: Callable[[], Sequence[MessageId]],
    target: Directory,
    part: str | None = None,
) -> int:
    """Move the messages of `source`, which were renamed into `target`: to its queue, or back to where they
    came from; removed ones are restored. Returns their number. `part` is the store's name for all of them, if
    there is one.
    """
    context.rights.require(leaves=[source])
    if context.brings_back is not None:
        back = target.receiving_queue()
        if back is None:
            raise Refused(errno.EPERM, "removed messages come back into the directory of a queue")
        target.context.changing()
        context.rights.require(targets=[back])
        return await context.brings_back.move(source, message_ids(), back)
    store = context.removing()
    held = await target.hold_messages(source, message_ids)
    if held is not None:
        return held
    if target.redrives:
        redriven = await store.redrive(source, message_ids(), context.rights.require_targets)
        return sum(redriven.sent.values())
    queue = moving_target(source, target)
    context.rights.require(targets=[queue])
    if part is not None:
        return await store.move_part(source, part, queue)
    return await store.move(source, message_ids(), queue)


def moving_target(source: api.QueuePath, target: Directory) -> api.QueuePath:
    """The queue that messages of `source` go to when they are renamed into `target`."""
    queue = target.receiving_queue()
    if queue is None:
        raise Refused(errno.EPERM, "messages are moved into the directory of a queue")
    if queue == source:
        raise Refused(errno.EPERM, "these messages are in this queue already, and their names are fixed")
    return queue


class FrozenEntries(Protocol):
    """A directory's entries, frozen when it was opened. Offsets are places in it, so they never move."""

    def reply(self, token: ReaddirToken, start: int) -> None:
        """Answer one readdir request from offset `start` on."""


class OpenedDirectory:
    """A directory handle. The listing is taken at opendir and again at rewinddir, never in between."""

    __slots__ = ("_begun", "_node", "_snapshot")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._snapshot: FrozenEntries = node.snapshot()
        self._begun = False

    @property
    def memory(self) -> api.Memory:
        return api.memory_of(self._snapshot)

    def begins_anew(self, start: int) -> bool:
        """Return True if a readdir from offset `start` on follows a rewind: the listing is made again."""
        anew = start == 0 and self._begun
        if anew:
            self._snapshot = self._node.snapshot()
        self._begun = True
        return anew

    def forget(self) -> None:
        """Let go of the listing: the next request from the beginning takes another."""
        self._snapshot = EntrySnapshot(cast(Directory, self._node), ())

    def reply(self, token: ReaddirToken, start: int) -> None:
        self._snapshot.reply(token, start)


_Thing = TypeVar("_Thing")
Entry = tuple[bytes, Callable[[], Node]]
"""A listed name and what makes or finds its node."""


class MadeEntries(Sequence[Entry], Generic[_Thing]):
    """The entries of very many things, each made when it is listed."""

    __slots__ = ("_make", "_things")

    def __init__(self, things: Sequence[_Thing], make: Callable[[_Thing], Entry]) -> None:
        self._things = things
        self._make = make

    def __len__(self) -> int:
        return len(self._things)

    @overload
    def __getitem__(self, place: int) -> Entry: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, slice):
            return MadeEntries(self._things[place], self._make)
        return self._make(self._things[place])


class Directory(Node):
    """A directory. `parent_inode` is for `..` alone."""

    __slots__ = ("parent_inode",)

    private: ClassVar[bool] = False
    """True if only the owner may use it, unless permissions were set."""

    asks: ClassVar[bool] = False
    """True where a name in it asks something of the content: the size of what is found is an answer."""

    redrives: ClassVar[bool] = False
    """True where messages that are moved into it go back to where they came from."""

    lists_ahead: ClassVar[bool] = False
    """True when `list_ahead` has to be awaited before it is listed."""

    def __init__(self, context: MountContext, parent_inode: int) -> None:
        super().__init__(context)
        self.parent_inode = parent_inode

    async def list_ahead(self) -> None:
        """Find out what is listed, while others are served."""
        raise AssertionError("what is listed is known")

    def mtime_ns(self) -> int:
        return self.context.now_ns()

    def entries(self) -> Sequence[Entry]:
        """Return the entries that readdir lists: far fewer than can be reached by name."""
        return ()

    async def before_losing(self) -> None:
        """Raise where nothing in it must be taken away."""

    async def look_ahead(self, name: bytes) -> None:
        """Find out what `find` would take long for, while others are served."""

    def find(self, name: bytes) -> Node | None:
        """Return the node that the store shows under this name; None: there is none."""
        return None

    def look(self, name: bytes) -> Node | None:
        """Return the node under this name, shown in listings or not; None: there is none."""
        return self.find(name)

    def child(self, name: bytes) -> Node:
        node = self.look(name)
        if node is None:
            raise no_such_name()
        return node

    def given(self, name: bytes) -> Node:
        """Return the node that a rename has just put under this name, for the process that renamed: messages
        are listed under names of their own.
        """
        return self.enter(name, partial(GivenName, self.context), b"given")

    def given_directory(self, name: bytes) -> Node:
        """Return the directory that a rename has just put under this name: the kernel lets only a directory
        replace one.
        """
        return self.enter(name, partial(EmptyDirectory, self.context, self.inode), b"given directory")

    def name_s(self) -> float:
        return self.context.caching.name_s

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """Accepted, without effect: `cp -a`, `rsync` and Spark set modes and times of every directory."""

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[Node, OpenedFile]:
        """A new file, opened for writing."""
        raise Refused(errno.EPERM, "nothing is written here: messages go into an address or a queue")

    async def make_directory(self, name: bytes, mode: int) -> Node:
        raise Refused(errno.EPERM, f"no directory is made here{COMES_BACK}")

    async def remove_directory(self) -> None:
        raise Refused(errno.EPERM, f"this directory always stays{COMES_BACK}")

    def receiving_queue(self) -> api.QueuePath | None:
        """The queue that messages moved here go to."""
        return None

    async def hold_messages(
        self, source: api.QueuePath, message_ids: Callable[[], Sequence[MessageId]]
    ) -> int | None:
        """Hold messages that are moved here until the transaction ends. Returns their number; None: this is
        no transaction.
        """
        return None

    def attributes(self) -> EntryAttributes:
        caching = self.context.caching
        return self.context.present.directory(
            self.inode,
            mtime_ns=self.mtime_ns(),
            name_s=self.name_s(),
            attributes_s=caching.directory_attributes_s,
            private=self.private,
            asks=self.asks,
            given=self.permissions(),
        )

    def enter(self, name: bytes, make: Callable[[], Node], version: bytes = b"") -> Node:
        """The child of this name, made if the kernel does not know it. Another version is another file."""
        return self.context.nodes.enter(node_key(self.inode, name, version), make)

    def snapshot(self) -> FrozenEntries:
        return EntrySnapshot(self, self.entries())


class GivenName(Node):
    """A name that was given to what takes none."""

    __slots__ = ()

    def attributes(self) -> EntryAttributes:
        return self.context.present.file(
            self.inode, size_bytes=0, mtime_ns=self.context.now_ns(), name_s=0.0, attributes_s=0.0
        )

    def open(self) -> OpenedFile:
        raise refuse(errno.EACCES)


class EmptyDirectory(Directory):
    """A directory that is one no more: its files became messages, or it was removed. A process that renamed
    it, or has it as working directory, finds it empty, with `..` as the way out.
    """

    def __init__(self, context: MountContext, parent_inode: int, was: str | None = None) -> None:
        """`was` is the path that it had, where its key does not say that."""
        super().__init__(context, parent_inode)
        self._was = was

    def path(self) -> str:
        return super().path() if self._was is None else self._was

    def name_s(self) -> float:
        return 0.0


LISTED_ENTRY_BYTES: Final = 400
"""Bytes that a listing takes for a name and for the call that makes its node."""

POINTER_BYTES: Final = 8


class EntrySnapshot:
    """A listing in which every entry has a node."""

    __slots__ = ("_directory", "_entries")

    def __init__(self, directory: Directory, entries: Sequence[Entry]) -> None:
        self._directory = directory
        self._entries = entries

    @property
    def memory(self) -> api.Memory:
        """Names that are made when they are listed take little."""
        each = POINTER_BYTES if isinstance(self._entries, MadeEntries) else LISTED_ENTRY_BYTES
        return api.Memory(None, 0, each * len(self._entries))

    def reply(self, token: ReaddirToken, start: int) -> None:
        if not reply_dots(self._directory, token, start):
            return
        nodes = self._directory.context.nodes
        for place in range(max(start - DOTS, 0), len(self._entries)):
            name, find = self._entries[place]
            node = find()
            if not readdir_reply(token, FileNameT(name), node.listed_attributes(), place + DOTS + 1):
                nodes.drop_unused(node)
                return
            node.lookups += 1


def reply_dots(directory: Directory, token: ReaddirToken, start: int) -> bool:
    """List `.` and `..` where the listing begins with them. The kernel counts no lookup for these.

    Returns False when there was no room left.
    """
    present = directory.context.present
    for place, name, inode in ((0, b".", directory.inode), (1, b"..", directory.parent_inode)):
        if place < start:
            continue
        entry = present.directory(inode, mtime_ns=0, name_s=0.0, attributes_s=0.0)
        if not readdir_reply(token, FileNameT(name), entry, place + 1):
            return False
    return True


# ---- what is shared -----------------------------------------------------------------------------------


WARNED_MAX: Final = 1024
"""Selectors that are remembered as told of: an event more does no harm."""


class MountContext:
    """The store, the kernel's view of it, and how to find one from the other."""

    nodes: NodeTable[Node]

    def __init__(
        self,
        store: api.Store,
        options: MountOptions,
        report: MountReport,
        *,
        of: MountContext | None = None,
        brings_back: api.Removed | None = None,
    ) -> None:
        """`of` for the context of what nobody changes within a mount: a snapshot, or what was removed, which
        `brings_back` has.
        """
        self.store = store
        self.options = options
        self.report = report
        self.fixed = of is not None
        self._staging: StagingArea | None = None
        self._changing: api.WritableStore | None = None
        if not (options.read_only or store.read_only or self.fixed):
            self._changing = cast(api.WritableStore, store)
        self.brings_back = brings_back
        self.removed: api.Removed | None = None
        if self._changing is not None and not options.browse:
            self.removed = self._changing.keep_removed()
        self._removed_context: MountContext | None = None
        changes = (options.follow or self._changing is not None) and not self.fixed
        changes |= brings_back is not None
        self.caching: Caching = caching_for(changes=changes, read_only=self._changing is None)
        if brings_back is not None:
            self.caching = replace(self.caching, name_s=0.0, directory_attributes_s=0.0)
        self.present = Presenter(options, store.hidden_bits, mounted_ns=report.started_ms * 1_000_000)
        self.kept_permissions: api.KeptPermissions = store.permissions if of is None else of.kept_permissions
        self.believed = Believed()
        self.publications = Publications()
        self.shares: Shares = Shares(store.user_limits(), report.refused) if of is None else of.shares
        self.staged_room = StagedRoom(store.user_limits(), self.shares, self.staging, self._besides)
        self.interruptions = Interruptions(self.shares)
        self.endings = Endings()
        self.written = WrittenNames()
        self.without_tail: dict[api.QueuePath, Hashable] = {}
        """Queues that this mount made, whose tail is not there, and the version of their content then."""
        self.making_way: dict[api.QueuePath, int] = {}
        """Queues whose empty tail was removed, and how many messages they had then."""
        self.publishing: set[bytes] = set()
        """Real paths of what is staged and being published."""
        self.refused_names = RefusedNames()
        self._warned: set[tuple[api.QueuePath, str]] = set()
        """Queues and selectors of which an event said that they compare names that no message has."""
        self.pins: Pins = Pins() if of is None else of.pins
        self.staged_directories: WeakValueDictionary[int, Node] = WeakValueDictionary()
        """The node that each number of a real directory had last."""
        self._queues: SlotTable = {} if of is None else of._queues
        """The queue of each slot that numbers of messages were made with. Kept for good."""
        self._own_slots: dict[tuple[str, str], int] = {}
        self._slots_given: Iterator[int] = count(SLOT_MAX, -1) if of is None else of._slots_given
        self._snapshots: dict[str, MountContext] = {}
        self.opened: Iterable[OpenedFile] = ()
        if of is not None:
            self.nodes, self.present = of.nodes, of.present
        self.rights = Rights(self.present, self.permissions)

    @property
    def read_only(self) -> bool:
        """True for a mount that changes nothing, even if the store could be changed."""
        return self._changing is None

    def changing(self) -> api.WritableStore:
        """The store, to be changed. Refused on a mount that changes nothing, and in a snapshot."""
        if self._changing is None:
            if self.brings_back is not None:
                raise Refused(errno.EROFS, WAS_REMOVED)
            raise Refused(errno.EROFS, _NEVER_CHANGES if self.fixed else _ONLY_READS)
        return self._changing

    def removing(self) -> api.WritableStore:
        """The store, to have something taken away. Refused where the mount is for looking and publishing."""
        if self.options.browse:
            raise Refused(errno.EPERM, _BROWSES)
        return self.changing()

    def setting(self) -> api.WritableStore:
        """The store, to have a setting or a message changed, by which messages may go. As `removing`."""
        if self.options.browse:
            raise Refused(errno.EPERM, f"{_BROWSES}, and no setting changed that might do it")
        return self.changing()

    def require_settable(self, address_name: str, queue_name: str | None) -> None:
        """Raise EACCES unless the asker may read and change all that a setting is of: settings such as
        `expiry-address` say where messages go, and would lead them out of a queue that the asker cannot read.
        """
        self.setting()
        address = self.store.address(address_name)
        names = () if queue_name is not None or address is None else (one.name for one in address.queues())
        self.rights.require(leaves=[(address_name, name) for name in (queue_name, *names)])

    def noted(self, path: Callable[[], str], consequence: Callable[[], str] = nothing_else) -> Noted:
        """Return a block for work that may fail: an error within it becomes an event that names the path, the
        reason and the consequence.
        """
        return Noted(self._refused, path, consequence)

    def tell_refused(self, path: str, number: int, reason: str) -> None:
        """Tell the store's events and the asker of a name that was refused."""
        self._refused(f"{path}: {errno.errorcode[number]}", reason)

    def _refused(self, what: str, reason: str) -> None:
        self.store.refused(what, reason)
        self.report.refused_to(OWNER.get(), what, reason)

    def warn_once(self, queue: api.QueuePath, selector: str, names: tuple[str, str]) -> None:
        """Add an event about what a selector chooses of a queue, unless this mount has said so."""
        known = (queue, selector)
        if known in self._warned:
            return
        if len(self._warned) >= WARNED_MAX:
            self._warned.clear()
        self._warned.add(known)
        self.store.doubted("::".join(queue), NamesUnset(selector, names))

    def staging(self) -> StagingArea:
        if self._staging is None:
            self._staging = StagingArea(self.changing().staging_directory())
        return self._staging

    def _besides(self, user: int) -> Callable[[], Room]:
        """Return the room that a user's transactions and snapshots take, which the staging area
        does not count.
        """
        store = self.changing()
        files = DRAFT_FILES * sum(draft.maker[0] == user for draft in store.transactions.drafts())
        snapshots = [snapshot for snapshot in store.snapshots.all() if snapshot.maker == user]

        def measured() -> Room:
            used = Room(files * ENTRY_BYTES, files)
            for snapshot in snapshots:
                with suppress(OSError):  # it was removed meanwhile
                    size_bytes, held = snapshot.held_alone()
                    used = Room(used.size_bytes + size_bytes, used.files + held)
            return used

        return measured

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

    def queue(self, address_name: str, queue_name: str) -> api.Queue:
        """The queue as the store has it now. ESTALE when it went."""
        address = self.store.address(address_name)
        queue = None if address is None else address.queue(queue_name)
        if queue is None:
            raise gone()
        return queue

    def permissions(self, address_name: str, queue_name: str | None) -> api.Permissions | None:
        """Return the permissions set for an address or queue. None: it has those of the mount."""
        kept = self.kept_permissions
        return kept.of(address_name, queue_name) if kept else None

    def slot_of(self, queue: api.Queue, address_name: str) -> int:
        """The slot that the numbers of this queue's messages are made with; from here on they can be taken
        apart. A queue of the store has its own, one of a snapshot gets one from the other end.
        """
        names = (address_name, queue.name)
        slot = self._own_slots.get(names) if self.fixed else queue.slot
        if slot is None:
            slot = self._own_slots[names] = next(self._slots_given)
        self._queues[slot] = (self, *names)
        return slot

    def of_snapshot(self, snapshot: api.Snapshot, store: api.Store) -> MountContext:
        """Return the context of an open snapshot: the same one each time."""
        context = self._snapshots.get(snapshot.identity)
        if context is None:
            context = MountContext(store, self.options, self.report, of=self)
            self._snapshots[snapshot.identity] = context
        return context

    def of_removed(self, removed: api.Removed, store: api.Store) -> MountContext:
        """The context of what was removed, as it is now: always the same one."""
        if self._removed_context is None:
            self._removed_context = MountContext(
                store, self.options, self.report, of=self, brings_back=removed
            )
        self._removed_context.store = store
        return self._removed_context

    def snapshot_open(self, snapshot: api.Snapshot) -> bool:
        """Return True if a file of a snapshot is open."""
        context = self._snapshots.get(snapshot.identity)
        nodes = [self.nodes.node(opened.inode) for opened in self.opened] if context is not None else ()
        return any(node is not None and node.context is context for node in nodes)

    def forget_snapshot(self, snapshot: api.Snapshot) -> None:
        """Forget a removed snapshot. Its slots are not given to another: the kernel may still know messages
        by them.
        """
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
        """True for a directory whose names are selectors: they may be as long as the kernel passes on."""
        parent = self.nodes.node(parent_inode)
        return parent is not None and parent.takes_long_names
