"""Names that a rename gave, or was to give. Messages take none, but `mv` looks whether what it renamed is
there, and others copy what they cannot rename.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio
from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError
from journalfs_mount.refusals import Refused

GIVEN_NAMES_S: Final = 1.0
"""How long whoever gave a name finds it: `mv` looks at once."""
REFUSED_NAMES_S: Final = 10.0
"""How long whoever was refused a name does not get it by writing: those who copy instead do so at once."""
GIVEN_NAMES_MAX: Final = 256
"""Processes that are remembered, those that renamed last."""

_FOR_GOOD: Final = frozenset((errno.EDQUOT, errno.ENOSPC, errno.EINVAL, errno.EFBIG, errno.EIO, errno.EPERM))
"""What a rename is refused with when to try again at once would not help."""


class GivenNames:
    """The last name that each process gave. Nobody else finds it."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: dict[int, tuple[int, bytes, float, bool]] = {}

    def give(self, process: int, directory_inode: int, name: bytes, *, is_directory: bool = False) -> None:
        until_s = trio.current_time() + GIVEN_NAMES_S
        self._given[process] = (directory_inode, name, until_s, is_directory)
        if len(self._given) > GIVEN_NAMES_MAX:
            del self._given[next(iter(self._given))]

    def forget(self, process: int) -> None:
        self._given.pop(process, None)

    def knows(self, process: int, directory_inode: int, name: bytes) -> bool:
        given = self._given.get(process)
        return given is not None and given[:2] == (directory_inode, name) and trio.current_time() < given[2]

    def is_directory(self, process: int) -> bool:
        """Whether it was a directory that the process gave its last name."""
        given = self._given.get(process)
        return given is not None and given[3]


class RefusedNames:
    """The last name that each process was refused, and why. What is refused as a whole is not to be published
    in pieces by those who copy where they cannot rename, as Hadoop does.
    """

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[int, tuple[int, bytes, int, float]] = {}

    @contextmanager
    def kept(self, process: int, directory_inode: int, name: bytes) -> Iterator[None]:
        """Around a rename to `name`: it is remembered if it fails for good."""
        self._refused.pop(process, None)
        try:
            yield
        except FUSEError as error:
            if error.errno in _FOR_GOOD:
                until_s = trio.current_time() + REFUSED_NAMES_S
                self._refused[process] = (directory_inode, name, error.errno, until_s)
                if len(self._refused) > GIVEN_NAMES_MAX:
                    del self._refused[next(iter(self._refused))]
            raise

    def number(self, process: int, directory_inode: int, name: bytes) -> int | None:
        """The errno with which a process was refused this name."""
        refused = self._refused.get(process)
        if refused is None or refused[:2] != (directory_inode, name) or trio.current_time() >= refused[3]:
            return None
        return refused[2]


class RefusedChanges:
    """The last thing that each process was refused to change. Some take away then what they did not get.

    With EPERM, files of messages to write to or to rename: editors and `cp -f` remove what they cannot write
    to, and make it anew. With ENOTEMPTY, addresses to delete: Hadoop, told to write a directory over, empties
    it if it cannot delete it at once. Messages would be acknowledged that nobody handled.
    """

    __slots__ = ("_number", "_refused")

    def __init__(self, number: int) -> None:
        self._number = number
        self._refused: dict[int, tuple[int, float]] = {}

    @contextmanager
    def kept(self, process: int, inode: int) -> Iterator[None]:
        """Around such a change."""
        try:
            yield
        except (FUSEError, Refused, JournalfsError) as error:
            if error.errno == self._number:
                self._refused[process] = (inode, trio.current_time() + REFUSED_NAMES_S)
                if len(self._refused) > GIVEN_NAMES_MAX:
                    del self._refused[next(iter(self._refused))]
            raise

    def has(self, process: int, inode: int) -> bool:
        refused = self._refused.get(process)
        return refused is not None and refused[0] == inode and trio.current_time() < refused[1]
