"""What the tests publish in every framing, and what a client has to receive of it."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.broker.writing import body_text

Wanted = dict[str, Any]

FAR_MS = 4_000_000_000_000
"""A time that no test reaches."""
SENT_MS = 1_764_000_000_000

DEFAULT, OBJECT, TEXT, BYTES, MAP, STREAM, EMBEDDED = 0, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True)
class Sent:
    """One written file and the messages that it becomes, in their order."""

    file_name: str
    content: bytes
    wanted: tuple[Wanted, ...]


def wanted(core_type: int, body: bytes, **other: object) -> Wanted:
    """What a client sees of a message with this body, everything else as it is when nothing is said."""
    return {
        "type": core_type,
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "durable": True,
        "priority": 4,
        "expiration": 0,
        "deliveryCount": 0,
        "large": False,
        "properties": {},
        **other,
    }


def text(value: str | None, **other: object) -> Wanted:
    return wanted(TEXT, body_text(value), **other)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _simple(value: str) -> bytes:
    return body_text(value)[1:]


VALUES: dict[str, tuple[str, object, bytes, str]] = {
    # name -> type, value in an envelope, type code and value as stored, value as the client program shows it
    "aNull": ("null", None, b"\x00", "null"),
    "aTrue": ("boolean", True, b"\x02\x01", "true"),
    "aFalse": ("boolean", False, b"\x02\x00", "false"),
    "aByte": ("byte", -5, b"\x03\xfb", "-5"),
    "bytes": ("bytes", "AQL/", b"\x04\x00\x00\x00\x03\x01\x02\xff", "AQL/"),
    "aShort": ("short", -300, b"\x05" + struct.pack(">h", -300), "-300"),
    "anInt": ("int", 123456, b"\x06" + struct.pack(">i", 123456), "123456"),
    "aLong": ("long", -(2**63), b"\x07" + struct.pack(">q", -(2**63)), str(-(2**63))),
    "aFloat": ("float", 1.5, b"\x08" + struct.pack(">f", 1.5), "3fc00000"),
    "negativeZero": ("double", -0.0, b"\x09" + struct.pack(">d", -0.0), "8000000000000000"),
    "aDouble": ("double", 0.1, b"\x09" + struct.pack(">d", 0.1), "3fb999999999999a"),
    "infinite": ("double", "Infinity", b"\x09" + struct.pack(">d", float("inf")), "7ff0000000000000"),
    "aString": ("string", "zwölf 😀", b"\x0a" + _simple("zwölf 😀"), "zwölf 😀"),
    "empty": ("string", "", b"\x0a" + _simple(""), ""),
    "half": ("string", "\ud83d", b"\x0a" + _simple("\ud83d"), "\\ud83d"),
    "aChar": ("char", "Ж", b"\x0b" + struct.pack(">H", 0x416), "Ж"),
}


def _typed() -> dict[str, object]:
    return {name: {"t": kind, "v": value} for name, (kind, value, _, _) in VALUES.items()}


def _map_body() -> bytes:
    entries = b"".join(_simple(name) + stored for name, (_, _, stored, _) in VALUES.items())
    return b"\x01" + struct.pack(">i", len(VALUES)) + entries


def _stream_body() -> bytes:
    """As a map's values, but strings are of the longer kind, null is a null string, and true is 255."""
    found = b""
    for kind, value, stored, _ in VALUES.values():
        if kind == "null":
            found += b"\x0a\x00"
        elif kind == "string":
            found += b"\x0a\x01" + _stream_string(str(value))
        elif kind == "boolean":
            found += b"\x02\xff" if value else b"\x02\x00"
        else:
            found += stored
    return found


