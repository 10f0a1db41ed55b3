"""What journalfs keeps beside the messages, as a real broker takes it: checksums, and history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journalfs.damage import Damage
from journalfs.ids import MessageId
from journalfs.records.files.compaction import Compaction
from journalfs.store import open_store
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import ONE_IS_QUICK, BrokerSettings, JournalType, broker_xml
from tests.broker.writing import checksums, complaints, lines_in, publish, queue_in, with_new_store, write_in


def damage(root: Path) -> list[Damage]:
    store = open_store(root, index=False)
    found = store.core.damage()
    store.close()
    return found


@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_a_broker_passes_over_checksums(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType
) -> None:
    # Compacted files have one checksum each, and when they are compacted is the upkeep's affair.
    settings = BrokerSettings(journal_type=journal_type, journal_compact_min_files=0)
    broker = with_new_store(Broker(tmp_path / "broker", settings=settings))

    async def publish_some(store: WritingStore) -> None:
        if store.address("orders") is None:
            await store.create_address("orders")
            await store.create_queue("orders", "orders")
        for turn in range(30):
            text = b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(10))
            await publish(store, "orders", "orders", "in", text)
        ids = [MessageId(line["id"]) for line in lines_in(store, "orders")]
        await store.acknowledge(("orders", "orders"), ids[::2])

    for turn in range(2):
        write_in(broker.root, publish_some)
        assert checksums(broker.store.journal) > 25
        assert damage(broker.root) == []
        expected = len(lines_after(broker.root))
        with broker:
            assert complaints(broker.log) == []
            with CoreClient(broker.port) as client:
                assert client.message_count("orders") == expected
                client.consume_many("orders", 60)
                client.send_many("orders", 20, size=400)
            broker.stop()
        assert damage(broker.root) == [], f"turn {turn}"
        assert len(lines_after(broker.root)) == expected - 40


@pytest.mark.long
@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_a_broker_goes_on_with_what_a_full_disk_left(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType
) -> None:
    """Compaction made a short file there, and left the files behind it and the current one as they were. The
    ends of transactions in these are those of what is in the short one.
    """
    settings = BrokerSettings(journal_type=journal_type, journal_file_size="1M", journal_compact_min_files=0)
    broker = with_new_store(Broker(tmp_path / "broker", settings=settings))

    async def publish_and_compact(store: WritingStore) -> None:
        await store.create_address("orders")
        await store.create_queue("orders", "orders")
        for turn in range(40):
            text = b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 5000) for n in range(20))
            await publish(store, "orders", "orders", "in", text)
        ids = [MessageId(line["id"]) for line in lines_in(store, "orders")]
        gone = [one for at, one in enumerate(ids) if at % 20 not in (0, 19)]
        await store.acknowledge(("orders", "orders"), gone)
        writer = store.journals.messages
        async with writer.upkeep.turn:
            assert len(writer.data) > 4
            await Compaction(writer, set(), writer.upkeep.room).run_in_place(len(writer.data) - 2)

    write_in(broker.root, publish_and_compact)
    sizes = {path.stat().st_size for path in broker.store.journal.glob("*.amq")}
    assert min(sizes) < max(sizes) == 1024 * 1024
    assert damage(broker.root) == []
    assert len(lines_after(broker.root)) == 80
    with broker:
        assert complaints(broker.log) == []
        with CoreClient(broker.port) as client:
            assert client.message_count("orders") == 80
            client.consume_many("orders", 60)
            client.send_many("orders", 20, size=400)
        broker.stop()
    assert damage(broker.root) == []
    assert len(lines_after(broker.root)) == 40


def lines_after(root: Path) -> list[bytes]:
    store = open_store(root, index=False)
    try:
        (queue,) = (one for one in store.queues() if one.name == "orders")
        source = queue.open_all()
        return bytes(source.read(0, source.size_bytes)).splitlines()
    finally:
        store.close()


def test_a_broker_replays_what_journalfs_retained(artemis_home: Path, tmp_path: Path) -> None:
    """All that was published and acknowledged long ago, a large message too, and each once."""
    retention = (
        '<journal-retention-directory unit="DAYS" period="30">data/history</journal-retention-directory>'
    )
    config = broker_xml(BrokerSettings(), 61616).replace("<journal-type>", f"{retention}\n    <journal-type>")
    broker = with_new_store(Broker(tmp_path / "broker", config=config))
    picture = bytes(range(256)) * 1000

    async def publish_and_acknowledge(store: WritingStore) -> None:
        for name in ("orders", "again"):
            await store.create_address(name)
            await store.create_queue(name, name)
        await publish(store, "orders", "orders", "picture.png", picture)
        for turn in range(30):
            text = b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(10))
            await publish(store, "orders", "orders", "in", text)
            ids = [MessageId(line["id"]) for line in lines_in(store, "orders")]
            await store.acknowledge(("orders", "orders"), ids)
            await store.journals.messages.upkeep.tidy()
        assert len(queue_in(store, "orders")) == 0
        assert store.journals.messages.upkeep.files_freed > 1
        await publish(store, "orders", "orders", "in", b"last\n" * 50)
        # The last file with data is one that the history has now, and a broker that starts writes on there.
        assert (await store.journals.messages.upkeep.compact()).new

    write_in(broker.root, publish_and_acknowledge)
    assert len(list((broker.data / "history").glob("activemq-data-*.amq"))) > 2
    with broker:
        assert complaints(broker.log) == []
        with CoreClient(broker.port) as client:
            client.send_many("orders", 300, size=400)
            client.operation("broker", "replay", "orders", "again", None)
            eventually(
                lambda: client.message_count("again") >= 301 + 50 + 300,
                deadline_s=60,
                what="all are replayed",
            )
        broker.stop()
    # And none twice.
    store = open_store(broker.root, index=False)
    (again,) = (one for one in store.queues() if one.name == "again")
    source = again.open_all()
    lines = [json.loads(line) for line in bytes(source.read(0, source.size_bytes)).splitlines()]
    assert [line["body"].split()[0] for line in lines if line.get("type") == "text"] == [
        *(f"{turn}-{n}" for turn in range(30) for n in range(10)),
        *["last"] * 50,
        *["message"] * 300,
    ]
    (large,) = [line for line in lines if line.get("type") != "text"]
    message = again.message(MessageId(large["id"]))
    assert message is not None
    body = message.open()
    assert bytes(body.read(0, body.size_bytes)) == picture
    store.close()
