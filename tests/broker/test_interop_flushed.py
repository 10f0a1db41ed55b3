"""A mount is killed between a flush and its tidying up, and a broker has the store before the next mount."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.store.write.opening import open_for_writing
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.test_created import created
from tests.broker.writing import complaints, lines_in
from tests.tools.crash_copy import copy_as_left


async def crash(made: Path, left: Path) -> None:
    """One file that was flushed, and one that was published and whose note is still there."""
    with closing(open_for_writing(made)) as store:
        await store.create_address("orders")
        await store.create_queue("orders", "orders")
        flushed, published = (store.publisher("orders", "orders", "in.txt") for _ in range(2))
        for publisher, text in ((flushed, b"flushed"), (published, b"published")):
            await publisher.write(text)
            await publisher.flush()
        await published.finish()
        copy_as_left(made, left)
        flushed.abandon()


@pytest.mark.rule("S-70")
def test_a_broker_between_a_crash_and_the_next_mount(artemis_home: Path, tmp_path: Path) -> None:
    """What it consumed does not come again, though nothing of it is left but that it was published."""
    broker = Broker(tmp_path / "broker", settings=BrokerSettings(journal_type="NIO"))
    created(tmp_path / "made")
    broker.data.parent.mkdir(parents=True, exist_ok=True)
    trio.run(crash, tmp_path / "made", broker.data)
    with broker:
        assert complaints(broker.log) == []
        with CoreClient(broker.port) as client:
            assert client.message_count("orders") == 1
            assert len(client.consume("orders", 1)) == 1
        broker.stop()
    for _ in range(2):
        with closing(open_for_writing(broker.data)) as store:
            trio.run(store.publish_left)
            assert [line["body"] for line in lines_in(store, "orders")] == ["flushed"]
