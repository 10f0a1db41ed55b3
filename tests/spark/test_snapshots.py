"""Spark reads a snapshot while others publish and remove: what was live then, each message once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.broker.polling import eventually
from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import new_store

QUEUES = ("first", "second")
BATCH = 40
FOR_EVER = float("inf")


@dataclass
class Life:
    """When a body was being published, and taken from the first queue. Seconds of the monotonic clock."""

    published: tuple[float, float]
    taken: tuple[float, float] = (FOR_EVER, FOR_EVER)

    def surely_there(self, begin: float, end: float) -> bool:
        return self.published[1] < begin and end < self.taken[0]

    def surely_not_there(self, begin: float, end: float) -> bool:
        return end < self.published[0] or self.taken[1] < begin


@dataclass
class Work:
    """Publishes to an address, and takes from its first queue, until told to stop."""

    address: Path
    lives: dict[str, Life] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        for turn in count():
            if self.done.is_set():
                return
            bodies = [f"{turn}-{number}" for number in range(BATCH)]
            begun = time.monotonic()
            (self.address / "in.txt").write_text("".join(f"{body}\n" for body in bodies))
            self.lives |= {body: Life((begun, time.monotonic())) for body in bodies}
            messages = self.address / "first/.messages"
            for path in [entry for entry in messages.iterdir() if hash(entry.name) % 3][: BATCH // 2]:
                body, begun = path.read_text(), time.monotonic()
                path.unlink()
                self.lives[body].taken = (begun, time.monotonic())


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[MountedStore]:
    with mounted_for_writing(new_store(tmp_path / "store"), tmp_path / "mnt") as mounted:
        for queue in QUEUES:
            (mounted.path / "busy" / queue).mkdir(parents=True)
        yield mounted


@pytest.mark.rule("S-126")
def test_each_message_that_was_live_once(spark: SparkSession, mount: MountedStore) -> None:
    work = Work(mount.path / "busy")
    thread = threading.Thread(target=work.run)
    thread.start()
    with ExitStack() as stopping:
        stopping.callback(thread.join)
        stopping.callback(work.done.set)
        eventually(lambda: len(work.lives) >= 10 * BATCH, deadline_s=60, what="messages that come and go")
        snapshot = mount.path / ".journalfs/snapshots/now"
        begin = time.monotonic()
        snapshot.mkdir()
        end = time.monotonic()
        rows = spark.read.schema("id long, queue string, body string").json(f"{snapshot}/*/*").collect()
        typed = spark.read.format("journalfs").load(str(snapshot)).select("id", "queue", "body").collect()
        files = spark.read.format("binaryFile").load(f"{snapshot}/busy/first/.messages").collect()
    assert max(Counter((row.queue, row.id) for row in rows).values()) == 1
    assert Counter(typed) == Counter(rows)
    bodies = {queue: {row.body for row in rows if row.queue == queue} for queue in QUEUES}
    assert {bytes(row.content).decode() for row in files} == bodies["first"]
    for body, life in work.lives.items():
        if life.surely_there(begin, end):
            assert body in bodies["first"]
        if life.surely_not_there(begin, end):
            assert body not in bodies["first"]
        assert (body in bodies["second"]) is (life.published[0] < end) or begin < life.published[1]
    assert sum(life.surely_there(begin, end) for life in work.lives.values()) > BATCH
    assert len(bodies["second"]) % BATCH == 0, "a transaction is whole"


@pytest.mark.rule("S-126")
def test_a_queue_of_a_snapshot(spark: SparkSession, mount: MountedStore) -> None:
    (mount.path / "busy/first/in.txt").write_text("one\ntwo\n")
    snapshot = mount.path / ".journalfs/snapshots/x"
    snapshot.mkdir()
    (mount.path / "busy/first/in.txt").write_text("three\n")
    frame = spark.read.format("journalfs").load(str(snapshot / "busy/first"))
    assert sorted(row.body for row in frame.select("body").collect()) == ["one", "two"]
    lines = QueueOnDisk(snapshot / "busy/first").lines()
    whole = spark.read.text(str(snapshot / "busy/first"))
    assert [json.loads(row.value) for row in whole.collect()] == lines
    assert spark.read.text(str(snapshot / "busy/second")).count() == 0


@pytest.mark.rule("S-128", "S-280")
def test_overwriting_a_snapshot_fails_and_takes_no_message_away(
    spark: SparkSession, mount: MountedStore
) -> None:
    """It goes, as by rmdir."""
    first = mount.path / "busy/first"
    (first / "in.txt").write_text("one\ntwo\n")
    before = QueueOnDisk(first).lines()
    snapshot = mount.path / ".journalfs/snapshots/wed"
    snapshot.mkdir()
    with pytest.raises(Py4JJavaError):
        spark.range(3).write.mode("overwrite").json(str(snapshot))
    assert QueueOnDisk(first).lines() == before
