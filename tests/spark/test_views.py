"""Names in SQL for what a mount shows: which of them show what comes later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.mount.conftest import until
from tests.mounting import MountedStore, mounted_for_writing
from tests.spark.writing import written_store

SCHEMA = "id long, body string"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[MountedStore]:
    store = written_store(tmp_path, {"a": [{"body": "1"}], "b": []})
    with mounted_for_writing(store, tmp_path / "mnt") as mounted:
        yield mounted


@pytest.mark.rule("S-453")
def test_a_table_of_a_queue_s_directory_shows_what_comes_and_a_view_of_the_format_does_not(
    spark: SparkSession, mount: MountedStore
) -> None:
    queue = mount.path / "a" / "a"
    spark.sql(f"CREATE TEMPORARY VIEW kept USING journalfs OPTIONS (path '{queue}')")
    spark.sql(f"CREATE TABLE living ({SCHEMA}) USING json LOCATION 'file://{queue}'")
    try:
        assert [spark.table(name).count() for name in ("kept", "living")] == [1, 1]
        (queue / "in.jsonl").write_text('{"body":"2"}\n')
        until(lambda: (queue / "_tail.jsonl").stat().st_size == 0, "the tail becomes a part")
        spark.sql("REFRESH TABLE living")
        assert [spark.table(name).count() for name in ("kept", "living")] == [1, 2]
        # An address has no files of its own: Spark reads none, and does not say so.
        assert spark.read.schema(SCHEMA).json(str(queue.parent)).count() == 0
        assert spark.read.schema(SCHEMA).json(f"{queue.parent}/*").count() == 2
        assert spark.read.format("journalfs").load(str(queue.parent)).count() == 2
    finally:
        spark.catalog.dropTempView("kept")
        spark.sql("DROP TABLE living")
    assert queue.is_dir()
