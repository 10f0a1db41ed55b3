"""XA transaction ids as the broker stores them (docs/format/records.md, "Xid")."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from journalfs.format.primitives import Reader

_SHIFTS: Final = (0, 8, 16, 24)


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

    def whole(self) -> str:
        """FORMAT.GLOBAL.BRANCH, which says all of it: the ids in base64url without padding. With ids as long
        as XA allows it is a file name, which hex is not.
        """
        ids = (self.global_transaction_id, self.branch_qualifier)
        return ".".join((str(self.format_id), *map(_url_base64, ids)))


def _url_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _mangled(format_id: int) -> bytes:
    """Four bytes as the broker makes them, lowest first.

    Each is a remainder by 255 of what is left, with the sign of the dividend, so most are not the format
    id's own bytes. Consoles and scripts know transactions by this form.
    """
    return bytes(_mangled_byte(format_id >> shift) for shift in _SHIFTS)


def _mangled_byte(rest: int) -> int:
    return (abs(rest) % 255 * (-1 if rest < 0 else 1)) & 0xFF


GLOBAL_ID_BYTES_MAX: Final = 64
"""As XA has it; a branch qualifier may have as many."""


NO_XID_FORMAT: Final = -1
"""The format id that says that there is none."""


def xid_of(text: str) -> Xid | None:
    """An id whose text form this is, or None. The broker's form does not say where the branch qualifier ends:
    it is taken to be as short as can be.
    """
    found = _of_whole(text) if "." in text else _of_base64(text)
    return None if found is None or found.format_id == NO_XID_FORMAT else found


def _of_whole(text: str) -> Xid | None:
    format_id, *ids = text.split(".")
    try:
        told = int(format_id)
        global_id, branch = (base64.b64decode(f"{one}{'=' * (-len(one) % 4)}", b"-_", True) for one in ids)
    except ValueError:
        return None
    found = Xid(told, branch, global_id)
    fits = 0 < len(global_id) <= GLOBAL_ID_BYTES_MAX and len(branch) <= GLOBAL_ID_BYTES_MAX
    return found if fits and -(1 << 31) <= told < 1 << 31 and found.whole() == text else None


def _of_base64(text: str) -> Xid | None:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    format_id = _unmangled(data[-4:])
    ids = data[:-4]
    if format_id is None or not 0 < len(ids) <= 2 * GLOBAL_ID_BYTES_MAX:
        return None
    branch_bytes = max(0, len(ids) - GLOBAL_ID_BYTES_MAX)
    found = Xid(format_id, ids[:branch_bytes], ids[branch_bytes:])
    return found if found.base64() == text else None


def _unmangled(data: bytes) -> int | None:
    """A format id of which these are the four bytes: where several have them, the one that is nearest."""
    if len(data) != len(_SHIFTS):
        return None
    value = int.from_bytes(data[3:], "little", signed=True)
    for wanted in data[2::-1]:
        lows = (wanted, *range(256))
        found = next((value << 8 | low for low in lows if _mangled_byte(value << 8 | low) == wanted), None)
        if found is None:
            return None
        value = found
    return value


def decode_xid(data: bytes | memoryview) -> Xid:
    """Decode a prepared transaction's extra data. Raises `DecodeError`; bytes after the id are ignored."""
    return read_xid(Reader(data))


def read_xid(reader: Reader) -> Xid:
    """Take an id from `reader`. On disk the branch qualifier comes first."""
    format_id = reader.i32()
    branch_qualifier = reader.byte_array()
    return Xid(format_id, branch_qualifier, reader.byte_array())
