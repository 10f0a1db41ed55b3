"""Decides who may do what: one place for all ways by which messages go from one place to another.

The kernel (`default_permissions`) checks the mode bits of the names in a call, and knows no queues: it lets a
user rename a file that this user may not read, and sees no target of `.redrive/` or of a transaction. So
every node that moves, copies, publishes, redrives or restores must call `Rights.require` before it changes
anything. Without it a drop box (`w` and `x`, no `r`) is read by `mv`, and a staged file of mode 0600 by
publishing it.

Nodes call it with the user of the request (`ASKER`); the mount's own work counts as root's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyfuse3 import EntryAttributes

from journalfs import door
from journalfs.api import Permissions
from journalfs_mount.errnos import Refused
from journalfs_mount.nodes.attributes import Presenter
from journalfs_mount.process.proc import groups_of
from journalfs_mount.process.shares import ASKER, Asker

READ: Final = stat.S_IROTH
WRITE: Final = stat.S_IWOTH
ENTER: Final = stat.S_IXOTH

Place: TypeAlias = tuple[str, str | None]
"""Names of an address and of a queue in it; None: the address."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one mount, or of a snapshot in it."""

    present: Presenter
    permissions: Callable[[str, str | None], Permissions | None]
    """Return the permissions set for an address or queue; None: it has those of the mount."""

    def require(
        self, *, leaves: Iterable[Place] = (), looked_at: Iterable[Place] = (), targets: Iterable[Place] = ()
    ) -> None:
        """Raise EACCES unless the asker may read and change each place that messages leave, read each place
        that is looked at, and write to each target.
        """
        asker = ASKER.get()
        if asker.uid == 0:
            return
        for place in leaves:
            self._require(asker, place, READ, "read")
            self._require(asker, place, WRITE, "change")
        for place in looked_at:
            self._require(asker, place, READ, "read")
        for place in targets:
            self._require(asker, place, WRITE, "write to")

    def require_targets(self, targets: Iterable[Place]) -> None:
        """Raise EACCES unless the asker may write to each target."""
        self.require(targets=targets)

    def require_copy(self, looked_at: Iterable[Place], targets: Iterable[Place]) -> None:
        """Raise EACCES unless the asker may read each place that is copied, and write to each target."""
        self.require(looked_at=looked_at, targets=targets)

    def reads(self, address: str, queue: str | None) -> bool:
        """Whether the asker may read a queue, or enter and list an address."""
        try:
            self.require(looked_at=[(address, queue)])
        except Refused:
            return False
        return True

    def require_maker(self, made: Permissions, what: str) -> None:
        """Raise EACCES unless the asker may do everything with a transaction, as its maker and root may."""
        entry = self._directory(made)
        if not allows(ASKER.get(), entry, READ | WRITE | ENTER):
            raise Refused(errno.EACCES, f"{what} is user {entry.st_uid}'s: begin a transaction of your own")

    def require_content(self, path: bytes, given: Callable[[int], Permissions]) -> None:
        """Raise EACCES unless the asker may read all that is staged below a real path: publishing shows it
        to the readers of the queue, and takes it from its owner. `given`: the permissions of what a
        descriptor has open.
        """
        asker = ASKER.get()
        if asker.uid == 0:
            return
        for one in _all_below(path):
            with door.held(one) as descriptor:
                found = os.fstat(descriptor)
                entry = self.present.staged(0, found, given(descriptor))
                wanted = READ | ENTER if stat.S_ISDIR(found.st_mode) else READ
                # The owner of a file may chmod it, and so may read it.
                if entry.st_uid != asker.uid and not allows(asker, entry, wanted):
                    name = os.fsdecode(os.path.basename(one))
                    raise Refused(
                        errno.EACCES,
                        f"{name} is staged by user {entry.st_uid}, and user {asker.uid} may not read it: "
                        "its owner publishes it, or makes it readable (chmod)",
                    )

    def _require(self, asker: Asker, place: Place, wanted: int, verb: str) -> None:
        """The way to a queue leads through its address, which has to be entered too."""
        address, queue = place
        if queue is not None and not allows(asker, self._directory(self.permissions(address, None)), ENTER):
            self._refuse(asker, (address, None), "enter", "x")
        given = self.permissions(address, queue)
        if not allows(asker, self._directory(given), ENTER | (wanted & WRITE)) or (
            wanted & READ and not allows(asker, self._file(given), READ)
        ):
            self._refuse(asker, place, verb, "rx" if wanted & READ else "wx")

    @staticmethod
    def _refuse(asker: Asker, place: Place, verb: str, bits: str) -> None:
        shown = "::".join(filter(None, place))
        reason = f"user {asker.uid} may not {verb} {shown}: its owner allows it by chmod ({bits})"
        raise Refused(errno.EACCES, reason)

    def _directory(self, given: Permissions | None) -> EntryAttributes:
        return self.present.directory(0, mtime_ns=0, name_s=0.0, attributes_s=0.0, given=given)

    def _file(self, given: Permissions | None) -> EntryAttributes:
        return self.present.file(0, size_bytes=0, mtime_ns=0, name_s=0.0, attributes_s=0.0, given=given)


def allows(asker: Asker, entry: EntryAttributes, wanted: int) -> bool:
    """Return whether mode, owner and group allow an asker all wanted bits, as the kernel would decide.
    Where the groups of an asker cannot be read, both the bits of the group and those of others must.
    """
    if asker.uid == 0:
        return True
    mode = entry.st_mode
    if asker.uid == entry.st_uid:
        bits = mode >> 6
    elif asker.gid == entry.st_gid:
        bits = mode >> 3
    else:
        groups = groups_of(asker.thread)
        bits = mode & mode >> 3 if groups is None else mode >> 3 if entry.st_gid in groups else mode
    return bits & wanted == wanted


def _all_below(path: bytes) -> Iterable[bytes]:
    """Return all files below a staged directory. Raises OSError if a part of it cannot be listed, since it
    could not be checked.
    """
    yield path
    if door.is_folder(path):
        for folder, folders, files in door.below(path, _raise):
            yield from (os.path.join(folder, name) for name in (*folders, *files))


def _raise(error: OSError) -> None:
    raise error
