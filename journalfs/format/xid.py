"""XA transaction ids as the broker stores them (docs/format/records.md, "Xid")."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from journalfs.format.primitives import Reader


@dataclass(frozen=True, slots=True)
class Xid:
    """Format id, branch qualifier and global transaction id, as a transaction manager gave them."""

    format_id: int
    branch_qualifier: bytes
    global_transaction_id: bytes

    def base64(self) -> str:
        """The broker's own text form: branch qualifier, global id, then four bytes made of the format id."""
        return base64.b64encode(
            self.branch_qualifier + self.global_transaction_id + _mangled(self.format_id)
        ).decode("ascii")


def _mangled(format_id: int) -> bytes:
    """Four bytes as the broker makes them, lowest first.

    Each is a remainder by 255 of what is left, with the sign of the dividend, so most are not the format
    id's own bytes. Consoles and scripts know transactions by this form.
    """
    rest = [format_id >> shift for shift in (0, 8, 16, 24)]
    return bytes((abs(value) % 255 * (-1 if value < 0 else 1)) & 0xFF for value in rest)


def decode_xid(data: bytes | memoryview) -> Xid:
    """Decode a prepared transaction's extra data. Raises `DecodeError`; bytes after the id are ignored."""
    return read_xid(Reader(data))


def read_xid(reader: Reader) -> Xid:
    """Take an id from `reader`. On disk the branch qualifier comes first."""
    format_id = reader.i32()
    branch_qualifier = reader.byte_array()
    return Xid(format_id, branch_qualifier, reader.byte_array())
