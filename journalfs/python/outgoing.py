"""Envelope lines of what Python publishes."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, TypedDict, Unpack

import msgspec

from journalfs.clock import SystemClock
from journalfs.errors import WrongCall
from journalfs.python.message import Message

Body: TypeAlias = "str | bytes | Mapping[str, Any] | list[Any] | Message | None"
Duration: TypeAlias = "str | float | timedelta"
Moment: TypeAlias = "datetime | Duration"

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_encode: Final = msgspec.json.Encoder().encode


class Envelope(TypedDict, total=False):
    """What is said of a message beside its body."""

    type: str | None
    priority: int | None
    properties: Mapping[str, Any] | None
    durable: bool | None
    delay: Moment | None
    """A duration from now, as "1h", or a datetime."""
    expires: Moment | None
    """Likewise."""
    group_id: str | None
    duplicate_id: str | None
    user_id: str | None


_PLAIN: Final = {"priority": "priority", "durable": "durable", "group_id": "groupId",
                 "duplicate_id": "duplicateId", "user_id": "userId"}  # fmt: skip
"""Arguments that an envelope has as they are, and their keys in it."""
_OF_BODIES: Final = ("body", "body_base64", "message_base64", "largeMessage", "deliveryCount", "damage")


def envelope_line(body: Body, **headers: Unpack[Envelope]) -> bytes:
    """Return the line of a message. A `Message` as `body` is copied, but for what is given beside it.

    >>> envelope_line("text", priority=9, properties={"region": "EU"})
    b'{"type":"text","body":"text","properties":{"region":"EU"},"priority":9}\\n'
    """
    if isinstance(body, Message):
        envelope = {name: value for name, value in body.envelope.items() if name != "deliveryCount"}
    else:
        envelope = _of_body(body, headers.get("type"))
    return _line(envelope, headers)


def replaced_line(message: Message, body: Body, **headers: Unpack[Envelope]) -> bytes:
    """Return the line of a copy of a message with another body. Raises `WrongCall` for one of AMQP."""
    if message.protocol == "AMQP":
        raise WrongCall(f"message {message.id}: an AMQP body has sections, and is not replaced")
    kept = {name: value for name, value in message.envelope.items() if name not in _OF_BODIES}
    return _line(kept | _of_body(body, headers.get("type")), headers)


def _line(envelope: dict[str, Any], headers: Envelope) -> bytes:
    if unknown := sorted(headers.keys() - Envelope.__annotations__.keys()):
        raise TypeError(f"no header of a message is called {unknown[0]!r}")
    properties, delay, expires = headers.get("properties"), headers.get("delay"), headers.get("expires")
    if properties is not None:
        _put_properties(envelope, properties)
    given = {key: headers.get(name) for name, key in _PLAIN.items()}
    envelope.update({key: value for key, value in given.items() if value is not None})
    if delay is not None:
        envelope["scheduledTime"] = _moment_ms("delay", delay)
    if expires is not None:
        envelope["expiration"] = _moment_ms("expires", expires)
    return _encode(envelope) + b"\n"


def _of_body(body: object, kind: str | None) -> dict[str, Any]:
    match body:
        case None:
            return (
                {"type": kind or "default", "body_base64": ""}
                if kind != "text"
                else {"type": kind, "body": None}
            )
        case str():
            return {"type": kind or "text", "body": body}
        case bytes() | bytearray() | memoryview():
            return {"type": kind or "bytes", "body_base64": _base64(body)}
        case Mapping():
            return {
                "type": kind or "map",
                "body": {_text(key): _typed(key, one) for key, one in body.items()},
            }
        case list() | tuple():
            return {"type": kind or "stream", "body": [_typed(at, one) for at, one in enumerate(body)]}
    raise WrongCall(f"a body is str, bytes, a mapping, a list, a Message or None, and not {_kind(body)}")


def _put_properties(envelope: dict[str, Any], properties: Mapping[str, Any]) -> None:
    values = dict(envelope.get("properties") or {})
    types = dict(envelope.get("propertyTypes") or {})
    for name, value in properties.items():
        typed = _typed(name, value)
        types.pop(_text(name), None)
        values[name] = typed
        if isinstance(typed, dict):
            values[name], types[name] = typed["v"], typed["t"]
    envelope["properties"] = values
    if types:
        envelope["propertyTypes"] = types


def _typed(name: object, value: object) -> Any:
    """A value of a property, a map or a stream; of those that JSON does not tell, with its type."""
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return value if math.isfinite(value) else {"t": "double", "v": word}
        case bytes() | bytearray():
            return {"t": "bytes", "v": _base64(value)}
    raise WrongCall(
        f"{name}: a value is str, bytes, int, float, bool or None, and not {_kind(value)}; json.dumps "
        "makes a text of anything else"
    )


def _kind(value: object) -> str:
    return type(value).__name__


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")


def _text(name: object) -> str:
    if isinstance(name, str):
        return name
    raise WrongCall(f"{name!r}: the name of a value is a str, and not {_kind(name)}")


def _moment_ms(name: str, given: Moment) -> int:
    """In milliseconds since 1970."""
    if isinstance(given, datetime):
        return round(given.timestamp() * 1000)
    return SystemClock().now_ms() + round(duration_s(name, given) * 1000)


def duration_s(name: str, given: Duration) -> float:
    """Seconds. Raises `WrongCall`.

    >>> duration_s("delay", "1h"), duration_s("delay", 2.5), duration_s("delay", "250ms")
    (3600.0, 2.5, 0.25)
    """
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    found = _DURATION.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise WrongCall(
            f"{name}={given!r}: a duration is seconds, a timedelta, or 250ms, 30s, 10m, 1h, 2d, 1w"
        )
    return float(found[1]) * _UNITS_MS[found[2]] / 1000
