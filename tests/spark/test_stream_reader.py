"""What a stream reader does with a store that changes, without a session."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from journalfs.errors import ReadOnlyStore, WrongCall
from journalfs.spark.options import Options
from journalfs.spark.schema import usual_schema
from journalfs.spark.stream import StreamReader
from tests.mounting import mounted_for_writing
from tests.spark.writing import acknowledge, publish, written_store


class Query:
    """A streaming query as Spark drives one; it may be started anew at any time."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.options = Options(path=str(path), index=False, **options)
        self.reader = self._made()
        self.at: Mapping[str, Any] = self.reader.initialOffset()

    def _made(self) -> StreamReader:
        return StreamReader(self.options, usual_schema(["id", "queue", "body"]))

    def restart(self) -> None:
        self.reader.stop()
        self.reader = self._made()

    def batch(self, limit: ReadLimit | None = None) -> list[str]:
        """The bodies of the next batch."""
        end = self.reader.latestOffset(self.at, limit or ReadAllAvailable())
        found = self.between(self.at, end)
        self.at = end
        return found

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
        if start == end:
            return []
        parts = self.reader.partitions(start, end)
        return sorted(
            row["body"] for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()
        )


def rows(reader: StreamReader, parts: Sequence[InputPartition]) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def bodies(*texts: str) -> list[dict[str, str]]:
    return [{"body": text} for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written_store(tmp_path, {"a": bodies("1", "2"), "b": bodies("3")})


def test_each_batch_has_what_came_since(store: Path) -> None:
    query = Query(store)
    assert query.batch() == ["1", "2", "3"]
    assert query.batch() == []
    publish(store, "b", bodies("4", "5"))
    query.restart()
    assert query.batch() == ["4", "5"]
    publish(store, "a", bodies("6"))
    assert query.batch() == ["6"]


def test_a_batch_is_the_same_when_it_is_done_again(store: Path) -> None:
    query = Query(store)
    start = query.at
    query.batch()
    publish(store, "a", bodies("4"))
    query.restart()
    assert query.between(start, query.at) == ["1", "2", "3"]


def test_starting_with_what_comes_later(store: Path) -> None:
    query = Query(store, starting="latest")
    assert query.batch() == []
    publish(store, "a", bodies("4"))
    assert query.batch() == ["4"]


def test_a_limit_leaves_the_rest_for_later(store: Path) -> None:
    query = Query(store, max_messages=2)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(2)
    assert query.batch(ReadMaxRows(2)) == ["1", "2"]
    publish(store, "a", bodies("4"))
    query.restart()
    assert query.batch(ReadMaxRows(1)) == ["3"]
    assert query.batch(ReadMaxRows(1)) == ["4"]
    assert query.batch(ReadMaxRows(1)) == []


def test_what_is_available_now_does_not_grow(store: Path) -> None:
    query = Query(store)
    query.reader.prepareForTriggerAvailableNow()
    publish(store, "a", bodies("4"))
    assert query.batch(ReadMaxRows(2)) == ["1", "2"]
    assert query.batch() == ["3"]
    assert query.batch() == []


def test_queues_and_selectors_choose(store: Path) -> None:
    publish(store, "a", [{"body": "loud", "priority": 9}])
    assert Query(store, queues=("b",)).batch() == ["3"]
    assert Query(store, selector="JMSPriority > 5").batch() == ["loud"]


def test_what_was_consumed_before_its_batch_is_read_is_not_there(store: Path) -> None:
    query = Query(store)
    end = query.reader.latestOffset(query.at, ReadAllAvailable())
    rows = [
        row
        for part in query.reader.partitions(query.at, end)
        for one in query.reader.read(part)
        for row in one.to_pylist()
    ]
    assert acknowledge(store, "b", [row["id"] for row in rows if row["queue"] == "b"]) == 1
    query.restart()
    assert query.between(query.at, end) == ["1", "2"]


def test_acknowledging_takes_what_is_committed_only(store: Path) -> None:
    query = Query(store, acknowledge=True, queues=("a",))
    assert query.batch() == ["1", "2"]
    first = query.at
    publish(store, "a", bodies("4"))
    assert query.batch() == ["4"]
    query.restart()
    query.reader.commit(first)
    assert Query(store).batch() == ["3", "4"]
    query.reader.commit(query.at)
    assert Query(store).batch() == ["3"]


def test_acknowledging_spares_what_a_stream_did_not_begin_with(store: Path) -> None:
    query = Query(store, acknowledge=True, starting="latest")
    publish(store, "a", bodies("4"))
    assert query.batch() == ["4"]
    query.reader.commit(query.at)
    assert Query(store).batch() == ["1", "2", "3"]


def test_the_last_batch_is_acknowledged_without_another(store: Path) -> None:
    query = Query(store, acknowledge=True)
    assert query.batch() == ["1", "2", "3"]
    assert Query(store).batch() == ["1", "2", "3"], "nobody said that it is committed"
    query.restart()
    assert query.batch() == []
    assert Query(store).batch() == []


@pytest.mark.parametrize("name", ["n" * 300, "with/slash"], ids=["long", "slash"])
def test_acknowledging_through_a_mount_finds_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    store = written_store(tmp_path, {name: bodies("1")})
    query = Query(store)
    assert query.batch() == ["1"]
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        acknowledging = Query(mount.path, acknowledge=True)
        acknowledging.reader.commit(query.at)
        acknowledging.reader.stop()
    assert Query(store).batch() == []


def test_a_checkpoint_of_another_store_is_refused(store: Path, tmp_path: Path) -> None:
    query = Query(store, acknowledge=True)
    first = query.at
    assert query.batch() == ["1", "2", "3"]
    other = written_store(tmp_path / "other", {"a": bodies("1", "2", "3", "4")})
    asked = Query(other, acknowledge=True)
    for ask in (
        lambda: asked.reader.latestOffset(query.at, ReadAllAvailable()),
        lambda: asked.reader.partitions(first, query.at),
        lambda: asked.reader.commit(query.at),
    ):
        with pytest.raises(WrongCall, match="of another store"):
            ask()
    assert Query(other).batch() == ["1", "2", "3", "4"]


def test_a_copy_elsewhere_is_the_same_store_and_old_checkpoints_tell_of_none(
    store: Path, tmp_path: Path
) -> None:
    query = Query(store)
    assert query.batch() == ["1", "2", "3"]
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    publish(copy, "a", bodies("4"))
    copied = Query(copy)
    copied.at = query.at
    assert copied.batch() == ["4"]
    old = {name: said for name, said in query.at.items() if name != "store"}
    copied.restart()
    copied.at = old
    assert copied.batch() == ["4"]


def test_acknowledging_needs_what_can_be_changed(many_mounted: Path) -> None:
    with pytest.raises(ReadOnlyStore, match="mounted read-only"):
        Query(many_mounted, acknowledge=True)
