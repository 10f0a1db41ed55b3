"""The address or queue that a file name stands for."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from journalfs.errors import NameRefused
from journalfs_mount.errnos import Refused
from journalfs_mount.names.grammar import decode_name, encode_name, is_reserved, is_short_form


class Named(Protocol):
    """An address or a queue."""

    @property
    def name(self) -> str: ...


Thing = TypeVar("Thing", bound=Named)


def new_name(file_name: bytes) -> str:
    """The name of the address or queue that is to be made under this file name."""
    try:
        return decode_name(file_name)
    except NameRefused as refused:
        raise Refused(errno.EINVAL, str(refused)) from None


def find_named(
    file_name: bytes, by_name: Callable[[str], Thing | None], everything: Callable[[], Iterable[Thing]]
) -> Thing | None:
    """The thing with this file name, or None. Only the short form of a very long name needs `everything`."""
    if is_reserved(file_name):
        return None
    if is_short_form(file_name):
        return next((thing for thing in everything() if encode_name(thing.name) == file_name), None)
    try:
        name = decode_name(file_name)
    except NameRefused:
        # No name of the store is written so: like any other name that is not there, it is ENOENT.
        return None
    return by_name(name)
