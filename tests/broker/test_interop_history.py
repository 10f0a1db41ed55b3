"""Histories that journalfs and a broker write by turns. A broker replays each message that was ever sent,
once and whole, whoever sent, consumed, compacted, stopped or was killed.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings, broker_xml
from tests.broker.writing import (
    body_text,
    complaints,
    lines_in,
    make_queues,
    publish,
    take,
    with_new_store,
    write_in,
)

TURNS = 6
REPLAYS_MAX = 3
SMALL, LARGE = (50, 500, 3000), (95_000, 120_000, 300_000)
HISTORY = '<journal-retention-directory unit="DAYS" period="30">data/history</journal-retention-directory>'


@dataclass
class Ledger:
    """What was sent: hashes of bodies by number."""

    chance: Random
    sent: dict[int, str] = field(default_factory=dict)

    def texts(self) -> dict[int, str]:
        """Some new messages, now and then a large one."""
        large = self.chance.random() < 0.3
        length = self.chance.choice(LARGE if large else SMALL)
        first = len(self.sent)
        count = 1 if large else self.chance.randrange(1, 25)
        texts = {number: f"{number} ".ljust(length, "x") for number in range(first, first + count)}
        for number, text in texts.items():
            self.sent[number] = hashlib.sha256(body_text(text)).hexdigest()
        return texts


async def mounts_turn(store: WritingStore, ledger: Ledger) -> None:
    chance, upkeep = ledger.chance, store.journals.messages.upkeep
    for _ in range(chance.randrange(14)):
        step = chance.choice(["send"] * 8 + ["some", "all", "compact", "tidy"])
        ids = [MessageId(line["id"]) for line in lines_in(store, "orders")]
        if step == "send":
            lines = [
                {"body": text, "properties": {"n": number}, "propertyTypes": {"n": "int"}}
                for number, text in ledger.texts().items()
            ]
            content = "".join(json.dumps(line) + "\n" for line in lines)
            await publish(store, "orders", "orders", "in.jsonl", content.encode())
        elif step == "compact":
            await upkeep.compact()
        elif step == "tidy":
            await upkeep.tidy()
        elif ids:
            gone = ids if step == "all" else chance.sample(ids, len(ids) // 2)
            await store.acknowledge(("orders", "orders"), gone)


def brokers_turn(client: CoreClient, ledger: Ledger) -> None:
    for _ in range(ledger.chance.randrange(8)):
        step = ledger.chance.choice(["send"] * 7 + ["consume"] * 2 + ["replay"])
        waiting = client.message_count("orders")
        if step == "send":
            for number, text in ledger.texts().items():
                client.send("orders", body=text, first=number)
        elif step == "replay":
            assert_replayed(client, ledger)
        elif waiting:
            client.consume_many("orders", waiting // 2 + 1)


def assert_replayed(client: CoreClient, ledger: Ledger) -> None:
    """What the broker replays is what was sent. It is consumed.

    The operation ends before the last message is in its queue. And the broker writes the events of what it
    pages itself when it comes to it: what was sent just before may come with the next replay only.
    """
    found: list[tuple[int, str]] = []
    for _ in range(REPLAYS_MAX):
        client.operation("broker", "replay", "orders", "again", None)
        with suppress(AssertionError):
            eventually(
                lambda: client.message_count("again") >= len(ledger.sent), deadline_s=10, what="all are there"
            )
        seen = take(client, "again", client.message_count("again"))
        found = sorted((int(one["properties"]["n"]["v"]), one["sha256"]) for one in seen)
        if len(found) >= len(ledger.sent):
            break
    assert found == sorted(ledger.sent.items())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("pages", [False, True])
def test_a_history_has_each_message_once(
    artemis_home: Path, tmp_path: Path, seed: int, *, pages: bool
) -> None:
    """Of what goes to pages there are only events, and a file with nothing else is free to a broker that
    starts: what it wrote last itself is lost to its history, unless a mount comes between.
    """
    chance = Random(seed)
    ledger = Ledger(chance)
    settings = BrokerSettings(
        journal_type=chance.choice(("NIO", "MAPPED", "ASYNCIO")),
        journal_compact_min_files=chance.choice((0, 4)),
        paging_addresses=("orders",) if pages else (),
    )
    config = broker_xml(settings, 61616).replace("<journal-type>", f"{HISTORY}\n    <journal-type>")
    broker = with_new_store(Broker(tmp_path / "broker", config=config))

    write_in(broker.root, lambda store: make_queues(store, "orders", "again"))
    for turn in range(TURNS):
        if pages or chance.random() < 0.8:
            write_in(broker.root, lambda store: mounts_turn(store, ledger))
        with broker:
            assert complaints(broker.log) == [], f"turn {turn}"
            with CoreClient(broker.port) as client:
                brokers_turn(client, ledger)
                if turn == TURNS - 1:
                    assert_replayed(client, ledger)
            if not pages and chance.random() < 0.3:
                broker.kill()
            else:
                broker.stop()
