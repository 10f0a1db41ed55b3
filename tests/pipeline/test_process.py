"""The commands as processes of their own: interrupted, without Java, and what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import DependencyMissing, NotAStore, SystemFailure
from tests.cli.running import journalfs
from tests.kinds import some_pairs
from tests.mounting import JOURNALFS
from tests.pipeline.stores import store_with
from tests.spark.drivers import CLUSTER_S_MAX, ENVIRONMENT, HERE, QUICK_START, spark_home
from tests.spark.rows import lines_of
from tests.spark.writing import change, written_store

STARTED_S_MAX = 240
WITHOUT_JAVA = {"PATH": f"{Path(sys.executable).parent}:{HERE}"}
SETTINGS = (
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.host=127.0.0.1",
    "spark.driver.memory=512m",
    "spark.sql.shuffle.partitions=2",
)


def command(store: Path, target: Path, master: str = "local[1]") -> list[str | Path]:
    settings = [word for one in SETTINGS for word in ("--conf", one)]
    return [JOURNALFS, "pipeline", "archive", store, "--output", target, "--master", master, *settings]


def environment(**more: str) -> dict[str, str]:
    """As a user has it: without the settings of the session that tests share, but for a short start."""
    own = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    return {**own, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": QUICK_START, **more}


def environment_of_others(tmp_path: Path) -> dict[str, str]:
    """The same where the first Python of the search path has nothing of ours, as where a virtual environment
    is not activated.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    return environment(PATH=f"{folder}:{os.environ['PATH']}")


@pytest.mark.long
def test_what_it_prints(tmp_path: Path) -> None:
    """Whatever Python is found first: it is the command's own that Spark runs."""
    there = environment_of_others(tmp_path)
    archived = command(written_store(tmp_path, {"a": [{"body": "1"}]}), tmp_path / "archive")
    assert said_only_by(archived, there).startswith("1\t1\t")


@pytest.mark.long
def test_what_a_replay_prints(tmp_path: Path) -> None:
    there = environment_of_others(tmp_path)
    archived = command(written_store(tmp_path, {"a": [{"body": "1"}]}), tmp_path / "archive")
    said_only_by(archived, there)
    other = store_with(tmp_path / "other", id_cache_size=9)
    replayed = [JOURNALFS, "pipeline", "replay", tmp_path / "archive", other, "--to", "to::to", *archived[6:]]
    assert said_only_by(replayed, there) == "1\t0\t0\n"


def ran(words: Sequence[str | Path], there: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=there, capture_output=True, text=True, check=False)


def said_only_by(words: list[str | Path], there: dict[str, str]) -> str:
    """What a command prints that succeeds and has nothing but its books to say beside."""
    done = ran(words, there)
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("source ")]
    assert (done.returncode, complaints) == (0, [])
    return done.stdout


