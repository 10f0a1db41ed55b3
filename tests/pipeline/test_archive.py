"""An archive has each message once, with all that its envelope says, whatever became of its runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from journalfs.clock import FakeClock
from journalfs.errors import EXIT_DAMAGED, EXIT_DEPENDENCY, NotAStore, SystemFailure
from journalfs.pipeline.archive import Run, archive, archived
from journalfs.pipeline.engines import LOCAL, SPARK
from journalfs.pipeline.folders import HadoopFolder, LocalFolder, folder_at, runs
from journalfs.pipeline.messages import Source
from tests.account.damaging import EVERY
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.pipeline.crashing import CrashingFolder, Killed
from tests.pipeline.stores import envelopes, lines
from tests.spark.conftest import MountStore
from tests.spark.rows import lines_of
from tests.spark.writing import acknowledge, publish, written_store


@pytest.mark.parametrize("names", first_is_quick(("orders-basic",), ("orders-basic", "amqp-exotic")), ids=len)
def test_an_archive_keeps_every_field_of_every_kind_of_message(
    spark: SparkSession,
    stores: PristineStores,
    mount_store: MountStore,
    tmp_path: Path,
    names: tuple[str, ...],
) -> None:
    """Of AMQP messages a replay shows it, too."""
    folder = folder_at(spark, str(tmp_path / "archive"))
    wanted: list[str] = []
    for number, name in enumerate(names, 1):
        store = stores[name]
        run = archive(spark, Source(str(store)), folder, clock=FakeClock(wall_ms=7))
        wanted = sorted(wanted + lines(store))
        assert run is not None
        assert (run.run, run.source, run.finished_ms) == (number, str(store), 7)
        assert envelopes(spark, folder) == wanted
        assert json.loads(folder.read(f"run={number:06d}/_run.json"))["messages"] == run.messages
    # By another way, with nothing new.
    assert archive(spark, Source(str(mount_store(stores["orders-basic"]))), folder) is None
    assert envelopes(spark, folder) == wanted
    assert folder.names() == [f"run={number:06d}" for number, _ in enumerate(names, 1)]


def test_folders_are_named_by_address_queue_and_day(spark: SparkSession, tmp_path: Path) -> None:
    day, long = 86_400_000, "q" * 240
    messages = [{"body": "x", "timestamp": when} for when in (0, 20_000 * day - 1, 20_000 * day, 2**62)]
    store = written_store(tmp_path, {"a/b=c": messages, long: [{"body": "long", "timestamp": day}]})
    archive(spark, Source(str(store)), LocalFolder(tmp_path / "archive"))
    found = Counter(
        str(path.parent.relative_to(tmp_path / "archive"))
        for path in (tmp_path / "archive").rglob("*.parquet")
    )
    hashed = "~".join(("q" * 40, "0cb7af5ac4b3ae6acac8c3e2ff0b3ea4"))
    place = "run=000001/address=a%2Fb%3Dc/queue=a%2Fb%3Dc/date="
    assert {one for one in found if "%2F" in one} == {
        f"{place}__HIVE_DEFAULT_PARTITION__",
        f"{place}2024-10-03",
        f"{place}2024-10-04",
    }
    (cut,) = (one for one in found if "%2F" not in one)
    assert cut.endswith("/date=1970-01-02")
    assert len(hashed) == len(cut.split("queue=")[1].split("/")[0])
    rows = archived(spark, LocalFolder(tmp_path / "archive")).filter("queue = 'a/b=c'")
    assert sorted(str(row.date) for row in rows.collect()) == ["2024-10-03", "2024-10-04", "None", "None"]
    # Names that are not those of folders are the same ones again, too.
    assert archive(spark, Source(str(store)), LocalFolder(tmp_path / "archive")) is None


def test_names_that_look_like_numbers_stay_names(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes folders of such for numbers, of which several have one value, unless it is told."""
    store = written_store(tmp_path, {name: [{"body": name}] for name in ("007", "7", "1e1")})
    folder = LocalFolder(tmp_path / "archive")
    assert archive(spark, Source(str(store)), folder) is not None
    assert archive(spark, Source(str(store)), folder) is None
    wanted = {(name, name, name) for name in ("007", "7", "1e1")}
    columns = "address", "queue", "body"
    assert {tuple(row) for row in archived(spark, folder).select(*columns).collect()} == wanted
    assert archived(spark, folder).filter("queue = '7'").count() == 1
    inference = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(inference, "false")
    try:
        found = spark.read.parquet(folder.uri()).select(*columns).collect()
    finally:
        spark.conf.unset(inference)
    assert {tuple(row) for row in found} == wanted


