"""Files that are not what a job first saw: reading them again by place fails, and gives no row of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from journalfs.errors import StaleView
from journalfs.spark import live_messages
from journalfs.spark.options import Options
from journalfs.spark.schema import usual_schema
from journalfs.spark.source import BatchReader
from tests.spark.rows import rows_of
from tests.tools.make_store import StoreMade, StoreSpec, make_store

MESSAGES = 300
PAGED = 40

Change = Callable[[Path, bytes], bytes]


def made(path: Path, seed: int) -> StoreMade:
    """Stores of all seeds have the same ids at the same places, and other bodies."""
    spec = StoreSpec(messages=MESSAGES, paged_messages=PAGED, body_spread=0, seed=seed)
    return make_store(path, spec)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StoreMade:
    return made(tmp_path_factory.mktemp("changed") / "store", 1)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> StoreMade:
    return made(tmp_path_factory.mktemp("other") / "store", 2)


def zeroed(content: bytes) -> bytes:
    return bytes(len(content))


def zeroed_in_the_middle(content: bytes) -> bytes:
    """A few messages are gone."""
    used = len(content.rstrip(b"\0"))
    begin, end = used // 2, used // 2 + 8_000
    return content[:begin] + bytes(end - begin) + content[end:]


def shortened(content: bytes) -> bytes:
    return content[: len(content.rstrip(b"\0")) // 4]


def a_letter_of_the_last_body(content: bytes) -> bytes:
    """Its length stays."""
    at = content.rindex("order ".encode("utf-16-le"))
    return content[:at] + b"O" + content[at + 1 :]


FILES = {"journal": "journal/*.amq", "pages": "paging/*/*.page"}
CHANGES = [zeroed, zeroed_in_the_middle, shortened, a_letter_of_the_last_body]


def file_of(store: Path, kind: str) -> Path:
    """The file with the messages of that kind."""
    return max(store.glob(FILES[kind]), key=lambda path: len(path.read_bytes().rstrip(b"\0")))


def read(reader: BatchReader, planned: Sequence[InputPartition]) -> list[dict[str, Any]]:
    return [row for one in planned for batch in reader.read(one) for row in batch.to_pylist()]


@pytest.mark.rule("S-450")
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("change", [*CHANGES, None])
def test_tasks_read_the_files_that_were_planned(
    store: StoreMade, other: StoreMade, kind: str, change: Callable[[bytes], bytes] | None
) -> None:
    """`None`: another store's file, with the same ids at the same places."""
    reader = BatchReader(Options(str(store.data), index=False), usual_schema(["id", "body"]))
    planned = reader.partitions()
    path = file_of(store.data, kind)
    content = path.read_bytes()
    theirs = file_of(other.data, kind).read_bytes()
    path.write_bytes(theirs if change is None else change(content))
    try:
        with pytest.raises(StaleView, match=f"{path}: (used again|changed since it was listed)"):
            read(reader, planned)
    finally:
        path.write_bytes(content)
    rows = read(reader, planned)
    assert rows == list(rows_of(reader))
    assert len(rows) == MESSAGES + PAGED


@pytest.mark.rule("S-450")
def test_each_action_of_live_messages_reads_the_files_that_the_first_one_saw(
    spark: SparkSession, store: StoreMade, other: StoreMade
) -> None:
    frame = live_messages(spark, str(store.data), schema=usual_schema(["id", "body"]))
    rows = sorted(frame.collect())
    assert len(rows) == MESSAGES + PAGED
    for kind, change in (("journal", None), ("pages", zeroed)):
        path = file_of(store.data, kind)
        content = path.read_bytes()
        path.write_bytes(change(content) if change else file_of(other.data, kind).read_bytes())
        try:
            with pytest.raises(PySparkException, match=r"StaleView: file:.*/store/data/.* is not there"):
                frame.count()
        finally:
            path.write_bytes(content)
    assert sorted(frame.collect()) == rows
