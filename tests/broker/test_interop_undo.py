"""A broker that starts on a store from which messages were removed, and brought back, by a mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints
from tests.mounting import journalfs, mounted_for_writing
from tests.writing.test_undo import alone

pytestmark = [pytest.mark.mount, pytest.mark.long]


@pytest.mark.rule("S-193", "S-195")
def test_a_broker_sees_what_came_back_and_never_what_is_removed(artemis_home: Path, tmp_path: Path) -> None:
    broker, mountpoint = new_instance(tmp_path / "broker", "NIO"), tmp_path / "mnt"
    large = "large " * 40_000
    with mounted_for_writing(broker.root, mountpoint) as mount:
        (mount.path / "a" / "q").mkdir(parents=True)
        queue = mount.queue("a", "q")
        line = '{"type":"text","body":"red","priority":7,"properties":{"color":"red"}}\n'
        (queue.path / "in.jsonl").write_text(line)
        (queue.path / "in.txt").write_text(f"one\ntwo\n{large}\n")
        alone("rm -r q", mount.path / "a")
        assert journalfs("undo", mount.path).stdout == "a::q: 4 came back\n"
        names = queue.listed()
        alone(f"rm .messages/{names[1]}", queue.path)
        assert mount.control("status.json")["removedMessages"] == 1

    with broker, CoreClient(broker.port) as client:
        found = client.browse("q")
        assert [one.get("body") for one in found] == ["red", "two", None], "the last one is large"
        assert len(found) == client.message_count("q") == 3
        red, *_ = client.do("messages-browse", queue="q", count=3)["messages"]
        assert red["properties"]["color"]["v"] == "red"
        assert (red["priority"], red["deliveryCount"]) == (7, 0)
        assert complaints(broker.log) == []
        broker.stop()
