"""AMQ Message Stores that are made here: a real ActiveMQ 5 starts on them, delivers what is there, and what
it took is gone from them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.store import open_store
from tests.broker.activemq5 import Activemq5Run, taken
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.writing import complaints
from tests.frozen import PristineStores, load_expected
from tests.mounting import journalfs, mounted_for_writing
from tests.older.activemq5 import differences, lines_by_queue, wanted

pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

WILD = "dan\\.x.wild"
"""A subscription with wildcards, whose broker delivers topic after topic."""
PASSED_OVER = ("null:", "_AMQ_", "property_types", "list:", "nested:", "pEmoji:", "JMS_")
"""Properties that are in another place here, and how the program prints what is no plain value."""

SAID = frozenset(
    {"type", "durable", "priority", "timestamp", "expiration", "destination", "correlation_id", "reply_to"}
    | {"jms_type", "group_id", "group_sequence", "body", "body_length", "body_sha256"}
)
"""What the programs that took them say of a message in the same words."""


def is_passed_over(found: str) -> bool:
    return found.startswith(PASSED_OVER) or found.endswith("!= None string") or "\ufffd" in found


def due(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those that brokers do not give to anybody any more."""
    now_ms = time.time() * 1000
    return [line for line in lines if not 0 < line.get("expiration", 0) < now_ms]


def delivered_as_shown(store: Path, run: Activemq5Run, derived: Path) -> dict[str, int]:
    """How many messages each queue has, all of which the broker delivers as they are shown."""
    with closing(open_store(store, derived=derived)) as opened:
        lines = {queue: due(found) for queue, found in lines_by_queue(opened).items() if due(found)}
    taken = {queue: found for queue, found in wanted(run.account).items() if found}
    assert lines.keys() == taken.keys()
    for queue, messages in taken.items():
        assert len(lines[queue]) == len(messages), queue
        shown = {line["properties"]["__HDR_MESSAGE_ID"]: line for line in lines[queue]}
        if queue != WILD:
            assert list(shown) == [message["id"] for message in messages]
        for message in messages:
            found = differences(shown[message["id"]], message)
            assert [one for one in found if not is_passed_over(one)] == [], (queue, message["id"])
    return {queue: len(found) for queue, found in lines.items()}


@pytest.mark.rule("S-228")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("amq-5.8-killed", "5.8.0"),
        ("amq-5.4-clean", "5.4.3"),
        ("hq-2.4-main", "5.8.0"),
        ("orders-basic", "5.8.0"),
        ("large-and-paged", "5.4.3"),
        ("transactions", "5.8.0"),
        ("kaha-5.16.7-killed", "5.8.0"),
    ],
)
def test_activemq_delivers_what_was_converted(
    name: str, version: str, stores: PristineStores, tmp_path: Path
) -> None:
    new, untouched = tmp_path / "new", tmp_path / "untouched"
    done = journalfs("convert", "--json", stores[name], new, "--to", "amq")
    assert done.returncode == 0, done.stderr
    shutil.copytree(new, untouched)
    report = json.loads(done.stdout)
    run = Activemq5Run(version, "drain", new)
    counts = delivered_as_shown(untouched, run, tmp_path / "derived")
    assert counts
    if not report["prepared_transactions"] and not any(kind == "message" for kind, _ in report["notes"]):
        with closing(open_store(untouched, derived=tmp_path / "derived")) as shown:
            assert sum(map(len, lines_by_queue(shown).values())) == report["messages"]
    assert len(run.account["prepared_transactions"]) == len(report["prepared_transactions"])
    assert run.complaints() == []
    with closing(open_store(new, derived=tmp_path / "derived")) as after:
        # What had expired went where that broker has it.
        assert {queue for queue, lines in lines_by_queue(after).items() if lines} <= {"ActiveMQ.DLQ"}


PLACES = {"amq-5.8-killed": ("WORK", "FEED", "watcher.w1"), "amq-5.4-clean": ("ORDERS", "NEWS", "alice.all")}
"""A queue, a topic, and the queue of one of its subscriptions."""


