"""As whom root touches a store: as its owner, so that no mistake gives that owner what others have.

A command that root started adopts the store that it is about: from then on the kernel judges its thread, and
those that this begins, by the owner's user and groups in all that is done with files (`setfsuid`). What is
about the system instead, as mounting and what /proc says of callers, is done `as_started`.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from journalfs.errors import SystemFailure

_ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OVERFLOW: Final = Path("/proc/sys/kernel/overflowuid")

_libc: Final = ctypes.CDLL(None, use_errno=True)
_NOBODY_AT_ALL: Final = 0xFFFF_FFFF
"""What changes nothing, and answers with what is."""

_import: Final = builtins.__import__

_is_command: bool = False
_is_mount: bool = False
_adopted: tuple[int, int] | None = None


def adopt_stores(*, mounting: bool = False, wanted: bool = True) -> None:
    """This process is a command for one store, not somebody's program: it is to act as that store's owner.
    Not `wanted`: it is none any more, such as a program that called a command within itself.
    """
    global _is_command, _is_mount
    _is_command, _is_mount = wanted, mounting


def adopts() -> bool:
    """Whether this process has a store to adopt still."""
    return _is_command and _adopted is None and os.geteuid() == _ROOT


def acts_as() -> tuple[int, int]:
    """User and group of whom this process acts as with a store's files."""
    return _adopted or (os.getuid(), os.getgid())


def has_adopted() -> bool:
    return _adopted is not None


def adopt(folders: Iterable[Path]) -> None:
    """Act as the owner of the store that has these directories, if root is to. Raises `SystemFailure` where
    they are of several users, or the system does not let it.
    """
    global _adopted  # noqa: PLW0603
    found = owner_of(folders)
    if found is None:
        return
    user, group, place = found
    with contextlib.suppress(PermissionError):  # where a container has no groups to set
        os.setgroups(_groups(user, group))
    _adopted = user, group
    builtins.__import__ = _importing
    _act_as(user, group)
    if _libc.setfsuid(_NOBODY_AT_ALL) != user and not _is_unmapped(user):
        raise SystemFailure(
            f"{place}: is user {user}'s, and the system does not let root act so; run this as that user"
        )


def owner_of(folders: Iterable[Path]) -> tuple[int, int, Path] | None:
    """User and group whose these directories are, and one of them; None: all are root's. Raises
    `SystemFailure` where they are of several users.
    """
    owners = {(owner.st_uid, owner.st_gid): place for place in folders for owner in _owners(place)}
    others = {user: place for (user, _), place in owners.items() if user != _ROOT}
    if not others:
        return None
    (user, place), *more = others.items()
    if more:
        raise SystemFailure(
            f"{more[0][1]} is user {more[0][0]}'s, and {place} is user {user}'s: root acts as the owner of a "
            "store, and needs one; give both to one user, or run this as one of them"
        )
    return user, next(group for (owner, group) in owners if owner == user), place


@contextlib.contextmanager
def acting_as(user: int, group: int) -> Iterator[None]:
    """Within this the calling thread acts as somebody whose files are read beside the store's."""
    before = _act_as(user, group)
    try:
        yield
    finally:
        _act_as(*before)


def refuse_writable(folders: Iterable[Path]) -> None:
    """Raise `SystemFailure` where root mounts a store that others than its owner can put something into."""
    if not _is_mount or os.geteuid() != _ROOT:
        return
    for place in folders:
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(place)
            if stat.S_ISDIR(found.st_mode) and found.st_mode & _OTHERS_WRITE:
                who = "everybody" if found.st_mode & stat.S_IWOTH else f"group {found.st_gid}"
                owner = f"setpriv --reuid={found.st_uid} --regid={found.st_gid} --clear-groups"
                raise SystemFailure(
                    f"{place}: {who} can write to it, so root does not mount it: chmod go-w {place}, or "
                    f"mount it as its owner: {owner} journalfs mount ..."
                )


def refuse_of_others(place: Path, what: str) -> None:
    """Raise `SystemFailure` where others than root and this process's user decide what lies at a path without
    links: by owning it, or a directory above it, or by being let write there. `what` needs one to be trusted.
    """
    for one in (place, *place.parents):
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(one)
            others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == _ROOT and found.st_gid != _ROOT else 0)
            owned = found.st_uid not in (_ROOT, os.geteuid())
            if owned or (found.st_mode & others and not found.st_mode & stat.S_ISVTX):
                owner = f"setpriv --reuid={found.st_uid} --regid={found.st_gid} --clear-groups"
                why, do = (
                    (f"is user {found.st_uid}'s", f"run this as that user: {owner} journalfs ...")
                    if owned
                    else ("others can write to it", f"chmod go-w {one}")
                )
                raise SystemFailure(f"{one}: {why}, and {what}: {do}")


@contextlib.contextmanager
def as_started() -> Iterator[None]:
    """Within this the calling thread acts as who started the process. Nothing of the store is touched so."""
    if _adopted is None:
        yield
        return
    before = _act_as(os.geteuid(), os.getegid())
    try:
        yield
    finally:
        _act_as(*before)


def _importing(*arguments: Any, **named: Any) -> ModuleType:
    """What is imported late may lie where a store's owner does not get: with the program."""
    with as_started():
        return _import(*arguments, **named)


def _act_as(user: int, group: int) -> tuple[int, int]:
    """Returns as whom the thread acted before."""
    group_before = _libc.setfsgid(group)
    return _libc.setfsuid(user), group_before


def _owners(place: Path) -> Iterator[os.stat_result]:
    with contextlib.suppress(FileNotFoundError):
        yield os.lstat(place)  # who made a link decides where it leads to
        yield os.stat(place)


def _groups(user: int, group: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(user).pw_name, group)
    except KeyError:
        return [group]


def _is_unmapped(user: int) -> bool:
    """A user of outside this container, over whose files its root has no power to begin with."""
    return _OVERFLOW.read_text(encoding="ascii").strip() == str(user)
