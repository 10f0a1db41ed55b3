"""Publishing to an address that pages: what is new lies in the journal, beside older messages in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop import BACKENDS
from tests.broker.writing import (
    body_text,
    complaints,
    delivery_order,
    lines_in,
    plain_body,
    publish,
    take,
    write_in,
)

SENT = 100


def in_delivery_order(store: WritingStore, name: str) -> list[str]:
    bodies = {line["id"]: line["body"] for line in lines_in(store, name)}
    return [bodies[message_id] for message_id in delivery_order(store, name)]


@pytest.mark.parametrize(
    "transaction",
    [
        pytest.param(True, id="page-transaction"),
        pytest.param(False, id="one-by-one", marks=[pytest.mark.long]),
    ],
)
def test_new_messages_overtake_those_in_pages(artemis_home: Path, tmp_path: Path, transaction: bool) -> None:
    """The broker and journalfs agree on the order, and every message comes once."""
    settings = BrokerSettings(paging_addresses=("paged",), journal_type=BACKENDS[transaction])
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        client.create_queue("paged")
        # Sent in pieces, so that the first are in the journal when paging begins.
        for first in range(0, SENT, 20 if transaction else 1):
            if transaction:
                client.send_many("paged", 20, length=1000, body="message {n}", first=first)
            else:
                client.send("paged", length=1000, body="message {n}", first=first)
        assert client.attribute("address.paged", "paging") is True
        assert len(broker.store.page_files()) > 3
        broker.stop()

    async def work(store: WritingStore) -> list[str]:
        before = in_delivery_order(store, "paged")
        assert [body.split()[1] for body in before] == [str(n) for n in range(SENT)]
        await publish(store, "paged", "paged", "in.txt", b"new 0\nnew 1\nnew 2\n")
        ids = [MessageId(one) for one in delivery_order(store, "paged")]
        # From the journal, of the new ones, and from pages: the middle and the end.
        assert await store.acknowledge(("paged", "paged"), [ids[1], *ids[40:50], ids[-1]]) == 12
        return in_delivery_order(store, "paged")

    order = write_in(broker.root, work)
    new = order.index("new 0")
    assert order[new : new + 3] == ["new 0", "new 1", "new 2"]
    assert 0 < new < len(order) - 3, "after what was in the journal before, and before what is in pages"
    assert len(order) == SENT + 3 - 12

    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.attribute("address.paged", "paging") is True
        taken = take(client, "paged", len(order))
        assert [plain_body(one) for one in taken] == [body_text(body) for body in order]
        broker.stop()
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.message_count("paged") == 0
        broker.stop()
