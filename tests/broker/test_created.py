"""Stores that journalfs made, and its lock, as a real broker sees them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import StoreBusy
from journalfs.store.creating import Created, create_store
from journalfs.store.node_lock import NodeLock
from tests.broker.client import CoreClient
from tests.broker.instance import ACTIVE, START_S_MAX, Broker, BrokerError
from tests.broker.polling import eventually
from tests.broker.settings import ONE_IS_QUICK, BrokerSettings, JournalType
from tests.broker.writing import complaints
from tests.cli.running import journalfs, objects

LOCK_TIMEOUT_MS = 1500
KEPT_OUT = "AMQ224000"
"""The code of the log line that says that a broker could not start."""
FILE_BYTES = 100 * 1024
"""What `BrokerSettings` has as well."""


def created(data: Path, journal_type: JournalType = "NIO") -> Created:
    own: dict[str, Value] = {"journal-type": journal_type, "journal-file-size": FILE_BYTES}
    return create_store(data, own, SystemClock(), warn=pytest.fail, bare=False)


def listed(broker: Broker) -> dict[str, int]:
    lines = objects("ls", "--json", "--no-index", broker.data)
    return {line["queue"]: line["messages"] for line in lines if "queue" in line}


@pytest.fixture
def stopped(artemis_home: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that waits but a moment for its lock, over `data`, which is not there yet."""
    settings = BrokerSettings(journal_lock_acquisition_timeout_ms=LOCK_TIMEOUT_MS)
    broker = Broker(tmp_path / "broker", settings=settings)
    yield broker
    broker.kill()


@pytest.fixture
def layout(stopped: Broker) -> StoreLayout:
    """The store alone: without the instance there is no lock but the store's own."""
    return created(stopped.data).layout


@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_a_broker_starts_on_a_created_store(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType
) -> None:
    broker = Broker(tmp_path / "broker", settings=BrokerSettings(journal_type=journal_type))
    made = created(broker.data, journal_type)
    files = broker.store.journal_files()
    with broker:
        assert complaints(broker.log) == []
        assert broker.store.journal_files() == files, "the files are of its size, and it makes no others"
        with CoreClient(broker.port) as client:
            client.create_queue("orders")
            client.send("orders", count=3)
            assert len(client.consume("orders", 1)) == 1
        broker.stop()
        assert f"nodeID={made.node_id}" in broker.log
    assert listed(broker)["orders"] == 2
    with broker:
        assert complaints(broker.log) == []
        with CoreClient(broker.port) as client:
            assert client.message_count("orders") == 2
        broker.stop()


def test_a_store_created_in_an_instance(stopped: Broker) -> None:
    stopped.lay_out()
    done = journalfs("create", stopped.root)
    assert done.returncode == 0, done.stderr
    assert {path.stat().st_size for path in stopped.store.journal.glob("*.amq")} == {FILE_BYTES}
    with stopped:
        assert complaints(stopped.log) == []
        stopped.stop()


@pytest.mark.long
def test_a_broker_is_kept_out(stopped: Broker, layout: StoreLayout) -> None:
    lock = NodeLock.acquire(layout, 0, SystemClock())
    lock.activated()
    with pytest.raises(BrokerError):
        stopped.start()
    assert KEPT_OUT in stopped.log
    assert "Timed out waiting for lock" in stopped.log
    assert locate_store(stopped.root).broker_xml is not None
    lock.release()
    with stopped:
        assert complaints(stopped.log) == []
        stopped.stop()


@pytest.mark.long
def test_a_broker_that_waits_begins_when_it_is_let_in(tmp_path: Path, artemis_home: Path) -> None:
    broker = Broker(tmp_path / "broker", settings=BrokerSettings())
    lock = NodeLock.acquire(created(broker.data).layout, 0, SystemClock())
    lock.activated()
    starting = threading.Thread(target=broker.start, daemon=True)
    starting.start()
    try:
        # It has found its protocols; what comes next is the lock.
        eventually(lambda: "AMQ221043" in broker.log, deadline_s=START_S_MAX, what="the broker begins")
        assert ACTIVE not in broker.log
        lock.release()
        starting.join(START_S_MAX)
        assert ACTIVE in broker.log
        assert complaints(broker.log) == []
    finally:
        broker.kill()


def test_the_commands_of_an_instance_are_kept_out(stopped: Broker) -> None:
    """A broker's start is one of them: it does not even wait."""
    created(stopped.data)
    stopped.lay_out()
    layout = locate_store(stopped.root)
    lock = NodeLock.acquire(layout, 0, SystemClock())
    with pytest.raises(BrokerError):
        stopped.start()
    assert "another process using the server" in stopped.log
    lock.release()


def test_a_running_broker_keeps_us_out(stopped: Broker, layout: StoreLayout) -> None:
    server_lock = layout.journal_dir / "server.lock"
    with stopped:
        before = server_lock.stat().st_mtime_ns
        for asked in (layout, locate_store(stopped.root)):
            with pytest.raises(StoreBusy) as caught:
                NodeLock.acquire(asked, 0, SystemClock())
            assert caught.value.holder.startswith(f"process {stopped.pid} (java ")
            assert caught.value.holder.endswith("org.apache.activemq.artemis.cli.Artemis run)")
        with CoreClient(stopped.port) as client:
            client.create_queue("still")
            client.send("still")
        # A broker that sees this file change believes that it lost the store.
        assert server_lock.stat().st_mtime_ns == before
        stopped.stop()
    NodeLock.acquire(layout, 0, SystemClock()).release()
