"""Rules of lines, parts and the tail."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mounting import MountedStore, mounted, parts_and_tail
from tests.semantics.conftest import Account

PART = re.compile(r"part-(\d{4,})-(\d+)-(\d{10,})\.jsonl")


def listed_files(mount: MountedStore) -> list[Path]:
    return [Path(folder, name) for folder, _, names in os.walk(mount.path) for name in names]


@pytest.mark.rule("S-7")
def test_a_line_is_one_object_and_names_its_queue(orders: MountedStore) -> None:
    for path in listed_files(orders):
        content = path.read_bytes()
        assert not content or content.endswith(b"\n")
        for raw in content.splitlines(keepends=True):
            line = json.loads(raw.decode("utf-8"))
            assert {
                "queue",
                "address",
                "id",
                "protocol",
                "type",
                "durable",
                "priority",
                "timestamp",
            } <= line.keys()
            assert raw.count(b"\n") == 1


@pytest.mark.rule("S-8")
def test_bodies_are_whole(paged: MountedStore, account: Callable[[str], Account]) -> None:
    expected = {message["id"]: message for message in account("large-and-paged").queue("images")["messages"]}
    lines = {line["id"]: line for line in paged.queue("images").lines()}
    assert lines.keys() == expected.keys()
    texts = [id for id, message in expected.items() if "textLength" in message]
    assert texts
    for id in texts:
        assert len(lines[id]["body"].encode("utf-16-le")) // 2 == expected[id]["textLength"]
    assert max(len(line.get("body_base64", "")) for line in lines.values()) > 1_000_000
    compressed = [line for line in lines.values() if line.get("properties", {}).get("_AMQ_LARGE_COMPRESSED")]
    assert compressed


@pytest.mark.rule("S-9")
def test_one_message_in_several_queues(orders: MountedStore) -> None:
    everything = {line["id"]: line for line in orders.queue("prices", "prices.all").lines()}
    shared = [line for line in orders.queue("prices", "prices.eu").lines() if line["id"] in everything]
    assert shared
    own = ("queue", "deliveryCount", "scheduledTime")
    for line in shared:
        other = everything[line["id"]]
        assert {key: value for key, value in line.items() if key not in own} == {
            key: value for key, value in other.items() if key not in own
        }
        assert (line["queue"], other["queue"]) == ("prices.eu", "prices.all")


@pytest.mark.rule("S-10")
def test_names_of_parts(orders: MountedStore) -> None:
    for name in ("orders", "typed", "quotes"):
        parts, _ = parts_and_tail(orders.queue(name).path)
        numbers = [tuple(map(int, PART.fullmatch(part).groups())) for part in parts]  # type: ignore[union-attr]
        assert numbers
        assert numbers == sorted(set(numbers))


@pytest.mark.rule("S-10", "S-53")
def test_parts_keep_their_names_and_content_in_the_next_mount(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    store = store_copy("orders-basic")
    with mounted(store, tmp_path / "mnt"):
        pass  # the tails of empty queues come behind the parts of others from the second mount on
    seen = []
    for _ in range(2):
        with mounted(store, tmp_path / "mnt") as mount:
            seen.append({path.relative_to(mount.path): path.read_bytes() for path in listed_files(mount)})
    assert seen[0] == seen[1]


@pytest.mark.rule("S-13")
@pytest.mark.parametrize(
    ("address", "queue"), [("orders", "orders"), ("retries", "retries"), ("quotes", "quotes")]
)
def test_lines_are_in_order_of_arrival(orders: MountedStore, address: str, queue: str) -> None:
    numbers = [line["properties"]["n"] for line in orders.queue(address, queue).lines()]
    ids = [line["id"] for line in orders.queue(address, queue).lines()]
    assert ids == sorted(ids)
    assert numbers == sorted(numbers)


@pytest.mark.rule("S-13")
def test_paged_messages_follow_the_others(paged: MountedStore, account: Callable[[str], Account]) -> None:
    for address, queue in (("backlog", "backlog"), ("events", "events.b"), ("ledger", "ledger")):
        ids = [line["id"] for line in paged.queue(address, queue).lines()]
        assert ids == account("large-and-paged").ids(queue)


@pytest.mark.rule("S-14")
def test_a_store_at_rest_has_empty_tails(orders: MountedStore) -> None:
    tails = {path.with_name("_tail.jsonl") for path in listed_files(orders)}
    assert len(tails) > 30
    assert [path for path in tails if path.stat().st_size or path.read_bytes()] == []


@pytest.mark.rule("S-15")
def test_all_is_parts_then_tail(orders: MountedStore) -> None:
    for name in ("orders", "typed", "empty"):
        folder = orders.queue(name).path
        parts, _ = parts_and_tail(folder)
        joined = b"".join((folder / part).read_bytes() for part in [*parts, "_tail.jsonl"])
        assert (folder / ".all.jsonl").read_bytes() == joined


@pytest.mark.rule("S-16")
def test_sizes_are_right_before_the_first_read(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    with mounted(store_copy("large-and-paged"), tmp_path / "mnt") as mount:
        files = listed_files(mount)
        for name in ("images", "backlog", "other.large"):
            queue = mount.queue(name).path
            files += [queue / ".all.jsonl", queue / ".status", queue / ".settings"]
            files += [queue / ".messages" / entry for entry in os.listdir(queue / ".messages")]
        control = mount.path / ".journalfs"
        files += [Path(folder, name) for folder, _, names in os.walk(control) for name in names]
        sizes = {path: path.stat().st_size for path in files}
        assert len(sizes) > 300
        # What the mount counts, how long its turns take, and events of slow ones change meanwhile.
        wrong = {
            path: (size, len(path.read_bytes()))
            for path, size in sizes.items()
            if path.name not in ("mount.json", "metrics", "status.json", "events.jsonl")
            and len(path.read_bytes()) != size
        }
        assert not wrong


@pytest.mark.rule("S-17")
def test_any_range_reads_the_same(paged: MountedStore) -> None:
    dice = random.Random(7)
    for address, queue in (("images", "images"), ("events", "events.b"), ("amqp.large", "amqp.large")):
        for part in parts_and_tail(paged.queue(address, queue).path)[0]:
            path = paged.queue(address, queue).path / part
            whole = path.read_bytes()
            ranges = [(dice.randrange(len(whole)), dice.randrange(1, 70_000)) for _ in range(40)]
            with path.open("rb", buffering=0) as file:

                def read(place: tuple[int, int], descriptor: int = file.fileno()) -> bytes:
                    return os.pread(descriptor, place[1], place[0])

                with ThreadPoolExecutor(4) as readers:
                    pieces = list(readers.map(read, ranges))
            assert pieces == [whole[offset : offset + length] for offset, length in ranges]