def test_runs_add_what_is_new_however_the_store_changed(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}], "b": []})
    folder = LocalFolder(tmp_path / "archive")
    first = archive(spark, Source(str(store)), folder)
    ids = [line["id"] for line, _ in lines_of(store)]
    acknowledge(store, "a", ids[:1])
    publish(store, "b", [{"body": "3"}])
    assert journalfs("compact", store).returncode == 0
    second = archive(spark, Source(str(store)), folder, bodies=False)
    assert first is not None
    assert second is not None
    assert (first.messages, second.messages) == (2, 1)
    rows = archived(spark, folder).collect()
    assert sorted((row.run, row.queue, row.body) for row in rows) == [
        (1, "a", "1"),
        (1, "a", "2"),
        (2, "b", None),
    ]
    assert json.loads(rows[[row.run for row in rows].index(2)].envelope)["body"] == "3"
    # A store restored from a backup uses ids again.
    again = written_store(tmp_path / "again", {"a": [{"body": "other"}, {"body": "messages"}]})
    third = archive(spark, Source(str(again)), folder)
    assert third is not None
    assert third.messages == 2


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_run_that_ends_anywhere_and_is_repeated_neither_loses_nor_doubles(
    spark: SparkSession, tmp_path: Path, stride: int
) -> None:
    store = written_store(tmp_path, {"a": [{"body": str(number)} for number in range(5)]})
    source = Source(str(store))
    at, ended, wanted = 0, True, lines(store)
    while ended:
        path, ended = tmp_path / str(at), False
        archive(spark, source, LocalFolder(path))
        publish(store, "a", [{"body": f"before {at}"}])
        try:
            archive(spark, source, CrashingFolder(path, at))
        except Killed:
            ended = True
        assert envelopes(spark, LocalFolder(path)) in (wanted, wanted := lines(store))
        publish(store, "a", [{"body": f"later than {at}"}])
        archive(spark, source, LocalFolder(path))
        wanted = lines(store)
        assert envelopes(spark, LocalFolder(path)) == wanted
        assert all(name.startswith("run=") for name in LocalFolder(path).names())
        at += stride
    assert at > 3


def test_of_two_runs_at_a_time_one_counts(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})

    class Overtaken(LocalFolder):
        def commit(self, name: str, final: str) -> None:
            archive(spark, Source(str(store)), LocalFolder(self.path))
            super().commit(name, final)

    with pytest.raises(SystemFailure, match="was written by another run meanwhile"):
        archive(spark, Source(str(store)), Overtaken(tmp_path / "archive"))
    assert envelopes(spark, LocalFolder(tmp_path / "archive")) == lines(store)


def test_a_folder_of_hadoop_is_as_one_of_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})
    folder = HadoopFolder(spark, f"file://{tmp_path}/with space")
    assert runs(folder) == []
    run = archive(spark, Source(str(store)), folder)
    assert run is not None
    assert run.bytes > 100
    assert json.loads(folder.read("run=000001/_run.json"))["run"] == 1
    folder.write("x", b"other")
    with pytest.raises(SystemFailure, match="was written by another run meanwhile"):
        folder.commit("x", "run=000001")
    folder.remove("x")
    assert folder.names() == ["run=000001"]
    assert envelopes(spark, folder) == lines(store)
    with pytest.raises(SystemFailure, match=r"cannot read what was noted: java\.io\.FileNotFound"):
        folder.read("y")
    with pytest.raises(SystemFailure, match="cannot reach it"):
        HadoopFolder(spark, "nowhere://host/path")


