"""The life of messages as an audit tells it is the life they had."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.pipeline.audit import (
    ACKNOWLEDGED,
    EXPIRED,
    HELD,
    MOVED,
    WAITING,
    audit,
)
from journalfs.pipeline.messages import Source
from tests.cli.running import journalfs
from tests.frozen import PristineStores
from tests.spark.rows import lines_of
from tests.spark.writing import acknowledge, change, publish, written_store


def test_every_state(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": str(number)} for number in range(4)], "b": []})
    ids = [line["id"] for line, _ in lines_of(store)]
    acknowledge(store, "a", ids[:1])
    change(store, lambda opened: opened.move(("a", "a"), ids[1:2], ("b", "b")))
    # As a broker writes what expired, or was given up.
    notes = {"_AMQ_ORIG_QUEUE": "a", "_AMQ_ORIG_MESSAGE_ID": ids[2]}
    publish(store, "b", [{"body": "2", "properties": {**notes, "_AMQ_ACTUAL_EXPIRY": 7}}])
    acknowledge(store, "a", ids[2:3])
    twice = {"duplicateId": "d", "userId": "6f1c2a7e-4f00-11ee-b962-0242ac120002", "timestamp": 5}
    publish(store, "a", [{"body": "d", **twice}])
    found = audit(spark, Source(str(store)))
    rows = {(row.queue, row.id): row for row in found.lives.collect()}
    states = {key: row.state for key, row in rows.items() if key[1] in ids}
    assert states == {
        ("a", ids[0]): ACKNOWLEDGED,
        ("a", ids[1]): MOVED,
        ("b", ids[1]): WAITING,
        ("a", ids[2]): EXPIRED,
        ("a", ids[3]): WAITING,
    }
    (copy,) = (row for row in rows.values() if ids[2] == row._AMQ_ORIG_MESSAGE_ID)
    assert rows["a", ids[2]].movedTo == copy.id
    assert (copy.state, copy.queue) == (WAITING, "b")
    (last,) = (row for row in rows.values() if row.duplicateId == "d")
    assert (last.address, last.timestamp, last.userId) == ("a", 5, twice["userId"])
    begin, end = rows["a", ids[0]].published, rows["a", ids[0]].ended
    assert (begin.file, begin.offset < end.offset) == (end.file, True)
    assert rows["a", ids[3]].ended is None
    assert found.findings.isEmpty()
    found.close()


def test_amqp_messages_say_where_they_were_in_annotations(spark: SparkSession, tmp_path: Path) -> None:
    value = {"section": "value", "value": {"t": "string", "v": "x"}}
    store = written_store(tmp_path, {"a": [{"amqp": {"body": value}}] * 3, "b": []})
    ids = [line["id"] for line, _ in lines_of(store)]
    for number, expiry in ((0, {}), (1, {"x-opt-ACTUAL-EXPIRY": ("long", 7)})):
        origin = {"x-opt-ORIG-QUEUE": ("string", "a"), "x-opt-ORIG-MESSAGE-ID": ("long", ids[number])}
        notes = {**origin, **expiry}.items()
        annotations = [[{"t": "symbol", "v": name}, {"t": kind, "v": of}] for name, (kind, of) in notes]
        publish(store, "b", [{"body": "core"}, {"amqp": {"messageAnnotations": annotations, "body": value}}])
        acknowledge(store, "a", [ids[number]])
    found = audit(spark, Source(str(store)))
    rows = {row.id: row for row in found.lives.collect()}
    found.close()
    assert [rows[one].state for one in ids] == [MOVED, EXPIRED, WAITING]
    copies = {row._AMQ_ORIG_MESSAGE_ID: row.id for row in rows.values() if row._AMQ_ORIG_QUEUE == "a"}
    assert [rows[one].movedTo for one in ids] == [copies[ids[0]], copies[ids[1]], None]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["transactions", pytest.param("large-and-paged", marks=pytest.mark.long)])
def test_what_waits_is_what_is_live(spark: SparkSession, stores: PristineStores, name: str) -> None:
    found = audit(spark, Source(str(stores[name])))
    rows = found.lives.filter("queue is not null").collect()
    live = Counter((line["queue"], line["id"]) for line, _ in lines_of(stores[name]))
    assert Counter((row.queue, row.id) for row in rows if row.state == WAITING) == live
    states = Counter(row.state for row in rows)
    assert states[ACKNOWLEDGED] > 0
    if name == "transactions":
        assert states[HELD] > 0
        odd = Counter(row.finding for row in found.findings.collect())
        assert odd["prepared"] > 0
        assert odd["uncommitted"] > 0
    found.close()


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})
    acknowledge(store, "a", [lines_of(store)[0][0]["id"]])
    done = journalfs("pipeline", "audit", store, "--output", tmp_path / "out")
    assert done.stdout == "state\ta\tacknowledged\t1\nstate\ta\twaiting\t1\n"
    lives = spark.read.parquet(str(tmp_path / "out" / "lives")).collect()
    assert sorted(row.state for row in lives) == [ACKNOWLEDGED, WAITING]
    assert spark.read.parquet(str(tmp_path / "out" / "findings")).columns == [
        "finding",
        "id",
        "queue",
        "detail",
    ]
    assert "data:image/png" in (tmp_path / "out" / "report.html").read_text()
    refused = journalfs("pipeline", "audit", tmp_path / "none")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)


def test_a_history_is_audited_without_names(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})
    acknowledge(store, "a", [lines_of(store)[0][0]["id"]])
    history = tmp_path / "history"
    history.mkdir()
    for path in (store / "journal").glob("*.amq"):
        name, _, number = path.stem.rpartition("-")
        shutil.copy(path, history / f"{name}-20260301120000-{number}.amq")
    found = audit(spark, Source(str(history)))
    rows = found.lives.collect()
    found.close()
    assert sorted(row.state for row in rows) == [ACKNOWLEDGED, WAITING]
    assert {row.queue for row in rows} == {None}
    assert len({row.queueId for row in rows}) == 1