def change(mount: Path, queue: str, topic: str, subscription: str) -> None:
    """With a shell's tools, as people do."""
    messages = mount / queue / queue / ".messages"
    (mount / queue / "lines.txt").write_text("".join(f"line {n}\n" for n in range(30)))
    envelope = {
        "type": "map",
        "body": {"n": {"t": "int", "v": 7}, "s": {"t": "string", "v": "\u20ac"}},
        "priority": 8,
        "expiration": 4_000_000_000_000,
        "groupId": "g",
        "properties": {"color": "red", "n": 7, "JMSReplyTo": "topic://back", "JMSCorrelationID": "c"},
        "propertyTypes": {"n": "long"},
    }
    (mount / queue / "one.jsonl").write_text(json.dumps(envelope) + "\n")
    (mount / queue / "big.txt").write_text("long line " * 30_000 + "\n")
    (mount / topic / "all.txt").write_text("for everybody\n")
    (mount / topic / subscription / "one.txt").write_text("for one\n")
    first, second, *_ = os.listdir(messages)
    (messages / first).unlink()
    made = mount / queue / queue / ".messages"
    of_one = mount / topic / subscription / ".messages"
    os.rename(messages / second, of_one / second)
    (of_one / os.listdir(of_one)[0]).unlink()
    assert len(os.listdir(made)) > 30


@pytest.mark.rule("S-225", "S-229")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("amq-5.8-killed", "5.8.0"),
        ("amq-5.4-clean", "5.4.3"),
        ("amq-5.4-clean", "5.8.0"),
    ],
)
def test_activemq_delivers_what_a_mount_left(
    name: str, version: str, store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    queue, topic, subscription = PLACES[name]
    (store,) = (path for path in store_copy(name).iterdir() if path.is_dir())
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "amq") as mount:
        change(mount.path, queue, topic, subscription)
        wanted_counts = {
            path.name: len((path / ".all.jsonl").read_bytes().splitlines())
            for path in mount.path.glob("[!.]*/[!.]*")
        }
    untouched = tmp_path / "untouched"
    shutil.copytree(store, untouched)
    run = Activemq5Run(version, "drain", store)
    counts = delivered_as_shown(untouched, run, tmp_path / "derived")
    assert counts == {name: count for name, count in wanted_counts.items() if count}
    assert run.complaints() == []
    Activemq5Run(version, "send", store, f"queue://{queue}", "3")
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "amq") as mount:
        assert [line["body"] for line in mount.queue(queue).lines()] == ["text 0", "text 1", "text 2"]
        (mount.path / queue / "again.txt").write_text("again\n")
    assert len(Activemq5Run(version, "drain", store).account["queues"][queue]) == 4


@pytest.mark.rule("S-210")
@pytest.mark.parametrize(
    ("archive", "name"),
    [
        ("kahadb", "kaha-5.16.7-killed"),
        ("amq-5.x", "amq-5.0-clean"),
        ("amq-5.x", "amq-5.8-killed"),
    ],
)
def test_clients_get_from_artemis_what_they_got(
    archive: str, name: str, stores: PristineStores, artemis_home: Path, tmp_path: Path
) -> None:
    """By OpenWire, durable subscriptions too (clients of 5.8 do not tell Artemis whose those are); by
    priority, which ActiveMQ 5 heeds only if told to.
    """
    truth = load_expected(archive)
    account = truth["stores"][name] if "stores" in truth else truth[name]
    broker = Broker(tmp_path / "broker", settings=BrokerSettings(journal_file_size="10M"))
    broker.lay_out()
    done = journalfs("convert", stores[name], broker.data)
    assert (done.returncode, done.stderr) == (0, "")
    expected = {f"queue://{queue}": messages for queue, messages in account["queues"].items()}
    asked = list(expected)
    for key, one in account["subscriptions"].items():
        expected[key] = one["messages"]
        asked += [one["client_id"], one["name"], one["topic"], one["selector"] or ""]
    with broker:
        got = taken("5.18.7", f"tcp://127.0.0.1:{broker.port}?jms.watchTopicAdvisories=false", *asked)
        assert complaints(broker.log) == []
    assert got.keys() == expected.keys()
    for key, messages in expected.items():
        found = {one["id"]: one for one in got[key]}
        assert len(found) == len(got[key])
        by_priority = [one["id"] for one in sorted(messages, key=lambda one: -one["priority"])]
        order = sorted if key == "dan.x:wild" else list
        assert order(found) == order(by_priority), key
        for message in messages:
            says = {field: found[message["id"]].get(field, field) for field in message.keys() & SAID}
            assert says == {field: message[field] for field in says}, (key, message["id"])
