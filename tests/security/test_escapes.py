"""What a sender may name is printed, and is no command to a terminal."""

from __future__ import annotations

import pytest

from journalfs.engine.waiting import Slices
from journalfs.showing import printable
from journalfs.store.metrics import metrics_text
from journalfs_mount.xattrs import attribute_name, listed_names
from tests.differential.encode import record
from tests.store.appending import ADD
from tests.store.conftest import LittleStore
from tests.tools import store_bytes

COMMAND = "\x1b]0;owned\x07\x9b31m\r\n"


def test_what_is_printed_has_no_control_characters() -> None:
    assert printable(f"a{COMMAND}\udcffb\u00fc") == "a\\x1b]0;owned\\x07\\x9b31m\\x0d\\x0a\\xffb\u00fc"
    assert printable("plain \u00fc") == "plain \u00fc"


async def test_labels_of_metrics_are_escaped(little_store: LittleStore) -> None:
    body = store_bytes.queue_binding(f'q{COMMAND}"\\', "work", 0)
    little_store.bindings.append(record(ADD, 1, record_id=77, user_type=21, body=body))
    store = little_store.open()
    text = (await metrics_text(store, Slices())).decode()
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in text.replace("\n", ""))
    assert 'queue="q\\\\x1b]0;owned\\\\x07\\\\x9b31m\\\\x0d\\\\x0a\\"\\\\"' in text


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        (f"user.property.a{COMMAND}", b"user.property.a%1B]0;owned%07%9B31m%0D%0A"),
        ("user.property.100%25", b"user.property.100%2525"),
        ("user.property.100%AB%", b"user.property.100%AB%"),
        ("user.property.\u00fc", "user.property.\u00fc".encode()),
    ],
)
def test_names_of_attributes_are_escaped_and_found(name: str, listed: bytes) -> None:
    assert listed_names({name: b"value"}) == [listed]
    assert attribute_name(listed) == name
    assert attribute_name(name.encode()) in {name, name.replace("%25", "%")}
