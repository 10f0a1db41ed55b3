"""A message's properties as the broker prints them."""

from __future__ import annotations

import struct
from typing import Final

from journalfs.exchange.printing import java
from journalfs.format.primitives import Reader
from journalfs.format.properties import Code, Property, decode_properties

_BYTES_CHARACTERS: Final = 150
_ROUTE: Final = "_AMQ_ROUTE_TO"


def properties_text(reader: Reader) -> str:
    """`TypedProperties[a=1, b=x]`, in the order of the broker's table. Raises `DecodeError`."""
    found = decode_properties(reader)
    by_name = {entry.name: entry for entry in found}
    hashed = ((java.text_hash(name), entry) for name, entry in by_name.items())
    ordered = java.hashed(hashed, java.table_size_for(len(found)))
    return f"TypedProperties[{', '.join(map(_text, ordered))}]"


def _text(entry: Property) -> str:
    return f"{entry.name}={_value_text(entry)}"


def _value_text(entry: Property) -> str:
    value = entry.value
    if value is None:
        return "NULL-value"
    if isinstance(value, bytes):
        shown = f"[{java.shortened(java.grouped_hex(value), _BYTES_CHARACTERS)}]"
        return shown + _route(value) if entry.name.startswith(_ROUTE) else shown
    if isinstance(value, bool):
        return java.truth(value)
    if isinstance(value, float):
        return java.number(value, single=entry.code is Code.FLOAT)
    return str(value)


def _route(value: bytes) -> str:
    """Queue ids, which bridges between brokers of a cluster add."""
    whole = len(value) // 8
    ids = ", ".join(map(str, struct.unpack(f">{whole}q", value[: 8 * whole])))
    left = ", " if whole and len(value) % 8 else ""
    return f", bytesAsLongs[{ids}{left}{'error-converting-longs=null' if len(value) % 8 else ''}]"
