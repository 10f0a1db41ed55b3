"""A live broker goes on writing: what a Spark job, and the next session, see of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings
from tests.spark.conftest import MountStore
from tests.spark.reading import part_lines

SEALED_S_MAX = 60.0
"""The tail gets a part after 10 s at most, 1 s in an idle queue; the rest is for a busy machine."""
SEEN_S_MAX = 60.0

SCHEMA = "id long, body string"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CoreClient, Path]]:
    """A client of a running broker, and the broker's instance directory."""
    root = tmp_path_factory.mktemp("live")
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(root, settings=BrokerSettings()))
        yield stack.enter_context(CoreClient(broker.port)), root


def _ids(spark: SparkSession, queue: Path) -> list[int]:
    return [row.id for row in spark.read.schema(SCHEMA).json(str(queue)).collect()]


def _tail_ids(queue: Path) -> list[int]:
    return [json.loads(line)["id"] for line in (queue / "_tail.jsonl").read_text().splitlines()]


def _sealed(queue: Path, count: int) -> None:
    eventually(
        lambda: len(part_lines(queue)) == count, deadline_s=SEALED_S_MAX, what=f"{count} messages in parts"
    )


@pytest.mark.broker
def test_a_later_session_sees_what_was_sent_meanwhile(
    spark: SparkSession, mount_store: MountStore, client: tuple[CoreClient, Path]
) -> None:
    core, root = client
    core.create_queue("fresh")
    core.send_many("fresh", 50)
    queue = mount_store(root / "data") / "fresh" / "fresh"
    _sealed(queue, 50)
    first = _ids(spark, queue)
    assert len(set(first)) == len(first) == 50

    core.send_many("fresh", 30)
    eventually(
        lambda: len(_tail_ids(queue)) + len(part_lines(queue)) == 80, deadline_s=SEEN_S_MAX, what="80 lines"
    )
    _sealed(queue, 80)
    assert _tail_ids(queue) == []
    later = _ids(spark.newSession(), queue)
    assert len(set(later)) == len(later) == 80
    assert set(first) < set(later)

    core.consume_many("fresh", 20)
    _sealed(queue, 60)
    left = _ids(spark.newSession(), queue)
    assert Counter(left) == Counter(sorted(later)[20:])


@pytest.mark.broker
def test_a_file_stream_takes_every_message_once(
    spark: SparkSession, mount_store: MountStore, client: tuple[CoreClient, Path], tmp_path: Path
) -> None:
    """Parts never grow and names are never used again, which is what Spark's file stream relies on."""
    core, root = client
    core.create_queue("streamed")
    queue = mount_store(root / "data") / "streamed" / "streamed"

    def take_what_is_new() -> list[int]:
        frame = spark.readStream.schema(SCHEMA).json(str(queue))
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = (
            writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        )
        query.awaitTermination()
        return [row.id for row in spark.read.schema(SCHEMA).parquet(str(tmp_path / "out")).collect()]

    total = 0
    for sent in (40, 25, 1):
        core.send_many("streamed", sent)
        total += sent
        _sealed(queue, total)
        taken = take_what_is_new()
        assert len(taken) == len(set(taken)) == total
