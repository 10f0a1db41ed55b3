"""Commands beside the session of all tests: killed ones, failures in one line, and progress."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.console import Console

from journalfs.errors import SystemFailure, WrongCall
from journalfs.pipeline.archive import archive
from journalfs.pipeline.folders import LocalFolder
from journalfs.pipeline.messages import Source
from journalfs.pipeline.session import in_one_line, session, shown
from journalfs.spark import register
from tests.pipeline.stores import envelopes, lines
from tests.pipeline.test_process import STARTED_S_MAX, command, environment
from tests.spark.drivers import said_by
from tests.spark.writing import written_store

JOB = (sys.executable, "-m", "tests.pipeline.session_job")
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.mark.long
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
    for raised, said in (
        (ValueError("odd\nand long"), "ValueError: odd$"),
        (
            ModuleNotFoundError("No module named 'x'"),
            "No module named 'x': the Python that Spark ",
        ),
    ):

        def fail(batches: Iterable[Any], raised: Exception = raised) -> Iterator[Any]:
            raise raised

        with pytest.raises(SystemFailure, match=rf"^Spark: .*{said}"), in_one_line():
            spark.range(1).mapInArrow(fail, "id long").collect()
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


def test_a_python_that_somebody_named_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "/named/python")
    register(spark)
    assert context.pythonExec == "/named/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "master", "spark://far:7077")
    register(spark)
    assert context.pythonExec == "/named/python", "what workers elsewhere have is not for us to know"
    monkeypatch.undo()
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "pythonExec", "python3")
    register(spark)
    assert context.pythonExec == sys.executable


@pytest.mark.long
def test_an_exchange_has_a_task_a_core_unless_somebody_says_otherwise() -> None:
    """And one that has ended is told. In a process of its own: to end this one's would end it for all."""
    assert said_by([*JOB, "{}", json.dumps({PARTITIONS: "7"}), "{}"]) == {
        "tasks": ["3", "7", "3"],
        "said": ["this Spark session has ended (spark.stop()): begin another"] * 4,
    }


@pytest.mark.long
def test_an_exchange_has_as_many_tasks_as_the_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{PARTITIONS} 5\n")
    assert said_by([*JOB, "{}"], SPARK_CONF_DIR=str(tmp_path))["tasks"] == ["5"]
