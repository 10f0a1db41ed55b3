"""Requests of the kernel, one short method each: find the node, let it answer, count what the kernel now
holds.

Nothing here waits, so requests are served one after the other in the order they come. Every method is
guarded: whatever goes wrong is answered with an errno and never ends the mount.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

import pyfuse3
from pyfuse3 import (
    EntryAttributes,
    FileHandleT,
    FileInfo,
    FileNameT,
    FlagT,
    FUSEError,
    InodeT,
    ReaddirToken,
    RequestContext,
    StatvfsData,
    XAttrNameT,
)

from journalfs.store.api import Bytes
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import gone, guarded, refuse
from journalfs_mount.handles import HandleTable
from journalfs_mount.inodes import NodeTable
from journalfs_mount.limits import NAME_BYTES_MAX
from journalfs_mount.nodes.base import Node, OpenedFile, Snapshot
from journalfs_mount.nodes.message import MessageFile
from journalfs_mount.nodes.root import RootDirectory
from journalfs_mount.xattrs import attribute_name, listed_names

log = logging.getLogger("journalfs.mount")

STATFS_BLOCK_BYTES: Final = 4096
_CHANGES: Final = (
    *("setattr", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename", "link"),
    *("write", "create", "setxattr", "removexattr"),
)


class OpenedDirectory:
    """A directory handle. The listing is taken at opendir and again at rewinddir, never in between."""

    __slots__ = ("_begun", "_node", "_snapshot")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._snapshot: Snapshot = node.snapshot()
        self._begun = False

    def reply(self, token: ReaddirToken, start: int) -> None:
        if start == 0 and self._begun:
            self._snapshot = self._node.snapshot()
        self._begun = True
        self._snapshot.reply(token, start)


class Operations(pyfuse3.Operations):
    """The mount's side of the FUSE protocol."""

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(self, context: MountContext, ready: Callable[[], None]) -> None:
        """`ready` is called once, when the kernel begins to send requests."""
        super().__init__()
        self._context = context
        self._ready = ready
        self._requests = context.report.requests
        self._files: HandleTable[OpenedFile] = HandleTable()
        self._directories: HandleTable[OpenedDirectory] = HandleTable()
        context.nodes = NodeTable(RootDirectory(context), lambda inode: MessageFile.of_inode(context, inode))

    def init(self) -> None:
        try:
            self._ready()
        except Exception:
            log.exception("cannot tell that the mount is ready")

    def count(self, request: str) -> None:
        self._requests[request] += 1

    def close(self) -> None:
        """Let go of every open file: nothing can be read through them any more."""
        self._directories.drain()
        for opened in self._files.drain():
            opened.source.close()

    # Names and attributes

    @guarded
    async def lookup(self, parent_inode: InodeT, name: FileNameT, ctx: RequestContext) -> EntryAttributes:
        if len(name) > NAME_BYTES_MAX and not self._context.takes_long_names(parent_inode):
            raise refuse(errno.ENAMETOOLONG)
        node = self._node(parent_inode).child(name)
        entry = node.attributes()
        node.lookups += 1
        return entry

    @guarded
    async def forget(self, inode_list: Sequence[tuple[InodeT, int]]) -> None:
        self._context.nodes.forget(inode_list)

    @guarded
    async def getattr(self, inode: InodeT, ctx: RequestContext) -> EntryAttributes:
        try:
            return self._node(inode).attributes()
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

    @guarded
    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        usage = self._context.store.usage()
        stats = StatvfsData()
        stats.f_bsize = stats.f_frsize = STATFS_BLOCK_BYTES
        stats.f_blocks = usage.total_bytes // STATFS_BLOCK_BYTES
        stats.f_bfree = stats.f_bavail = usage.free_bytes // STATFS_BLOCK_BYTES
        stats.f_files = max(usage.messages_max, usage.messages)
        stats.f_ffree = stats.f_favail = stats.f_files - usage.messages
        stats.f_namemax = NAME_BYTES_MAX
        return stats

    # Directories

    @guarded
    async def opendir(self, inode: InodeT, ctx: RequestContext) -> FileHandleT:
        return FileHandleT(self._directories.add(OpenedDirectory(self._node(inode))))

    @guarded
    async def readdir(self, fh: FileHandleT, start_id: int, token: ReaddirToken) -> None:
        self._directories.get(fh).reply(token, start_id)

    @guarded
    async def releasedir(self, fh: FileHandleT) -> None:
        self._directories.remove(fh)

    # Files

    @guarded
    async def open(self, inode: InodeT, flags: FlagT, ctx: RequestContext) -> FileInfo:
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            raise refuse(errno.EROFS)
        opened = self._node(inode).open()
        try:
            handle = self._files.add(opened)
        except FUSEError:
            opened.source.close()
            raise
        return FileInfo(fh=FileHandleT(handle), direct_io=opened.direct_io, keep_cache=opened.keep_cache)

    @guarded
    async def read(  # type: ignore[override]
        self, fh: FileHandleT, off: int, size: int
    ) -> Bytes:
        # pyfuse3 takes whatever has a buffer, though it declares bytes.
        return self._files.get(fh).source.read(off, size)

    @guarded
    async def flush(self, fh: FileHandleT) -> None:
        # Nothing was written, so nothing can fail at close. The kernel asks once and then never again, which
        # saves a round trip on every close.
        raise refuse(errno.ENOSYS)

    @guarded
    async def release(self, fh: FileHandleT) -> None:
        opened = self._files.remove(fh)
        if opened is not None:
            opened.source.close()

    # Extended attributes

    @guarded
    async def getxattr(self, inode: InodeT, name: XAttrNameT, ctx: RequestContext) -> bytes:
        if not self._context.options.xattr:
            raise refuse(errno.ENOSYS)
        # ENODATA would be right too, but `ls -l` then asks for security.* and system.* of every single entry;
        # told that the filesystem does not have such attributes, it asks once.
        if not name.startswith(b"user."):
            raise refuse(errno.EOPNOTSUPP)
        known = attribute_name(name)
        value = None if known is None else self._node(inode).extended_attributes().get(known)
        if value is None:
            raise refuse(errno.ENODATA)
        return value

    @guarded
    async def listxattr(self, inode: InodeT, ctx: RequestContext) -> Sequence[XAttrNameT]:
        if not self._context.options.xattr:
            raise refuse(errno.ENOSYS)
        names = listed_names(self._node(inode).extended_attributes())
        return [XAttrNameT(name) for name in names]

    def _node(self, inode: int) -> Node:
        node = self._context.nodes.node(inode)
        if node is None:
            raise gone()
        return node


def _read_only(request: str) -> Callable[..., object]:
    async def refuse_change(self: Operations, *arguments: object) -> None:
        raise refuse(errno.EROFS)

    refuse_change.__name__ = request
    return guarded(refuse_change)


# The kernel turns changes away itself on a mount that is `ro`. A `mount -o remount,rw` takes that guard away,
# not this.
for _request in _CHANGES:
    setattr(Operations, _request, _read_only(_request))
