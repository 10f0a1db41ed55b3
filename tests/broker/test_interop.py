"""What journalfs published, a real broker's clients receive: every framing, type, property and header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker, uses
from tests.broker.sent import EVERY
from tests.broker.settings import ONE_IS_QUICK, BrokerSettings, JournalType
from tests.broker.writing import (
    account_of,
    checksums,
    complaints,
    difference,
    publish,
    take,
    with_new_store,
    write_in,
)


def new_instance(root: Path, journal_type: JournalType, *, file_size: str = "1M", **settings: Any) -> Broker:
    """A broker that never ran, over a store that journalfs made."""
    settings |= {"journal_type": journal_type, "journal_file_size": file_size}
    return with_new_store(Broker(root, settings=BrokerSettings(**settings)))


def test_what_is_not_durable_does_not_come_again(artemis_home: Path, tmp_path: Path) -> None:
    """A broker records no acknowledgement of such a message, so it must not lie in a journal."""
    value = {"section": "value", "value": {"t": "string", "v": "x"}}
    lines: list[dict[str, object]] = [
        {"body": "core", "durable": False},
        {"amqp": {"header": {"durable": False}, "body": value}},
        {"amqp": {"header": {"priority": 5}, "body": value}},
        {"amqp": {"body": value}},
        {"amqp": {"header": {"durable": False}, "body": value}, "largeMessage": True},
        {"amqp": {"body": value}, "largeMessage": True},
    ]

    async def work(store: WritingStore) -> None:
        await store.create_address("volatile")
        await store.create_queue("volatile", "volatile")
        content = "".join(json.dumps(line) + "\n" for line in lines)
        await publish(store, "volatile", "volatile", "in.jsonl", content.encode())

    broker = new_instance(tmp_path / "broker", "NIO")
    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert len(take(client, "volatile", len(lines))) == len(lines)
        broker.stop()
    with broker, CoreClient(broker.port) as client:
        assert client.message_count("volatile") == 0
        assert complaints(broker.log) == []
        broker.stop()


@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_everything_published_is_received(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType
) -> None:
    sent = [make() for make in EVERY]
    names = [f"way.{make.__name__}" for make in EVERY]

    async def work(store: WritingStore) -> None:
        await store.create_address("way")
        for name, one in zip(names, sent, strict=True):
            await store.create_queue("way", name)
            await publish(store, "way", name, one.file_name, one.content)

    broker = new_instance(tmp_path / "broker", journal_type)
    write_in(broker.root, work)
    assert checksums(broker.store.journal) > 0
    with broker, CoreClient(broker.port) as client:
        assert uses(broker, journal_type)
        assert complaints(broker.log) == []
        browsed = account_of(client)
        for name, one in zip(names, sent, strict=True):
            assert difference(browsed.messages[name], one.wanted) == [], name
            taken = take(client, name, len(one.wanted))
            again = [{**entry, "deliveryCount": entry["deliveryCount"] + 1} for entry in one.wanted]
            assert difference(taken, again) == [], name
        broker.stop()
    assert list(broker.store.large.iterdir()) == []
