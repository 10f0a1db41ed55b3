"""What addresses hold: journalfs and a broker count the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.writing import publish, write_in

pytestmark = pytest.mark.timeout(300)

ADDRESSES = ("small", "both", "large", "described")


def held(store: WritingStore) -> dict[str, int]:
    found = {}
    for name in ADDRESSES:
        address = store.address(name)
        assert address is not None
        found[name] = address.held().size_bytes
    return found


async def fill(store: WritingStore) -> dict[str, int]:
    for name in ADDRESSES:
        await store.create_address(name)
        for queue in (f"{name}.1", f"{name}.2") if name == "both" else (name,):
            await store.create_queue(name, queue)
    await publish(store, "small", None, "in.txt", b"line\n" * 100)
    await publish(store, "both", None, "in.txt", b"one\ntwo\nthree\n")
    await publish(store, "large", None, "in.bin", b"x" * 300_000)
    properties = {"color": "red", "number": 1, "long text": "y" * 100}
    line = json.dumps({"type": "text", "body": "z", "priority": 7, "properties": properties})
    await publish(store, "described", None, "in.jsonl", f"{line}\n".encode())
    return held(store)


@pytest.mark.rule("S-99")
def test_a_broker_estimates_the_same(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "NIO")
    ours = write_in(broker.root, fill)
    assert all(ours.values())
    with broker, CoreClient(broker.port) as client:
        theirs = {name: client.attribute(f"address.{name}", "addressSize") for name in ADDRESSES}
    assert ours == theirs
