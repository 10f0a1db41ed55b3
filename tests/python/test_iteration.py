"""Iterating gives the messages that the lines say, however few of them are read in one go."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import journalfs
from journalfs.python import own
from journalfs.python.message import Message
from journalfs.python.rows import RowMessage, Rows
from tests.python.test_arrow import store_of

STORES = (
    "orders-basic",
    "amqp-exotic",
    "amqp-mqtt-stomp-openwire",
    "large-and-paged",
    "transactions",
    "killed",
)
QUICK = ("orders-basic", "transactions")


@pytest.fixture(params=[1, 3, 8192])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages are read in one go."""
    many: int = request.param
    monkeypatch.setattr(own, "FIRST_MESSAGES", many)
    monkeypatch.setattr(own, "MESSAGES_MAX", many)
    return many


def assert_alike(message: Message, line: bytes) -> None:
    """The headers of a message are those of its line, and all else is that of a message made of its line."""
    said: dict[str, Any] = json.loads(line)
    assert (message.id, message.priority) == (said.get("id"), said.get("priority"))
    assert message.timestamp_ms == (said.get("timestamp") or None)
    assert message.queue == said["queue"]
    made = Message(line)
    for name in ("durable", "expiration_ms", "scheduled_ms", "delivery_count", "type", "protocol", "address",
                 "user_id", "group_id", "duplicate_id", "large", "damage", "timestamp", "properties", "body",
                 "envelope", "line"):  # fmt: skip
        assert repr(getattr(message, name)) == repr(getattr(made, name)), name  # NaN is not equal to itself
    assert (message, hash(message), repr(message)) == (made, hash(made), repr(made))


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.long) for one in STORES]
)
def test_messages_are_what_their_lines_say(name: str, at_once: int, tmp_path: Path) -> None:
    kept: list[tuple[Message, bytes]] = []
    rows = 0
    with journalfs.open(store_of(name, tmp_path)) as store:
        for queue in store:
            for chosen in (queue, queue.where("JMSPriority >= 4")):
                lines = list(chosen.lines())
                assert [message.id for message in chosen] == [json.loads(one).get("id") for one in lines]
                for number, (message, line) in enumerate(zip(chosen, lines, strict=True)):
                    rows += isinstance(message, RowMessage)
                    if number % 3 == 0:
                        assert_alike(message, line)
                    elif number % 3 == 1:
                        kept.append((message, line))
                assert list(map(bytes, (one.line for one in list(chosen)))) == lines
    assert rows
    assert kept
    for message, line in kept:
        assert_alike(message, line)


def _numbered(path: Path, count: int) -> None:
    with journalfs.open(path, write=True) as store:
        lines = (json.dumps({"type": "text", "body": f"text {number}"}) for number in range(count))
        store.create("a::q").publish_lines("".join(f"{line}\n" for line in lines).encode())


def _bodies(messages: Sequence[Message]) -> list[str]:
    return [message.body for message in messages]


def test_a_message_that_is_kept_keeps_nothing_else(tmp_path: Path) -> None:
    store_path = store_of("orders-basic", tmp_path)
    _numbered(store_path, 500)
    with journalfs.open(store_path) as store:
        kept = [message for number, message in enumerate(store["a::q"]) if number % 100 == 7]
        first = next(iter(store["a::q"]))
        assert all(isinstance(message, RowMessage) for message in (*kept, first))
        assert not [one for one in gc.get_objects() if isinstance(one, Rows) and one.messages]
    assert _bodies([*kept, first]) == [f"text {number}" for number in (7, 107, 207, 307, 407, 0)]
    for again in (copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert again == first


def test_messages_of_a_batch_are_for_several_threads(tmp_path: Path) -> None:
    store_path = store_of("orders-basic", tmp_path)
    _numbered(store_path, 2000)
    with journalfs.open(store_path) as store, ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda message: message.body, store["a::q"])
        assert list(found) == [f"text {number}" for number in range(2000)]


def test_what_is_removed_and_written_meanwhile_is_not_seen(tmp_path: Path, at_once: int) -> None:
    store_path = store_of("orders-basic", tmp_path)
    _numbered(store_path, 20)
    with journalfs.open(store_path, write=True) as store:
        queue, found = store["a::q"], list[str]()
        for number, message in enumerate(queue):
            if number == 2:
                assert queue.remove() == 20
                queue.publish("later")
            found.append(message.body)
        assert found == [f"text {number}" for number in range(20)]
        assert _bodies(list(queue)) == ["later"]
