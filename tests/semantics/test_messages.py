"""Rules of messages as files, states and selections."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mounting import MountedStore, QueueOnDisk, mounted, mounted_for_writing, read_lines
from tests.semantics.conftest import Account

NOT_YET_DUE = 3
"""Messages of `reminders` that are scheduled for the end of the century."""


@pytest.mark.rule("S-19")
def test_names_say_id_and_content(orders: MountedStore) -> None:
    for name in ("typed", "orders", "quotes"):
        queue = orders.queue(name)
        lines = {line["id"]: line for line in queue.lines()}
        assert sorted(queue.listed_ids()) == sorted(lines)
        for entry in queue.listed():
            suffix = entry.split(".")[1]
            content = (queue.path / ".messages" / entry).read_bytes()
            kind = lines[int(entry.split(".")[0])]["type"]
            assert suffix in ("txt", "json", "bin", "ser")
            assert (suffix == "ser") == (kind == "object")
            if suffix == "json":
                assert isinstance(json.loads(content), dict | list)
            if kind in ("map", "stream"):
                assert suffix == "json"


@pytest.mark.rule("S-20")
def test_listed_in_order_of_delivery(
    orders: MountedStore, paged: MountedStore, account: Callable[[str], Account]
) -> None:
    for name in ("orders", "typed", "reminders", "held.back"):
        assert orders.queue(name).listed_ids() == account("orders-basic").ids(name)
    for address, queue in (("backlog", "backlog"), ("events", "events.a"), ("images", "images")):
        assert paged.queue(address, queue).listed_ids() == account("large-and-paged").ids(queue)


@pytest.mark.rule("S-21")
def test_the_file_is_the_body(orders: MountedStore, account: Callable[[str], Account]) -> None:
    for name in ("typed", "orders"):
        folder = orders.queue(name).path / ".messages"
        by_id = {int(entry.split(".")[0]): folder / entry for entry in os.listdir(folder)}
        for message in account("orders-basic").queue(name)["messages"]:
            path = by_id[message["id"]]
            if message["timestamp"]:
                assert path.stat().st_mtime_ns // 1_000_000 == message["timestamp"]
            if message["type"] == "text" and isinstance(message.get("body"), str):
                assert path.read_bytes().decode("utf-8", "surrogatepass") == message["body"]
            if message["type"] == "bytes" and "body_base64" in message:
                assert path.read_bytes() == base64.b64decode(message["body_base64"])


def attributes(path: Path) -> dict[str, str]:
    return {name: os.getxattr(path, name).decode() for name in os.listxattr(path)}


@pytest.mark.rule("S-22")
def test_headers_and_properties_are_extended_attributes(
    orders: MountedStore, account: Callable[[str], Account]
) -> None:
    folder = orders.queue("orders").path / ".messages"
    by_id = {int(entry.split(".")[0]): folder / entry for entry in os.listdir(folder)}
    for message in account("orders-basic").queue("orders")["messages"]:
        found = attributes(by_id[message["id"]])
        assert found["user.journalfs.priority"] == str(message["priority"])
        assert found["user.journalfs.durable"] == "true"
        for name, value in message["properties"].items():
            text = found[f"user.property.{name}"]
            assert text == value if isinstance(value, str) else json.loads(text) == value


@pytest.mark.rule("S-22")
def test_extended_attributes_can_be_left_out(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    with mounted(store_copy("aio"), tmp_path / "mnt", "-o", "noxattr") as mount:
        for address in os.listdir(mount.path):
            for queue in os.listdir(mount.path / address):
                for entry in mount.queue(address, queue).listed():
                    with pytest.raises(OSError, match="not supported") as refused:
                        os.getxattr(
                            mount.path / address / queue / ".messages" / entry, "user.journalfs.priority"
                        )
                    assert refused.value.errno == errno.EOPNOTSUPP


@pytest.mark.rule("S-22")
def test_what_was_left_out_cannot_be_set(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    name = "user.journalfs.max-size-messages"
    store = store_copy("orders-basic")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        os.setxattr(mount.path / "orders", name, b"9")
    with mounted_for_writing(store, tmp_path / "mnt", "-o", "noxattr") as mount:
        for act in (
            partial(os.setxattr, mount.path / "orders", name, b"7"),
            partial(os.removexattr, mount.path / "orders", name),
        ):
            with pytest.raises(OSError, match="not supported") as refused:
                act()
            assert refused.value.errno == errno.EOPNOTSUPP
    with mounted(store, tmp_path / "mnt") as mount:
        assert os.getxattr(mount.path / "orders", name) == b"9"


@pytest.mark.rule("S-24")
def test_scheduled_messages_are_live_and_listed_apart(
    orders: MountedStore, account: Callable[[str], Account]
) -> None:
    queue = orders.queue("reminders")
    expected = account("orders-basic").ids("reminders")
    assert sorted(line["id"] for line in queue.lines()) == sorted(expected)
    later = expected[-NOT_YET_DUE:]
    assert queue.listed_ids()[-NOT_YET_DUE:] == later
    assert QueueOnDisk(queue.path / ".scheduled").listed_ids() == later
    lines = {line["id"]: line for line in QueueOnDisk(queue.path / ".scheduled").lines()}
    times = [lines[id]["scheduledTime"] for id in later]
    assert times == sorted(times)
    assert len(times) == len(lines) == NOT_YET_DUE
    assert QueueOnDisk(orders.queue("orders").path / ".scheduled").lines() == []


@pytest.mark.rule("S-25")
def test_messages_held_by_a_prepared_transaction(
    transactions: MountedStore, account: Callable[[str], Account]
) -> None:
    told = account("transactions")
    acknowledged: dict[str, set[int]] = {}
    for prepared in told.content["preparedTransactions"]:
        for operation in prepared["operations"]:
            if operation.get("operation", operation.get("kind", operation.get("type"))) == "ack":
                acknowledged.setdefault(operation["address"], set()).add(operation["id"])
    assert acknowledged["tx.bill"]
    for address in ("tx.bill", "tx.orders"):
        queue = transactions.queue(address)
        held = {line["id"] for line in QueueOnDisk(queue.path / ".delivering").lines()}
        assert held == acknowledged[address]
        assert [line["id"] for line in queue.lines()] == sorted(told.ids(address))
        assert not held & set(queue.listed_ids())


@pytest.mark.rule("S-26", "S-27")
def test_what_is_not_committed_is_in_no_queue(
    transactions: MountedStore, account: Callable[[str], Account]
) -> None:
    told = account("transactions")
    for queue in told.queues:
        shown = transactions.queue(queue["address"], queue["name"])
        assert shown.listed_ids() == [message["id"] for message in queue["messages"]]
    folder = transactions.path / ".journalfs" / "transactions"
    assert len(os.listdir(folder)) == len(told.content["preparedTransactions"]) == 2
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    for prepared in told.content["preparedTransactions"]:
        for operation in prepared["operations"]:
            assert str(operation["id"]) in text


@pytest.mark.rule("S-28")
def test_a_message_whose_time_is_over_is_live(
    orders: MountedStore, account: Callable[[str], Account]
) -> None:
    queue = orders.queue("overdue")
    assert queue.listed_ids() == account("orders-basic").ids("overdue")
    over = [line for line in queue.lines() if line.get("expiration")]
    assert len(over) == 3


@pytest.mark.rule("S-29", "S-30")
def test_views_have_the_names_of_a_queue(orders: MountedStore) -> None:
    queue = orders.queue("reminders").path
    for view in (queue / ".scheduled", queue / ".delivering", queue / ".where" / "n >= 0"):
        for name in ("_tail.jsonl", ".all.jsonl", ".messages", ".where"):
            assert (view / name).exists()
        for name in (".settings", ".scheduled"):
            assert not (view / name).exists()
        assert (view / ".status").exists() == (view.parent.name == ".where")
        lines = read_lines(view)
        assert (
            (view / ".all.jsonl").read_bytes().count(b"\n")
            == len(lines)
            == len(os.listdir(view / ".messages"))
        )


def matching(lines: list[dict[str, Any]], accept: Callable[[dict[str, Any]], bool]) -> list[int]:
    return [line["id"] for line in lines if accept(line)]


@pytest.mark.rule("S-30")
@pytest.mark.parametrize(
    ("selector", "accept"),
    [
        ("n < 10", lambda line: line["properties"]["n"] < 10),
        ("total BETWEEN 100 AND 500", lambda line: 100 <= line["properties"]["total"] <= 500),
        ("JMSPriority > 5", lambda line: line["priority"] > 5),
        (
            "NOT (n < 40) AND total %2F 2 > 100",
            lambda line: line["properties"]["n"] >= 40 and line["properties"]["total"] > 200,
        ),
        ("priority LIKE 'n%25l'", lambda line: line["properties"].get("priority") == "normal"),
        ("priority IS NULL", lambda line: "priority" not in line["properties"]),
        ("n = 1 AND n = 2", lambda line: False),
    ],
)
def test_selections(orders: MountedStore, selector: str, accept: Callable[[dict[str, Any]], bool]) -> None:
    queue = orders.queue("orders")
    chosen = queue.path / ".where" / selector
    assert [line["id"] for line in read_lines(chosen)] == matching(queue.lines(), accept)
    assert sorted(QueueOnDisk(chosen).listed_ids()) == sorted(matching(queue.lines(), accept))


@pytest.mark.rule("S-31")
def test_selections_below_selections(orders: MountedStore) -> None:
    queue = orders.queue("orders")
    both = queue.path / ".where" / "n > 10" / ".where" / "n < 20"
    assert [line["id"] for line in read_lines(both)] == matching(
        queue.lines(), lambda line: 10 < line["properties"]["n"] < 20
    )


@pytest.mark.rule("S-32")
@pytest.mark.parametrize("selector", ["n <", "n = 'open", "= 3", "n LIKE 7", "\udcff\udcfe"])
def test_a_wrong_selector_is_refused_with_its_place(orders: MountedStore, selector: str) -> None:
    with pytest.raises(OSError, match="Invalid argument") as refused:
        os.stat(os.fsencode(orders.queue("orders").path / ".where") + b"/" + os.fsencode(selector))
    assert refused.value.errno == errno.EINVAL
    reasons = [entry["reason"] for entry in orders.control("mount.json")["refused"]]
    assert reasons[-1]
    assert "selector" in reasons[-1]