@pytest.mark.long
def test_a_plain_script_needs_no_activated_environment(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})
    script = Path(__file__).parents[2] / "docs" / "examples" / "record_kinds.py"
    done = ran([sys.executable, script, store / "journal" / "*.amq"], environment_of_others(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "ADD" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX)
def test_a_cluster(tmp_path: Path) -> None:
    """`--master` of one whose executors are other processes."""
    store = written_store(tmp_path, {"a": [{"body": str(number)} for number in range(10)]})
    other = store_with(tmp_path / "other", id_cache_size=20)
    there = environment(SPARK_HOME=str(spark_home(tmp_path / "home")))
    archived = command(store, tmp_path / "archive", "local-cluster[2,1,1024]")
    where = [*archived[6:], "--json", "--conf", "spark.executor.memory=512m"]

    def said(*words: str | Path) -> Any:
        done = subprocess.run([*words, *where], env=there, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    assert said(*archived[:6])["messages"] == 10
    assert list((tmp_path / "archive" / "run=000001").rglob("*.parquet"))
    replaying: list[str | Path] = [JOURNALFS, "pipeline", "replay", tmp_path / "archive", other]
    assert said(*replaying, "--to", "to::to", "--batch", "4") == {"published": 10, "before": 0, "damaged": 0}
    assert sorted(line["body"] for line, _ in lines_of(other)) == [str(number) for number in range(10)]
    assert said(JOURNALFS, "pipeline", "stats", other)["messages"] == 10


def test_without_java(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": []})
    there = environment(JAVA_HOME=str(tmp_path / "nowhere"))
    done = ran(command(store, tmp_path / "archive"), there)
    assert done.returncode == SystemFailure.exit_code
    assert len(done.stderr.splitlines()) == 1
    assert "Spark did not start: " in done.stderr
    assert "nowhere/bin/java" in done.stderr
    done = ran(command(store, tmp_path / "archive"), WITHOUT_JAVA)
    assert done.returncode == DependencyMissing.exit_code
    assert "needs a Java runtime" in done.stderr


@pytest.mark.parametrize(
    ("pipeline", "lacking"), some_pairs(["stats", "audit", "dlq"], ["matplotlib", "jinja2"])
)
def test_a_report_without_its_libraries(tmp_path: Path, pipeline: str, lacking: str) -> None:
    """Nothing is begun of which the end cannot be."""
    store = written_store(tmp_path, {"DLQ": []})
    (tmp_path / "path" / lacking).mkdir(parents=True)
    (tmp_path / "path" / lacking / "__init__.py").write_text("raise ImportError")
    words: list[str | Path] = [JOURNALFS, "pipeline", pipeline, store, "--output", tmp_path / "report"]
    done = ran(words, environment(PYTHONPATH=str(tmp_path / "path")))
    assert done.returncode == DependencyMissing.exit_code
    assert "pip install 'journalfs[pipeline]'" in done.stderr
    assert not (tmp_path / "report").exists()


ODD_PATHS = (
    ("replay {none} {store} --to a", 3, "none: no archive of messages is here; give the folder"),
    ("replay {store} {store} --to a", 3, "store: no archive of messages is here"),
    ("replay {archive} {none} --to a", 3, "none: there is no such directory"),
    ("replay {archive} {archive} --to a", 3, "archive: this is an archive of messages; give"),
    ("replay {archive} {store}", 1, "--to: a replay needs one address or queue, as "),
    ("replay {archive} {store} --to x::y", 1, "no queue 'x::y' in {store}; make one with mkdir"),
    ("replay {archive} {store} --to a::b", 1, "no queue 'a::b' in"),
    ("replay {archive} {store} --to bare", 1, "bare: no queue is bound to it; make one"),
    ("replay {archive} hdfs://far/store --to a", 1, "hdfs://far/store: messages are published"),
    (
        "replay {archive} {store} --to a --notes {file}/x",
        2,
        "file: cannot note there what is published: Not",
    ),
    ("stats {archive}", 3, "archive: this is an archive of messages; give its store"),
    ("stats {none}", 3, "none: there is no such directory"),
    ("audit {file}", 3, "file: "),
)


@pytest.mark.parametrize(("words", "code", "text"), ODD_PATHS)
def test_paths_of_all_pipelines_are_looked_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, text: str
) -> None:
    """Without Java: what needs it would say so."""
    store = written_store(tmp_path, {"a": []})
    change(store, lambda opened: opened.create_address("bare"))
    paths = {name: str(tmp_path / name) for name in ("none", "file", "archive")}
    (tmp_path / "file").write_text("")
    (tmp_path / "archive" / "run=000001").mkdir(parents=True)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", WITHOUT_JAVA["PATH"])
    done = journalfs("pipeline", *(word.format(store=store, **paths) for word in words.split()))
    assert done.returncode == code, done.stderr
    assert text.format(store=store) in done.stderr.replace("file://", "")
    assert [path.name for path in (tmp_path / "archive").iterdir()] == ["run=000001"]
    assert len(done.stderr.splitlines()) == 1


def test_paths_are_looked_at_before_spark_starts(tmp_path: Path) -> None:
    """Without Java: what needs it would say so."""
    store = written_store(tmp_path, {"a": []})
    (tmp_path / "file").write_text("")
    for call, kind, text in (
        (command(tmp_path / "nothing", tmp_path / "archive"), NotAStore, "there is no such directory"),
        (command(store, tmp_path / "file" / "archive"), SystemFailure, "file: cannot write results"),
    ):
        done = ran(call, WITHOUT_JAVA)
        assert done.returncode == kind.exit_code, done.stderr
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.rule("S-48")
def test_whoever_reads_a_damaged_store_is_told(tmp_path: Path) -> None:
    """An archive of it looks like one of a store that holds less."""
    store = written_store(tmp_path, {"a": [{"body": "kept"}]})
    (journal,) = (store / "journal").glob("activemq-data-1.amq")
    with journal.open("r+b") as file:
        file.write(b"\xff" * 16)
    done = ran(command(store, tmp_path / "archive"), WITHOUT_JAVA)
    said, failed = done.stderr.splitlines()
    assert said.startswith(f"journalfs: {store}: damage in 1 place, so messages may be missing")
    assert "needs a Java runtime" in failed


@pytest.mark.long
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
