"""File streams of Spark on a mount: each message once, and acknowledged when its batch is committed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.broker.polling import eventually
from tests.kinds import first_is_quick
from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, journalfs
from tests.spark.drivers import ENVIRONMENT, ROOT
from tests.spark.mount_job import stream
from tests.writing.conftest import new_store

SCHEMA = "id long, body string"
DRIVER_S_MAX = 300
"""A driver begins within seconds, unless the machine is busy."""


class Mounts:
    """One store with an empty queue, mounted again and again."""

    def __init__(self, folder: Path) -> None:
        self.store = new_store(folder / "store")
        self.path = folder / "mnt"
        self.path.mkdir()
        self.begin()
        self.queue = self.new_queue("work")

    def new_queue(self, name: str) -> QueueOnDisk:
        path = self.path / "address" / name
        path.mkdir(parents=True)
        return QueueOnDisk(path)

    def begin(self) -> None:
        done = journalfs("mount", self.store, self.path)
        assert done.returncode == 0, done.stderr

    def end(self) -> None:
        done = journalfs("umount", self.path)
        assert done.returncode == 0, done.stderr

    def kill(self) -> None:
        os.kill(MountedStore(self.path).process_id(), signal.SIGKILL)

    def publish(self, *bodies: str, queue: QueueOnDisk | None = None) -> None:
        """Publish lines, and wait until they are in a part."""
        queue = queue or self.queue
        (queue.path / "in.txt").write_text("".join(f"{body}\n" for body in bodies))
        sealed(queue)


def sealed(queue: QueueOnDisk) -> None:
    """Wait until all messages of a queue are in parts. The size of the tail may be of a moment ago."""

    def all_in_parts() -> bool:
        count = int(json.loads((queue.path / ".status").read_bytes())["messageCount"])
        return count == sum(path.read_bytes().count(b"\n") for path in queue.path.glob("part-*.jsonl"))

    until(all_in_parts, "the tail becomes a part")


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Mounts]:
    made = Mounts(tmp_path)
    yield made
    subprocess.run(["umount", "--lazy", made.path], check=True)


class Stream:
    """A query that takes what there is when it is started, and goes on where it stopped."""

    def __init__(self, spark: SparkSession, path: str, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._path = path
        self._checkpoint = checkpoint
        self._options: dict[str, Any] = options
        self.batches: dict[int, list[str]] = {}
        """What each batch brought when it was done last."""

    def start(self, see: Callable[[], None], **trigger: Any) -> StreamingQuery:
        def take(batch: DataFrame, number: int) -> None:
            self.batches[number] = sorted(row.body for row in batch.collect())
            see()

        source = self._spark.readStream.schema(SCHEMA).options(**self._options).json(self._path)
        writer = source.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**trigger).start()

    def run(self, see: Callable[[], None] = lambda: None) -> list[list[str]]:
        """Take what there is; what each new batch brought. `see` is called for each, and may fail."""
        before = len(self.batches)
        self.start(see, availableNow=True).awaitTermination()
        return [self.batches[number] for number in sorted(self.batches)][before:]

    def taken(self) -> list[str]:
        """What all batches brought, in their order."""
        return [body for _, batch in sorted(self.batches.items()) for body in batch]


def fail() -> None:
    raise OSError("the batch could not be stored")


def test_each_message_comes_once(spark: SparkSession, mounts: Mounts, tmp_path: Path) -> None:
    """Over parts, restarts of the query, a batch that fails, mounts that end and mounts that are killed."""
    stream = Stream(spark, str(mounts.queue.path), tmp_path / "state", maxFilesPerTrigger=1)
    mounts.publish("1", "2")
    assert stream.run() == [["1", "2"]]
    mounts.publish("3", "4")
    mounts.publish("5")
    assert stream.run() == [["3", "4"], ["5"]]
    mounts.kill()
    mounts.begin()
    assert stream.run() == []
    mounts.publish("6")
    with pytest.raises(StreamingQueryException, match="could not be stored"):
        stream.run(fail)
    mounts.kill()
    mounts.begin()
    mounts.publish("7")
    stream.run()
    mounts.end()
    mounts.begin()
    assert stream.run() == []
    assert stream.taken() == list("1234567")


def test_messages_come_while_they_are_published(spark: SparkSession, mounts: Mounts, tmp_path: Path) -> None:
    """Seconds later, when the tail becomes a part; those of queues that are made meanwhile, too."""
    stream = Stream(spark, f"{mounts.path}/address/*", tmp_path / "state")
    query = stream.start(lambda: None, processingTime="100 milliseconds")
    try:
        sent: list[str] = []
        for name in ("early", "late", "late"):
            queue = QueueOnDisk(mounts.path / "address" / name)
            if not queue.path.exists():
                queue = mounts.new_queue(name)
            sent.append(f"{name} {len(sent)}")
            mounts.publish(sent[-1], queue=queue)
            until(lambda: sorted(stream.taken()) == sorted(sent), "it is taken")
    finally:
        query.stop()


def test_a_stream_of_what_a_selector_accepts(spark: SparkSession, mounts: Mounts, tmp_path: Path) -> None:
    path = f"{mounts.queue.path}/.where/n > 5"
    stream = Stream(spark, path, tmp_path / "state")
    lines = [f'{{"body":"{n}","properties":{{"n":{n}}}}}\n' for n in range(10)]
    for some in (lines[:7], lines[7:]):
        (mounts.queue.path / "in.jsonl").write_text("".join(some))
        mounts.publish("no property")
        stream.run()
    assert [stream.batches[number] for number in sorted(stream.batches)] == [["6"], ["7", "8", "9"]]


def test_a_batch_is_acknowledged_when_it_is_committed(
    spark: SparkSession, mounts: Mounts, tmp_path: Path
) -> None:
    """With `cleanSource=delete`: when the next batch begins, and not if it failed."""
    stream = Stream(spark, str(mounts.queue.path), tmp_path / "state", cleanSource="delete")

    def left() -> list[str]:
        return sorted(line["body"] for line in mounts.queue.lines())

    seen: list[list[str]] = []
    mounts.publish("1", "2")
    stream.run(lambda: seen.append(left()))
    mounts.publish("3")
    with pytest.raises(StreamingQueryException):
        stream.run(fail)
    assert "3" in left()
    stream.run(lambda: seen.append(left()))
    mounts.publish("4")
    stream.run(lambda: seen.append(left()))
    assert stream.batches == {0: ["1", "2"], 1: ["3"], 2: ["4"]}
    assert [set(batch) <= set(there) for batch, there in zip(stream.batches.values(), seen, strict=True)] == [
        True
    ] * 3
    assert left() == ["4"]


def documented(heading: str) -> str:
    """The first program below a heading of the Spark page."""
    section = (ROOT / "docs" / "reference" / "spark.md").read_text().partition(f"\n### {heading}\n")[2]
    return section.partition("```python\n")[2].partition("```\n")[0]


def run_documented(
    spark: SparkSession, program: str, source: Path, work: Path, **changed: str
) -> StreamingQuery:
    """Start the documented stream on a queue."""
    places = {
        "/mnt/orders/*": source,
        "/var/lib/checkpoints/orders": work / "state",
        "/data/orders": work / "out",
    }
    for old, new in {**places, **changed}.items():
        assert program.count(old) == 1, old
        program = program.replace(old, str(new))
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    query: StreamingQuery = names["query"]
    return query


UNREADABLE = {
    "a text that is too long": '{"body":"' + "x" * 2000 + '"}',
    "half a pair in a name": r'{"body":"x","properties":{"\ud801k":"v"}}',
}


@pytest.mark.rule("S-140")
@pytest.mark.parametrize("line", first_is_quick(*UNREADABLE.values()), ids=UNREADABLE)
def test_the_documented_stream_acknowledges_nothing_that_spark_cannot_read(
    spark: SparkSession, mounts: Mounts, tmp_path: Path, line: str
) -> None:
    """It fails, keeps the message, and goes on when that is moved away."""
    queue, other = mounts.queue, mounts.path / "elsewhere" / "kept"
    other.mkdir(parents=True)
    mounts.publish("before")
    (queue.path / "in.jsonl").write_text(f"{line}\n")
    sealed(queue)
    rows = spark.read.schema(SCHEMA).option("maxStringLen", 1000).json(str(queue.path)).collect()
    assert sorted(str(row.body) for row in rows) == ["None", "before"], "no error, unless FAILFAST"

    def run() -> None:
        program = documented("Streams: offsets, only new messages")
        query = run_documented(spark, program, queue.path, tmp_path, **{"2147483647": "1000"})
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    with pytest.raises(StreamingQueryException):
        run()
    assert len(queue.lines()) == 2
    (kept,) = [name for name in queue.listed() if (queue.path / ".messages" / name).read_bytes() != b"before"]
    os.rename(queue.path / ".messages" / kept, other / kept)
    mounts.publish("after")
    run()
    assert {row.body for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {"before", "after"}
    assert len(QueueOnDisk(other).lines()) == 1


def test_the_documented_stream_takes_long_texts(spark: SparkSession, mounts: Mounts, tmp_path: Path) -> None:
    """With all that a text may hold as its limit, which Spark must take."""
    mounts.publish("x" * 2000)
    query = run_documented(
        spark, documented("Streams: offsets, only new messages"), mounts.queue.path, tmp_path
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert [len(row.body) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [2000]


def test_no_document_has_a_stream_that_takes_null_for_a_line() -> None:
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for text in path.read_text().split("```python\n")[1:]:
            program = text.partition("```")[0]
            if "readStream" in program and ".json(" in program:
                assert "FAILFAST" in program, path
                assert "maxStringLen" in program, path


@contextmanager
def driver(job: str, path: Path, work: Path) -> Iterator[IO[str]]:
    """A driver in a process of its own, as what it says; killed in the end with all that it started."""
    command = [sys.executable, "-m", "tests.spark.mount_job", job, str(path), str(work)]
    process = subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [1, 3])
@pytest.mark.long
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, mounts: Mounts, tmp_path: Path, kills: int
) -> None:
    """Again and again while it stores batches and acknowledges them, the mount now and then with it."""
    work = tmp_path / "work"
    sent: list[str] = []
    for cycle in range(kills):
        for number in range(4):
            sent.append(f"{cycle}.{number}")
            mounts.publish(sent[-1])
        with driver("stream", mounts.queue.path, work) as said:
            for _ in range(cycle + 1):
                assert said.readline().startswith("BATCH")
        if cycle == 1:
            mounts.kill()
            mounts.begin()
        left = {line["body"] for line in mounts.queue.lines()}
        stored = {row.body for row in spark.read.parquet(str(work / "out")).collect()}
        assert set(sent) - left <= stored, "acknowledged before it was stored"
    stream(spark, str(mounts.queue.path), str(work), to_its_end=True)
    rows = [row.body for row in spark.read.parquet(str(work / "out")).collect()]
    assert sorted(rows) == sent


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.rule("S-89", "S-125")
def test_what_a_driver_wrote_that_is_killed_is_gone(
    spark: SparkSession, mounts: Mounts, tmp_path: Path
) -> None:
    job = mounts.queue.path / "_temporary"
    with driver("write", mounts.queue.path, tmp_path / "work"):
        eventually(
            lambda: len(list(job.glob("0/task_*"))) == 3, deadline_s=DRIVER_S_MAX, what="three of four tasks"
        )
    until(lambda: not job.exists(), "its process has ended")
    spark.range(3).selectExpr("cast(id AS string)").write.mode("append").text(str(mounts.queue.path))
    assert sorted(line["body"] for line in mounts.queue.lines()) == ["0", "1", "2"]
