"""What a message's own file holds by its envelope: suffix and content (docs/reference/envelope.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

Line = Mapping[str, Any]

JSON_SUFFIX, TEXT_SUFFIX, BINARY_SUFFIX, OBJECT_SUFFIX = ".json", ".txt", ".bin", ".ser"


def _is_document(content: bytes) -> bool:
    """One JSON object or array, and nothing but white space around it."""
    try:
        text = content.decode("utf-8")
        return isinstance(json.loads(text, parse_constant=_refuse), (dict, list))
    except ValueError:
        return False


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is_text(content: bytes) -> bool:
    """UTF-8 without control characters but tab, line feed and carriage return."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any((ord(one) < 0x20 and one not in "\t\n\r") or ord(one) == 0x7F for one in text)


def _raw(content: bytes) -> tuple[str, bytes]:
    if _is_document(content):
        return JSON_SUFFIX, content
    return (TEXT_SUFFIX if _is_text(content) else BINARY_SUFFIX), content


def check_file(line: Line, name: str, content: bytes) -> Iterator[str]:
    """Differences between a message's file and what its envelope says it should be."""
    suffix = name[name.index(".") :]
    if name != f"{line['id']}{suffix}":
        yield f"{name}: the id is {line['id']}"
    kind = line["type"]
    value = line.get("amqp", {}).get("body", {}).get("value")
    if kind == "text" or (value is not None and value["t"] == "string"):
        # Core text is UTF-16 and may hold lone surrogates; AMQP strings are bytes and may be no UTF-8.
        errors = "surrogatepass" if kind == "text" else "surrogateescape"
        wanted = (line["body"] or "").encode("utf-8", errors)
        yield from _differs(
            name, suffix, content, JSON_SUFFIX if _is_document(wanted) else TEXT_SUFFIX, wanted
        )
    elif kind == "object":
        yield from _differs(name, suffix, content, OBJECT_SUFFIX, base64.b64decode(line["body_base64"]))
    elif "body_base64" in line:
        yield from _differs(name, suffix, content, *_raw(base64.b64decode(line["body_base64"])))
    elif value is not None and value["t"] == "binary":
        yield from _differs(name, suffix, content, *_raw(base64.b64decode(value["v"])))
    elif kind == "none":
        if content:
            yield f"{name}: {len(content)} bytes of a message without body"
    else:
        body = line["body"] if "body" in line else line["amqp"]["body"]
        found = json.loads(content)
        if suffix != JSON_SUFFIX or found not in (
            body,
            value,
            body.get("sequences") if "amqp" in line else None,
        ):
            yield f"{name}: {content[:200]!r} is not {json.dumps(body)[:200]}"


def _differs(name: str, suffix: str, content: bytes, wanted_suffix: str, wanted: bytes) -> Iterator[str]:
    if suffix != wanted_suffix:
        yield f"{name}: should end in {wanted_suffix}: {wanted[:60]!r}"
    if content != wanted:
        yield f"{name}: {len(content)} bytes {content[:60]!r} are not {len(wanted)} bytes {wanted[:60]!r}"
