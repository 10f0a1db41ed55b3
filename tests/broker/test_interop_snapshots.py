"""A broker that uses a store of which there is a snapshot: it writes into nothing that that has."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import pytest
import trio

from journalfs.limits import LENGTHENED_BYTES
from journalfs.store import open_store
from journalfs.store.snapshot_folder import SNAPSHOTS
from journalfs.store.store import JournalStore
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import ONE_IS_QUICK, JournalType
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, publish, take, write_in

QUEUE = "kept"
MESSAGES, ROUNDS = 1000, 4
MOVED_TO_THE_ATTIC = "AMQ144008"
"""What a broker warns of once it needs a file no more that is longer than its settings say."""


def prepare(root: Path) -> list[dict[str, object]]:
    """Messages in several journal files, a large one, and a snapshot of them; their lines."""

    async def work(store: WritingStore) -> list[dict[str, object]]:
        await store.create_address(QUEUE)
        await store.create_queue(QUEUE, QUEUE)
        await publish(
            store, QUEUE, QUEUE, "in.txt", b"".join(b"%d %s\n" % (n, b"x" * 400) for n in range(MESSAGES))
        )
        await publish(store, QUEUE, QUEUE, "large.bin", os.urandom(300_000))
        await store.snapshots.create("x")
        await publish(store, QUEUE, QUEUE, "late.txt", b"late\n")
        return lines_in(store, QUEUE)[:-1]

    return write_in(root, work)


def use_up(broker: Broker) -> list[str]:
    """Consume all, and then more than the journal has files for; what the broker complained of."""
    with broker, CoreClient(broker.port) as client:
        assert len(take(client, QUEUE, MESSAGES + 2)) == MESSAGES + 2
        for _ in range(ROUNDS):
            client.send_many(QUEUE, MESSAGES, size=1000)
            client.consume_many(QUEUE, MESSAGES)
        broker.stop()
    return complaints(broker.log)


def held(root: Path) -> dict[str, int]:
    """Checksums of what the snapshot has of each journal file."""
    folder = root / SNAPSHOTS / "x"
    described = json.loads((folder / "snapshot.json").read_bytes())["snapshot"]["journal"]
    return {
        one["name"]: zlib.crc32((folder / "journal" / one["name"]).read_bytes()[: one["bytes"]])
        for one in described
    }


def opened(root: Path) -> JournalStore:
    snapshot = open_store(root, index=False).snapshots.named("x")
    assert snapshot is not None
    return trio.run(snapshot.opened)


@pytest.mark.rule("S-130")
@pytest.mark.parametrize("journal_type", ONE_IS_QUICK)
def test_a_broker_uses_no_file_of_a_snapshot(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType
) -> None:
    broker = new_instance(tmp_path / "broker", journal_type, file_size="100K")
    lines = prepare(broker.root)
    before = held(broker.data)
    assert len(before) > 4
    warned = use_up(broker)
    assert all(MOVED_TO_THE_ATTIC in line for line in warned)
    assert held(broker.data) == before
    then = opened(broker.data)
    assert lines_in(then, QUEUE) == lines  # type: ignore[arg-type]
    assert not then.core.damage()
    still = {path.name for path in broker.store.journal.iterdir()}
    assert len(still & before.keys()) <= 1, "the broker let go of all but the one that it went on in"


@pytest.mark.long
@pytest.mark.rule("S-130")
def test_a_broker_that_does_is_noticed(artemis_home: Path, tmp_path: Path) -> None:
    """The test above can fail: files of the broker's own size are used again, where none is deleted."""
    broker = new_instance(
        tmp_path / "broker", "MAPPED", file_size="100K", journal_pool_files=-1, journal_compact_min_files=0
    )
    prepare(broker.root)
    before = held(broker.data)
    for name in before:
        path = broker.store.journal / name
        if path.stat().st_nlink > 1:
            os.truncate(path, path.stat().st_size - LENGTHENED_BYTES)
    use_up(broker)
    changed = {name for name, checksum in held(broker.data).items() if checksum != before[name]}
    assert changed
    damage = {one.file for one in opened(broker.data).core.damage() if one.kind == "used-again"}
    assert damage == {f"journal/{name}" for name in changed}


@pytest.mark.rule("S-129")
def test_a_broker_starts_on_a_copy_of_a_snapshot(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "ASYNCIO", file_size="100K")
    lines = prepare(broker.root)
    other = new_instance(tmp_path / "other", "ASYNCIO", file_size="100K")
    shutil.rmtree(other.data)
    shutil.copytree(broker.data / SNAPSHOTS / "x", other.data)
    (other.data / "snapshot.json").unlink()
    with other, CoreClient(other.port) as client:
        assert client.message_count(QUEUE) == MESSAGES + 1
        assert client.consume_many(QUEUE, MESSAGES + 1) == [line["id"] for line in lines]
        assert all(MOVED_TO_THE_ATTIC in line for line in complaints(other.log))
        other.stop()
