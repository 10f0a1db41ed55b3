"""Spark reads a history, by an option or by a path in a mount."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from journalfs.errors import WrongCall
from journalfs.spark.options import Options
from journalfs.spark.place import place_of
from journalfs.spark.reading import Wanted, read_pieces
from journalfs.spark.schema import usual_schema
from journalfs.spark.source import BatchReader
from tests.mounting import mounted

COLUMNS = ("queue", "id", "bodyBytes")


@pytest.fixture
def root(store_copy: Callable[[str], Path]) -> Path:
    return store_copy("retention") / "data"


def read(path: Path, **more: str) -> list[tuple[str, int, int]]:
    options = Options.of({"path": str(path), "columns": ",".join(COLUMNS), **more})
    schema: StructType = usual_schema(options.columns)
    reader = BatchReader(options, schema)
    wanted, pieces = Wanted(schema, options.batch_bytes), reader.partitions()
    rows = [row for one in pieces for batch in read_pieces(wanted, one) for row in batch.to_pylist()]  # type: ignore[arg-type]
    return [(row["queue"], row["id"], len(row["bodyBytes"] or b"")) for row in rows]


def test_by_an_option(root: Path) -> None:
    rows = read(root, history="all", queues="payments")
    assert len(rows) == 1202
    assert sorted(size for _, _, size in rows)[-2:] == [150_000] * 2, "one of them is in the history alone"
    assert not read(root, history="..2020-01-01")
    assert len(read(root, queues="payments")) == 61


def test_by_a_path_in_a_mount(root: Path, tmp_path: Path) -> None:
    with mounted(root, tmp_path / "mnt") as mount:
        path = mount.path / ".journalfs/history/2026-11-21/payments/payments"
        assert len(read(path)) == 1202
        with pytest.raises(WrongCall, match="this is a history"):
            place_of(str(path))
