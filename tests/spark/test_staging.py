"""What tasks put aside and the driver publishes, without a session."""

from __future__ import annotations

import datetime
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from journalfs.errors import NoSuchName, StoreBusy, SystemFailure, WrongCall
from journalfs.spark.changing import destination_of
from journalfs.spark.options import Options
from journalfs.spark.place import place_of
from journalfs.spark.schema import usual_schema
from journalfs.spark.writer import StagingWriter
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.mounting import mounted_for_writing
from tests.spark.rows import lines_of, read_without_spark
from tests.spark.writing import change, publish, written_store
from tests.writing.conftest import bodies as texts_of

TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written_store(tmp_path, {"a": [], "b": []})


def writer_of(path: Path, table: pa.Table, **options: Any) -> StagingWriter:
    return StagingWriter(Options(path=str(path), **options), from_arrow_schema(table.schema), overwrite=False)


def write(path: Path, table: pa.Table, **options: Any) -> None:
    """As a job of one task per batch does."""
    writer = writer_of(path, table, **options)
    writer.commit([writer.write(iter([batch])) for batch in table.to_batches(max_chunksize=3)])


def bodies(store: Path) -> list[Any]:
    return [line.get("body") for line, _ in lines_of(store)]


def left(store: Path) -> list[str]:
    return [path.name for path in (store / "journalfs" / "spark").glob("*")]


def test_texts_become_messages_in_their_order(store: Path) -> None:
    texts = ["one", "", "drei ä\t", "with\nline feeds", "\r", None, "last"]
    write(store, pa.table({"body": pa.array(texts, pa.string())}), queues=("a",))
    assert sorted(map(str, bodies(store))) == sorted(map(str, texts))
    assert left(store) == []


def test_columns_become_headers_and_properties(store: Path) -> None:
    table = pa.table(
        {
            "body": ["x", "y"],
            "priority": pa.array([9, None], pa.int32()),
            "timestamp": pa.array([TIME, None], pa.timestamp("us", "UTC")),
            "groupId": ["g", None],
            "color": ["red", None],
            "n": pa.array([7, None], pa.int32()),
            "weight": pa.array([1.5, None], pa.float32()),
            "blob": pa.array([b"\x00\xff", None], pa.binary()),
        }
    )
    write(store, table, queues=("a::a",))
    first, second = (line for line, _ in lines_of(store))
    assert (first["priority"], second["priority"]) == (9, 4)
    assert first["timestamp"] == int(TIME.timestamp() * 1000)
    assert first["groupId"] == "g"
    assert {name: first["properties"][name] for name in ("color", "n", "weight")} == {
        "color": "red",
        "n": 7,
        "weight": 1.5,
    }
    assert first["propertyTypes"] == {"n": "int", "weight": "float", "blob": "bytes"}
    assert "properties" not in second


def test_bytes_and_whole_envelopes(store: Path) -> None:
    write(store, pa.table({"body": pa.array([b"\x00\x01"], pa.binary())}), queues=("a",))
    write(store, pa.table({"envelope": ['{"type":"map","body":{"k":1}}']}), queues=("b",))
    first, second = (line for line, _ in lines_of(store))
    assert first["body_base64"] == "AAE="
    assert second["type"] == "map"


def test_what_was_read_can_be_written(store: Path) -> None:
    envelope = {
        "body": "x",
        "priority": 7,
        "properties": {"n": 1, "b": True, "s": "t", "d": 0.5},
        "propertyTypes": {"n": "short", "d": "double"},
    }
    publish(store, "a", [envelope])
    schema = usual_schema()
    rows = read_without_spark(store, schema)
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema, timezone="UTC"))
    write(store, table, queues=("b",))
    first, second = (line for line, _ in lines_of(store))
    for name in ("body", "priority", "properties", "propertyTypes", "timestamp"):
        assert first[name] == second[name]
    assert (first["queue"], second["queue"]) == ("a", "b")


def test_only_what_the_driver_hears_of_is_published(store: Path) -> None:
    """A task that was started twice wrote its rows twice."""
    table = pa.table({"body": ["x"]})
    writer = writer_of(store, table, queues=("a",))
    writer.write(iter(table.to_batches()))
    writer.commit([writer.write(iter(table.to_batches()))])
    assert bodies(store) == ["x"]


