"""The life of messages as an audit tells it is the life they had."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from journalfs.pipeline.audit import (
    ACKNOWLEDGED,
    EXPIRED,
    HELD,
    MOVED,
    WAITING,
    Audit,
    audit,
)
from journalfs.pipeline.messages import Source
from journalfs.store.write.store import WritingStore
from tests.cli.running import journalfs
from tests.config.test_broker_xml import document
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.spark.rows import lines_of
from tests.spark.writing import acknowledge, change, publish, written_store

TWICE = {"duplicateId": "d", "userId": "6f1c2a7e-4f00-11ee-b962-0242ac120002", "timestamp": 5}


@dataclass
class Audited:
    """A store, by what was done to which message of it."""

    found: Audit
    rows: dict[tuple[str, int], Row]
    core: list[int]
    amqp: list[int]


async def beside_a(opened: WritingStore) -> None:
    await opened.set_attribute("a", None, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
    await opened.create_queue("a", "beside")


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    value = {"section": "value", "value": {"t": "string", "v": "x"}}
    content: dict[str, list[dict[str, Any]]] = {
        "a": [{"body": str(number)} for number in range(5)],
        "b": [],
        "c": [{"amqp": {"body": value}}] * 3,
        "d": [],
    }
    store = written_store(tmp_path_factory.mktemp("audited"), content)
    core, amqp = ([line["id"] for line, _ in lines_of(store) if line["queue"] == name] for name in "ac")
    acknowledge(store, "a", core[:1])
    change(store, lambda opened: opened.move(("a", "a"), core[1:2], ("b", "b")))
    change(store, beside_a)
    change(store, lambda opened: opened.move(("a", "a"), core[4:], ("a", "beside")))
    # As a broker writes what expired, or was given up.
    notes = {"_AMQ_ORIG_QUEUE": "a", "_AMQ_ORIG_MESSAGE_ID": core[2]}
    publish(store, "b", [{"body": "2", "properties": {**notes, "_AMQ_ACTUAL_EXPIRY": 7}}])
    acknowledge(store, "a", core[2:3])
    publish(store, "a", [{"body": "d", **TWICE}])
    for number, expiry in ((0, {}), (1, {"x-opt-ACTUAL-EXPIRY": ("long", 7)})):
        origin = {"x-opt-ORIG-QUEUE": ("string", "c"), "x-opt-ORIG-MESSAGE-ID": ("long", amqp[number])}
        annotations = [
            [{"t": "symbol", "v": name}, {"t": kind, "v": of}]
            for name, (kind, of) in {**origin, **expiry}.items()
        ]
        publish(store, "d", [{"body": "core"}, {"amqp": {"messageAnnotations": annotations, "body": value}}])
        acknowledge(store, "c", [amqp[number]])
    found = audit(spark, Source(str(store)))
    yield Audited(found, {(row.queue, row.id): row for row in found.lives.collect()}, core, amqp)
    found.close()


def test_every_state(audited: Audited) -> None:
    ids, rows = audited.core, audited.rows
    states = {key: row.state for key, row in rows.items() if key[1] in ids}
    assert states == {
        ("a", ids[0]): ACKNOWLEDGED,
        ("a", ids[1]): MOVED,
        ("a", ids[2]): EXPIRED,
        ("a", ids[3]): WAITING,
        ("a", ids[4]): MOVED,
        ("beside", ids[4]): WAITING,
    }
    (moved,) = (row for row in rows.values() if ids[1] == row._AMQ_ORIG_MESSAGE_ID)
    assert rows["a", ids[1]].movedTo == moved.id
    assert (moved.state, moved.queue) == (WAITING, "b")
    (copy,) = (row for row in rows.values() if ids[2] == row._AMQ_ORIG_MESSAGE_ID)
    assert rows["a", ids[2]].movedTo == copy.id
    assert (copy.state, copy.queue) == (WAITING, "b")
    (last,) = (row for row in rows.values() if row.duplicateId == "d")
    assert (last.address, last.timestamp, last.userId) == ("a", 5, TWICE["userId"])
    begin, end = rows["a", ids[0]].published, rows["a", ids[0]].ended
    assert (begin.file, begin.offset < end.offset) == (end.file, True)
    assert rows["a", ids[3]].ended is None
    assert audited.found.findings.isEmpty()


def test_amqp_messages_say_where_they_were_in_annotations(audited: Audited) -> None:
    rows = [audited.rows["c", one] for one in audited.amqp]
    assert [row.state for row in rows] == [MOVED, EXPIRED, WAITING]
    copies = {row._AMQ_ORIG_MESSAGE_ID: row.id for row in audited.rows.values() if row._AMQ_ORIG_QUEUE == "c"}
    assert [row.movedTo for row in rows] == [copies[audited.amqp[0]], copies[audited.amqp[1]], None]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["transactions", "large-and-paged"])
@pytest.mark.long
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


def kept(store: Path, history: Path) -> None:
    """As a broker keeps journal files before it uses them again."""
    history.mkdir(parents=True)
    for path in (store / "journal").glob("*.amq"):
        name, _, number = path.stem.rpartition("-")
        shutil.copy(path, history / f"{name}-20260301120000-{number}.amq")


@pytest.mark.long
def test_a_history_is_audited_without_names(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})
    acknowledge(store, "a", [lines_of(store)[0][0]["id"]])
    history = tmp_path / "elsewhere/history"
    kept(store, history)
    found = audit(spark, Source(str(history)))
    rows = found.lives.collect()
    found.close()
    assert sorted(row.state for row in rows) == [ACKNOWLEDGED, WAITING]
    assert {row.queue for row in rows} == {None}
    assert len({row.queueId for row in rows}) == 1


@pytest.mark.rule("S-179")
@pytest.mark.parametrize("used_again", first_is_quick(True, False))
@pytest.mark.parametrize("given", first_is_quick("store", "kept here"))
def test_what_a_store_keeps_is_audited_with_it(
    spark: SparkSession, tmp_path: Path, given: str, *, used_again: bool
) -> None:
    """Under the names of its queues, each file once."""
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})
    acknowledge(store, "a", [lines_of(store)[0][0]["id"]])
    history = tmp_path / "kept here"
    source = Source(str(history if given == history.name else store))
    kept(store, history)
    directories = {name: store / name for name in ("journal", "bindings", "paging")}
    said = "".join(f"<{name}-directory>{path}</{name}-directory>" for name, path in directories.items())
    said += f'<journal-retention-directory period="1" unit="DAYS">{history}</journal-retention-directory>'
    configuration = store.parent / "etc/broker.xml"
    configuration.parent.mkdir()
    configuration.write_text(document(said))
    if used_again:  # What it held is in the history alone.
        (store / "journal/activemq-data-1.amq").unlink()
    found = audit(spark, source)
    rows = found.lives.collect()
    found.close()
    assert sorted((row.queue, row.state) for row in rows) == [("a", ACKNOWLEDGED), ("a", WAITING)]
