"""The reference reader against the brokers' own accounts, and the comparer against wrong ones."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.reference.compare import compare_store
from tests.reference.store import load

Account = dict[str, Any]


@pytest.mark.parametrize("name", FILE_STORES)
def test_reference_says_what_the_broker_said(
    name: str, stores: PristineStores, expected: ExpectedStores
) -> None:
    actual = load(stores[name] / "data", int(time.time() * 1000))
    assert compare_store(expected[name], actual) == []
    assert sum(len(queue["messages"]) for queue in actual["queues"]) == expected[name]["liveMessages"]


def test_reference_shares_no_code_with_the_product() -> None:
    for source in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0].startswith("journalfs")], source


def _message(account: Account, queue: str, message_id: int) -> Account:
    queues = [one for one in account["queues"] if one["name"] == queue]
    return next(one for one in queues[0]["messages"] if one["id"] == message_id)


def _queue(account: Account, name: str) -> Account:
    return next(one for one in account["queues"] if one["name"] == name)


def _set(path: tuple[Any, ...], value: object) -> Callable[[Account], None]:
    def change(message: Account) -> None:
        place: Any = message
        for key in path[:-1]:
            place = place[key]
        assert place[path[-1]] != value
        place[path[-1]] = value

    return change


def _delete(key: str) -> Callable[[Account], None]:
    def change(message: Account) -> None:
        del message[key]

    return change


WRONG_MESSAGES = [
    ("orders-basic", "typed", 49, _set(("body",), "hello ")),
    ("orders-basic", "typed", 49, _delete("body")),
    ("orders-basic", "typed", 49, _delete("userId")),
    ("orders-basic", "typed", 51, _set(("body",), "")),
    ("orders-basic", "typed", 56, _set(("body",), "x")),
    ("orders-basic", "typed", 59, _set(("body_base64",), "AAAA")),
    ("orders-basic", "typed", 61, _set(("body", "float", "v"), 1e-44)),
    ("orders-basic", "typed", 61, _set(("body", "byte", "t"), "short")),
    ("orders-basic", "typed", 64, _set(("properties", "aShort"), -20001)),
    ("orders-basic", "typed", 64, _set(("propertyTypes", "aShort"), "int")),
    ("orders-basic", "typed", 64, _set(("properties", "aDouble"), -1.0)),
    ("orders-basic", "typed", 68, _set(("properties", "fnan"), "Infinity")),
    ("orders-basic", "typed", 78, _set(("body", 10, "v"), 1)),
    ("orders-basic", "reminders", 637, _set(("scheduledTime",), 4070968560001)),
    ("amqp-exotic", "amqp.exotic", 57, _set(("amqp", "body", "value", "v"), 0.0)),
    ("amqp-exotic", "amqp.exotic", 63, _set(("amqp", "body", "value", "descriptor", "v"), 4661)),
    ("amqp-exotic", "amqp.exotic", 66, _set(("amqp", "body", "sequences", 1, 0, "v"), "four")),
    ("amqp-exotic", "amqp.exotic", 67, _set(("amqp", "header", "ttl"), 1)),
    ("amqp-exotic", "amqp.exotic", 71, _set(("amqp", "header", "firstAcquirer"), False)),
    ("amqp-exotic", "amqp.exotic", 76, _delete("scheduledTime")),
    ("amqp-exotic", "amqp.exotic", 77, _set(("body",), "short")),
    ("amqp-exotic", "amqp.exotic", 28, _set(("body_base64",), "AAAA")),
    ("large-and-paged", "amqp.large", 112, _set(("body_base64",), "AAAA")),
    ("large-and-paged", "amqp.large", 112, _delete("largeMessage")),
    ("large-and-paged", "images", 69, _set(("body_base64",), "AAAA")),
]


@pytest.mark.parametrize(("store", "queue", "message_id", "change"), WRONG_MESSAGES)
def test_comparer_sees_a_wrong_message(
    store: str,
    queue: str,
    message_id: int,
    change: Callable[[Account], None],
    *,
    stores: PristineStores,
    expected: ExpectedStores,
) -> None:
    actual = copy.deepcopy(load(stores[store] / "data", int(time.time() * 1000)))
    change(_message(actual, queue, message_id))
    differences = compare_store(expected[store], actual)
    assert differences
    assert all(f"message {message_id}" in one for one in differences)


WRONG_STORES: list[Callable[[Account], object]] = [
    lambda account: account["queues"].pop(),
    lambda account: account["addresses"].pop(),
    lambda account: account["preparedTransactions"].pop(),
    lambda account: account["preparedTransactions"][0]["operations"].pop(),
    lambda account: account["preparedTransactions"][0].update(formatId=1),
    lambda account: account["heuristicallyCommitted"].clear(),
    lambda account: _queue(account, "tx.orders")["messages"].pop(),
    lambda account: _queue(account, "tx.orders")["messages"].reverse(),
    lambda account: _queue(account, "tx.orders").update(deliveringCount=0),
    lambda account: _queue(account, "tx.orders").update(filter="x = 1"),
    lambda account: _queue(account, "tx.orders").update(exclusive=True),
    lambda account: account["addresses"][0].update(id=0),
]


@pytest.mark.parametrize("change", WRONG_STORES)
def test_comparer_sees_a_wrong_store(
    change: Callable[[Account], object], stores: PristineStores, expected: ExpectedStores
) -> None:
    actual = copy.deepcopy(load(stores["transactions"] / "data", int(time.time() * 1000)))
    change(actual)
    assert compare_store(expected["transactions"], actual)
