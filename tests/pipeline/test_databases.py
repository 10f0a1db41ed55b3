"""Pipelines take the URL of a database where they take a store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.pipeline.messages import Source
from journalfs.spark import live_messages
from tests.cli.running import Done, journalfs, objects
from tests.kinds import first_is_quick, new_database
from tests.spark.writing import written_store

ORIGIN = {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "a"}
BODIES = [str(number) for number in range(9)]


@pytest.fixture(params=first_is_quick("sqlite", "postgresql"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    letters = [{"body": "x", "properties": ORIGIN}]
    files = written_store(tmp_path, {"a": [{"body": body} for body in BODIES], "DLQ": letters})
    made = new_database(request, request.param, tmp_path)
    done = journalfs("convert", files, made)
    assert done.returncode == 0, done.stderr
    return made


def pipeline(*arguments: str | Path) -> Done:
    done = journalfs("pipeline", *arguments)
    assert done.returncode == 0, done.stderr
    return done


def bodies(url: str, queue: str) -> Counter[str]:
    return Counter(line["body"] for line in objects("cat", url, queue))


@pytest.mark.rule("S-246")
def test_an_archive_of_a_database_is_replayed_into_one(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """Each message once, though the command is repeated: a database is the same target each time."""
    assert str(Source(url).facts()["store"]).endswith(url.partition(":")[2])
    archive = tmp_path / "archive"
    pipeline("archive", url, "--output", archive, "--queues", "a")
    for _ in range(2):
        pipeline("replay", archive, url, "--to", "DLQ::DLQ")
    assert bodies(url, "DLQ::DLQ") == Counter([*BODIES, "x"])


@pytest.mark.long
def test_a_database_is_measured_and_audited(spark: SparkSession, url: str, tmp_path: Path) -> None:
    assert pipeline("stats", url, "--queues", "a").stdout.split("\t")[:3] == ["a", "a", "9"]
    assert pipeline("dlq", url).stdout.split("\t")[:5] == ["DLQ", "moved", "a", "a", "1"]
    pipeline("audit", url, "--output", tmp_path / "found")
    assert (tmp_path / "found" / "report.html").exists()
    rows = live_messages(spark, url).select("queue", "body").collect()
    assert Counter(row.body for row in rows if row.queue == "a") == Counter(BODIES)
