"""Queues of wildcard addresses: what a broker finds in them, and what it would have put there itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.test_interop_kinds import sees, text_of
from tests.broker.writing import complaints, lines_in, publish, write_in
from tests.kinds import first_is_quick

ADDRESS = "sensors.temp"
MULTICAST = {"own": ADDRESS, "all": "sensors.#", "two": "*.temp", "other": "alerts.*.high"}
ANYCAST = {"a": ADDRESS, "b": ADDRESS, "c": "sensors.#", "d": "sensors.#", "e": "sensors.#", "f": "sensors.*"}
SENT = [str(number) for number in range(6)]


def got(client: CoreClient, queue: str) -> list[str]:
    count = client.message_count(queue)
    seen = client.do("messages-browse", queue=queue, count=count)["messages"] if count else []
    return [text_of(one) for one in seen]


@pytest.mark.rule("S-68")
@pytest.mark.parametrize(
    "sent_to",
    first_is_quick(ADDRESS, "sensors.#", "sensors.*", "*.temp"),
)
def test_a_broker_sends_to_the_same_queues(artemis_home: Path, tmp_path: Path, sent_to: str) -> None:
    broker = new_instance(tmp_path / "broker", "NIO")

    async def begin(store: WritingStore) -> dict[str, list[str]]:
        for kind, queues in (("MULTICAST", MULTICAST), ("ANYCAST", ANYCAST)):
            for name, address in queues.items():
                if store.address(address) is None:
                    await store.create_address(address)
                await store.create_queue(address, name)
                await store.set_attribute(address, name, "user.journalfs.routing-type", kind.encode())
        for body in SENT:
            await publish(store, sent_to, None, "in.txt", f"{body}\n".encode())
        return {name: [line["body"] for line in lines_in(store, name)] for name in MULTICAST | ANYCAST}

    ours = write_in(broker.root, begin)
    if sent_to == ADDRESS:
        assert [ours[name] for name in MULTICAST] == [SENT, SENT, SENT, []]
    with broker, CoreClient(broker.port) as client:
        for name, wanted in ours.items():
            sees(client, name, wanted)
        for name, bodies in ours.items():
            if bodies:
                client.consume_many(name, len(bodies))
        for body in SENT:
            client.send(sent_to, body=body)
        theirs = {name: got(client, name) for name in ours}
        broker.stop()
    assert complaints(broker.log) == []
    for name in MULTICAST:
        assert ours[name] == theirs[name]
    for group in ("ab", "cde", "f"):
        for found in (ours, theirs):
            taken = Counter(body for name in group for body in found[name])
            assert sent_to != ADDRESS or taken == Counter(SENT)
        assert sorted(len(ours[name]) for name in group) == sorted(len(theirs[name]) for name in group)


@pytest.mark.long
@pytest.mark.rule("S-68")
def test_a_broker_finds_all_where_each_address_pages(artemis_home: Path, tmp_path: Path) -> None:
    """One transaction counts in the pages of several addresses."""
    broker = new_instance(
        tmp_path / "broker", "NIO", paging_addresses=("sensors.#",), paging_max_size_bytes="1"
    )

    async def begin(store: WritingStore) -> None:
        for name, address in (("own", ADDRESS), ("all", "sensors.#"), ("stored", "*.temp")):
            await store.create_address(address)
            await store.create_queue(address, name)
        for _ in range(2):
            await publish(store, ADDRESS, None, "in.txt", "".join(f"{body}\n" for body in SENT).encode())
        for name in ("own", "all", "stored"):
            assert [line["body"] for line in lines_in(store, name)] == SENT * 2
        assert {ADDRESS, "sensors.#"} <= set(store.core.pages)

    write_in(broker.root, begin)
    with broker, CoreClient(broker.port) as client:
        for name in ("own", "all", "stored"):
            sees(client, name, SENT * 2)
            client.consume_many(name, len(SENT) * 2)
        broker.stop()
    assert complaints(broker.log) == []
