"""Reads XML exports, of brokers and ours, into what can be compared."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import zstandard

STORES = Path(__file__).parents[1] / "stores"


def unpacked(name: str) -> bytes:
    with (STORES / name).open("rb") as packed:
        return zstandard.ZstdDecompressor().stream_reader(packed).read()


def read_xml(content: bytes) -> tuple[dict[str, list[Any]], list[Any]]:
    """Messages by id (attributes, properties, queues, body), and bindings. Control characters, which brokers
    write as they are, become U+FFFD.
    """
    plain = re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", "\ufffd".encode(), content.lstrip())
    root = ElementTree.fromstring(plain)
    messages: dict[str, list[Any]] = {}
    for one in root.iter("message"):
        attributes = dict(one.attrib)
        body = one.find("body")
        assert body is not None
        pieces = "".join(body.itertext()).split()
        messages.setdefault(attributes.pop("id"), []).append(
            (
                attributes,
                sorted(tuple(sorted(entry.attrib.items())) for entry in one.iter("property")),
                sorted(str(queue.get("name")) for queue in one.iter("queue")),
                b"".join(base64.urlsafe_b64decode(piece) for piece in pieces),
                dict(body.attrib),
            )
        )
    bindings = root.find("bindings")
    assert bindings is not None
    return messages, sorted(tuple(sorted(one.attrib.items())) for one in bindings)


def by_queue(messages: dict[str, list[Any]]) -> list[Any]:
    """Every message of each queue, but for ids, and properties that importers leave out: of no type."""
    found = []
    for same in messages.values():
        for attributes, properties, queues, body, large in same:
            typed = [entry for entry in properties if dict(entry).get("type")]
            found += [(queue, sorted(attributes.items()), typed, body, large) for queue in queues]
    return sorted(found, key=repr)
