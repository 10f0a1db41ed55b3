"""What could not be read, as a value: it is listed, counted and shown, and never stops the reading."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.showing import shown

MISSING_FILE: Final = "missing-file"
HOLE: Final = "hole"
"""Kinds of damage: a file that is gone, and zeros where a restored backup had lost a piece."""


DOUBTFUL: Final = "doubtful-subscription"
"""Kind of messages that a subscription may have got by mistake."""


@lru_cache(maxsize=4096)
def name_of(path: Path, root: Path) -> str:
    """What a store's file is called: relative to the data directory, or whole where it lies elsewhere.
    `path_of` leads back.
    """
    return shown(str(path.relative_to(root) if path.is_relative_to(root) else path))


class Damage(msgspec.Struct, frozen=True, order=True):
    """A place in a store's file that does not hold what it should.

    `kind` is a stable word for programs (`torn`, `zeroed`, `garbage`, `short-file`, `bad-header`, ...),
    `reason` a sentence for people. `length_bytes` is 0 where the damage is something missing rather than
    bytes that are there.
    """

    file: str
    """As `name_of` gives it."""
    offset: int
    length_bytes: int
    kind: str
    reason: str
    queue: str = ""
    """`address::queue` of the messages that it is about; empty: several, none, or it is not known."""
    messages: int = -1
    """How many pairs of message and queue it is about; -1: it is not known."""
    id: int = -1
    """Of the one message, or transaction, that it is about; -1: of none."""


class FileStamp(msgspec.Struct, frozen=True):
    """What tells, without reading it, whether a file is still the one that was read."""

    size_bytes: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)

    @classmethod
    def at(cls, path: Path) -> FileStamp | None:
        """Of what is there; None: nothing, or nothing that can be looked at."""
        try:
            return cls.of(door.status(path))
        except OSError:
            return None