def test_a_job_that_fails_leaves_nothing(store: Path) -> None:
    table = pa.table({"body": ["x"]})
    writer = writer_of(store, table, queues=("a",))
    writer.write(iter(table.to_batches()))
    assert left(store) != []
    writer.abort([None])
    assert left(store) == []
    assert bodies(store) == []


def test_nothing_is_published_unless_all_is(store: Path) -> None:
    """One bad envelope among the files of a job."""
    good, bad = pa.table({"envelope": ['{"body":"x"}']}), pa.table({"envelope": ['{"bodi":"x"}']})
    writer = writer_of(store, good, queues=("a",))
    messages: list[WriterCommitMessage | None] = [
        writer.write(iter(table.to_batches())) for table in (good, bad)
    ]
    with pytest.raises(Exception, match="bodi"):
        writer.commit(messages)
    writer.abort([])
    assert bodies(store) == []
    assert left(store) == []


def test_a_job_without_rows_publishes_nothing(store: Path) -> None:
    write(store, pa.table({"body": pa.array([], pa.string())}), queues=("a",))
    assert bodies(store) == []
    assert left(store) == []


def test_a_mount_publishes_by_one_rename(store: Path, tmp_path: Path) -> None:
    table = pa.table({"body": [f"row {number}" for number in range(10)]})
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        write(mount.path / "a", table)
        write(mount.path, table, queues=("b::b",))
        assert sorted(texts_of(mount.queue("a", "a"))) == sorted(table["body"].to_pylist())
        assert [one for one in (mount.path / "a").iterdir() if "spark" in one.name] == []
        failing = writer_of(mount.path / "a" / "a", table)
        failing.write(iter(table.to_batches()))
        failing.abort([None])
        with pytest.raises(NoSuchName):
            write(mount.path, table, queues=("c",))
    assert len(bodies(store)) == 20


def test_a_store_that_somebody_holds_is_not_written(store: Path) -> None:
    table = pa.table({"body": ["x"]})
    writer = writer_of(store, table, queues=("a",))
    message = writer.write(iter(table.to_batches()))
    held = open_for_writing(store, index=False)
    try:
        with pytest.raises(StoreBusy):
            writer.commit([message])
    finally:
        held.close()
    writer.abort([message])
    assert left(store) == []


async def more(opened: WritingStore) -> None:
    await opened.set_attribute("a", None, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
    await opened.create_queue("a", "waits")
    await opened.create_queue("a", "c")
    await opened.create_address("c")


@pytest.mark.parametrize("through_a_mount", [False, True])
def test_a_name_alone_is_that_of_an_address_or_else_of_a_queue(
    store: Path, tmp_path: Path, through_a_mount: bool
) -> None:
    """As reading takes it."""
    change(store, more)
    with ExitStack() as mounts:
        path = store
        if through_a_mount:
            path = mounts.enter_context(mounted_for_writing(store, tmp_path / "mnt")).path
        for name in ("waits", "a", "b::b"):
            write(path, pa.table({"body": [name]}), queues=(name,))
        with pytest.raises(NoSuchName, match=f"option 'queues': no address or queue 'd' in {path}"):
            writer_of(path, pa.table({"body": ["x"]}), queues=("d",))
        for absent in ("a::b", "d::d", "c::c"):
            with pytest.raises(NoSuchName, match=f"option 'queues': no queue '{absent}' in {path}; make one"):
                destination_of(place_of(str(path)), [absent])
        assert destination_of(place_of(str(path)), ["c"]) == ("c", None)
    found = [(line["queue"], line["body"]) for line, _ in lines_of(store)]
    assert sorted(found) == [("a", "a"), ("b", "b::b"), ("c", "a"), ("waits", "a"), ("waits", "waits")]


def test_a_mount_s_reason_reaches_whoever_writes(store: Path, tmp_path: Path) -> None:
    table = pa.table({"body": ["x"], "priority": pa.array([77], pa.int32())})
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        folder = mount.path / "a" / "a"
        with pytest.raises(SystemFailure, match=f"{folder}: cannot publish .*: priority: 77 is not between"):
            write(folder, table)
        assert mount.queue("a", "a").lines() == []


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
def test_numbers_that_json_has_no_words_for(store: Path, width: Any) -> None:
    values = [float("nan"), float("inf"), float("-inf"), 0.5]
    write(store, pa.table({"body": list("abcd"), "n": pa.array(values, width)}), queues=("a",))
    found = {line["body"]: line["properties"]["n"] for line, _ in lines_of(store)}
    assert found == {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.5}
    kinds = {line["propertyTypes"]["n"] for line, _ in lines_of(store)}
    assert kinds == {"float" if width == pa.float32() else "double"}


def test_an_envelope_over_several_lines_is_one_message(store: Path) -> None:
    pretty = json.dumps({"body": "a\nb", "priority": 7}, indent=1) + "\n"
    write(store, pa.table({"envelope": [pretty]}), queues=("a",))
    assert [(line["body"], line["priority"]) for line, _ in lines_of(store)] == [("a\nb", 7)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"body":"a"}\n{"body":"b"}', "column 'envelope': a row with line feeds is not one JSON object"),
        ('{"body":"a\nb"}', "column 'envelope': a row with line feeds is not one JSON object"),
        (" \n", "a row without an envelope"),
        (None, "a row without an envelope"),
    ],
)
def test_what_is_not_one_envelope_is_refused(store: Path, text: str | None, reason: str) -> None:
    with pytest.raises(WrongCall, match=reason):
        write(store, pa.table({"envelope": pa.array([text], pa.string())}), queues=("a",))


