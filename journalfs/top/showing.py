"""One message in full: its body as JSON or hex, its headers and properties, and what is known of its past."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from journalfs.python.message import Message
from journalfs.showing import printable
from journalfs.top.pages import time_text
from journalfs.views.origins import origin_in

BODY_BYTES_MAX: Final = 64 << 10
"""Of a body that is shown; `journalfs cat` prints all of it."""
_HEX_WIDTH: Final = 16


def body_lines(message: Message, *, as_hex: bool = False) -> list[str]:
    """JSON is indented, other text as it is, bytes as hex."""
    body = message.body
    data = body if isinstance(body, bytes) else _text(body).encode("utf-8", "surrogatepass")
    cut = [f"… {len(data) - BODY_BYTES_MAX:,} bytes more"] if len(data) > BODY_BYTES_MAX else []
    if as_hex or isinstance(body, bytes):
        return [*hex_lines(data[:BODY_BYTES_MAX]), *cut]
    text = data[:BODY_BYTES_MAX].decode("utf-8", "replace")
    if not cut:
        text = _indented(text)
    return [*map(printable, text.split("\n")), *cut]


def _text(body: object) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=repr)


def _indented(text: str) -> str:
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def hex_lines(data: bytes) -> list[str]:
    """
    >>> hex_lines(b"ab\\0")
    ['00000000  61 62 00                                          ab.']
    """
    found = []
    for at in range(0, len(data), _HEX_WIDTH):
        piece = data[at : at + _HEX_WIDTH]
        plain = "".join(chr(one) if 0x20 <= one < 0x7F else "." for one in piece)
        found.append(f"{at:08x}  {piece.hex(' '):<{3 * _HEX_WIDTH}}  {plain}")
    return found


def header_rows(message: Message) -> list[tuple[str, str]]:
    """Headers, then properties with their types."""
    envelope = message.envelope
    skipped = ("properties", "propertyTypes", "body", "body_base64", "amqp", "message_base64")
    rows = [(name, _value(value)) for name, value in envelope.items() if name not in skipped]
    types: Mapping[str, Any] = envelope.get("propertyTypes") or {}
    for name, value in message.properties.items():
        kind = f" ({types[name]})" if name in types else ""
        rows.append((printable(name), _value(value) + printable(kind)))
    return rows


def _value(value: object) -> str:
    return printable(value.hex(" ") if isinstance(value, bytes) else str(value))


def history_lines(message: Message) -> list[str]:
    """What the message itself tells of its past and future, in order of time as far as that is known."""
    return list(_history(message))


def _history(message: Message) -> Iterator[str]:
    if message.timestamp is not None:
        yield f"{time_text(message.timestamp)}  sent to {printable(str(message.address))}"
    origin = origin_in(message.line)
    if origin.address is not None or origin.queue is not None:
        came = printable("::".join(filter(None, (origin.address, origin.queue))))
        why = "its time was over there" if origin.expired else "given up there, or moved by somebody"
        before = message.properties.get("_AMQ_ORIG_MESSAGE_ID")
        yield f"came from {came}: {why}" + (f"; it was message {before} there" if before else "")
    expired = message.properties.get("_AMQ_ACTUAL_EXPIRY")
    if isinstance(expired, int):
        yield f"{time_text(_moment(expired))}  expired"
    if message.delivery_count:
        yield f"delivered {message.delivery_count} times in vain"
    if message.scheduled is not None:
        yield f"{time_text(message.scheduled)}  due"
    if message.expiration is not None:
        yield f"{time_text(message.expiration)}  expires"
    if message.damage is not None:
        yield f"damaged: {printable(message.damage)}"


def _moment(time_ms: int) -> Any:
    return Message(b'{"id":0,"timestamp":%d}' % time_ms).timestamp
