"""The programs in `docs/examples/` do what they say."""

from __future__ import annotations

import json
import pkgutil
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import journalfs.spark
from tests.frozen import PristineStores
from tests.spark.rows import lines_of
from tests.spark.writing import publish, written_store

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

NOTEBOOK = "notebook.ipynb"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")


def test_every_example_is_tested() -> None:
    here = Path(__file__).read_text()
    assert all(f'example("{path.stem}")' in here for path in EXAMPLES.glob("*.py"))
    assert [path.name for path in EXAMPLES.glob("*.ipynb")] == [NOTEBOOK]


def test_count_by_queue(spark: SparkSession, stores: PristineStores) -> None:
    rows = example("count_by_queue")["waiting"](spark, str(stores["orders-basic"])).collect()
    assert {row.queue: row.messages for row in rows} == Counter(
        line["queue"] for line, _ in lines_of(stores["orders-basic"])
    )
    assert rows[0].messages == max(row.messages for row in rows)


def test_dead_letters(spark: SparkSession, stores: PristineStores) -> None:
    rows = example("dead_letters")["dead_letters"](spark, str(stores["orders-basic"])).collect()
    letters = [line for line, _ in lines_of(stores["orders-basic"]) if line["queue"] == "DLQ"]
    origins = Counter(line["properties"].get("_AMQ_ORIG_QUEUE") for line in letters)
    assert {row["from"]: row.letters for row in rows} == origins != Counter()


def test_record_kinds(spark: SparkSession, stores: PristineStores) -> None:
    files = stores["orders-basic"] / "data" / "journal" / "*.amq"
    rows = {
        (row.kind, row.userType): row.records
        for row in example("record_kinds")["kinds"](spark, str(files)).collect()
    }
    assert rows["ADD", 45] > 0
    assert rows["UPDATE", 32] >= rows["ADD", 45] // 2


def test_names_of_the_package_stay_functions() -> None:
    """A module of the same name would take a function's place when it is first imported."""
    modules = {module.name for module in pkgutil.iter_modules(journalfs.spark.__path__)}
    assert not modules & set(journalfs.spark.__all__)


def test_archive_to_parquet(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}], "b": [{"body": "2"}]})
    archive = example("archive_to_parquet")["archive"]
    archive(spark, str(store), str(tmp_path / "archive"))
    publish(store, "a", [{"body": "3"}])
    archive(spark, str(store), str(tmp_path / "archive"))
    rows = spark.read.parquet(str(tmp_path / "archive")).select("queue", "body").collect()
    assert sorted((row.queue, row.body) for row in rows) == [("a", "1"), ("a", "3"), ("b", "2")]


def test_archive_by_day(spark: SparkSession, tmp_path: Path) -> None:
    day_ms = 86_400_000
    store = written_store(tmp_path, {"a": [{"body": "1", "timestamp": day_ms}], "b": [{"body": "2"}]})
    days = example("archive_by_day")["days"]
    first = days(spark, str(store), str(tmp_path / "archive"), ("a",)).collect()
    assert [(str(row.date), row.queue, row.messages) for row in first] == [("1970-01-02", "a", 1)]
    publish(store, "a", [{"body": "3", "timestamp": day_ms + 1}])
    again = days(spark, str(store), str(tmp_path / "archive")).collect()
    assert {row.queue: row.messages for row in again} == {"a": 2, "b": 1}


def test_publish_csv(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": []})
    (tmp_path / "in.csv").write_text("n,color,day\n1,red,2026-01-02\n2,blue,2026-01-03\n")
    example("publish_csv")["publish"](spark, str(tmp_path / "in.csv"), str(store), "a")
    found = {line["properties"]["color"]: line for line, _ in lines_of(store)}
    assert found["red"]["properties"]["n"] == 1
    assert found["blue"]["body"] == '{"n":2,"color":"blue","day":"2026-01-03"}'
    assert found["red"]["properties"]["day"] == "2026-01-02"


def test_nightly_job(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}], "b": [{"body": "2"}]})
    night = example("nightly_job")["night"]
    places = (str(store), str(tmp_path / "archive"), str(tmp_path / "report"))
    assert night(*places) == "2 archived, 2 waiting, 0 damaged"
    publish(store, "a", [{"body": "3"}])
    assert night(*places) == "1 archived, 3 waiting, 0 damaged"
    assert night(*places) == "0 archived, 3 waiting, 0 damaged"
    assert (tmp_path / "report" / "report.html").exists()


def test_stream_to_parquet(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}], "b": [{"body": "2"}]})
    follow = example("stream_to_parquet")["follow"]
    places = (str(store), str(tmp_path / "out"), str(tmp_path / "checkpoint"))
    for bodies in (["1", "2"], ["1", "2", "3"]):
        follow(spark, *places, once=True).awaitTermination()
        assert sorted(row.body for row in spark.read.parquet(places[1]).collect()) == bodies
        publish(store, "a", [{"body": "3"}])


def test_notebook(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells run one after the other, as those of a notebook do."""
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2", "priority": 9}]})
    monkeypatch.setenv("STORE", str(store))
    cells = json.loads((EXAMPLES / NOTEBOOK).read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert list(names["table"]["body"]) == ["2"]
    assert "|a    |2       |" in capsys.readouterr().out
