"""The harness itself: it starts a real broker, does what it is told, and leaves nothing running."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import stomp
from proton import Message
from proton.utils import BlockingConnection

from tests.broker.client import ClientError, CoreClient
from tests.broker.conftest import MakeBroker
from tests.broker.instance import COMPACTED, Broker, BrokerError, uses
from tests.broker.polling import eventually
from tests.broker.settings import ONE_IS_QUICK, BrokerSettings, JournalType


def test_send_consume_count(client: CoreClient) -> None:
    client.create_queue("counted")
    client.send("counted", count=5)
    assert client.message_count("counted") == 5
    taken = client.consume("counted", 2)
    assert len(set(taken)) == 2
    assert client.message_count("counted") == 3


def test_browse_is_delivery_order(client: CoreClient) -> None:
    client.create_queue("browsed")
    client.send("browsed", body="low {n}", count=2, priority=1)
    client.send("browsed", body="high {n}", count=2, priority=9)
    assert [message["body"] for message in client.browse("browsed")] == ["high 0", "high 1", "low 0", "low 1"]
    assert client.message_count("browsed") == 4


def test_local_transaction(client: CoreClient) -> None:
    client.create_queue("in-tx")
    client.do("begin", session="t")
    client.send("in-tx", count=3, session="t")
    assert client.message_count("in-tx") == 0
    client.do("rollback", session="t")
    client.send("in-tx", count=2, session="t")
    client.do("commit", session="t")
    client.do("end", session="t")
    assert client.message_count("in-tx") == 2


def test_xa_prepare_hides_and_commit_shows(client: CoreClient) -> None:
    client.create_queue("prepared")
    client.do("xa-begin", session="x", xid="order-1")
    client.send("prepared", count=2, session="x")
    client.do("xa-prepare", session="x", xid="order-1")
    assert client.message_count("prepared") == 0
    client.do("xa-commit", session="x", xid="order-1")
    client.do("end", session="x")
    assert client.message_count("prepared") == 2


def test_redelivery_counts(client: CoreClient) -> None:
    client.create_queue("again")
    client.send("again")
    client.do("begin", session="r")
    client.consume("again", session="r")
    client.do("rollback", session="r")
    client.do("end", session="r")
    assert [message["deliveryCount"] for message in client.browse("again")] == [1]


def test_scheduled_is_counted_but_not_delivered(client: CoreClient) -> None:
    client.create_queue("later")
    client.send("later", scheduled_in_ms=3_600_000)
    assert client.message_count("later") == 1
    assert client.browse("later") == []


def test_duplicate_is_dropped(client: CoreClient) -> None:
    client.create_queue("once")
    client.send("once", duplicate_id="d-1")
    # The broker drops it without telling the sender.
    client.send("once", duplicate_id="d-1")
    assert client.message_count("once") == 1


def test_large_message_has_a_file(client: CoreClient, shared_broker: Broker) -> None:
    client.create_queue("big")
    client.send("big", length=300_000)
    assert [path.stat().st_size for path in shared_broker.store.large.glob("*.msg")] == [300_000 * 2 + 5]
    client.consume("big")
    eventually(
        lambda: not list(shared_broker.store.large.glob("*.msg")),
        deadline_s=60,
        what="the file of an acknowledged large message goes",
    )


@pytest.mark.parametrize(
    "message",
    [
        {"type": "text", "body": "grüße"},
        {"type": "bytes", "body": base64.b64encode(bytes(range(256))).decode()},
        {"type": "map", "body": {"a": 1, "b": "two", "c": 2.5, "d": True}},
        {"type": "stream", "body": [1, "two", 2.5, False]},
        {"type": "object", "body": ["serialized", 7]},
        {"type": "large-bytes", "length": 200_000},
    ],
    ids=lambda message: str(message["type"]),
)
def test_jms_types(client: CoreClient, message: dict[str, object]) -> None:
    name = f"jms-{message['type']}"
    client.create_queue(name)
    assert client.do("jms-send", queue=name, properties={"color": "red", "n": 3}, **message)[
        "jms_id"
    ].startswith("ID:")
    listed = client.operation(f"queue.{name}", "listMessagesAsJSON", "color = 'red' AND n = 3")
    assert '"color":"red"' in listed


def test_other_protocols(client: CoreClient, shared_broker: Broker) -> None:
    client.create_queue("foreign")
    connection = BlockingConnection(f"amqp://127.0.0.1:{shared_broker.port}")
    connection.create_sender("foreign").send(Message(body="by AMQP", durable=True))
    connection.close()
    assert client.message_count("foreign") == 1
    other = stomp.Connection([("127.0.0.1", shared_broker.port)])
    other.connect(wait=True)
    other.send("foreign", "by STOMP", headers={"persistent": "true", "destination-type": "ANYCAST"})
    eventually(
        lambda: client.message_count("foreign") == 2, deadline_s=60, what="the STOMP message is in the queue"
    )
    other.disconnect()


@pytest.mark.long
@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_journal_types_and_restart(make_broker: MakeBroker, journal_type: JournalType) -> None:
    broker = make_broker(BrokerSettings(journal_type=journal_type))
    assert uses(broker, journal_type)
    with CoreClient(broker.port) as client:
        client.create_queue("kept")
        client.send_many("kept", 100)
        client.consume_many("kept", 30)
    broker.stop()
    assert not broker.running
    broker.start()
    with CoreClient(broker.port) as client:
        assert client.message_count("kept") == 70
    broker.kill()
    broker.start()
    with CoreClient(broker.port) as client:
        assert client.message_count("kept") == 70


@pytest.mark.long
def test_files_switch_page_and_compact(make_broker: MakeBroker) -> None:
    broker = make_broker(BrokerSettings(paging_addresses=("paged",)))
    with CoreClient(broker.port) as client:
        client.create_queue("busy")
        client.create_queue("paged")
        client.send_many("paged", 100, length=1000)
        assert client.attribute("address.paged", "paging") is True
        assert len(broker.store.page_files()) >= 3
        # Every tenth message stays: no file is ever reclaimed whole, so the broker has to compact.
        for _ in range(12):
            client.send_many("busy", 6, length=400)
            client.send_many("busy", 54, length=400, properties={"goes": True})
            client.do("begin", session="most")
            client.consume("busy", 54, session="most", filter="goes = true")
            client.do("commit", session="most")
            client.do("end", session="most")
        broker.wait_for_log(COMPACTED, deadline_s=60)
        assert client.message_count("busy") == 72
        assert client.message_count("paged") == 100


def test_a_broken_configuration_is_reported_with_the_log(tmp_path: Path, artemis_home: Path) -> None:
    broker = Broker(tmp_path / "broken", config='<acceptor name="a">x</acceptor><configuration>')
    with pytest.raises(BrokerError, match="the broker ended"):
        broker.start()
    assert not broker.running


def test_unknown_command_is_an_error_not_a_hang(client: CoreClient) -> None:
    with pytest.raises(ClientError, match="no command dance"):
        client.do("dance")
