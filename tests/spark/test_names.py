"""Queues are named in one text, whatever their names hold."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from journalfs.cli.pipelines.common import Names, check_replay
from journalfs.errors import NotAStore, WrongCall
from journalfs.pipeline.messages import Source
from journalfs.spark.names import names_in, names_text
from journalfs.spark.options import Options
from journalfs.spark.schema import usual_schema
from journalfs.spark.source import BatchReader
from journalfs.spark.writer import StagingWriter
from tests.spark.rows import lines_of, rows_of
from tests.spark.writing import written_store

ODD = ("a,b", " c ", "[d]", '"e"')


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ("a",)),
        (" a::b , c,", ("a::b", "c")),
        ('["a"]', ("a",)),
        (' ["a,b", " c ", "[d]"] ', ("a,b", " c ", "[d]")),
        ("x[y],z]", ("x[y]", "z]")),
    ],
)
def test_texts_of_names(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names
    assert names_in(names_text(names)) == names


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_a_text_without_names_does_not_mean_all(text: str) -> None:
    with pytest.raises(WrongCall, match=r"option 'queues': .* names no queue: leave it out to mean all"):
        Options.of({"path": "x", "queues": text})
    with pytest.raises(click.BadParameter, match="names no queue"):
        Names().convert(text, None, None)


@pytest.mark.parametrize("text", ["[", "[d]", "[]", "[1]", '[""]', '["a"', '["a"],b'])
def test_what_begins_as_an_array_and_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="begins as a JSON array of names and is none") as refused:
        names_in(text)
    example = str(refused.value).rpartition(" is ")[2]
    assert names_in(example) == (text,)
    with pytest.raises(WrongCall, match=r"option 'queues': .* begins as a JSON array"):
        Options.of({"path": "x", "queues": text})
    with pytest.raises(click.BadParameter, match="begins as a JSON array"):
        Names().convert(text, None, None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written_store(tmp_path, {name: [{"body": name}] for name in (*ODD, "a", "b")})


def test_queues_of_any_name_are_read_and_written(store: Path) -> None:
    def read(text: str) -> set[str]:
        options = Options.of({"path": str(store), "queues": text, "index": "false"})
        return {row["queue"] for row in rows_of(BatchReader(options, usual_schema(["queue"])))}

    assert read(json.dumps(ODD)) == set(ODD)
    assert read(json.dumps(["a,b::a,b"])) == {"a,b"}
    assert read("a,b") == {"a", "b"}
    for name in ODD:
        table = pa.table({"body": [f"to {name}"]})
        options = Options.of({"path": str(store), "queues": json.dumps([name])})
        writer = StagingWriter(options, from_arrow_schema(table.schema), overwrite=False)
        writer.commit([writer.write(iter(table.to_batches()))])
    found = {(line["queue"], line["body"]) for line, _ in lines_of(store)}
    assert {(name, f"to {name}") for name in ODD} <= found


def test_pipelines_name_them_alike(spark: SparkSession, store: Path) -> None:
    for names in (ODD, ("a,b::a,b",)):
        given = Names().convert(json.dumps(names), None, None)
        rows = Source(str(store), given).messages(spark, usual_schema(["queue"])).collect()
        assert {row.queue for row in rows} == {name.partition("::")[0] for name in names}


def test_a_replay_goes_to_any_name(store: Path) -> None:
    """It is asked for the archive first, and for the name before the store is."""
    archive = "hdfs://host/archive"
    check_replay(archive, str(store), json.dumps(["a,b"]), str(store.parent))
    with pytest.raises(WrongCall, match="one address or queue"):
        check_replay(archive, str(store), "a,b", None)
    with pytest.raises(WrongCall, match="--to: '\\[d' begins as a JSON array"):
        check_replay(archive, str(store), "[d", None)
    with pytest.raises(WrongCall, match="--to: it is empty; leave it out"):
        check_replay(archive, str(store), "", None)
    with pytest.raises(NotAStore):
        check_replay(archive, str(store.parent), json.dumps(["a,b"]), None)