@pytest.mark.parametrize(
    "envelope", [{"type": "map", "body": {"k": {"t": "int", "v": 1}}}, {"type": "stream", "body": []}]
)
def test_bodies_that_columns_do_not_carry_are_refused_with_what_does(
    store: Path, envelope: dict[str, Any]
) -> None:
    publish(store, "a", [envelope])
    schema = usual_schema()
    table = pa.Table.from_pylist(
        read_without_spark(store, schema), schema=to_arrow_schema(schema, timezone="UTC")
    )
    with pytest.raises(WrongCall, match=f"a row is of type '{envelope['type']}'.*column envelope"):
        write(store, table, queues=("b",))


def test_a_row_with_two_bodies_is_refused(store: Path) -> None:
    table = pa.table({"body": ["x", None], "bodyBytes": pa.array([None, b"y"], pa.binary())})
    write(store, table, queues=("a",))
    assert len(bodies(store)) == 2
    both = pa.table({"body": ["x"], "bodyBytes": pa.array([b"y"], pa.binary())})
    with pytest.raises(WrongCall, match="a body in columns 'body' and 'bodyBytes'; leave one of them null"):
        write(store, both, queues=("a",))


@pytest.mark.parametrize(
    ("kind", "text"),
    [("int", "zz"), ("long", "1.5"), ("double", "much"), ("float", "nan"), ("boolean", "yes")],
)
def test_a_property_that_is_not_of_its_type_is_named(store: Path, kind: str, text: str) -> None:
    value = pa.struct([("type", pa.string()), ("value", pa.string())])
    properties = pa.array([[("size", {"type": kind, "value": text})]], pa.map_(pa.string(), value))
    with pytest.raises(WrongCall, match=f"property 'size': '{text}' is no {kind}; mend the value"):
        write(store, pa.table({"body": ["x"], "properties": properties}), queues=("a",))


def test_what_cannot_be_written_is_refused_at_once(store: Path) -> None:
    text = pa.table({"body": ["x"]})
    with pytest.raises(WrongCall, match="needs a column body"):
        writer_of(store, pa.table({"id": [1]}), queues=("a",))
    with pytest.raises(WrongCall, match="cannot be written"):
        writer_of(store, pa.table({"body": ["x"], "list": [[1]]}), queues=("a",))
    with pytest.raises(WrongCall, match="one address or queue"):
        writer_of(store, text)
    with pytest.raises(WrongCall, match="appends"):
        StagingWriter(Options(path=str(store)), from_arrow_schema(text.schema), overwrite=True)
    with pytest.raises(NoSuchName):
        writer_of(store, text, queues=("nobody",))
