"""Writing journal records and files for tests, straight from the format page."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.reference.journal import (
    COMMIT,
    PREPARE,
    TRANSACTIONAL,
    WITH_BODY,
    WITH_RECORD_ID,
    WITH_USER_TYPE,
)


def record(
    kind: int,
    rid: int,
    *,
    version: int = 2,
    compact_count: int = 0,
    tx_id: int = 0,
    record_id: int = 0,
    user_type: int = 0,
    count: int = 0,
    body: bytes = b"",
) -> bytes:
    """One record; fields that its kind does not have are ignored."""
    out = struct.pack(">Bi", kind, rid)
    if version == 2:
        out += struct.pack(">b", compact_count)
    if kind in TRANSACTIONAL:
        out += struct.pack(">q", tx_id)
    if kind in WITH_RECORD_ID:
        out += struct.pack(">q", record_id)
    if kind in WITH_BODY:
        out += struct.pack(">i", len(body))
        if kind in WITH_USER_TYPE:
            out += struct.pack(">b", user_type)
        out += body
    if kind in (PREPARE, COMMIT):
        out += struct.pack(">i", count)
    if kind == PREPARE:
        out += struct.pack(">i", len(body)) + body
    return out + struct.pack(">i", len(out) + 4)


def header(file_id: int, version: int = 2) -> bytes:
    return struct.pack(">iiq", version, 0, file_id)


def journal_file(file_id: int, records: Sequence[bytes], *, size: int = 0, leftover: bytes = b"") -> bytes:
    """A whole file: header, records, then `leftover` as an older life left it, then zeros up to `size`."""
    out = header(file_id) + b"".join(records) + leftover
    return out + bytes(max(0, size - len(out)))
