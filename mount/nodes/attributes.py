"""Attributes in the form that the kernel wants.

One object per kind of node is filled again for every answer. That is safe because pyfuse3 copies it into the
reply before any other task runs: no handler may wait between filling it and returning it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from pyfuse3 import EntryAttributes, InodeT, ModeT

from journalfs import store_owner
from journalfs.api import Permissions
from journalfs_mount.options import MountOptions
from journalfs_mount.process.shares import Asker

BLOCK_BYTES: Final = 512
_ALL_BUT_OWNER: Final = 0o077


class Presenter:
    """Fills attribute objects; owner and permissions are the mount's.

    A node without a time, as a queue that never held a message, gets the time of mounting: 1970 would look
    wrong.
    """

    def __init__(self, options: MountOptions, hidden_bits: Callable[[int], int], *, mounted_ns: int) -> None:
        """`hidden_bits` are the store's, for a group, where nothing is said of permissions."""
        self._mounted_ns = mounted_ns
        user, group = store_owner.acts_as()
        owner = user if options.uid is None else options.uid, group if options.gid is None else options.gid
        hidden, private = options.umask, 0
        is_told = options.file_mode is not None or options.dir_mode is not None
        if hidden is None and is_told:
            hidden = 0
        elif hidden is None:
            hidden, private = hidden_bits(owner[1]) if options.allow_other else 0, _ALL_BUT_OWNER
        write = 0 if options.read_only else 0o200
        files = 0o444 | write if options.file_mode is None else options.file_mode
        directories = 0o555 | write if options.dir_mode is None else options.dir_mode
        self._file = _template(stat.S_IFREG | files & ~hidden, owner)
        self._directory = _template(stat.S_IFDIR | directories & ~hidden, owner)
        self._private = _template(stat.S_IFDIR | directories & ~hidden & ~private, owner)
        self._asking = _template(stat.S_IFDIR | _may_ask(directories & ~hidden), owner)
        self._own = _template(stat.S_IFREG | (0o400 | write | _may_take(directories)) & ~hidden, owner)
        self._given = _template(0, owner)
        self._usual = directories & ~hidden
        self._staged = _template(stat.S_IFREG, owner)
        self._hidden = hidden
        self._uid, self._gid = owner

    def directory(
        self,
        inode: int,
        *,
        mtime_ns: int,
        name_s: float,
        attributes_s: float,
        private: bool = False,
        asks: bool = False,
        given: Permissions | None = None,
    ) -> EntryAttributes:
        """Return the attributes of a directory. The link count is 1: "not counted", which keeps `find` from
        deriving how many directories there are. A `private` one is its owner's alone, unless permissions were
        set. One that `asks` is entered only by those who may read it. `given`: the permissions that were
        set.
        """
        entry = self._private if private else self._asking if asks else self._directory
        if given is not None:
            mode = _may_ask(given.mode) if asks else given.mode
            entry = self._as_given(stat.S_IFDIR | mode, given)
            entry.st_size = entry.st_blocks = 0
        entry.st_ino = InodeT(inode)
        entry.st_mtime_ns = entry.st_ctime_ns = entry.st_atime_ns = mtime_ns or self._mounted_ns
        entry.entry_timeout = name_s
        entry.attr_timeout = attributes_s
        return entry

    def file(
        self,
        inode: int,
        *,
        size_bytes: int,
        mtime_ns: int,
        name_s: float,
        attributes_s: float,
        given: Permissions | None = None,
    ) -> EntryAttributes:
        """`given` are those of the directory that it is in."""
        entry = self._file
        if given is not None:
            entry = self._as_given(stat.S_IFREG | given.mode & 0o666, given)
        entry.st_ino = InodeT(inode)
        entry.st_size = size_bytes
        entry.st_blocks = (size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES
        entry.st_mtime_ns = entry.st_ctime_ns = entry.st_atime_ns = mtime_ns or self._mounted_ns
        entry.entry_timeout = name_s
        entry.attr_timeout = attributes_s
        return entry

    def own_file(self, inode: int, *, mtime_ns: int, given: Permissions | None = None) -> EntryAttributes:
        """A file of no size that only the owner may read, and who may read and change the directory that it
        is in; of which the kernel keeps nothing.
        """
        entry = self._own
        if given is not None:
            entry = self._as_given(stat.S_IFREG | _may_take(given.mode), given)
            entry.st_size = entry.st_blocks = 0
        entry.st_ino = InodeT(inode)
        entry.st_mtime_ns = entry.st_ctime_ns = entry.st_atime_ns = mtime_ns
        entry.entry_timeout = entry.attr_timeout = 0.0
        return entry

    @property
    def usual(self) -> Permissions:
        """Of directories of which nobody said anything."""
        return Permissions(self._usual)

    def made_by(self, mode: int, maker: Asker) -> Permissions:
        """Return the permissions of a thing that this user and group made."""
        uid = -1 if maker.uid == self._uid else maker.uid
        return Permissions(mode, uid, -1 if maker.gid == self._gid else maker.gid)

    def _as_given(self, mode: int, given: Permissions) -> EntryAttributes:
        entry = self._given
        entry.st_mode = ModeT(mode)
        entry.st_uid = given.uid if given.uid >= 0 else self._uid
        entry.st_gid = given.gid if given.gid >= 0 else self._gid
        return entry

    def staged(self, inode: int, found: os.stat_result, given: Permissions) -> EntryAttributes:
        """A staged file or directory, of which the kernel keeps nothing."""
        entry = self._staged
        entry.st_ino = InodeT(inode)
        entry.st_mode = ModeT(stat.S_IFMT(found.st_mode) | given.mode & ~self._hidden)
        entry.st_uid = given.uid if given.uid >= 0 else self._uid
        entry.st_gid = given.gid if given.gid >= 0 else self._gid
        entry.st_nlink = found.st_nlink
        entry.st_size = found.st_size
        entry.st_blocks = found.st_blocks
        entry.st_mtime_ns, entry.st_ctime_ns = found.st_mtime_ns, found.st_ctime_ns
        entry.st_atime_ns = found.st_atime_ns
        entry.entry_timeout = entry.attr_timeout = 0.0
        return entry


def _may_ask(mode: int) -> int:
    """Return the mode by which users may enter a directory in which each name asks something of the content:
    those who may read it.
    """
    return mode & ~0o111 | mode & (mode & 0o444) >> 2


def _may_take(mode: int) -> int:
    """Return the mode by which users may read `.take` in a directory and answer there: those who may read and
    change the directory.
    """
    read = mode & 0o444 & (mode & 0o222) << 1
    return read | read >> 1


def _template(mode: int, owner: tuple[int, int]) -> EntryAttributes:
    entry = EntryAttributes()
    entry.st_mode = ModeT(mode)
    entry.st_uid, entry.st_gid = owner
    entry.st_size = 0
    entry.st_nlink = 1
    entry.st_blksize = 4096
    return entry
