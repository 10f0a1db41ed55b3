"""The journals of ActiveMQ 5 taken apart by the C core, many commands at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.status import check

ROWS: Final = 4096
"""Commands that the core is asked for at once."""

_ROW: Final = struct.Struct("=14Iq")
assert _ROW.size == ffi.sizeof("jfs_replay_row"), "the core was built for another layout of rows"


class Row(NamedTuple):
    """One command of a file, as offsets and lengths in it. What it does not have lies at 0."""

    start: int
    """KahaDB: of its record; AMQ: of the command."""
    command: int
    offset: int
    """Of its fields (KahaDB), or from its type on (AMQ)."""
    length: int
    usual: int
    """What follows is known."""
    transaction: int
    transaction_bytes: int
    destination: int
    destination_bytes: int
    id: int
    """KahaDB: the text; AMQ: the id of the producer, from its type on."""
    id_bytes: int
    extra: int
    """KahaDB: of an add the message, of a remove the subscription; AMQ: name and client of one."""
    extra_bytes: int
    reserved: int
    sequence: int
    """AMQ: of the message among its producer's."""


def kahadb_rows(content: bytes, at: int) -> tuple[Iterator[Row], int]:
    """Commands of a file from an offset on, and where what follows is for somebody else to look at, or for
    the next call.
    """
    return _rows(lib.jfs_replay_kahadb, content, at)


def amq_rows(content: bytes, at: int) -> tuple[Iterator[Row], int]:
    """The same of a data log."""
    return _rows(lib.jfs_replay_amq, content, at)


def _rows(take: Any, content: bytes, at: int) -> tuple[Iterator[Row], int]:
    rows, count = ffi.new("jfs_replay_row[]", ROWS), ffi.new("uint32_t *")
    place = ffi.new("uint64_t *", at)
    check(take(ffi.from_buffer(content), len(content), place, rows, ROWS, count), "reading a journal")
    found = bytes(ffi.buffer(rows, count[0] * _ROW.size))
    return map(Row._make, _ROW.iter_unpack(found)), int(place[0])
