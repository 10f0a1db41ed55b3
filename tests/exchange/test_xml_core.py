"""What the C core writes of a message in XML is what Python writes, byte for byte."""

from __future__ import annotations

import io
import json
from array import array
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.engine.xml import XmlElements
from journalfs.exchange.exporting import export_store
from journalfs.exchange.journals import Told
from journalfs.store import open_store
from tests.frozen import PristineStores
from tests.mounting import mounted_for_writing
from tests.writing.conftest import new_store

LONG = ("compacted", "amqp-exotic", "large-and-paged", "retention")
NAMES = ["orders-basic", "transactions", *(pytest.param(one, marks=pytest.mark.long) for one in LONG)]


def both(data: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes, int]:
    """By the core and by Python alone, and how many messages the core wrote."""
    own, made = XmlElements.write, []

    def counted(elements: XmlElements, lines: object, ids: array[int], first: int, *given: Any) -> int:
        following = own(elements, lines, ids, first, *given)
        made.append(following - first)
        return following

    def nothing(elements: XmlElements, lines: object, ids: array[int], first: int, *given: object) -> int:
        return first

    found = []
    for write in (counted, nothing):
        out = io.BytesIO()
        with monkeypatch.context() as patched, closing(open_store(data, index=False)) as store:
            patched.setattr(XmlElements, "write", write)
            export_store(store, "xml", out, Told(lambda text: None), lambda count: None)
        found.append(out.getvalue())
    return found[0], found[1], sum(made)


@pytest.mark.rule("S-234")
@pytest.mark.parametrize("name", NAMES)
def test_of_what_brokers_wrote(stores: PristineStores, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    core, python, made = both(stores[name] / "data", monkeypatch)
    assert core == python
    assert (made > 0) == (name != "amqp-exotic"), "messages of AMQP are for Python"


ODD = (
    {"body": "<>&\"'\n\r\t and 😀", "properties": {"a<&>\"'": "\n😀é"}},
    {"body": "x", "properties": {"control": "a\x01b\x7f", "empty": "", "none": None, "yes": True}},
    {"body": "x", "properties": {"half": "\ud800"}},
    {"body": "x", "properties": {"f": 1.5, "i": -7}, "propertyTypes": {"f": "float", "i": "byte"}},
    {"type": "map", "body": {"k": {"t": "int", "v": 1}}, "priority": 9, "expiration": 99999999999999},
    {"type": "bytes", "body_base64": "+/+/AA=="},
    {"type": "default"},
)


@pytest.mark.rule("S-234")
@pytest.mark.mount
def test_of_odd_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        (mount.path / "a/q").mkdir(parents=True)
        (mount.path / "a/q/in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ODD))
    core, python, made = both(store, monkeypatch)
    assert core == python
    assert len(ODD) > made > 0
