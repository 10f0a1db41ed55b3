"""Writing message payloads and page records for tests, straight from the format page."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

PROPERTY_CODES = {
    "null": 0,
    "boolean": 2,
    "byte": 3,
    "bytes": 4,
    "short": 5,
    "int": 6,
    "long": 7,
    "float": 8,
    "double": 9,
    "string": 10,
    "char": 11,
}
NUMBERS = {
    "byte": ">b",
    "short": ">h",
    "int": ">i",
    "long": ">q",
    "float": ">f",
    "double": ">d",
    "char": ">H",
}
Typed = tuple[str, Any]
"""Type name and Python value; chars and raw floats as numbers."""


def simple_string(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return struct.pack(">i", len(encoded)) + encoded


def nullable(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + simple_string(text)


def utf(text: str) -> bytes:
    """Per UTF-16 unit, so that a surrogate takes three bytes."""
    units = struct.unpack(
        f"<{len(text.encode('utf-16-le', 'surrogatepass')) // 2}H", text.encode("utf-16-le", "surrogatepass")
    )
    out = bytearray()
    for unit in units:
        if unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return struct.pack(">H", len(out)) + bytes(out)


def short_string(text: str) -> bytes:
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    start = struct.pack(">i", units)
    if units < 9:
        return start + text.encode("utf-16-be", "surrogatepass")
    return start + (utf(text) if units < 4095 else simple_string(text))


def typed_value(value: Typed, *, stream: bool = False) -> bytes:
    kind, content = value
    code = struct.pack(">b", PROPERTY_CODES[kind])
    if kind == "null":
        return code
    if kind == "boolean":
        return code + bytes([bool(content)])
    if kind == "bytes":
        return code + struct.pack(">i", len(content)) + bytes(content)
    if kind == "string":
        if stream:
            return code + (b"\0" if content is None else b"\1" + short_string(content))
        return code + simple_string(content)
    return code + struct.pack(NUMBERS[kind], content)


def typed_properties(properties: dict[str, Typed]) -> bytes:
    if not properties:
        return b"\0"
    entries = b"".join(simple_string(key) + typed_value(value) for key, value in properties.items())
    return b"\1" + struct.pack(">i", len(properties)) + entries


def core_header(
    message_id: int,
    *,
    address: str | None = "a",
    user_id: bytes | None = None,
    kind: int = 3,
    durable: bool = True,
    expiration: int = 0,
    timestamp: int = 0,
    priority: int = 4,
    properties: dict[str, Typed] | None = None,
) -> bytes:
    """The header alone: a type-30 payload."""
    return (
        struct.pack(">q", message_id)
        + nullable(address)
        + (b"\0" if user_id is None else b"\1" + user_id)
        + struct.pack(">b?qqb", kind, durable, expiration, timestamp, priority)
        + typed_properties(properties or {})
    )


def core_message(message_id: int, body: bytes, *, address: str | None = "a", **fields: Any) -> bytes:
    """A type-45 payload with persister 1."""
    buffer = struct.pack(">i", len(body) + 13) + body + core_header(message_id, address=address, **fields)
    return b"\1" + struct.pack(">q", message_id) + nullable(address) + struct.pack(">i", len(buffer)) + buffer


def text_message(message_id: int, text: str | None = "t", **fields: Any) -> bytes:
    return core_message(message_id, nullable(text), **fields)


def amqp_message(
    message_id: int,
    encoded: bytes,
    *,
    persister: int = 5,
    address: str | None = "a",
    extra: dict[str, Typed] | None = None,
    expiration: int = 0,
) -> bytes:
    out = struct.pack(">bqq", persister, message_id, 0) + nullable(address)
    out += struct.pack(">i", len(encoded)) + encoded
    if persister != 2:
        properties = typed_properties(extra) if extra else b""
        out += struct.pack(">i", len(properties)) + properties
    if persister == 5:
        out += struct.pack(">q", expiration)
    return out


def amqp_large_message(message_id: int, *, address: str | None = "a") -> bytes:
    """A type-45 payload of a message that has nothing but a body, which is in its file."""
    out = struct.pack(">bq?q", 4, message_id, True, 0) + nullable(address) + struct.pack(">i", 0)
    absent = struct.pack(">i", -1)
    out += absent + struct.pack(">i", 0) + b"\x40"  # header
    out += absent + struct.pack(">i", 0)  # delivery annotations
    out += 2 * (absent + b"\x40")  # message annotations, properties
    return out + absent + struct.pack(">i", 0) + b"\x40" + struct.pack(">q?", 0, False)


def section(code: int, value: bytes) -> bytes:
    return bytes((0x00, 0x53, code)) + value


def page_record(tx_id: int, kind: int, message: bytes, queue_ids: Sequence[int]) -> bytes:
    """One `{...}` record of a page; `message` as its kind wants it (kind 1 and -1: a bare core header)."""
    if kind in (1, -1):
        message = struct.pack(">i", len(message)) + message
    payload = struct.pack(">qb", tx_id, kind) + message
    payload += struct.pack(f">i{len(queue_ids)}q", len(queue_ids), *queue_ids)
    return b"{" + struct.pack(">i", len(payload)) + payload + b"}"
