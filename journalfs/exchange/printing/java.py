"""Values as Java prints them, and the order in which its hash tables give their keys."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from journalfs.format.primitives import Reader
from journalfs.format.properties import Code, Property, decode_properties
from journalfs.selector import values

T = TypeVar("T")

NO_IDENTITY: Final = "0"
"""Where Java prints an object's identity, which is another one in each run."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TABLE_SIZE_USUAL: Final = 16


def truth(value: bool) -> str:
    return "true" if value else "false"


def or_null(value: object) -> str:
    return "null" if value is None else truth(value) if isinstance(value, bool) else str(value)


def date(time_ms: int) -> str:
    """`java.util.Date`, in the local zone: `Sat Nov 21 09:20:57 UTC 2026`."""
    return _second(time_ms // 1000)


@lru_cache(maxsize=4096)
def _second(time_s: int) -> str:
    try:
        local = time.localtime(time_s)
    except (OverflowError, ValueError, OSError):
        return f"@{time_s}"  # a client may write any 64-bit number as its time
    clock = f"{local.tm_hour:02d}:{local.tm_min:02d}:{local.tm_sec:02d}"
    day = f"{_DAYS[local.tm_wday]} {_MONTHS[local.tm_mon - 1]} {local.tm_mday:02d}"
    return f"{day} {clock} {local.tm_zone} {local.tm_year:04d}"


def number(value: float, *, single: bool = False) -> str:
    """A double, or a float where `single`."""
    return values.as_text(values.Single(value) if single else value)


def grouped_hex(data: bytes) -> str:
    """`0001 02FF 03`."""
    return data.hex(" ", -2).upper() if data else "[]"


def shortened(text: str, characters: int) -> str:
    """The two ends of a text of as many characters or more."""
    half = characters // 2
    return text if len(text) < characters else f"{text[:half]} ... {text[-half:]}"


@lru_cache(maxsize=4096)
def text_hash(text: str) -> int:
    """That of the broker's own strings: over their UTF-16 bytes, signed, low byte first."""
    found = 0
    for byte in text.encode("utf-16-le", "surrogatepass"):
        found = 31 * found + (byte - 256 if byte > 127 else byte) & 0xFFFFFFFF
    return found


def long_hash(value: int) -> int:
    return (value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF


def hashed(items: Iterable[tuple[int, T]], table_size: int) -> list[T]:
    """Items, given with their hash and in the order in which they were put, as a table gives them."""
    spread = sorted(items, key=lambda item: (item[0] ^ item[0] >> 16) & table_size - 1)
    return [item for _, item in spread]


def table_size_for(count: int) -> int:
    """Of a table that was made for `count` entries and never grows."""
    return 1 << max(count - 1, 0).bit_length()


def grown_table_size(count: int) -> int:
    """Of a table that grew with its entries."""
    size = _TABLE_SIZE_USUAL
    while count > size * 3 // 4:
        size *= 2
    return size


def by_id(ids: Sequence[int]) -> list[int]:
    """Ids in the order of a table that they are the keys of."""
    return hashed(((long_hash(one), one) for one in ids), grown_table_size(len(ids)))


# A message's properties as the broker prints them.

_BYTES_CHARACTERS: Final = 150
_ROUTE: Final = "_AMQ_ROUTE_TO"


def properties_text(reader: Reader) -> str:
    """`TypedProperties[a=1, b=x]`, in the order of the broker's table. Raises `DecodeError`."""
    found = decode_properties(reader)
    by_name = {entry.name: entry for entry in found}
    entries = ((text_hash(name), entry) for name, entry in by_name.items())
    ordered = hashed(entries, table_size_for(len(found)))
    return f"TypedProperties[{', '.join(map(_text, ordered))}]"


def _text(entry: Property) -> str:
    return f"{entry.name}={_value_text(entry)}"


def _value_text(entry: Property) -> str:
    value = entry.value
    if value is None:
        return "NULL-value"
    if isinstance(value, bytes):
        shown = f"[{shortened(grouped_hex(value), _BYTES_CHARACTERS)}]"
        return shown + _route(value) if entry.name.startswith(_ROUTE) else shown
    if isinstance(value, bool):
        return truth(value)
    if isinstance(value, float):
        return number(value, single=entry.code is Code.FLOAT)
    return str(value)


def _route(value: bytes) -> str:
    """Queue ids, which bridges between brokers of a cluster add."""
    whole = len(value) // 8
    ids = ", ".join(map(str, struct.unpack(f">{whole}q", value[: 8 * whole])))
    left = ", " if whole and len(value) % 8 else ""
    return f", bytesAsLongs[{ids}{left}{'error-converting-longs=null' if len(value) % 8 else ''}]"
