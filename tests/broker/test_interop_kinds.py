"""Last-value queues and rings, sent to by journalfs and by a real broker in turns."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.polling import eventually
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, plain_body, publish, write_in


def text_of(seen: dict[str, Any]) -> str:
    return plain_body(seen)[5:].decode("utf-16-le")


def held(client: CoreClient, queue: str, wanted: list[str]) -> bool:
    """What a browser sees. A broker that reads pages into a last-value queue may have miscounted them."""
    count = client.message_count(queue)
    seen = client.do("messages-browse", queue=queue, count=count)["messages"]
    return [text_of(one) for one in seen] == wanted


def sees(client: CoreClient, queue: str, wanted: list[str]) -> None:
    eventually(partial(held, client, queue, wanted), deadline_s=60, what=f"{queue} holds {wanted}")


async def send(store: WritingStore, queue: str, *lines: dict[str, Any]) -> None:
    content = "".join(json.dumps(line) + "\n" for line in lines)
    await publish(store, queue, queue, "in.jsonl", content.encode())


def valued(body: str, value: str) -> dict[str, Any]:
    return {"body": body, "properties": {"stock": value}}


def test_a_broker_has_exactly_what_is_left(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "NIO")

    async def begin(store: WritingStore) -> None:
        settings = {
            "last": {"last-value": "true", "last-value-key": "stock"},
            "keyed": {"last-value-key": "stock"},
            "ring": {"ring-size": "3"},
        }
        for name, values in settings.items():
            await store.create_address(name)
            await store.create_queue(name, name)
            for setting, value in {"routing-type": "ANYCAST", **values}.items():
                await store.set_attribute(name, name, f"user.journalfs.{setting}", value.encode())
        await send(store, "last", valued("a1", "a"), valued("b1", "b"), valued("a2", "a"))
        await send(store, "last", valued("a3", "a"), {"body": "none"})
        await send(store, "keyed", valued("a1", "a"), valued("a2", "a"))
        await send(store, "keyed", valued("b1", "b"), valued("a3", "a"))
        assert [line["body"] for line in lines_in(store, "keyed")] == ["b1", "a3"]
        await send(store, "ring", *[{"body": f"{number}"} for number in range(5)])
        await send(store, "ring", {"body": "high", "priority": 9}, {"body": "5"})

    write_in(broker.root, begin)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        sees(client, "last", ["b1", "a3", "none"])
        sees(client, "keyed", ["b1", "a3"])
        sees(client, "ring", ["3", "4", "5"])
        client.send("last", body="b2", properties={"stock": "b"})
        client.send("ring", body="6")
        sees(client, "last", ["a3", "none", "b2"])
        sees(client, "ring", ["4", "5", "6"])
        broker.stop()

    async def go_on(store: WritingStore) -> list[list[str]]:
        await send(store, "last", valued("b3", "b"))
        await send(store, "ring", {"body": "7"})
        return [[line["body"] for line in lines_in(store, queue)] for queue in ("last", "ring")]

    assert write_in(broker.root, go_on) == [["a3", "none", "b3"], ["5", "6", "7"]]
    with broker, CoreClient(broker.port) as client:
        sees(client, "last", ["a3", "none", "b3"])
        sees(client, "ring", ["5", "6", "7"])
        broker.stop()
    assert complaints(broker.log) == []


@pytest.mark.long
def test_a_broker_gives_nothing_to_the_same_queues(artemis_home: Path, tmp_path: Path) -> None:
    """Disabled ones, those that a missing reader would purge, and rings without room."""
    broker = new_instance(tmp_path / "broker", "NIO")
    settings: dict[str, dict[str, str]] = {
        "all": {},
        "disabled": {"enabled": "false"},
        "purged": {"purge-on-no-consumers": "true"},
        "ring": {"ring-size": "0"},
    }

    async def begin(store: WritingStore) -> list[int]:
        await store.create_address("news")
        for name, values in settings.items():
            await store.create_queue("news", name)
            for setting, value in values.items():
                await store.set_attribute("news", name, f"user.journalfs.{setting}", value.encode())
        await publish(store, "news", None, "in", b"here\n")
        return [len(lines_in(store, name)) for name in settings]

    assert write_in(broker.root, begin) == [1, 0, 0, 0]
    with broker, CoreClient(broker.port) as client:
        client.send("news", body="there")
        sees(client, "all", ["here", "there"])
        for name in list(settings)[1:]:
            sees(client, name, [])
        broker.stop()


@pytest.mark.long
def test_a_broker_keeps_what_came_last_to_queues_with_pages(artemis_home: Path, tmp_path: Path) -> None:
    """They became last-value queues and rings while messages lay in pages, and more came."""
    broker = new_instance(tmp_path / "broker", "NIO")

    async def begin(store: WritingStore) -> None:
        for name, setting, value in (("last", "last-value-key", b"stock"), ("ring", "ring-size", b"3")):
            await store.create_address(name)
            await store.create_queue(name, name)
            await store.set_attribute(name, None, "user.journalfs.max-size-messages", b"2")
            for number in range(8):
                await send(store, name, valued(f"{number}", f"v{number % 3}"))
            await store.set_attribute(name, name, f"user.journalfs.{setting}", value)
            for number in range(8, 11):
                await send(store, name, valued(f"{number}", f"v{number % 3}"))
            assert [line["body"] for line in lines_in(store, name)][-3:] == ["8", "9", "10"]

    write_in(broker.root, begin)
    with broker, CoreClient(broker.port) as client:
        sees(client, "last", ["8", "9", "10"])
        sees(client, "ring", ["8", "9", "10"])
        broker.stop()
    assert complaints(broker.log) == []
