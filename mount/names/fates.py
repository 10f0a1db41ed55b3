"""What becomes of a name that somebody writes in the directory of an address or queue. Pure."""

from __future__ import annotations

import os
import re
import stat
from enum import Enum
from typing import Final

from journalfs_mount.names.grammar import VIEW_NAMES, is_reserved

_JOB_DONE: Final = b"_SUCCESS"
_CHECKSUMS: Final = re.compile(rb"\..+\.crc", re.DOTALL)
_SINK_LOG: Final = b"_spark_metadata"
_PACKED: Final = frozenset((b"gz", b"bz2", b"xz", b"lzma", b"zst", b"lz4", b"lz", b"lzo", b"br", b"Z", b"z"))
_ALONE: Final = os.O_CREAT | os.O_EXCL
_OWNER_ONLY: Final = stat.S_IRUSR | stat.S_IWUSR


class Fate(Enum):
    """What a name stands for."""

    PUBLISHED = "its content becomes messages"
    STAGED = "nobody's until it gets a plain name"
    DROPPED = "accepted and forgotten"
    VIEW = "a view's name"
    SINK_LOG = "the log of a Spark file sink"


def fate_of(name: bytes) -> Fate:
    """A name beginning with `.` or `_` is staged, but for a few that have a meaning of their own.

    `_SUCCESS` says that a job is done, and `.NAME.crc` checks a file that has become messages: kept beside
    parts, the one would mean nothing and the other make Spark refuse to read them.
    """
    if not is_reserved(name):
        return Fate.PUBLISHED
    if name in VIEW_NAMES:
        return Fate.VIEW
    if name == _SINK_LOG:
        return Fate.SINK_LOG
    if name == _JOB_DONE or _CHECKSUMS.fullmatch(name):
        return Fate.DROPPED
    return Fate.STAGED


def is_backup(name: bytes) -> bool:
    """True for what editors keep beside a file: its copy from before, `NAME~`, and its state, `#NAME#`."""
    return name.endswith(b"~") or (len(name) > 1 and name.startswith(b"#") and name.endswith(b"#"))


def packed_name(name: bytes) -> bytes | None:
    """The name of the file that `gzip` and the like make this one of: they write it, and remove that."""
    stem, _, suffix = name.rpartition(b".")
    return stem if stem and suffix in _PACKED else None


def is_temporary(flags: int, mode: int) -> bool:
    """True when a file is made as mkstemp(3) makes it: new, to be read and written, for its owner alone.

    `sed -i` and `mktemp` do so, under names without a dot in front. What is made like that gets its real name
    later, or goes again.
    """
    return (
        flags & _ALONE == _ALONE and flags & os.O_ACCMODE == os.O_RDWR and stat.S_IMODE(mode) == _OWNER_ONLY
    )