def _stream_string(value: str) -> bytes:
    units = value.encode("utf-16-be", "surrogatepass")
    assert len(units) // 2 < 9
    return struct.pack(">i", len(units) // 2) + units


def _line(**envelope: object) -> bytes:
    return json.dumps(envelope).encode() + b"\n"


def _properties() -> tuple[dict[str, object], dict[str, str], dict[str, dict[str, str]]]:
    """Envelope keys `properties` and `propertyTypes`, and what the client shows."""
    values = {name: value for name, (_, value, _, _) in VALUES.items()}
    kinds = {name: kind for name, (kind, _, _, _) in VALUES.items()}
    shown = {name: {"t": kind, "v": text} for name, (kind, _, _, text) in VALUES.items()}
    return values, kinds, shown


def lines() -> Sent:
    """Text a line: with every line ending, empty ones, the last without its end, and one that is large."""
    long = "a long line " * 8_000
    content = f"first\nzwölf 😀\n\nwith\ttab\r\n{long}\nlast".encode()
    ordinary = ["first", "zwölf 😀", "", "with\ttab\r"]
    return Sent(
        "in.txt", content, (*(text(one) for one in ordinary), text(long, large=True, properties={
            "_AMQ_LARGE_SIZE": {"t": "long", "v": str(len(body_text(long)))}}), text("last"))
    )  # fmt: skip


def json_values() -> Sent:
    content = b'{"a": 1,\n "b": [true]}\n[1, 2]\n"text" 17'
    return Sent(
        "in.json",
        content,
        (text('{"a": 1,\n "b": [true]}'), text("[1, 2]"), text('"text"'), text("17")),
    )


def envelopes() -> Sent:
    """Every type of core messages, every type of properties, every header."""
    raw = bytes(range(256))
    values, kinds, shown = _properties()
    pairs: list[tuple[bytes, Wanted]] = [
        (_line(body="plain"), text("plain")),
        (_line(type="text", body=None), text(None)),
        (_line(type="text", body="half \udc00"), text("half \udc00")),
        (_line(type="bytes", body_base64=_b64(raw)), wanted(BYTES, raw)),
        (_line(type="default", body_base64=_b64(raw)), wanted(DEFAULT, raw)),
        (_line(type="object", body_base64=_b64(raw)), wanted(OBJECT, struct.pack(">i", 256) + raw)),
        (_line(type="map", body=_typed()), wanted(MAP, _map_body())),
        (_line(type="stream", body=list(_typed().values())), wanted(STREAM, _stream_body())),
        (_line(type="embedded", body_base64=_b64(raw)), wanted(EMBEDDED, raw)),
        (_line(type="type-20", body_base64=_b64(raw)), wanted(20, raw)),
        (_line(body="typed", properties=values, propertyTypes=kinds), text("typed", properties=shown)),
        (
            _line(
                body="headers",
                userId="6f1c2a7e-4f00-11ee-b962-0242ac120002",
                timestamp=SENT_MS,
                expiration=FAR_MS,
                groupId="customer-9",
            ),
            text(
                "headers",
                userId="6f1c2a7e-4f00-11ee-b962-0242ac120002",
                timestamp=SENT_MS,
                expiration=FAR_MS,
                properties={"_AMQ_GROUP_ID": {"t": "string", "v": "customer-9"}},
            ),
        ),
        (_line(body="tried", deliveryCount=3), text("tried", deliveryCount=3)),
        _large_envelope(),
    ]
    return Sent("in.jsonl", b"".join(line for line, _ in pairs), tuple(one for _, one in pairs))


def _large_envelope() -> tuple[bytes, Wanted]:
    body = bytes(range(251)) * 800
    size = {"_AMQ_LARGE_SIZE": {"t": "long", "v": str(len(body))}}
    line = _line(type="bytes", body_base64=_b64(body), properties={"color": "red"}, priority=4)
    shown = {"color": {"t": "string", "v": "red"}, **size}
    return line, wanted(BYTES, body, large=True, properties=shown)


def priorities() -> Sent:
    """Delivered in another order than written."""
    order = (1, 9, 4, 0, 9, 4)
    content = b"".join(
        _line(body=f"priority {priority}, {n}", priority=priority) for n, priority in enumerate(order)
    )
    by_delivery = sorted(enumerate(order), key=lambda one: -one[1])
    return Sent(
        "in.jsonl",
        content,
        tuple(text(f"priority {priority}, {n}", priority=priority) for n, priority in by_delivery),
    )


def small_file() -> Sent:
    content = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
    return Sent("picture.png", content, (wanted(BYTES, content),))


def large_file() -> Sent:
    content = hashlib.shake_256(b"picture").digest(3_000_000)
    size = {"_AMQ_LARGE_SIZE": {"t": "long", "v": "3000000"}}
    return Sent("film.mkv", content, (wanted(BYTES, content, large=True, properties=size),))


def empty_file() -> Sent:
    return Sent("empty.bin", b"", (wanted(BYTES, b""),))


EVERY: tuple[Callable[[], Sent], ...] = (
    lines,
    json_values,
    envelopes,
    priorities,
    small_file,
    large_file,
    empty_file,
)
"""Each way to publish; each goes to a queue of its own."""
