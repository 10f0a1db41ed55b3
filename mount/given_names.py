"""Names that a rename gave, or was to give. Messages take none, but `mv` looks whether what it renamed is
there, and others copy what they cannot rename.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError
from journalfs_mount.recent import Recent
from journalfs_mount.refusals import Refused

GIVEN_NAMES_S: Final = 1.0
"""How long whoever gave a name finds it: `mv` looks at once."""
REFUSED_NAMES_S: Final = 10.0
"""How long whoever was refused a name does not get it by writing: those who copy instead do so at once."""

_FOR_GOOD: Final = frozenset((errno.EDQUOT, errno.ENOSPC, errno.EINVAL, errno.EFBIG, errno.EIO, errno.EPERM))
"""What a rename is refused with when to try again at once would not help."""


@dataclass(frozen=True, slots=True)
class Given:
    """A name that a rename gave."""

    directory_inode: int
    name: bytes
    is_directory: bool


class GivenNames:
    """The last name that each process gave. Nobody else finds it."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given = Recent[Given](GIVEN_NAMES_S)

    def give(self, process: int, directory_inode: int, name: bytes, *, is_directory: bool = False) -> None:
        self._given.did(process, Given(directory_inode, name, is_directory))

    def forget(self, process: int) -> None:
        self._given.forget(process)

    def find(self, process: int, directory_inode: int, name: bytes) -> Given | None:
        given = self._given.of(process)
        found = given is not None and (given.directory_inode, given.name) == (directory_inode, name)
        return given if found else None


class RefusedNames:
    """The last name that each process was refused, and why. What is refused as a whole is not to be published
    in pieces by those who copy where they cannot rename, as Hadoop does.
    """

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused = Recent[tuple[int, bytes, int]](REFUSED_NAMES_S)

    @contextmanager
    def kept(self, process: int, directory_inode: int, name: bytes) -> Iterator[None]:
        """Around a rename to `name`: it is remembered if it fails for good."""
        self._refused.forget(process)
        try:
            yield
        except FUSEError as error:
            if error.errno in _FOR_GOOD:
                self._refused.did(process, (directory_inode, name, error.errno))
            raise

    def number(self, process: int, directory_inode: int, name: bytes) -> int | None:
        """The errno with which a process was refused this name."""
        refused = self._refused.of(process)
        return refused[2] if refused is not None and refused[:2] == (directory_inode, name) else None


class RefusedChanges:
    """The last thing that each process was refused to change. Some take away then what they did not get.

    With EPERM, files of messages to write to or to rename: editors and `cp -f` remove what they cannot write
    to, and make it anew. With ENOTEMPTY, addresses to delete: Hadoop, told to write a directory over, empties
    it if it cannot delete it at once. Messages would be acknowledged that nobody handled.
    """

    __slots__ = ("_number", "_refused")

    def __init__(self, number: int) -> None:
        self._number = number
        self._refused = Recent[int](REFUSED_NAMES_S)

    @contextmanager
    def kept(self, process: int, inode: int) -> Iterator[None]:
        """Around such a change."""
        try:
            yield
        except (FUSEError, Refused, JournalfsError) as error:
            if error.errno == self._number:
                self._refused.did(process, inode)
            raise

    def has(self, process: int, inode: int) -> bool:
        return self._refused.of(process) == inode
