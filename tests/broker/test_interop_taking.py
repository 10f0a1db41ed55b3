"""What readers of `.take` did, a broker finds; and what its consumers did, readers of `.take` find."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, publish, write_in
from tests.cli.running import journalfs
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
        # DLQ is there: the configuration names it.
        (mount.path / "a" / "q").mkdir(parents=True)
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


DELAY_MS, LONGEST_MS = 1_000_000, 7_000_000
"""So long that nothing is due while the test runs."""
ATTEMPTS = 5


@pytest.mark.long
def test_attempts_are_delayed_alike(artemis_home: Path, tmp_path: Path) -> None:
    """After each number of attempts by either: so long as the broker waits, journalfs waits."""
    broker = new_instance(tmp_path / "broker", "NIO")
    moments_ms: list[int] = []

    async def prepare(store: WritingStore) -> list[int]:
        await store.create_address("a")
        settings = {"redelivery-delay": DELAY_MS, "max-redelivery-delay": LONGEST_MS}
        for name, value in {**settings, "redelivery-delay-multiplier": 1.7}.items():
            await store.set_attribute("a", None, f"user.journalfs.{name}", str(value).encode())
        for name in ("ours", "theirs"):
            await store.create_queue("a", name)
            await publish(store, "a", name, "in.txt", b"".join(b"%d\n" % n for n in range(ATTEMPTS)))
            for count, line in enumerate(lines_in(store, name)):
                path, message = ("a", name), MessageId(line["id"])
                if count:
                    attempts = str(count).encode()
                    await store.set_message_attribute(path, message, "user.journalfs.deliveryCount", attempts)
        consumer = store.consumer(("a", "ours"))
        for _ in range(ATTEMPTS):
            delivery = consumer.take()
            assert delivery is not None
            moments_ms.append(store.core.clock.now_ms())
            await delivery.give_back(failed=True)
        await consumer.close()
        return [line["scheduledTime"] for line in lines_in(store, "ours")]

    ours_ms = write_in(broker.root, prepare)
    waits_ms = [due_ms - moment_ms for due_ms, moment_ms in zip(ours_ms, moments_ms, strict=True)]
    with broker, CoreClient(broker.port) as client:
        assert sorted(scheduled_ms(client, "ours")) == sorted(ours_ms)
        client.do("begin", session="failing")
        client.consume("theirs", ATTEMPTS, session="failing")
        begin_ms = time.time_ns() // 1_000_000
        client.do("rollback", session="failing")
        client.do("end", session="failing")
        until(lambda: client.attribute("queue.theirs", "scheduledCount") == ATTEMPTS, "all are given back")
        end_ms = time.time_ns() // 1_000_000
        broker.stop()

    # Without an index: lines that are in a part since before the broker ran stay as they were.
    done = journalfs("cat", "--no-index", broker.root)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    theirs_ms = [line["scheduledTime"] for line in lines if line["queue"] == "theirs"]
    for wait_ms, due_ms in zip(waits_ms, theirs_ms, strict=True):
        # A moment passes between looking at the clock and giving back, here and there.
        assert begin_ms - SLACK_MS <= due_ms - wait_ms <= end_ms + SLACK_MS
    assert len({round(one / SLACK_MS) for one in waits_ms}) == ATTEMPTS, (
        "each waits longer than the one before"
    )
    assert max(waits_ms) <= LONGEST_MS + SLACK_MS


SLACK_MS = 60_000
"""Far less than delays differ by, far more than a busy machine takes."""


def scheduled_ms(client: CoreClient, queue: str) -> list[int]:
    listed = json.loads(client.operation(f"queue.{queue}", "listScheduledMessagesAsJSON"))
    return [int(one["_AMQ_SCHED_DELIVERY"]) for one in listed]
