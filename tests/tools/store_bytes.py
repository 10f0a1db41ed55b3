"""Bytes of a broker's store, for writing synthetic ones: strings, properties, core messages, bindings, pages.

Layouts: docs/format/records.md (record framing) and docs/format/messages.md (what is inside). Nothing here is
shared with the package under test, so a misreading in one of the two shows.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE, COMMIT = 11, 12, 13, 14, 16, 18

QUEUE_BINDING, ID_COUNTER, ADDRESS_BINDING = 21, 24, 44
LARGE_MESSAGE, ADD_REF, ACKNOWLEDGE_REF, ACKNOWLEDGE_CURSOR, MESSAGE = 30, 32, 33, 39, 45

RECORD_PREFIX_BYTES = 6
"""Kind, file id and compact count stand before everything that does not depend on the file."""

CORE_TEXT, ANYCAST, MULTICAST = 3, 1, 0
_END_OF_BODY_EXTRA_BYTES = 13


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def simple_string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return i32(len(units)) + units


def nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + simple_string(text)


def property_entry(name: str, value: str | int | bytes, code: int) -> bytes:
    """One entry of a property map; `code` is the type code (3 byte, 6 int, 7 long, 10 string)."""
    key = simple_string(name) + bytes([code])
    if isinstance(value, str):
        return key + simple_string(value)
    if isinstance(value, bytes):
        return key + i32(len(value)) + value
    return key + value.to_bytes({3: 1, 5: 2, 6: 4, 7: 8}[code], "big", signed=True)


# --- journal records: everything after the prefix


def framed(rest: bytes) -> bytes:
    """Close a record: `rest` is what follows the prefix, the check size is appended."""
    return rest + i32(RECORD_PREFIX_BYTES + len(rest) + 4)


def add(record_id: int, user_type: int, body: bytes) -> bytes:
    """ADD and UPDATE share this layout."""
    return framed(i64(record_id) + i32(len(body)) + bytes([user_type]) + body)


def add_tx(tx_id: int, record_id: int, user_type: int, body: bytes) -> bytes:
    """ADD_TX and UPDATE_TX share this layout."""
    return framed(i64(tx_id) + i64(record_id) + i32(len(body)) + bytes([user_type]) + body)


def delete(record_id: int) -> bytes:
    return framed(i64(record_id))


def commit(tx_id: int, count: int) -> bytes:
    return framed(i64(tx_id) + i32(count))


# --- core messages


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A core text message of a fixed shape, cut where the values of one message go.

    In order: `pieces[0]` id `pieces[1]` unique text `pieces[2]` id `pieces[3]` the user id's last eight bytes
    `pieces[4]` timestamp `pieces[5]` value of the int property `pieces[6]`. Joined, that is the payload of a
    journal record of type 45.
    """

    pieces: tuple[bytes, ...]
    payload_bytes: int


def text_template(
    address: str, *, unique_chars: int, rest: str, priority: int, properties: list[bytes], counter_name: str
) -> TextTemplate:
    """Build the template of a durable text message; its body is `unique_chars` characters and then `rest`."""
    rest_units = rest.encode("utf-16-le")
    body_bytes = 1 + 4 + 2 * unique_chars + len(rest_units)
    address_field = nullable_string(address)
    last_property = simple_string(counter_name) + b"\6"
    head_of_properties = b"\1" + i32(len(properties) + 1) + b"".join(properties) + last_property
    size = 4 + body_bytes + 8 + len(address_field) + 17 + 2 + 8 + 8 + 1 + len(head_of_properties) + 4
    pieces = (
        b"\1",
        address_field
        + i32(size)
        + i32(body_bytes + _END_OF_BODY_EXTRA_BYTES)
        + b"\1"
        + i32(2 * unique_chars + len(rest_units)),
        rest_units,
        address_field + b"\1" + bytes.fromhex("5e11a7be0c0de511"),
        bytes([CORE_TEXT, 1]) + i64(0),
        bytes([priority]) + head_of_properties,
        b"",
    )
    variable_bytes = 8 + 2 * unique_chars + 8 + 8 + 8 + 4
    return TextTemplate(pieces, sum(map(len, pieces)) + variable_bytes)


# --- bindings


def address_binding(name: str, routing_type: int) -> bytes:
    return simple_string(name) + i32(1) + bytes([routing_type]) + b"\0\0"


def queue_binding(name: str, address: str, routing_type: int) -> bytes:
    """A durable queue with the broker's defaults, made by an administrator (never deleted on its own)."""
    return b"".join(
        (
            simple_string(name),
            simple_string(address),
            b"\0",
            nullable_string(""),
            b"\0",
            i32(-1),
            b"\0",
            bytes([routing_type]),
            b"\0\0\0",
            i32(0),
            i64(-1),
            b"\0",
            b"\0\0",
            i32(-1),
            b"\0",
            i64(0),
            i64(0),
            b"\0",
            i64(-1),
            b"\xff\0\0",
        )
    )


# --- pages


def page_record(message: bytes, queue_ids: list[int]) -> bytes:
    """One small message in a page, outside transactions; `message` is what type 45 has as payload."""
    payload = i64(-1) + b"\0" + message + i32(len(queue_ids)) + b"".join(map(i64, queue_ids))
    return b"{" + i32(len(payload)) + payload + b"}"
