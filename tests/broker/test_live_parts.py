"""How parts and the tail change while a broker works: parts only lose lines, no name is used again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings
from tests.mounting import MountedStore, QueueOnDisk, mounted

pytestmark = [pytest.mark.mount, pytest.mark.slow]

DEADLINE_S = 60.0
TAIL_S_MAX = 10.0


@pytest.fixture(scope="module")
def parts_broker(artemis_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = BrokerSettings(journal_file_size="1M", paging_addresses=("paged.parts",))
    with Broker(tmp_path_factory.mktemp("parts") / "broker", settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def parts_client(parts_broker: Broker) -> Iterator[CoreClient]:
    with CoreClient(parts_broker.port) as client:
        yield client


@pytest.fixture(scope="module")
def parts_mount(parts_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    with mounted(parts_broker.root, tmp_path_factory.mktemp("parts-mount")) as mount:
        yield mount


def part_names(queue: QueueOnDisk) -> list[str]:
    return sorted(name for name in os.listdir(queue.path) if name.startswith("part-"))


def new_queue(client: CoreClient, mount: MountedStore, name: str) -> QueueOnDisk:
    client.create_queue(name)
    queue = mount.queue(name)
    eventually(queue.path.is_dir, deadline_s=DEADLINE_S, what="the queue's directory")
    return queue


def sealed(queue: QueueOnDisk, parts: int) -> list[str]:
    """Wait until the tail is empty and there are `parts` parts."""
    eventually(
        lambda: len(part_names(queue)) == parts and (queue.path / "_tail.jsonl").read_bytes() == b"",
        deadline_s=DEADLINE_S,
        what=f"{parts} parts",
    )
    return part_names(queue)


@pytest.mark.rule("S-14")
def test_the_tail_first_then_a_part(parts_client: CoreClient, parts_mount: MountedStore) -> None:
    queue = new_queue(parts_client, parts_mount, "tail")
    parts_client.send("tail", count=3)
    tail = queue.path / "_tail.jsonl"
    eventually(
        lambda: tail.read_bytes().count(b"\n") == 3, deadline_s=DEADLINE_S, what="three lines in the tail"
    )
    assert part_names(queue) == []
    line = tail.read_bytes()
    (part,) = sealed(queue, 1)
    assert (queue.path / part).read_bytes() == line


@pytest.mark.rule("S-14")
def test_a_busy_queue_gets_a_part_within_ten_seconds(
    parts_client: CoreClient, parts_mount: MountedStore
) -> None:
    queue = new_queue(parts_client, parts_mount, "busy")
    began = time.monotonic()
    sent = 0
    while not part_names(queue):
        parts_client.send("busy", first=sent)
        sent += 1
        assert time.monotonic() - began < TAIL_S_MAX + DEADLINE_S
    print(f"the first part came after {time.monotonic() - began:.1f} s and {sent} messages")
    eventually(lambda: len(queue.lines()) == sent, deadline_s=DEADLINE_S, what="every message once")
    assert [line["properties"]["n"] for line in queue.lines()] == list(range(sent))


@pytest.mark.rule("S-10", "S-11", "S-42")
@pytest.mark.parametrize("name", ["shrinking", "paged.parts"])
def test_a_part_only_loses_lines(parts_client: CoreClient, parts_mount: MountedStore, name: str) -> None:
    queue = new_queue(parts_client, parts_mount, name)
    parts_client.send_many(name, 20, length=800 if name == "shrinking" else 3_000)
    (first, *_) = sealed_all(queue, 20)
    path = queue.path / first
    before, status = path.read_bytes(), path.stat()
    held = before.count(b"\n")

    parts_client.send_many(name, 5)
    sealed_all(queue, 25)
    assert path.read_bytes() == before
    assert path.stat().st_ino == status.st_ino
    names = set(part_names(queue))

    parts_client.consume(name, 2)
    eventually(
        lambda: path.read_bytes().count(b"\n") == held - 2, deadline_s=DEADLINE_S, what="two lines less"
    )
    after = path.stat()
    assert path.read_bytes().splitlines() == before.splitlines()[2:]
    assert after.st_size == len(path.read_bytes()) < status.st_size
    assert after.st_ino != status.st_ino
    assert after.st_mtime_ns >= status.st_mtime_ns

    parts_client.consume_many(name, 23)
    eventually(
        lambda: queue.lines() == [] and part_names(queue) == [], deadline_s=DEADLINE_S, what="no part is left"
    )
    # The name is dropped from the kernel's cache by a thread, a moment after the directory stops listing it.
    eventually(lambda: not path.exists(), deadline_s=DEADLINE_S, what="the name is gone")
    parts_client.send_many(name, 3)
    sealed_all(queue, 3)
    assert not names & set(part_names(queue))


def sealed_all(queue: QueueOnDisk, messages: int) -> list[str]:
    """Wait until parts hold all of so many messages."""

    def lines_in_parts() -> int:
        return sum((queue.path / name).read_bytes().count(b"\n") for name in part_names(queue))

    eventually(
        lambda: lines_in_parts() == messages, deadline_s=DEADLINE_S, what=f"{messages} messages in parts"
    )
    return part_names(queue)


@pytest.mark.rule("S-12")
def test_a_sealed_line_stays_as_it_was(parts_client: CoreClient, parts_mount: MountedStore) -> None:
    queue = new_queue(parts_client, parts_mount, "redelivered")
    parts_client.send("redelivered", count=2)
    (part,) = sealed(queue, 1)
    before = (queue.path / part).read_bytes()
    for _ in range(3):
        parts_client.do("begin", session="r")
        parts_client.consume("redelivered", session="r")
        parts_client.do("rollback", session="r")
        parts_client.do("end", session="r")
    message = queue.path / ".messages" / queue.listed()[0]
    eventually(
        lambda: (
            "user.journalfs.deliveryCount" in os.listxattr(message)
            and os.getxattr(message, "user.journalfs.deliveryCount") == b"3"
        ),
        deadline_s=DEADLINE_S,
        what="the delivery count as an attribute",
    )
    assert (queue.path / part).read_bytes() == before


@pytest.mark.rule("S-18", "S-42")
def test_a_reader_of_the_old_content_and_one_of_the_new(
    parts_client: CoreClient, parts_mount: MountedStore
) -> None:
    queue = new_queue(parts_client, parts_mount, "two.readers")
    parts_client.send_many("two.readers", 400, length=500)
    (part,) = sealed_all(queue, 400)
    path = queue.path / part
    with path.open("rb") as old:
        beginning = old.read(100)
        parts_client.consume_many("two.readers", 200)
        eventually(lambda: len(queue.lines()) == 200, deadline_s=DEADLINE_S, what="200 are left")
        new = path.read_bytes().splitlines()
        whole = (beginning + old.read()).splitlines()
    assert len(whole) == 400
    assert new == whole[200:]
    assert [json.loads(line)["properties"]["n"] for line in new] == list(range(200, 400))


@pytest.mark.rule("S-23")
def test_a_listing_goes_on_as_it_began(parts_client: CoreClient, parts_mount: MountedStore) -> None:
    queue = new_queue(parts_client, parts_mount, "listed")
    parts_client.send_many("listed", 2_000)
    eventually(lambda: len(queue.listed()) == 2_000, deadline_s=DEADLINE_S, what="2,000 names")
    complete = queue.listed()
    with os.scandir(queue.path / ".messages") as entries:
        seen = [next(entries).name for _ in range(10)]
        parts_client.consume_many("listed", 1_000)
        eventually(lambda: len(queue.listed()) == 1_000, deadline_s=DEADLINE_S, what="1,000 names are left")
        seen += [entry.name for entry in entries]
    assert seen == complete
    assert queue.listed() == complete[1_000:]
