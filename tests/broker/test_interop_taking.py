"""What readers of `.take` did, a broker finds; and what its consumers did, readers of `.take` find."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints
from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, QueueOnDisk, mounted_for_writing

READ_AND_DIE = 'exec 3< "$1"; read -r line <&3; kill -KILL $$'


def counted(client: CoreClient) -> list[tuple[str, int]]:
    return [(one["body"], one["deliveryCount"]) for one in client.browse("q")]


def fail_to_take(queue: QueueOnDisk) -> None:
    command: list[str | Path] = ["bash", "-c", READ_AND_DIE, "bash", queue.path / ".take"]
    assert subprocess.run(command, timeout=COMMAND_S_MAX, check=False).returncode < 0
    until(lambda: queue.status()["deliveringCount"] == 0, "it is given back")


def take_one(queue: QueueOnDisk) -> str:
    done = subprocess.run(
        ["head", "-n", "1", queue.path / ".take"], capture_output=True, timeout=COMMAND_S_MAX, check=True
    )
    return str(json.loads(done.stdout)["body"])


@pytest.mark.mount
def test_deliveries_are_counted_by_both(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "NIO")
    mountpoint = tmp_path / "mnt"
    with mounted_for_writing(broker.root, mountpoint) as mount:
        for name in ("a", "DLQ"):
            (mount.path / name).mkdir()
        for path in ("a/q", "DLQ/DLQ"):
            (mount.path / path).mkdir()
        queue = mount.queue("a", "q")
        (queue.path / "in.txt").write_text("one\ntwo\nthree\nfour\n")
        assert take_one(queue) == "one"
        for _ in range(2):
            fail_to_take(queue)
        assert queue.status()["messageCount"] == 3

    with broker, CoreClient(broker.port) as client:
        assert client.message_count("q") == 3
        assert counted(client) == [("two", 2), ("three", 0), ("four", 0)]
        client.do("begin", session="failing")
        client.consume("q", 1, session="failing")
        client.do("rollback", session="failing")
        client.do("end", session="failing")
        until(lambda: counted(client) == [("two", 3), ("three", 0), ("four", 0)], "it is given back")
        assert complaints(broker.log) == []
        broker.stop()

    with mounted_for_writing(broker.root, mountpoint) as mount:
        queue, dead = mount.queue("a", "q"), mount.queue("DLQ")
        for _ in range(6):
            fail_to_take(queue)
        assert dead.lines() == []
        fail_to_take(queue)
        assert [line["body"] for line in dead.lines()] == ["two"], "that was the tenth attempt"
        assert take_one(queue) == "three"
        until(lambda: [line["body"] for line in queue.lines()] == ["four"], "it is acknowledged")

    with broker, CoreClient(broker.port) as client:
        assert (client.message_count("q"), client.message_count("DLQ")) == (1, 1)
        assert counted(client) == [("four", 0)]
        (letter,) = client.do("messages-browse", queue="DLQ", count=1)["messages"]
        assert letter["properties"]["_AMQ_ORIG_QUEUE"]["v"] == "q"
        assert letter["deliveryCount"] == 0
        assert complaints(broker.log) == []
        broker.stop()
