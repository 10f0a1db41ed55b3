"""Requests of the kernel, one short method each: find the node, let it answer, count the kernel's references.

Requests begin in the order in which they come. Requests that only look are answered at once, unless a
publication that concerns them is under way (`Publications`). Requests that change something wait until the
change is done, while others are served. Every method is guarded: any error is answered with an errno and
never ends the mount.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NoReturn

import pyfuse3
import trio
from pyfuse3 import (
    EntryAttributes,
    FileHandleT,
    FileInfo,
    FileNameT,
    FlagT,
    FUSEError,
    InodeT,
    ModeT,
    ReaddirToken,
    RequestContext,
    SetattrFields,
    StatvfsData,
    XAttrNameT,
)

from journalfs.api import REMOVER, Bytes, memory_of
from journalfs_mount.errnos import Refused, bad_content, fault, gone, guarded, refuse
from journalfs_mount.front.front import WINDOW_BYTES, Front
from journalfs_mount.front.hot_writes import HotWrites, MadeFile
from journalfs_mount.kernel.finders import Finders
from journalfs_mount.kernel.handles import HandleTable, files_max
from journalfs_mount.kernel.remembered import Remembered
from journalfs_mount.kernel.xattrs import attribute_name, listed_names
from journalfs_mount.limits import HANDLES_MAX, NAME_BYTES_MAX
from journalfs_mount.nodes import base
from journalfs_mount.nodes.destination import DestinationDirectory
from journalfs_mount.nodes.inodes import ROOT, NodeTable
from journalfs_mount.nodes.message import MessageFile
from journalfs_mount.nodes.mounted import RootDirectory
from journalfs_mount.nodes.part import PartFile
from journalfs_mount.nodes.queue import QueueDirectory
from journalfs_mount.nodes.rights import READ, allows
from journalfs_mount.nodes.stream import Stream, StreamFile
from journalfs_mount.nodes.written import WritingFile, WrittenFile
from journalfs_mount.process.callers import EndingCaller
from journalfs_mount.process.proc import process_group_of
from journalfs_mount.process.shares import ASKER, OWNER, Asker, Pacing, Share

log = logging.getLogger("journalfs.mount")

STATFS_BLOCK_BYTES: Final = 4096
USER_PREFIX: Final = b"user."
SETTING_PREFIX: Final = b"user.journalfs."
LOOKS: Final = frozenset(
    (
        *("lookup", "getattr", "forget", "access", "statfs", "opendir", "readdir", "releasedir"),
        *("getxattr", "listxattr", "open", "read", "flush", "release"),
    )
)
"""Requests that change nothing, or say themselves that they do: nothing else that was answered is otherwise
after them.
"""
PUBLISHES: Final = frozenset(("create", "write", "fsync"))
"""These requests never remove a message themselves. If a new message displaces an old one (ring, last-value),
the store reports the removal.
"""
GIVEN_NAMES_S: Final = 0.5
"""How long a name is found that messages kept when they were moved, to replace nothing: `mv` of several looks
for each at once.
"""


class Operations(pyfuse3.Operations):
    """The mount's side of the FUSE protocol."""

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(self, context: base.MountContext, ready: Callable[[], None]) -> None:
        """`ready` is called once, when the kernel begins to send requests."""
        super().__init__()
        self._context = context
        self._ready = ready
        self.front: Front | None = None
        """Where it answers requests."""
        self._writes: HotWrites | None = None
        """Where the front publishes lines."""
        self._publications = context.publications
        self.pacing = Pacing()
        self._endings = context.endings
        self._requests = context.report.requests
        self.begun = 0
        """Requests for which a handler was called."""
        self._latest: tuple[str, tuple[object, ...]] = ("init", (None,))
        self._files: HandleTable[base.OpenedFile] = HandleTable(
            files_max(), context.shares, lambda opened: memory_of(opened.source)
        )
        self._directories: HandleTable[base.OpenedDirectory] = HandleTable(
            HANDLES_MAX, context.shares, lambda opened: opened.memory
        )
        self._polled: set[Stream] = set()
        self._polling = trio.Event()
        """Set while a task polls."""
        self._until = trio.CancelScope()
        """How long `notify` waits for a change before it looks again."""
        self._given: Remembered[bool] = Remembered(GIVEN_NAMES_S)
        """By directory and name, whether a directory was given it."""
        self._finders = Finders()
        context.opened = self._files
        context.nodes = NodeTable(RootDirectory(context), lambda inode: MessageFile.of_inode(context, inode))

    def init(self) -> None:
        try:
            self._ready()
        except Exception:
            log.exception("cannot tell that the mount is ready")

    def publish_in_front(self) -> None:
        """Have lines published by the front, where it answers anything."""
        if self.front is not None and not self.front.compares:
            self._writes = self.front.publish(self._context.changing(), self)

    async def settle(self) -> None:
        """Answer what the front publishes, where it does not so itself."""
        if self._writes is not None:
            await self._writes.settle()

    def asked(self, user: int) -> None:
        """The front answered something for a user."""
        self.pacing.ask(user)

    def adopt(self, made: MadeFile, row: object) -> None:
        """The front made a file, which is open."""
        parent, writes = self._context.nodes.node(made.parent), self._writes
        assert isinstance(parent, DestinationDirectory)
        assert writes is not None
        opened = parent.made(made)
        opened.opened_by(made.thread)
        self._files.adopt(made.handle, opened, made.user)
        opened.hot = writes.adopted(opened, made, row)
        if made.lines:
            opened.published(made.size_bytes, made.lines)
        opened.warm()

    def closed(self, handle: int) -> None:
        """The front closed a file that lines were written to."""
        opened = self._files.remove(handle)
        assert isinstance(opened, WritingFile)
        opened.closed()

    def count(self, request: str, of: tuple[object, ...]) -> None:
        """`of`: the first two things that the request names."""
        self.begun += 1
        if request not in LOOKS:
            self._changes()
            if request not in PUBLISHES:
                self._context.believed.left()
        self._requests[request] += 1
        self._latest = request, of

    def failed(self, request: str, error: Exception) -> None:
        self._context.store.refused(f"{request}: EIO", fault(error))

    def _serve_asker(self, ctx: RequestContext) -> None:
        """Note who asks for what follows: rights are decided by that (`nodes/rights.py`)."""
        ASKER.set(Asker(ctx.uid, ctx.gid, ctx.pid))
        self._serve(ctx.uid)

    def _serve(self, user: int) -> None:
        """Do what follows in the name of a user."""
        OWNER.set(user)
        self.pacing.ask(user)

    def _changes(self) -> None:
        """Revoke the answers that the front keeps: they may be wrong from here on."""
        if self.front is not None:
            self.front.revoke()
            self.close_returned()

    def close_returned(self) -> None:
        """Close what the front kept open for who would open it next, and does not any more."""
        while self.front is not None and (handles := self.front.returned()):
            for handle in handles:
                opened = self._files.remove(handle)
                if opened is not None:
                    opened.source.close()

    def _done_with(self, opened: base.OpenedFile) -> None:
        """Something is done with an open file: all but plain reading may change what others see."""
        if type(opened) is not base.OpenedFile:
            self._changes()

    def latest_request(self) -> str:
        """Return the last request as a text for people."""
        request, (first, *rest) = self._latest
        node = self._context.nodes.node(first) if isinstance(first, int) else None
        names = [one.decode(errors="replace") for one in rest if isinstance(one, bytes)]
        return "/".join([f"{request} {'' if node is None else node.path()}".rstrip(), *names])

    @property
    def open_files(self) -> int:
        return len(self._files)

    def close(self) -> None:
        """Let go of every open file: nothing can be read through them any more. After `end`."""
        self._directories.drain()
        for opened in self._files.drain():
            opened.source.close()
        self._context.pins.close()

    async def end(self) -> None:
        """The mount is over: publish what writers were told is kept, drop what they had not closed."""
        if self._writes is not None:
            self._writes.adopt()
        for opened in self._files.drain():
            try:
                await opened.end()
            except FUSEError:
                log.warning("a file that was open when the mount ended was not published; see the events")
        await self._context.publications.settled(lambda address_name: True)
        await self._endings.end()

    # Names and attributes

    @guarded
    async def lookup(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> EntryAttributes:
        if len(name) > NAME_BYTES_MAX and not self._context.takes_long_names(parent_inode):
            raise refuse(errno.ENAMETOOLONG)
        self._serve_asker(ctx)
        parent = await self._settled(parent_inode, ctx.pid)
        if parent.opens:
            await parent.open_up()
        if isinstance(parent, base.Directory) and parent.takes_long_names:
            await self._long(partial(parent.look_ahead, name), ctx.pid)
        try:
            node = parent.child(name)
            if node.measured or node.selection is not None:
                await self._known(node, ctx.pid)
            if isinstance(node, StreamFile):
                node = self._finders.found(ctx.pid, node)
            return self._kept(node, self._entry(node))
        except FUSEError as error:
            is_directory = self._given.get((parent_inode, name))
            if is_directory is None:
                if error.errno == errno.ENOENT:
                    self._keep_missing(parent)
                    if parent_inode == ROOT:
                        self._context.report.missed(name)
                raise
            assert isinstance(parent, base.Directory)
            return self._entry(parent.given_directory(name) if is_directory else parent.given(name))

    @guarded
    async def forget(self, inode_list: Sequence[tuple[InodeT, int]]) -> None:
        self._context.nodes.forget(inode_list)

    @guarded
    async def getattr(self, inode: InodeT, ctx: RequestContext) -> EntryAttributes:
        self._serve_asker(ctx)
        try:
            node = await self._settled(inode, ctx.pid)
            if node.measured:
                await self._known(node, ctx.pid)
            if not isinstance(node, StreamFile):
                return self._kept(node, node.attributes())
        except FUSEError:
            opened = next((opened for opened in self._files if opened.inode == inode), None)
            if opened is None:
                raise
            # What it stood for has gone, but who has it open goes on reading, and `cat` asks before it reads.
            return self._context.present.file(
                inode,
                size_bytes=opened.source.size_bytes,
                mtime_ns=opened.mtime_ns,
                name_s=0.0,
                attributes_s=0.0,
            )
        return self._finders.told(ctx.pid, node)

    @guarded
    async def access(self, inode: InodeT, mode: ModeT, ctx: RequestContext) -> bool:
        """access(2) and chdir(2), of which only a mount hears that refuses changes: no user but its own gets
        in, and that one may read everything.
        """
        if mode & os.W_OK:
            raise refuse(errno.EROFS)
        return not mode & os.X_OK or isinstance(self._node(inode), base.Directory)

    @guarded
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        usage = self._context.store.usage()
        stats = StatvfsData()
        stats.f_bsize = stats.f_frsize = STATFS_BLOCK_BYTES
        stats.f_blocks = usage.total_bytes // STATFS_BLOCK_BYTES
        stats.f_bfree = usage.free_bytes // STATFS_BLOCK_BYTES
        stats.f_bavail = usage.available_bytes // STATFS_BLOCK_BYTES
        stats.f_files = max(usage.messages_max, usage.messages)
        stats.f_ffree = stats.f_favail = max(0, stats.f_files - usage.messages)
        stats.f_namemax = NAME_BYTES_MAX
        return stats

    # Directories

    @guarded
    async def opendir(self, inode: InodeT, ctx: RequestContext) -> FileHandleT:
        self._serve_asker(ctx)
        node = await self._settled(inode, ctx.pid)
        if node.opens:
            await node.open_up()
        if isinstance(node, base.Directory) and node.lists_ahead:
            await self._long(node.list_ahead, ctx.pid)
        return FileHandleT(self._directories.add(base.OpenedDirectory(node), ctx.uid))

    @guarded
    async def readdir(self, fh: FileHandleT, start_id: int, token: ReaddirToken) -> None:
        opened = self._directories.get(fh)
        if opened.begins_anew(start_id):
            try:
                self._directories.recount(fh)
            except FUSEError:
                opened.forget()
                raise
        opened.reply(token, start_id)

    @guarded
    async def releasedir(self, fh: FileHandleT) -> None:
        self._directories.remove(fh)

    # Files

    @guarded
    async def open(self, inode: InodeT, flags: FlagT, ctx: RequestContext) -> FileInfo:
        self._serve_asker(ctx)
        node = await self._settled(inode, ctx.pid)
        answers = isinstance(node, StreamFile) and node.takes_answers and flags & os.O_ACCMODE == os.O_RDWR
        if (answers or flags & os.O_ACCMODE == os.O_RDONLY) and not flags & os.O_TRUNC:
            if node.measured:
                await self._known(node, ctx.pid)
            if isinstance(node, StreamFile):
                self._finders.opens(ctx.pid, node)
                with self._context.noted(node.path):
                    await node.before_opening()
                self._changes()
            opened = self._stream(node, flags, ctx) if isinstance(node, StreamFile) else node.open()
            info = await self._handle(opened, ctx)
            if self.front is not None and isinstance(node, PartFile):
                opened.in_front = True
                self.front.opened(info.fh)
                if node.opens_alike():
                    self.front.keep()
            return info
        self._changes()
        with self._context.noted(node.path):
            node.context.changing()
            opened = node.open_to_write(flags)
        return await self._handle(opened, ctx)

    def _stream(self, node: StreamFile, flags: int, ctx: RequestContext) -> base.OpenedFile:
        """An open stream, which is of its user's share until it is released."""
        shares = self._context.shares
        shares.take(Share.STREAMS, ctx.uid)
        try:
            return node.open_stream(flags, partial(shares.give_back, Share.STREAMS, ctx.uid))
        except BaseException:
            shares.give_back(Share.STREAMS, ctx.uid)
            raise

    @guarded
    async def create(
        self, parent_inode: InodeT, name: FileNameT, mode: ModeT, flags: FlagT, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        self._serve_asker(ctx)
        parent = await self._directory(parent_inode, name)
        with self._context.noted(_path_in(parent, name)):
            node, opened = await parent.create(name, flags, mode)
        try:
            info = await self._handle(opened, ctx)
        except FUSEError:
            self._context.nodes.drop_unused(node)
            raise
        if self._writes is not None and isinstance(opened, WritingFile) and self._files.has_room(ctx.uid):
            self._writes.makes(opened.hot)
        return info, self._entry(node)

    @guarded
    async def write(self, fh: FileHandleT, off: int, buf: bytes) -> int:
        self._serve(self._files.owner(fh))
        opened = self._files.get(fh)
        if isinstance(opened, Stream):
            self._changes()  # an answer takes a message away, which the front may still show
        await opened.write(off, buf)
        return len(buf)

    @guarded
    async def read(  # type: ignore[override]
        self, fh: FileHandleT, off: int, size: int
    ) -> Bytes:
        # pyfuse3 takes whatever has a buffer, though it declares bytes.
        self._serve(self._files.owner(fh))
        opened = self._files.get(fh)
        if self.front is not None and opened.in_front and off == opened.read_to and size < WINDOW_BYTES:
            return await self._read_window(self.front, opened, fh, off, size)
        self._done_with(opened)
        content = await opened.read(off, size)
        opened.read_to = off + len(content)
        return content

    async def _read_window(
        self, front: Front, opened: base.OpenedFile, fh: int, off: int, size: int
    ) -> Bytes:
        """Read a window of a part, and have the next one rendered: a reader in small steps will
        ask for it.
        """
        window = memoryview(await opened.read(off, WINDOW_BYTES))
        front.content(fh, off, window, ends=off + len(window) >= opened.source.size_bytes)
        opened.read_to = off + len(window)
        return window[:size]

    @guarded
    async def poll(
        self, inode: InodeT, fh: FileHandleT, poll_handle: pyfuse3.PollHandle | None, ctx: RequestContext
    ) -> int:
        """All files but streams can be read and written at any time."""
        opened = self._files.get(fh)
        if not isinstance(opened, Stream):
            return select.POLLIN | select.POLLOUT
        if poll_handle is not None:
            opened.polled = poll_handle
            self._polled.add(opened)
            self._polling.set()
        await opened.find()
        if opened.ready():
            return select.POLLIN | select.POLLRDNORM | opened.writable
        self._until.deadline = min(self._until.deadline, trio.current_time() + opened.due_s())
        return opened.writable

    async def notify(self) -> None:
        """Wake those who poll streams when there is something to read, until cancelled."""
        async with trio.open_nursery() as finders:
            await self._notify(finders)

    async def _notify(self, finders: trio.Nursery) -> None:
        waking = self._context.store.waking
        while True:
            if not self._polled:
                # Most changes come while nobody polls: each would be a turn of the scheduler's for nothing.
                self._polling = trio.Event()
                await self._polling.wait()
            seen = waking.count
            for opened in list(self._polled):
                if opened.is_found():
                    self._wake(opened)
                else:
                    finders.start_soon(self._find_and_wake, opened)
            due_s = min((opened.due_s() for opened in self._polled), default=math.inf)
            with trio.CancelScope(deadline=trio.current_time() + due_s) as self._until:
                await waking.beyond(seen)

    async def _find_and_wake(self, opened: Stream) -> None:
        await opened.find()
        if opened in self._polled:
            self._wake(opened)

    def _wake(self, opened: Stream) -> None:
        if opened.ready():
            self._polled.discard(opened)
            if opened.polled is not None:
                opened.polled.notify()
                opened.polled = None

    @guarded
    async def flush(self, fh: FileHandleT) -> None:
        if self._context.read_only:
            # Nothing is ever written, so nothing can fail at close. The kernel asks once and then never
            # again, which saves a round trip on every close.
            raise refuse(errno.ENOSYS)
        self._serve(self._files.owner(fh))
        opened = self._files.get(fh)
        self._done_with(opened)
        await opened.flush()

    @guarded
    async def fsync(self, fh: FileHandleT, datasync: bool) -> None:
        self._serve(self._files.owner(fh))
        await self._files.get(fh).sync()

    @guarded
    async def fsyncdir(self, fh: FileHandleT, datasync: bool) -> None:
        """Names of what is published are durable with it, and staged names need not be."""

    @guarded
    async def release(self, fh: FileHandleT) -> None:
        self._serve(self._files.owner(fh))
        opened = self._files.remove(fh)
        if opened is not None:
            self._done_with(opened)
        if isinstance(opened, Stream):
            self._polled.discard(opened)
        if opened is not None:
            await opened.release()

    # Changes of names

    @guarded
    async def mkdir(
        self, parent_inode: InodeT, name: FileNameT, mode: ModeT, ctx: RequestContext
    ) -> EntryAttributes:
        self._serve_asker(ctx)
        parent = await self._directory(parent_inode, name)
        with self._context.noted(_path_in(parent, name)):
            node = await parent.make_directory(name, mode)
        return self._entry(node)

    @guarded
    async def unlink(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> None:
        self._serve_asker(ctx)
        REMOVER.set(process_group_of(ctx.pid))
        async with self._named(parent_inode, name) as node:
            if isinstance(node, base.Directory):
                raise refuse(errno.EISDIR)
            await self._done(node, node.remove, ctx)

    @guarded
    async def rmdir(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> None:
        self._serve_asker(ctx)
        async with self._named(parent_inode, name) as node:
            if not isinstance(node, base.Directory):
                raise refuse(errno.ENOTDIR)
            await node.remove_directory()
            self._retire(node)

    @guarded
    async def rename(  # noqa: PLR0917  (pyfuse3's own)
        self,
        parent_inode_old: InodeT,
        name_old: FileNameT,
        parent_inode_new: InodeT,
        name_new: FileNameT,
        flags: FlagT,
        ctx: RequestContext,
    ) -> None:
        """Rename. A message that is moved to a queue does not keep its name, so it never replaces one that is
        there.
        """
        self._serve_asker(ctx)
        target = await self._directory(parent_inode_new, name_new)
        async with self._named(parent_inode_old, name_old) as node:
            is_directory = isinstance(node, base.Directory)
            if flags & ~pyfuse3.RENAME_NOREPLACE:
                raise Refused(errno.EINVAL, "names cannot be exchanged")
            if flags & pyfuse3.RENAME_NOREPLACE and self._exists(target, name_new):
                raise refuse(errno.EEXIST)
            # The kernel takes the new name for what was renamed as long as its name was good: not at all.
            with bad_content():
                await self._done(node, lambda: node.move(target, name_new), ctx)
        found = target.look(name_new)
        if isinstance(node, base.Directory) and found is not node:
            self._retire(node)
        if found is not None:
            self._context.nodes.drop_unused(found)
        elif flags and name_old == name_new:
            self._given.put((parent_inode_new, name_new), is_directory)

    def _retire(self, node: base.Directory) -> None:
        """Replace a removed directory by an empty one: a process may have it as its working directory."""
        left = base.EmptyDirectory(self._context, node.parent_inode, node.path())
        self._context.nodes.retire(node, left)

    @guarded
    async def link(
        self, inode: InodeT, new_parent_inode: InodeT, new_name: FileNameT, ctx: RequestContext
    ) -> EntryAttributes:
        return await self._refuse_kind(new_parent_inode, new_name, "there are no links")

    @guarded
    async def symlink(
        self, parent_inode: InodeT, name: FileNameT, target: FileNameT, ctx: RequestContext
    ) -> EntryAttributes:
        return await self._refuse_kind(parent_inode, name, "there are no links")

    @guarded
    async def mknod(
        self, parent_inode: InodeT, name: FileNameT, mode: ModeT, rdev: int, ctx: RequestContext
    ) -> EntryAttributes:
        return await self._refuse_kind(parent_inode, name, "there are no special files")

    async def _refuse_kind(self, parent_inode: InodeT, name: FileNameT, reason: str) -> NoReturn:
        parent = await self._directory(parent_inode, name)
        with self._context.noted(_path_in(parent, name)):
            raise Refused(errno.EPERM, reason)
        raise AssertionError("what is noted does not go on")

    # Changes of attributes

    @guarded
    async def setattr(
        self,
        inode: InodeT,
        attr: EntryAttributes,
        fields: SetattrFields,
        fh: FileHandleT | None,
        ctx: RequestContext,
    ) -> EntryAttributes:
        node = await self._settled(inode)
        with self._context.noted(node.path):
            node.context.changing()
            node.change_attributes(attr, fields, None if fh is None else self._files.get(fh))
        return node.attributes()

    @guarded
    async def setxattr(self, inode: InodeT, name: XAttrNameT, value: bytes, ctx: RequestContext) -> None:
        self._serve_asker(ctx)
        self._refuse_without_attributes()
        setting = attribute_name(name)
        if not name.startswith(USER_PREFIX):
            # Nobody asked for these: tools that copy try whether there are such things.
            raise refuse(errno.EOPNOTSUPP)
        node = await self._settled(inode)
        if isinstance(node, WrittenFile):
            raise refuse(errno.EOPNOTSUPP)  # they copy those of a message, too
        with self._context.noted(node.path):
            node.context.changing()
            if setting is None or not name.startswith(SETTING_PREFIX):
                raise Refused(errno.EOPNOTSUPP, f"{_shown(name)} is no attribute that can be set")
            await node.set_extended(setting, value)

    @guarded
    async def removexattr(self, inode: InodeT, name: XAttrNameT, ctx: RequestContext) -> None:
        self._serve_asker(ctx)
        self._refuse_without_attributes()
        node = await self._settled(inode)
        attribute = attribute_name(name)
        with self._context.noted(node.path):
            node.context.changing()
            if attribute is None or attribute not in node.extended_attributes():
                raise Refused(errno.ENODATA, f"there is no attribute {_shown(name)}")
            await node.remove_extended(attribute)

    # Extended attributes

    @guarded
    async def getxattr(self, inode: InodeT, name: XAttrNameT, ctx: RequestContext) -> bytes:
        self._refuse_without_attributes()
        # ENODATA would be right too, but `ls -l` then asks for security.* and system.* of every single entry;
        # told that the filesystem does not have such attributes, it asks once.
        if not name.startswith(b"user."):
            raise refuse(errno.EOPNOTSUPP)
        known = attribute_name(name)
        node = await self._settled(inode)
        value = None if known is None else node.extended_attributes().get(known)
        if value is None:
            raise refuse(errno.ENODATA)
        return value

    @guarded
    async def listxattr(self, inode: InodeT, ctx: RequestContext) -> Sequence[XAttrNameT]:
        self._refuse_without_attributes()
        self._serve_asker(ctx)
        node = await self._settled(inode)
        if not allows(ASKER.get(), node.attributes(), READ):
            return []  # the kernel lets everybody list names, and those of properties are content
        names = listed_names(node.extended_attributes())
        return [XAttrNameT(name) for name in names]

    def _refuse_without_attributes(self) -> None:
        """The kernel does not ask again, and says EOPNOTSUPP by itself."""
        if not self._context.options.xattr:
            raise refuse(errno.ENOSYS)

    def _entry(self, node: base.Node) -> EntryAttributes:
        """Return the entry that tells the kernel of a node, and count one more reference of the kernel."""
        entry = node.attributes()
        node.lookups += 1
        return entry

    def _kept(self, node: base.Node, entry: EntryAttributes) -> EntryAttributes:
        """Have the front keep an answer about a node, so that it is given again without asking."""
        if self.front is not None and node.steady and node.selection is None:
            self.front.keep(lasts=node.lasting)
        return entry

    def _keep_missing(self, parent: base.Node) -> None:
        if self.front is not None and parent.steady:
            lacks = isinstance(parent, QueueDirectory) and not self._given and parent.lacks_plain_names()
            self.front.keep(lacks=lacks, lasts=parent.lasting or isinstance(parent, QueueDirectory))

    async def _known(self, node: base.Node, thread: int) -> None:
        """Find out the facts of a node that take long. The node counts as referenced meanwhile, so that no
        other task drops it.
        """
        node.lookups += 1
        try:
            if node.measured:
                await node.measure()
            await self._found(node, thread)
        except BaseException:
            node.lookups -= 1
            self._context.nodes.drop_unused(node)
            raise
        node.lookups -= 1

    async def _found(self, node: base.Node, thread: int) -> None:
        """Find out what a node of a selection shows messages of, as long as its caller waits for that."""
        if node.selection is not None and not node.selection.is_found():
            await self._long(node.selection.find_out, thread)

    async def _long(self, work: Callable[[], Awaitable[None]], thread: int) -> None:
        """Run work that takes long, in the share of its user. It is given up if the calling thread (0:
        unknown) is ended meanwhile.
        """
        if thread:
            await self._context.interruptions.wait(work, EndingCaller(thread), Share.SELECTIONS)
        else:
            await work()

    async def _handle(self, opened: base.OpenedFile, ctx: RequestContext) -> FileInfo:
        opened.opened_by(ctx.pid)
        if not self._files.has_room(ctx.uid, opened):
            self._changes()  # what the front keeps open for others counts as well
        try:
            handle = self._files.add(opened, ctx.uid)
        except FUSEError:
            await opened.release()
            raise
        if self._writes is not None and isinstance(opened, WritingFile):
            opened.hot = self._writes.opened(opened, handle, ctx.uid)
            opened.warm()
        return FileInfo(fh=FileHandleT(handle), direct_io=opened.direct_io, keep_cache=opened.keep_cache)

    async def _settled(self, inode: int, thread: int = 0) -> base.Node:
        """The node, when what is being published and concerns it is done."""
        node = self._node(inode)
        if self._publications and not node.context.fixed:
            await self._publications.settled(node.concerns)
        if self._endings and not node.context.fixed:
            await self._endings.settled(node.concerns)
        if node.selection is not None:
            await self._found(node, thread)
        return node

    async def _directory(self, inode: int, name: bytes, *, loses: bool = False) -> base.Directory:
        """Return a directory that is about to get or lose `name`. Removed messages may only be moved back out
        of one.
        """
        if len(name) > NAME_BYTES_MAX:
            raise refuse(errno.ENAMETOOLONG)
        node = await self._settled(inode)
        if node.opens:
            await node.open_up()
        if not loses or node.context.brings_back is None:
            with self._context.noted(_path_in(node, name)):
                node.context.changing()
        if not isinstance(node, base.Directory):
            raise refuse(errno.ENOTDIR)
        return node

    @asynccontextmanager
    async def _named(self, parent_inode: int, name: bytes) -> AsyncIterator[base.Node]:
        """The node of a name that is to be removed or moved."""
        parent = await self._directory(parent_inode, name, loses=True)
        node = parent.child(name)
        try:
            with self._context.noted(_path_in(parent, name)):
                await parent.before_losing()
                yield node
        finally:
            self._context.nodes.drop_unused(node)

    async def _done(
        self, node: base.Node, change: Callable[[], Awaitable[None]], ctx: RequestContext
    ) -> None:
        """Make a change. If it takes long and its caller is ended meanwhile, it is given up."""
        if node.holds_many:
            await self._context.interruptions.during(change, EndingCaller(ctx.pid))
        else:
            await change()

    def _exists(self, directory: base.Directory, name: bytes) -> bool:
        node = directory.look(name)
        if node is None:
            return False
        self._context.nodes.drop_unused(node)
        return True

    def _node(self, inode: int) -> base.Node:
        node = self._context.nodes.node(inode)
        if node is None:
            raise gone()
        return node


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")


def _path_in(directory: base.Node, name: bytes) -> Callable[[], str]:
    return lambda: f"{directory.path()}/{name.decode(errors='replace')}".removeprefix("/")
