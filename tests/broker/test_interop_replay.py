"""A broker and a second mount over a store into which its history was replayed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings, broker_xml
from tests.broker.test_interop_history import HISTORY
from tests.broker.writing import body_text, complaints, lines_in, make_queues, take, with_new_store, write_in
from tests.cli.running import journalfs

LENGTHS = {number: 50 + 977 * (number % 7) for number in range(200)} | {200: 120_000, 201: 300_000}


def texts_of(lines: list[str]) -> list[str]:
    return sorted(hashlib.sha256(body_text(line)).hexdigest() for line in lines)


@pytest.mark.long
@pytest.mark.rule("S-253")
def test_clients_get_what_was_replayed_once(artemis_home: Path, tmp_path: Path) -> None:
    """Half was consumed; the mark of the replay outlasts a broker, and is of no address that it shows."""
    config = broker_xml(BrokerSettings(), 61616).replace("<journal-type>", f"{HISTORY}\n    <journal-type>")
    broker = with_new_store(Broker(tmp_path / "broker", config=config))

    write_in(broker.root, lambda store: make_queues(store, "orders", "again"))
    texts = [f"{number} ".ljust(length, "x") for number, length in LENGTHS.items()]
    with broker, CoreClient(broker.port) as client:
        for text in texts:
            client.send("orders", body=text)
        client.consume_many("orders", 150)
        broker.stop()
    command = ("replay", broker.root, "orders", "--to-queue", "again::again")
    done = journalfs(*command)
    assert done.stdout == f"again::again: {len(texts)} replayed\n", done.stderr
    for _ in range(2):  # a mount comes between
        with broker, CoreClient(broker.port) as client:
            assert complaints(broker.log) == []
            assert client.message_count("again") == len(texts)
            assert client.message_count("orders") == len(texts) - 150
            assert "journalfs.replay" not in client.attribute("broker", "addressNames")
            client.send("again", body="of somebody else")
            (*_, other) = seen = take(client, "again", len(texts) + 1)
            assert sorted(one["sha256"] for one in seen[:-1]) == texts_of(texts)
            assert other["sha256"] == texts_of(["of somebody else"])[0]
            broker.stop()
        assert "replayed already" in journalfs(*command).stderr
        assert journalfs(*command, "--again").stdout == done.stdout

    async def listed(store: WritingStore) -> list[dict[str, object]]:
        return lines_in(store, "again")

    assert len(write_in(broker.root, listed)) == len(texts)
