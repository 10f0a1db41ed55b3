"""docs/reference/envelope.md, "Writing": its examples are taken, and so is every key of the tables."""

from __future__ import annotations

import json
import re

import pytest

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.errors import BadEnvelope
from tests.publish.real_messages import line_of
from tests.tidy.sources import ROOT

DOCUMENT = (ROOT / "docs" / "reference" / "envelope.md").read_text()


def part(title: str) -> str:
    return DOCUMENT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_examples() -> None:
    (block,) = re.findall(r"^```\n(.*?)^```", part("Writing"), re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    assert len(lines) > 3
    for line in lines:
        found = json.loads(line_of(*read_envelope(line.encode()).record(1, "a", 0)))
        stated = json.loads(line)
        for key in stated.keys() - {"body", "propertyTypes", "properties"}:
            assert found[key] == stated[key]
        assert found.get("properties", {}).items() >= stated.get("properties", {}).items()


def test_every_key_of_the_tables_is_known() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", part("Keys"), re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert len(keys) > 20
    for key in keys:
        with pytest.raises(BadEnvelope) as caught:
            read_envelope(json.dumps({"body": "x", key: {"wrong": 1}, "unknown": 1}).encode())
        assert caught.value.key == "unknown", key
