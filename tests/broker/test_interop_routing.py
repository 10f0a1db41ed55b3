"""The same messages, routed by journalfs and by a broker: to queues with random filters, with last values, to
rings, and to anycast queues in turn; and their copies at addresses of dead letters and expired messages.

A broker routes to a dead-letter address what it is told to send there by hand, so the messages that journalfs
publishes to one address it publishes to a queue as well, from which the broker sends them to another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from journalfs.errors import JournalfsError, LastValueRefused
from journalfs.ids import MessageId
from journalfs.selector import compile_selector
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.random_envelopes import Envelope, amqp_envelope, core_envelope, number_of
from tests.broker.test_interop import new_instance
from tests.broker.test_interop_headers import listed
from tests.broker.writing import complaints, delivery_order, lines_in, publish, write_in

MESSAGES, FILTERS = 80, 40
NAMES = (
    *(
        "k",
        "n",
        "s",
        "b",
        "d",
        "by",
        "x",
        "missing",
        "_AMQ_LVQ_NAME",
        "_AMQ_GROUP_ID",
        "JMSXGroupID",
        "JMSType",
    ),
    *("AMQPriority", "AMQTimestamp", "AMQDurable", "AMQSize", "AMQGroupID", "AMQUserID", "AMQAddress"),
    *("JMSPriority", "JMSMessageID", "JMSReplyTo", "JMSCorrelationID", "JMSXDeliveryCount", "JMSTimestamp"),
    *("NATIVE_MESSAGE_ID", "__AMQ_CID", "JMS_AMQP_ContentType"),
    *('"m.x-opt-jms-msg-type"', '"x-opt-jms-msg-type"', '"m.x-opt-last-value"', '"content-type"'),
)
LITERALS = (
    *("'a'", "'b'", "'s'", "'g'", "''", "'m1'", "'ID:m1'", "'5'", "'DURABLE'", "'text/plain'"),
    *("0", "1", "2", "4", "-1", "2.5", "1.0", "3L", "1700000000000", "true", "false"),
)
KINDS: Mapping[str, Mapping[str, str]] = {
    "all": {},
    "key": {"last-value-key": "k"},
    "last": {"last-value": "true"},
    "ring": {"ring-size": "5"},
}
TURNS = {"first": "", "second": "k = 'a' OR b", "third": "", "fourth": "s IS NULL", "fifth": "k > 1"}
DEAD, OVER = "dead", "over"


# ---- filters by chance ----


def operand(chance: Random) -> str:
    draw = chance.random()
    if draw < 0.9:
        return chance.choice(NAMES if draw < 0.55 else LITERALS)
    return f"{chance.choice(NAMES)} {chance.choice('+-*/%')} {chance.choice(('1', '2.5', '0'))}"


def comparison(chance: Random) -> str:
    operator = chance.choice(("=", "<>", ">", "<", ">=", "<="))
    return f"{operand(chance)} {operator} {operand(chance)}"


def look_at_name(chance: Random) -> str:
    words = ", ".join(repr(chance.choice(("a", "b", "g", "s", "DURABLE", "5"))) for _ in range(2))
    low, high = chance.choice(("0", "2.5")), chance.choice(("3", "9"))
    tests = (
        f"LIKE {chance.choice(('%', '_', 'ID:%', 'a%'))!r}",
        f"IN ({words})",
        f"BETWEEN {low} AND {high}",
    )
    name, negated = chance.choice(NAMES), chance.choice(("", "NOT "))
    is_null = f"{name} IS {negated}NULL"
    return chance.choice((is_null, f"{name} {negated}{chance.choice(tests)}"))


def condition(chance: Random, depth: int = 0) -> str:
    if depth < 3 and chance.random() < 0.3:
        left, right = (condition(chance, depth + 1) for _ in range(2))
        return chance.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    draw = chance.random()
    if draw < 0.9:
        return comparison(chance) if draw < 0.4 else look_at_name(chance)
    return chance.choice(("b", "NOT b", "b = true", "TRUE", "missing", "b AND TRUE"))


def filters(chance: Random) -> dict[str, Mapping[str, str]]:
    """Conditions that a broker takes, too."""
    found: dict[str, Mapping[str, str]] = {}
    while len(found) < FILTERS:
        text = condition(chance)
        with suppress(JournalfsError):
            compile_selector(text, stored=True)
            found[f"filter-{len(found)}"] = {"filter": text}
    return found


# ---- where they go ----


async def bind(store: WritingStore, address: str, kind: str, queues: Mapping[str, Mapping[str, str]]) -> None:
    await store.create_address(address)
    for setting in ("routing-types", "default-queue-routing-type"):
        await store.set_attribute(address, None, f"user.journalfs.{setting}", kind.encode())
    for queue, settings in queues.items():
        name = f"{address}.{queue}"
        await store.create_queue(address, name)
        for setting, value in {"routing-type": kind, **settings}.items():
            await store.set_attribute(address, name, f"user.journalfs.{setting}", value.encode())


async def feed(store: WritingStore, address: str, dead: str, over: str) -> None:
    """A queue for what the broker is to route."""
    await store.create_address(address)
    await store.create_queue(address, address)
    await store.set_attribute(address, None, "user.journalfs.dead-letter-address", dead.encode())
    await store.set_attribute(address, None, "user.journalfs.expiry-address", over.encode())


def numbers(client: CoreClient, queue: str) -> list[int]:
    """The messages in a queue of a broker, in its order."""
    return [int(one["i"]) for one in listed(client, queue, "listMessagesAsJSON", "")]


def let_broker(client: CoreClient, queue: str, operation: str) -> None:
    """Do something with each message of a queue, in their order."""
    for one in listed(client, queue, "listMessagesAsJSON", ""):
        assert client.operation(f"queue.{queue}", operation, int(one["messageID"]))
    assert client.message_count(queue) == 0


def plain_envelopes(chance: Random) -> Iterator[Envelope]:
    for number in range(MESSAGES):
        made = chance.choice((amqp_envelope, core_envelope))
        line = made(chance, number, times=False)
        # Dead letters expire no more.
        line.pop("expiration", None)
        line.get("amqp", {}).get("properties", {}).pop("absoluteExpiryTime", None)
        yield line


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_both_route_alike(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    broker, chance = new_instance(tmp_path / "broker", "NIO"), Random(seed)
    queues = {**filters(chance), **KINDS}
    turns = {queue: {"filter": text} for queue, text in TURNS.items()}

    async def work(store: WritingStore) -> dict[str, list[int]]:
        for address in ("ours", "they"):
            await bind(store, address, "MULTICAST", queues)
            await bind(store, f"{address}-turn", "ANYCAST", turns)
        await feed(store, "feed", "they", "none")
        await feed(store, "feed-turn", "they-turn", "none")
        for line in plain_envelopes(chance):
            content = json.dumps(line).encode() + b"\n"
            with suppress(LastValueRefused):
                await publish(store, "ours", None, "in.jsonl", content)
                await publish(store, "feed", "feed", "in.jsonl", content)
            await publish(store, "ours-turn", None, "in.jsonl", content)
            await publish(store, "feed-turn", "feed-turn", "in.jsonl", content)
        await store.published()
        found = {}
        for address, names in (("ours", [*queues]), ("ours-turn", [*turns])):
            for queue in names:
                lines = {line["id"]: line for line in lines_in(store, f"{address}.{queue}")}
                order = delivery_order(store, f"{address}.{queue}")
                found[f"{address}.{queue}"] = [number_of(lines[one]) for one in order]
        return found

    ours = write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        for queue in ("feed", "feed-turn"):
            let_broker(client, queue, "sendMessageToDeadLetterAddress")
        for queue, wanted in ours.items():
            address, name = queue.split(".")
            theirs = numbers(client, queue.replace("ours", "they"))
            assert theirs == wanted, (address, queues.get(name, turns.get(name)))
        broker.stop()


# ---- what copies say ----


SECTIONS = ("messageAnnotations", "applicationProperties", "footer")
OWN_OF_EACH = re.compile("ORIG.MESSAGE.ID|ACTUAL.EXPIRY|/id$|/timestamp$|message_base64|deliveryAnnotations")
"""What differs from copy to copy; and annotations of one delivery, which brokers do not hand on."""


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and not value.keys() <= {"t", "v"}:
        for name, item in value.items():
            yield from flat(item, f"{path}/{name}")
    elif isinstance(value, list) and path.endswith(SECTIONS):
        for key, item in value:
            yield f"{path}/{json.dumps(key)}", json.dumps(item)
    else:
        yield path, json.dumps(value)


def said(line: Envelope) -> dict[str, str]:
    """All that a copy says, whoever made it."""
    same = json.loads(re.sub("(feed|dead|over)-(ours|they)", r"\1", json.dumps(line)))
    return {path: value for path, value in flat(same) if not OWN_OF_EACH.search(path)}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_both_say_the_same_of_copies(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    broker, chance = new_instance(tmp_path / "broker", "NIO"), Random(seed)

    async def work(store: WritingStore) -> None:
        for who in ("ours", "they"):
            for to, kind in {DEAD: "MULTICAST", OVER: "ANYCAST"}.items():
                address = f"{to}-{who}"
                await bind(store, address, kind, {"all": {}})
                await feed(store, f"feed-{address}", address, address)
        for number in range(MESSAGES):
            amqp = amqp_envelope(chance, number, times=False, jms=True)
            line = chance.choice((amqp, core_envelope(chance, number, times=False)))
            if "amqp" not in line and chance.random() < 0.3:
                line["properties"]["_AMQ_ORIG_ROUTING_TYPE"] = chance.choice((0, 1))
            content = json.dumps(line | {"timestamp": 5} if "amqp" not in line else line).encode() + b"\n"
            for queue in (f"feed-{to}-{who}" for to in (DEAD, OVER) for who in ("ours", "they")):
                await publish(store, queue, queue, "in.jsonl", content)
        for to, forward in {DEAD: store.send_to_dead_letters, OVER: store.expire}.items():
            queue = f"feed-{to}-ours"
            await forward((queue, queue), [MessageId(one) for one in delivery_order(store, queue)])
        await store.published()

    async def look(store: WritingStore) -> dict[str, list[dict[str, str]]]:
        found = {}
        for address in (f"{to}-{who}" for to in (DEAD, OVER) for who in ("ours", "they")):
            lines = sorted(lines_in(store, f"{address}.all"), key=number_of)
            found[address] = [said(line) for line in lines]
        return found

    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        let_broker(client, "feed-dead-they", "sendMessageToDeadLetterAddress")
        let_broker(client, "feed-over-they", "expireMessage")
        broker.stop()
    found = write_in(broker.root, look)
    for to in (DEAD, OVER):
        ours, theirs = found[f"{to}-ours"], found[f"{to}-they"]
        assert len(ours) == len(theirs) == MESSAGES
        for one, other in zip(ours, theirs, strict=True):
            assert one == other
