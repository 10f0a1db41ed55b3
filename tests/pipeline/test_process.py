"""The commands as processes of their own: killed, without Java, and what they print."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.console import Console

from journalfs.errors import DependencyMissing, NotAStore, SystemFailure, WrongCall
from journalfs.pipeline.archive import archive
from journalfs.pipeline.folders import LocalFolder
from journalfs.pipeline.messages import Source
from journalfs.pipeline.session import in_one_line, session, shown
from tests.mounting import JOURNALFS
from tests.pipeline.stores import envelopes, lines
from tests.spark.drivers import CLUSTER_S_MAX, HERE, spark_home
from tests.spark.writing import written_store

STARTED_S_MAX = 240
SETTINGS = ("spark.driver.bindAddress=127.0.0.1", "spark.driver.host=127.0.0.1", "spark.driver.memory=512m")


def command(store: Path, target: Path, master: str = "local[1]") -> list[str | Path]:
    settings = [word for one in SETTINGS for word in ("--conf", one)]
    return [JOURNALFS, "pipeline", "archive", store, "--output", target, "--master", master, *settings]


def environment(**more: str) -> dict[str, str]:
    """As a user has it: without the settings of the session that tests share."""
    own = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    return {**own, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **more}


def test_a_killed_archive_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {name: [{"body": str(n)} for n in range(500)] for name in "abc"})
    target = tmp_path / "archive"
    process = subprocess.Popen(
        command(store, target), env=environment(), start_new_session=True, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + STARTED_S_MAX
        while not list(target.glob("_run-*/_temporary")):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "it never began to write"
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not list(target.glob("run=*"))
    run = archive(spark, Source(str(store)), LocalFolder(target))
    assert run is not None
    assert run.messages == 1500
    assert envelopes(spark, LocalFolder(target)) == lines(store)
    assert [path.name for path in target.iterdir()] == ["run=000001"]


def test_what_it_prints(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})
    done = subprocess.run(
        command(store, tmp_path / "archive"), env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1\t1\t")


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX)
def test_a_cluster(tmp_path: Path) -> None:
    """`--master` of one whose executors are other processes."""
    store = written_store(tmp_path, {"a": [{"body": str(number)} for number in range(10)]})
    there = environment(SPARK_HOME=str(spark_home(tmp_path / "home")))
    call = [*command(store, tmp_path / "archive", "local-cluster[2,1,1024]"), "--json"]
    call += ["--conf", "spark.executor.memory=512m"]
    done = subprocess.run(call, env=there, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout)["messages"] == 10
    assert list((tmp_path / "archive" / "run=000001").rglob("*.parquet"))


def test_without_java(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": []})
    there = environment(JAVA_HOME=str(tmp_path / "nowhere"))
    done = subprocess.run(
        command(store, tmp_path / "archive"), env=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == SystemFailure.exit_code
    assert len(done.stderr.splitlines()) == 1
    assert "Spark did not start: " in done.stderr
    assert "nowhere/bin/java" in done.stderr
    bare = {"PATH": f"{Path(sys.executable).parent}:{HERE}"}
    done = subprocess.run(
        command(store, tmp_path / "archive"), env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == DependencyMissing.exit_code
    assert "needs a Java runtime" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ["replay", "{none}", "{store}", "--to", "a"],
            3,
            "none: no archive of messages is here; give the folder",
        ),
        (["replay", "{store}", "{store}", "--to", "a"], 3, "store: no archive of messages is here"),
        (["replay", "{archive}", "{none}", "--to", "a"], 3, "none: there is no such directory"),
        (
            ["replay", "{archive}", "{archive}", "--to", "a"],
            3,
            "archive: this is an archive of messages; give",
        ),
        (["replay", "{archive}", "{store}"], 1, "option 'queues' (--to of a replay)"),
        (
            ["replay", "{archive}", "hdfs://far/store", "--to", "a"],
            1,
            "hdfs://far/store: messages are published",
        ),
        (
            ["replay", "{archive}", "{store}", "--to", "a", "--notes", "{file}/x"],
            2,
            "file: cannot note there what is published: Not a directory",
        ),
        (["stats", "{archive}"], 3, "archive: this is an archive of messages; give the store"),
        (["stats", "{none}"], 3, "none: there is no such directory"),
        (["audit", "{file}"], 3, "file: "),
    ],
)
def test_paths_of_all_pipelines_are_looked_at_first(
    tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    """Without Java: what needs it would say so."""
    store = written_store(tmp_path, {"a": []})
    paths = {name: str(tmp_path / name) for name in ("none", "file", "archive")}
    (tmp_path / "file").write_text("")
    (tmp_path / "archive" / "run=000001").mkdir(parents=True)
    program = Path(sys.executable).with_name("journalfs")
    call = [str(program), "pipeline", *(word.format(store=store, **paths) for word in words)]
    done = subprocess.run(
        call, env={"PATH": f"{program.parent}:{HERE}"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert text in done.stderr.replace("file://", "")
    assert len(done.stderr.splitlines()) == 1


def test_paths_are_looked_at_before_spark_starts(tmp_path: Path) -> None:
    """Without Java: what needs it would say so."""
    store = written_store(tmp_path, {"a": []})
    (tmp_path / "file").write_text("")
    bare = {"PATH": f"{Path(sys.executable).parent}:{HERE}"}
    for call, code, text in (
        (
            command(tmp_path / "nothing", tmp_path / "archive"),
            NotAStore.exit_code,
            "there is no such directory",
        ),
        (
            command(store, tmp_path / "file" / "archive"),
            SystemFailure.exit_code,
            "file: cannot write results",
        ),
    ):
        done = subprocess.run(call, env=bare, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_an_interrupt_is_one_line(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": str(n)} for n in range(500)]})
    target = tmp_path / "archive"
    process = subprocess.Popen(
        command(store, target), env=environment(), start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + STARTED_S_MAX
        while not target.exists():
            assert process.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < deadline, "it never began to write"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=STARTED_S_MAX)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, said) == (130, "journalfs: interrupted\n")
    assert not list(target.glob("run=*"))


def test_a_mistake_in_sql_is_one_line(spark: SparkSession) -> None:
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign, assignment]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    try:
        with pytest.raises(WrongCall, match="nothing"), in_one_line():
            spark.range(1).filter("nothing = 1").collect()
        assert not said
        with pytest.raises(AnalysisException):
            spark.range(1).filter("nothing = 1").collect()
        assert said, "others are told as before"
    finally:
        logger.removeHandler(handler)


def test_failures_of_spark_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SystemFailure, match=r"^Spark: .*DIVIDE_BY_ZERO"), in_one_line():
        spark.range(1).selectExpr("1 / id").collect()
    with session(None, {}, title="x") as same:
        assert same.version == spark.version
    assert spark.range(3).count() == 3, "it was there before, and stays"


def test_progress_is_shown_on_a_terminal(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    written = io.StringIO()
    with shown(spark, "counting", Console(file=written, force_terminal=True, width=80)):
        assert spark.range(0, 100, 1, 4).selectExpr("max(id)").collect()[0][0] == 99
    assert "counting" in written.getvalue()
    silent = io.StringIO()
    with shown(spark, "counting"):
        assert not silent.getvalue()
