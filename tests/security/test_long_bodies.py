"""Bodies that take long to inflate or to measure: who asks for them waits, and nobody else does."""

from __future__ import annotations

import json
import os
import statistics
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.bodies.inflated import Counting
from journalfs.limits import MEASURED_AT_ONCE_BYTES
from journalfs.store import open_store
from tests.differential.encode import record
from tests.differential.encode_messages import core_header
from tests.mounting import MountedStore, mounted
from tests.security.adversary import look, timed
from tests.store.appending import ADD, ADD_REF, UPDATE
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.tools.make_store import bomb as make_bomb

LARGE = 30
BOMB_ID = 1000


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Of which 800 MB may be looked at."""
    return make_bomb()


def send(little: LittleStore, message_id: int, queue: int, stream: bytes) -> None:
    (little.root / "large-messages" / f"{message_id}.msg").write_bytes(stream)
    properties = {"_AMQ_LARGE_COMPRESSED": ("boolean", True), "_AMQ_LARGE_SIZE": ("long", 4 << 30)}
    header = core_header(message_id, address="work", properties=properties)
    little.journal.append(
        record(ADD, 1, record_id=message_id, user_type=LARGE, body=header),
        record(UPDATE, 1, record_id=message_id, user_type=ADD_REF, body=struct.pack(">q", queue)),
    )


def inflated_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which something is inflated to count it from now on."""
    counted: list[str] = []
    step = Counting.step

    def noted(self: Counting, *bytes_max: int) -> bool:
        counted.append(self.path.name)
        return step(self, *bytes_max)

    monkeypatch.setattr(Counting, "step", noted)
    return counted


@pytest.mark.rule("S-159")
async def test_who_asks_waits_and_may_give_up(little_store: LittleStore, bomb: bytes) -> None:
    send(little_store, BOMB_ID, QUEUE_A, bomb)
    little_store.journal.send(2000, QUEUE_B)
    begun = time.perf_counter()
    store = open_store(little_store.root, index=False, postpones=True)
    with closing(store):
        assert set(store.core.bodies.postponed) == {BOMB_ID}
        asked, other = (store.address("work").queue(name) for name in ("work.a", "work.b"))  # type: ignore[union-attr]
        assert other is not None
        assert asked is not None
        assert other.is_found()
        assert other.all().messages == 1
        assert not asked.is_found()
        with trio.move_on_after(0.02) as scope:
            await asked.find()
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(asked.find)
        assert asked.is_found()
        assert asked.all().messages == 1
        with closing(asked.open_all()) as source:
            line = json.loads(bytes(source.read(0, source.size_bytes)))
        assert line["damage"]
        assert store.core.damage()[0].reason.startswith("the compressed body inflates to more than")
    assert time.perf_counter() - begun < 60


@pytest.mark.rule("S-159")
def test_a_store_with_an_index_counts_nothing(
    little_store: LittleStore, bomb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(little_store, BOMB_ID, QUEUE_A, bomb)
    text = b"".join(number.to_bytes(4) for number in range(1 << 20))
    send(little_store, BOMB_ID + 1, QUEUE_A, zlib.compress(text * 6, 1))
    with closing(open_store(little_store.root)) as store:
        before = [queue.all().size_bytes for queue in store.queues()]
    counted = inflated_steps(monkeypatch)
    for postpones in (False, True):
        with closing(open_store(little_store.root, postpones=postpones)) as store:
            assert not store.core.bodies.postponed
            assert [queue.all().size_bytes for queue in store.queues()] == before
            for queue in store.queues():
                with closing(queue.open_all()) as source:
                    source.read(0, 1000)
    assert counted == []


@pytest.mark.rule("S-159")
def test_what_was_not_counted_yet_is_kept_as_such_by_an_index(little_store: LittleStore, bomb: bytes) -> None:
    send(little_store, BOMB_ID, QUEUE_A, bomb)
    open_store(little_store.root, postpones=True).close()
    with closing(open_store(little_store.root, postpones=True)) as store:
        assert store.status()["journalBytesScanned"] == 0
        assert set(store.core.bodies.postponed) == {BOMB_ID}
    with closing(open_store(little_store.root)) as store:
        assert not store.core.bodies.postponed
        assert store.core.damage()


@pytest.fixture
def followed(little_store: LittleStore, tmp_path: Path) -> Iterator[tuple[LittleStore, MountedStore]]:
    for message_id in range(100, 400):
        little_store.journal.send(message_id, QUEUE_B)
    with mounted(little_store.root, tmp_path / "mnt") as mount:
        yield little_store, mount


def turn_ms_max() -> float:
    """50 ms, or what a slow processor takes for three times what may be inflated in one turn."""
    long = zlib.compress(bytes(MEASURED_AT_ONCE_BYTES))
    began = time.process_time()
    zlib.decompress(long)
    return max(50, 3_000 * (time.process_time() - began))


@pytest.mark.mount
@pytest.mark.rule("S-155", "S-159")
def test_a_bomb_that_arrives_holds_nobody_else_up(
    followed: tuple[LittleStore, MountedStore], bomb: bytes
) -> None:
    little, mount = followed
    asked, other = mount.path / "work/work.a", mount.path / "work/work.b"
    alone = timed(lambda: look(other), 200)
    send(little, BOMB_ID, QUEUE_A, bomb)
    over = threading.Event()
    beside: list[float] = []

    def reads() -> None:
        while not over.is_set():
            beside.extend(timed(lambda: look(other), 20))

    reader = threading.Thread(target=reads)
    reader.start()
    try:
        deadline = time.monotonic() + 60
        while True:
            out = subprocess.run(["cat", asked / ".all.jsonl"], capture_output=True, check=True, timeout=60)
            if out.stdout or time.monotonic() > deadline:
                break
    finally:
        over.set()
        reader.join()
    assert json.loads(out.stdout)["damage"]
    # What others on the machine do is in both; what one turn works is in the events.
    assert statistics.median(beside) < 10 * statistics.median(alone) + 0.05
    slow = [event for event in mount.events() if event["event"] == "slow"]
    assert all(event["busyMs"] < turn_ms_max() for event in slow), slow
    os.stat(asked)
