"""Stores made for HornetQ 2.4: a real one starts on them without a warning and delivers what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from journalfs.store import open_store
from tests.broker.hornetq import HornetqRun
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.mounting import journalfs
from tests.older.truth import envelopes, expected

pytestmark = pytest.mark.timeout(300)


def seen_as(wanted: Mapping[str, Any], deliveries: int) -> dict[str, Any]:
    """A message of the truth as our program prints it."""
    return {
        "durable": wanted["durable"],
        "priority": wanted["priority"],
        "expiration": wanted["expiration"],
        "deliveryCount": deliveries + 1,
        "size": wanted["body_length"],
        "sha256": wanted["body_sha256"],
        "properties": sorted(wanted["properties"]),
    }


def taken_as(found: Mapping[str, Any]) -> dict[str, Any]:
    names = ("durable", "priority", "expiration", "deliveryCount", "size", "sha256")
    return {name: found[name] for name in names} | {"properties": sorted(found["properties"])}


@pytest.mark.rule("S-205")
@pytest.mark.parametrize(
    "name",
    [
        "hq-2.4-main",
        pytest.param("hq-2.4-killed", marks=pytest.mark.long),
        pytest.param("hq-2.1-core", marks=pytest.mark.long),
        pytest.param("hq-2.2-core", marks=pytest.mark.long),
    ],
)
def test_hornetq_delivers_what_it_did_before(name: str, stores: PristineStores, tmp_path: Path) -> None:
    """From HornetQ to HornetQ nothing changes, names included."""
    truth = expected(name)
    done = journalfs("convert", "--json", stores[name], tmp_path / "new", "--to", "hornetq")
    assert done.returncode == 0, done.stderr
    run = HornetqRun(
        tmp_path / "new", {queue: len(one["messages"]) for queue, one in truth["queues"].items()}
    )
    assert run.prepared == len(truth["prepared_transactions"])
    for queue, facts in truth["queues"].items():
        deliveries = facts.get("delivery_counts") or {}
        wanted = [seen_as(one, deliveries.get(str(one["id"]), 0)) for one in facts["messages"]]
        assert [taken_as(one) for one in run.taken[queue]] == wanted, queue
    assert run.complaints() == []


def old_names(store: Path) -> dict[str, list[dict[str, Any]]]:
    """What is due in each queue of a store of today, by the queue's name in HornetQ."""
    found = open_store(store, index=False)
    try:
        return {
            f"jms.queue.{queue.name}"
            if queue.status()["routingType"] == "ANYCAST" and queue.name == one.name
            else queue.name: [
                message
                for message in envelopes(queue)
                if "scheduledTime" not in message and message["protocol"] != "AMQP"
            ]
            for one in found.addresses()
            for queue in one.queues()
        }
    finally:
        found.close()


@pytest.mark.rule("S-205", "S-206")
@pytest.mark.parametrize("name", first_is_quick("orders-basic", "large-and-paged", "transactions"))
def test_hornetq_delivers_a_store_of_today(name: str, stores: PristineStores, tmp_path: Path) -> None:
    wanted = {
        queue: messages
        for queue, messages in old_names(stores[name]).items()
        if "Expiry" not in queue and not any(one.get("expiration") for one in messages)
    }
    done = journalfs("convert", "--json", stores[name], tmp_path / "new", "--to", "hornetq")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    run = HornetqRun(tmp_path / "new", {queue: len(one) for queue, one in wanted.items()})
    for queue, messages in wanted.items():
        ordered = sorted(messages, key=lambda one: -one["priority"])
        got = [(one["priority"], one["durable"], one["deliveryCount"] - 1) for one in run.taken[queue]]
        assert got == [(one["priority"], one["durable"], one.get("deliveryCount", 0)) for one in ordered]
    assert run.prepared == len(report["prepared_transactions"])
    assert run.complaints() == []
