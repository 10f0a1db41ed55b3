"""Random envelopes in queues of every kind, then random changes: a broker that starts has in each queue what
the mount showed, as many of it not due yet, and delivers the rest.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import LastValueRefused
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.amqp_client import browse_by_amqp
from tests.broker.client import CoreClient
from tests.broker.sent import FAR_MS
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, publish, queue_in, write_in

MESSAGES, CHANGES = 120, 60
TYPES: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda chance: chance.random() < 0.5,
    "byte": lambda chance: chance.randrange(-128, 128),
    "short": lambda chance: chance.randrange(-(2**15), 2**15),
    "int": lambda chance: chance.randrange(-(2**31), 2**31),
    "long": lambda chance: chance.randrange(-(2**63), 2**63),
    "double": lambda chance: chance.uniform(-1e9, 1e9),
    "string": lambda chance: "".join(chance.choices("abc äß😀\0\n", k=chance.randrange(9))),
}
"""Of properties that both protocols have."""
AMQP_TYPES: dict[str, Callable[[random.Random], Any]] = {
    **TYPES,
    "ubyte": lambda chance: chance.randrange(2**8),
    "ulong": lambda chance: chance.randrange(2**64),
    "timestamp": lambda chance: chance.randrange(2**41),
    "symbol": lambda chance: "sym",
    "binary": lambda chance: base64.b64encode(chance.randbytes(5)).decode(),
    "null": lambda chance: None,
}
QUEUES = {
    "mix": {"mix.all": {}, "mix.high": {"filter": "n > 4"}, "mix.red": {"filter": "color = 'red'"}},
    "kinds": {"kinds.last": {"last-value-key": "color"}, "kinds.ring": {"ring-size": "7"}, "kinds.all": {}},
    "keys": {"keys.any": {"last-value-key": "x"}},
}


def typed(chance: random.Random, types: dict[str, Callable[[random.Random], Any]]) -> dict[str, Any]:
    name = chance.choice(sorted(types))
    return {"t": name, "v": types[name](chance)}


def sections(chance: random.Random, own: list[list[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "applicationProperties": own,
        "properties": {"to": "mix", "subject": "s", "contentType": "text/plain", "correlationId": "c"},
        "body": {"section": "value", "value": typed(chance, AMQP_TYPES)},
    }
    if chance.random() < 0.5:
        found["header"] = {"durable": True, "priority": chance.randrange(10)}
    for name in ("messageAnnotations", "deliveryAnnotations", "footer"):
        if chance.random() < 0.4:
            found[name] = [["x-mine", typed(chance, AMQP_TYPES)], ["x-opt-other", typed(chance, AMQP_TYPES)]]
    return found


def envelope(chance: random.Random, *, may_wait: bool) -> dict[str, Any]:
    color = chance.choice(("red", "green", "blue"))
    times = {"scheduledTime": chance.choice((1, FAR_MS))} if may_wait and chance.random() < 0.4 else {}
    if chance.random() < 0.2:
        number = {"t": "int", "v": chance.randrange(9)}
        own: list[list[Any]] = [["n", number], ["color", color], ["x", typed(chance, AMQP_TYPES)]]
        return {"amqp": sections(chance, own), **times}
    more = typed(chance, TYPES)
    line: dict[str, Any] = {
        "protocol": chance.choice(("CORE", "CORE", "AMQP")),
        "body": TYPES["string"](chance),
        "properties": {"n": chance.randrange(9), "color": color, "x": more["v"]},
        "propertyTypes": {"x": more["t"], "n": "int"},
        "priority": chance.randrange(10),
        **times,
    }
    if chance.random() < 0.3:
        line |= {"groupId": f"g{chance.randrange(3)}", "expiration": FAR_MS}
    if may_wait and line["protocol"] == "CORE" and chance.random() < 0.2:
        line["properties"]["_AMQ_SCHED_DELIVERY"] = FAR_MS
        line["propertyTypes"]["_AMQ_SCHED_DELIVERY"] = "long"
    return line


async def make(store: WritingStore) -> None:
    for address, queues in QUEUES.items():
        await store.create_address(address)
        await store.set_attribute(address, None, "user.journalfs.routing-types", b"MULTICAST")
        for queue, settings in queues.items():
            await store.create_queue(address, queue)
            for name, value in settings.items():
                await store.set_attribute(address, queue, f"user.journalfs.{name}", value.encode())


async def change(store: WritingStore, chance: random.Random) -> None:
    queue = ("mix", chance.choice(sorted(QUEUES["mix"])))
    lines = lines_in(store, queue[1])
    if not lines:
        return
    line = chance.choice(lines)
    message_id = MessageId(line["id"])
    match chance.choice(("due", "due", "remove", "move", "copy")):
        case "due" if line["protocol"] == "CORE":
            value = b"%d" % chance.choice((0, 1, FAR_MS))
            await store.set_message_attribute(queue, message_id, "user.journalfs.scheduledTime", value)
        case "remove":
            await store.acknowledge(queue, [message_id])
        case "move":
            await store.move(queue, [message_id], ("mix", "mix.all"))
        case "copy":
            await store.move(queue, [message_id], ("kinds", "kinds.all"))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_broker_has_what_was_shown(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    broker, chance = new_instance(tmp_path / "broker", "NIO"), random.Random(seed)

    async def work(store: WritingStore) -> dict[str, tuple[int, int]]:
        await make(store)
        for address in QUEUES:
            for _ in range(MESSAGES):
                content = json.dumps(envelope(chance, may_wait=address == "mix")).encode() + b"\n"
                # A key that is no text, with which no broker would load the message.
                with suppress(LastValueRefused):
                    await publish(store, address, None, "in.jsonl", content)
        for _ in range(CHANGES):
            await change(store, chance)
        await store.published()
        found = {}
        for queue in [queue for queues in QUEUES.values() for queue in queues]:
            status = queue_in(store, queue).status()
            found[queue] = int(str(status["messageCount"])), int(str(status["scheduledCount"]))
        return found

    wanted = write_in(broker.root, work)
    assert all(count for count, _ in wanted.values())
    with broker, CoreClient(broker.port) as client:
        found = {
            queue: (client.message_count(queue), client.attribute(f"queue.{queue}", "scheduledCount"))
            for queue in wanted
        }
        assert found == wanted
        for address, queues in QUEUES.items():
            for queue in queues:
                count, later = wanted[queue]
                assert len(browse_by_amqp(broker.port, address, queue, count - later)) == count - later
        assert Counter(complaints(broker.log)) == Counter()
        broker.stop()
