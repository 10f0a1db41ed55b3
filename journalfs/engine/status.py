"""Turns status codes of the C core into exceptions."""

# The names say what happened; a suffix on each would only repeat the base class.
# ruff: noqa: N818

from __future__ import annotations

from typing import Final

from journalfs.engine._native import lib
from journalfs.errors import JournalfsError

OK: Final[int] = lib.JFS_OK
FULL: Final[int] = lib.JFS_FULL
HELD: Final[int] = lib.JFS_HELD
RANGE: Final[int] = lib.JFS_RANGE


class FileTorn(JournalfsError):
    """A file lost bytes while it was read: another program cut it."""

    identifier = "file-torn"


class CoreRefused(JournalfsError):
    """The C core was given offsets or indexes that do not fit what they are about."""

    identifier = "core-refused"


def check(status: int, doing: str) -> None:
    """Raise unless `status` is OK. `doing` completes "while ...", as in "while scanning data-1.amq"."""
    if status == lib.JFS_OK:
        return
    if status == lib.JFS_NO_MEMORY:
        raise MemoryError(f"out of memory while {doing}")
    if status == lib.JFS_TORN:
        raise FileTorn(f"the file was truncated while {doing}; read it again")
    reason = (
        "bytes that are not what they must be" if status == lib.JFS_MALFORMED else "a place outside the file"
    )
    raise CoreRefused(f"{reason} while {doing}")
