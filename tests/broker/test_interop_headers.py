"""Random envelopes of both protocols: a broker that starts lists what a mount shows, in its order, with equal
headers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from journalfs.errors import BadEnvelope, LastValueRefused
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.random_envelopes import Envelope, amqp_envelope, core_envelope
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, delivery_order, lines_in, publish, queue_in, write_in

MESSAGES = 120
KINDS: Mapping[str, Mapping[str, str]] = {
    "all": {},
    "exclusive": {"exclusive": "true"},
    "last": {"last-value": "true"},
    "key": {"last-value-key": "k"},
    "kept": {"non-destructive": "true", "last-value-key": "k"},
    "ring": {"ring-size": "5"},
    "filtered": {"filter": "k = 'a' OR k > 3 OR AMQGroupID = 'g'"},
}
HEADERS = {"priority": 4, "expiration": 0, "durable": True, "timestamp": 0}
"""As the broker names them, with what they are in a line that does not say it."""


@dataclass(frozen=True)
class Shown:
    """What a mount shows of a queue."""

    lines: dict[int, Envelope]
    order: list[int]
    later: set[int]
    """Not due yet."""


def shown_in(store: WritingStore, name: str) -> Shown:
    listing = queue_in(store, name).scheduled().listing()
    later = {int(listing.message_id(index)) for index in range(len(listing))}
    order = [one for one in delivery_order(store, name) if one not in later]
    return Shown({line["id"]: line for line in lines_in(store, name)}, order, later)


async def make(store: WritingStore) -> None:
    for address, queues in {"plain": ("plain",), "over": ("over",), "kinds": tuple(KINDS)}.items():
        await store.create_address(address)
        await store.set_attribute(address, None, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
        for queue in queues:
            await store.create_queue(address, queue)
            for name, value in KINDS.get(queue, {}).items():
                await store.set_attribute(address, queue, f"user.journalfs.{name}", value.encode())
    for address in ("plain", "kinds"):
        await store.set_attribute(address, None, "user.journalfs.expiry-address", b"over")


async def send(store: WritingStore, address: str, queue: str | None, line: Envelope) -> None:
    # Two times at which it expires that disagree; a key that is no text, with which no broker would load it.
    with suppress(BadEnvelope, LastValueRefused):
        await publish(store, address, queue, "in.jsonl", json.dumps(line).encode() + b"\n")


def listed(client: CoreClient, queue: str, operation: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(client.operation(f"queue.{queue}", operation, *arguments))
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_what_a_broker_lists(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    broker, chance = new_instance(tmp_path / "broker", "NIO"), Random(seed)

    async def work(store: WritingStore) -> dict[str, Shown]:
        await make(store)
        for number in range(MESSAGES):
            for made in (amqp_envelope, core_envelope):
                await send(store, "plain", "plain", made(chance, number))
            made = chance.choice((amqp_envelope, core_envelope))
            await send(store, "kinds", None, made(chance, number, times=False))
        await store.published()
        await store.expire_due()
        return {queue: shown_in(store, queue) for queue in ("plain", "over", *KINDS)}

    shown = write_in(broker.root, work)
    assert all(one.order for one in shown.values())
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        for queue, ours in shown.items():
            theirs = listed(client, queue, "listMessagesAsJSON", "")
            assert [int(one["messageID"]) for one in theirs] == ours.order, queue
            later = listed(client, queue, "listScheduledMessagesAsJSON")
            assert {int(one["messageID"]) for one in later} == ours.later, queue
            for one in theirs:
                line = ours.lines[int(one["messageID"])]
                wanted = {name: line.get(name, otherwise) for name, otherwise in HEADERS.items()}
                assert {name: one[name] for name in HEADERS} == wanted, line
        broker.stop()
