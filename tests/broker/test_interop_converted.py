"""Stores of HornetQ and Artemis 1.x, converted: a broker of today starts on the result without a warning, and
its clients get what those of the old one got.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.writing import account_of, complaints, difference, take
from tests.frozen import PristineStores
from tests.mounting import journalfs
from tests.older.truth import expected

pytestmark = pytest.mark.timeout(300)

PREFIXES = ("jms.queue.", "jms.topic.")


def short(name: str) -> str:
    return next((name.removeprefix(one) for one in PREFIXES if name.startswith(one)), name)


def renamed(name: str) -> str:
    return name.replace("__HQ_", "__AMQ_").replace("_HQ_", "_AMQ_") if name.startswith("_") else name


def seen_as(wanted: Mapping[str, Any], deliveries: int) -> dict[str, Any]:
    """A message of the truth as the client of today prints it."""
    seen = {
        "id": wanted["id"],
        "address": short(wanted["address"]),
        "durable": wanted["durable"],
        "priority": wanted["priority"],
        "timestamp": wanted["timestamp"],
        "expiration": wanted["expiration"],
        "size": wanted["body_length"],
        "sha256": wanted["body_sha256"],
        "deliveryCount": deliveries + 1,
    }
    if "paged" in str(wanted["address"]):
        del seen["id"]  # the client sees those of the page
    return seen


@pytest.mark.rule("S-205", "S-206")
@pytest.mark.parametrize(
    "name",
    [
        "hq-2.4-main",
        pytest.param("art-1.5-main", marks=pytest.mark.long),
        pytest.param("art-1.0-main", marks=pytest.mark.long),
        pytest.param("hq-2.1-core", marks=pytest.mark.long),
        pytest.param("hq-2.2-core", marks=pytest.mark.long),
        pytest.param("hq-2.4-killed", marks=pytest.mark.long),
        pytest.param("art-1.5-killed-aio", marks=pytest.mark.long),
    ],
)
def test_a_broker_delivers_what_the_old_one_did(
    name: str, stores: PristineStores, artemis_home: Path, tmp_path: Path
) -> None:
    truth = expected(name)
    broker = Broker(tmp_path / "broker", settings=BrokerSettings(journal_file_size="10M"))
    broker.lay_out()
    done = journalfs("convert", "--json", stores[name], broker.data)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    with broker, CoreClient(broker.port) as client:
        account = account_of(client)
        assert (
            len(account.prepared)
            == len(truth["prepared_transactions"])
            == len(report["prepared_transactions"])
        )
        for queue, facts in truth["queues"].items():
            if facts["filter"] in ("__HQX=-1", "__AMQX=-1"):
                assert queue not in account.queues
                continue
            found = account.queues[short(queue)]
            assert found["address"] == short(facts["address"])
            assert (found["filter"] or None) == facts["filter"]
            counts = facts.get("delivery_counts") or {}
            wanted = [seen_as(one, counts.get(str(one["id"]), 0)) for one in facts["messages"]]
            got = take(client, short(queue), len(wanted)) if wanted else []
            assert difference(got, wanted) == [], queue
            for one, other in zip(got, facts["messages"], strict=True):
                names = {renamed(key) for key in other["properties"]}
                assert {key for key in one["properties"] if key != "_AMQ_ROUTING_TYPE"} == names
            due = sorted((one["scheduled_time"], one["id"]) for one in facts.get("scheduled") or ())
            assert account.scheduled.get(queue, []) == [message_id for _, message_id in due]
        assert complaints(broker.log) == []
        broker.stop()
