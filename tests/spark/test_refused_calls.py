"""What format("journalfs") does not do is refused at once, and names mean what they do to Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from journalfs.errors import WrongCall
from journalfs.spark.envelopes import Envelopes
from journalfs.spark.options import Options
from journalfs.spark.reading import Wanted, read_pieces
from journalfs.spark.schema import COLUMNS, usual_schema
from journalfs.spark.source import BatchReader, JournalfsSource
from journalfs.spark.writer import StagingWriter
from tests.spark.rows import lines_of
from tests.spark.writing import written_store


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("acknowledge", "true"),
        ("startingOffsets", "latest"),
        ("maxMessagesPerTrigger", "5"),
        ("exactRows", "5"),
    ],
)
def test_options_of_streams_in_a_batch_read(tmp_path: Path, name: str, said: str) -> None:
    source = JournalfsSource({"path": str(tmp_path), name: said})
    with pytest.raises(WrongCall, match=f"{name}.*a batch read does nothing with it"):
        source.reader(usual_schema())


@pytest.mark.parametrize(
    ("name", "said"), [("selector", "a = 1"), ("acknowledge", "true"), ("columns", "id")]
)
def test_options_of_reads_in_a_write(tmp_path: Path, name: str, said: str) -> None:
    source = JournalfsSource({"path": str(tmp_path), "queues": "a", name: said})
    with pytest.raises(WrongCall, match=f"{name}.*a write does nothing with it"):
        source.writer(StructType([StructField("body", StringType())]), overwrite=False)


@pytest.mark.parametrize("again", ["id", "ID"])
def test_a_column_named_twice(again: str) -> None:
    with pytest.raises(WrongCall, match="'id' is named twice"):
        usual_schema(["id", "body", again])


def test_columns_asked_for_in_another_case(tmp_path: Path) -> None:
    source = JournalfsSource({"path": str(tmp_path), "columns": "ID,Queue,rawmessage"})
    assert source.schema().names == ["id", "queue", "rawMessage"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(DateType(), "date"), (DecimalType(10, 2), r"decimal\(10,2\)"), (TimestampType(), "timestamp")],
)
def test_a_type_that_no_property_has_is_told_with_those_that_there_are(kind: DataType, name: str) -> None:
    schema = StructType([StructField("body", StringType()), StructField("day", kind)])
    with pytest.raises(WrongCall, match=f"'day' cannot be written as {name}: cast it to one of string, "):
        Envelopes(schema)


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("timestamp", DateType(), "timestamp or bigint"),
        ("expiration", TimestampNTZType(), "timestamp or bigint"),
        ("scheduledTime", StringType(), "timestamp or bigint"),
        ("priority", StringType(), "int or bigint"),
        ("Priority", DoubleType(), "int or bigint"),
        ("deliveryCount", BooleanType(), "int or bigint"),
        ("durable", StringType(), "boolean"),
        ("type", IntegerType(), "string"),
        ("groupId", LongType(), "string"),
        ("duplicateId", BinaryType(), "string"),
        ("envelope", BinaryType(), "string"),
        ("bodyBytes", StringType(), "binary"),
        ("properties", MapType(StringType(), IntegerType()), "map<string,string> or map<string,struct<"),
        ("properties", StringType(), "map<string,string> or "),
    ],
)
def test_a_type_that_a_header_has_not_is_told_before_the_job(name: str, kind: DataType, wanted: str) -> None:
    schema = StructType([StructField("body", StringType()), StructField(name, kind)])
    said = f"column '{name}' cannot be written as {kind.simpleString()}: cast it to {wanted}"
    with pytest.raises(WrongCall, match=re.escape(said)):
        Envelopes(schema)


def test_types_that_headers_have_are_taken() -> None:
    every = [StructField(name, types[0]) for name, types in COLUMNS.items()]
    Envelopes(StructType(every))
    numbers = ("priority", "deliveryCount", "timestamp", "expiration", "scheduledTime")
    for kind in (ByteType(), ShortType(), IntegerType(), LongType(), NullType()):
        headers = [StructField(name, kind) for name in numbers]
        Envelopes(StructType([StructField("body", StringType()), *headers]))


@pytest.mark.parametrize("other", ["body", "bodyBytes", "BODY"])
def test_two_columns_that_are_the_body(other: str) -> None:
    kind = BinaryType() if other == "bodyBytes" else StringType()
    schema = StructType([StructField("value", StringType()), StructField(other, kind)])
    with pytest.raises(
        WrongCall, match=f"columns 'value' and '{other}' are a message's body; drop or rename"
    ):
        Envelopes(schema)
    Envelopes(schema.add("envelope", StringType()))


def test_names_of_columns_in_another_case(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": []})
    table = pa.table({"BODY": ["x"], "Priority": pa.array([7], pa.int32())})
    schema = StructType([StructField("BODY", StringType()), StructField("Priority", IntegerType())])
    writer = StagingWriter(Options(path=str(store), queues=("a",)), schema, overwrite=False)
    writer.commit([writer.write(iter(table.to_batches()))])
    assert [(line["body"], line["priority"]) for line, _ in lines_of(store)] == [("x", 7)]
    options = Options(path=str(store), index=False)
    pieces = BatchReader(options, schema).partitions()
    batches = [batch for one in pieces for batch in read_pieces(Wanted(schema, 1 << 20), one)]  # type: ignore[arg-type]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"BODY": "x", "Priority": 7}]
