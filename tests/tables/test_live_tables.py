"""A mount beside a running broker whose store is in PostgreSQL: what it does shows within a second."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

import pytest

from tests.broker.client import CoreClient
from tests.broker.conftest import artemis_home
from tests.broker.distribution import jdbc_driver
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.test_live import (
    agrees,
    agrees_listed,
    counts,
    live_client,
    live_mount,
    new_queue,
    shown,
    test_addresses_and_queues_come_and_go,
    test_every_state_a_message_can_be_in,
    test_messages_come_and_go_within_a_second,
    test_paging_for_several_queues,
)
from tests.mounting import MountedStore
from tests.tables.servers import Server

__all__ = [
    "artemis_home",
    "live_client",
    "live_mount",
    "test_addresses_and_queues_come_and_go",
    "test_every_state_a_message_can_be_in",
    "test_messages_come_and_go_within_a_second",
    "test_paging_for_several_queues",
]

pytestmark = [pytest.mark.timeout(600), pytest.mark.mount, pytest.mark.broker, pytest.mark.slow]

DATABASE_STORE = """<jdbc-driver-class-name>{driver}</jdbc-driver-class-name>
<jdbc-connection-url>{url}</jdbc-connection-url><bindings-table-name>BINDINGS</bindings-table-name>
<message-table-name>MESSAGES</message-table-name>
<large-message-table-name>LARGE_MESSAGES</large-message-table-name>
<page-store-table-name>PAGE_STORE</page-store-table-name>
<node-manager-store-table-name>NODE_MANAGER_STORE</node-manager-store-table-name>"""


@pytest.fixture(scope="module")
def live_broker(
    artemis_home: object, postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    place = postgres.make("live").replace("artemis@", "")
    said = DATABASE_STORE.format(driver="org.postgresql.Driver", url=f"jdbc:{place}?user=artemis")
    root = tmp_path_factory.mktemp("live-tables") / "broker"
    broker = Broker(root, settings=BrokerSettings(database=said, paging_addresses=("paged", "paged.topic")))
    broker.lay_out()
    (root / "lib").mkdir()
    shutil.copy(jdbc_driver("postgresql"), root / "lib")
    with broker:
        yield broker


@pytest.mark.rule("S-244")
def test_the_mount_goes_on_after_the_broker_was_killed(
    live_client: CoreClient, live_mount: MountedStore, live_broker: Broker
) -> None:
    """Last of the module."""
    queue = new_queue(live_client, live_mount, "lives")
    live_client.send_many("lives", 500, length=400)
    live_client.consume_many("lives", 300)
    shown(partial(counts, queue, 200), "200 are left")
    agrees(live_client, live_mount, "lives")
    live_client.kill()
    live_broker.kill()
    live_broker.start()
    with CoreClient(live_broker.port) as client:
        client.consume_many("lives", 200)
        client.send("lives", body="second life")
        shown(lambda: [line["body"] for line in queue.lines()] == ["second life"], "what is left")
        agrees_listed(client, live_mount, "lives")
    live_broker.stop()
    damaged = live_mount.path / ".journalfs/damaged"
    assert [file.read_text() for file in damaged.glob("*.json")] == []
