"""Histories that journalfs and a broker write by turns. A broker replays each message that was ever sent,
once and whole, whoever sent, consumed, compacted, stopped or was killed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings, broker_xml
from tests.broker.writing import body_text, complaints, lines_in, publish, take, with_new_store, write_in

TURNS = 6
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
            assert replayed(client) == sorted(ledger.sent.items())
        elif waiting:
            client.consume_many("orders", waiting // 2 + 1)


def replayed(client: CoreClient) -> list[tuple[int, str]]:
    """Numbers and hashes of what the broker replays, which is consumed."""
    client.operation("broker", "replay", "orders", "again", None)
    seen = take(client, "again", client.message_count("again"))
    return sorted((int(one["properties"]["n"]["v"]), one["sha256"]) for one in seen)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_history_has_each_message_once(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    ledger = Ledger(Random(seed))
    settings = BrokerSettings(
        journal_type=ledger.chance.choice(("NIO", "MAPPED", "ASYNCIO")),
        journal_compact_min_files=ledger.chance.choice((0, 4)),
    )
    config = broker_xml(settings, 61616).replace("<journal-type>", f"{HISTORY}\n    <journal-type>")
    broker = with_new_store(Broker(tmp_path / "broker", config=config))

    async def begin(store: WritingStore) -> None:
        for name in ("orders", "again"):
            await store.create_address(name)
            await store.create_queue(name, name)

    write_in(broker.root, begin)
    for turn in range(TURNS):
        if ledger.chance.random() < 0.8:
            write_in(broker.root, lambda store: mounts_turn(store, ledger))
        with broker:
            assert complaints(broker.log) == [], f"turn {turn}"
            with CoreClient(broker.port) as client:
                brokers_turn(client, ledger)
                if turn == TURNS - 1:
                    assert replayed(client) == sorted(ledger.sent.items())
            if ledger.chance.random() < 0.3:
                broker.kill()
            else:
                broker.stop()