@pytest.mark.long
def test_stores_and_archives_that_only_hadoop_reaches(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's own view of other filesystems stands for one that is elsewhere."""
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.far.link./data", f"file://{tmp_path}")
    store = written_store(tmp_path, {"a": [{"body": "é"}], 'q"2': [{"type": "map", "body": {"k": 1}}]})
    folder = folder_at(spark, "viewfs://far/data/archive")
    assert isinstance(folder, HadoopFolder)
    source = Source("viewfs://far/data/store")
    run = archive(spark, source, folder)
    assert run is not None
    assert run.messages == 2
    assert envelopes(spark, folder) == lines(store)
    publish(store, "a", [{"body": "later"}])
    assert archive(spark, Source(source.path, ('q"2::q"2',)), folder) is None
    assert archive(spark, Source(source.path, ("a",)), folder) is not None
    # What was read in two ways are the same messages.
    assert archive(spark, Source(str(store)), LocalFolder(tmp_path / "archive")) is None
    assert envelopes(spark, folder) == lines(store)
    with pytest.raises(NotAStore, match="no journal files"):
        archive(spark, Source("viewfs://far/data/none"), folder)


@pytest.mark.rule("S-319", "S-456")
@pytest.mark.parametrize("engine", [LOCAL, SPARK])
def test_the_command(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    long = "q" * 240
    store = written_store(
        tmp_path,
        {"a": [{"body": "1"}], "b": [{"body": "2", "priority": 9}, {"body": "3"}], long: [{"body": "4"}]},
    )
    target = tmp_path / "archive"
    command = ["pipeline", "archive", str(store), "--output", str(target), "--engine", engine, "--json"]
    (said,) = objects(*command, "--queues", "b", "--where", "JMSPriority > 5")
    books = said.pop("books")
    assert Run(**said).messages == 1
    assert books["carried"] == {"b::b": 1}
    left = {(one["queue"], one["reason"]): one["messages"] for one in books["notCarried"]}
    assert left == {
        ("a::a", "--queues b"): 1,
        ("b::b", "--where JMSPriority > 5"): 1,
        (f"{long}::{long}", "--queues b"): 1,
    }
    (said,) = objects(*command)
    assert said["messages"] == 3
    # What was archived before is in the archive.
    assert said["books"]["carried"] == {"a::a": 1, "b::b": 2, f"{long}::{long}": 1}
    (said,) = objects(*command)
    assert (said["run"], said["messages"], said["books"]["carriedMessages"]) == (None, 0, 4)
    done = journalfs(*command[:-1])
    assert done.stdout == "-\t0\t0\n"
    assert "source 4; in the archive 4; not in the archive: 0" in done.stderr


def without_java(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in a process that cannot start Spark."""
    command = [sys.executable, "-m", "journalfs", *map(str, arguments)]
    lacking = {"PATH": str(Path(sys.executable).parent)}
    return subprocess.run(command, check=False, env=lacking, capture_output=True, text=True, timeout=60)


@pytest.mark.rule("S-455")
def test_a_run_without_anything_new_needs_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}], "b": [{"body": "2"}]})
    target = tmp_path / "archive"
    command = ["pipeline", "archive", str(store), "--output", str(target), "--engine", SPARK]
    assert journalfs(*command).stdout.startswith("1\t2\t")
    done = without_java(*command)
    assert (done.returncode, done.stdout) == (0, "-\t0\t0\n"), done.stderr
    assert "source 2; in the archive 2; not in the archive: 0" in done.stderr
    # Whatever is not known for sure is left to Spark.
    for arguments in ([*command, "--queues", "b"], [*command, "--where", "JMSPriority > 4"]):
        assert without_java(*arguments).returncode == EXIT_DEPENDENCY
    publish(store, "a", [{"body": "3"}])
    assert without_java(*command).returncode == EXIT_DEPENDENCY
    assert journalfs(*command).stdout.startswith("2\t1\t")
    assert without_java(*command).returncode == 0
    shutil.rmtree(target / "run=000001")
    assert without_java(*command).returncode == EXIT_DEPENDENCY


@pytest.mark.rule("S-319")
@pytest.mark.parametrize("engine", [LOCAL, SPARK])
def test_what_is_damaged_or_dropped_is_in_no_archive(
    spark: SparkSession,
    store_copy: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    """With a canary: one message less comes of Spark."""
    data = store_copy("large-and-paged") / "data"
    EVERY["body_gone"](data)
    command = ["pipeline", "archive", str(data), "--json", "--engine", engine, "--output"]
    done = journalfs(*command, tmp_path / "archive")
    books = json.loads(done.stdout)["books"]
    left = [(one["standing"], one["messages"]) for one in books["notCarried"]]
    assert (done.returncode, left) == (EXIT_DAMAGED, [("damaged", 1)])
    assert books["sourceMessages"] == books["carriedMessages"] + 1
    checked = journalfs("check", data)
    assert {line for line in checked.stdout.splitlines() if "\t" in line} <= set(done.stderr.splitlines())
    if engine == LOCAL:
        return
    whole = Source.messages

    def one_less(self: Source, spark: SparkSession, schema: StructType) -> DataFrame:
        found = whole(self, spark, schema)
        (last,) = found.filter("damage is null").agg(f.max("id").alias("id")).collect()
        return found.filter(f.col("id") != last.id)

    monkeypatch.setattr(Source, "messages", one_less)
    done = journalfs(*command, tmp_path / "again")
    assert "a fault of journalfs" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["{tmp}/none"], 3, "no such directory"),
        (["{store}", "--queues", "none"], 1, "no address or queue 'none'"),
        (["{store}", "--where", "a ="], 1, "selector 'a ='"),
        (["{store}", "--conf", "x"], 1, "'x' is not NAME=VALUE"),
        (["hdfs://nowhere.invalid/x", "--where", "a = 1"], 1, "--where needs a store on this machine"),
    ],
)
def test_refusals_are_one_line(
    spark: SparkSession, tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    store = written_store(tmp_path, {"a": []})
    given = [one.format(tmp=tmp_path, store=store) for one in arguments]
    done = journalfs("pipeline", "archive", *given, "--output", tmp_path / "out")
    assert done.returncode == code
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with pytest.raises(NotAStore, match="no archive of messages"):
        archived(spark, LocalFolder(tmp_path / "out"))
