"""A job that reads a damaged store is told what it does not get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.spark import live_messages
from journalfs.spark.options import Options
from journalfs.spark.schema import usual_schema
from journalfs.spark.source import BatchReader
from tests.account.damaging import EVERY
from tests.cli.running import journalfs
from tests.spark.drivers import CLUSTER_S_MAX, ROOT

Copy = Callable[[str], Path]


def reasons(data: Path) -> list[str]:
    found = [line.split("\t")[-1] for line in journalfs("check", data).stdout.splitlines() if "\t" in line]
    assert found
    return found


@pytest.mark.parametrize(
    "damage",
    ["page_gone", *(pytest.param(one, marks=pytest.mark.long) for one in ("body_gone", "journal_file_gone"))],
)
def test_what_is_lost_is_told_once_a_read(
    spark: SparkSession, store_copy: Copy, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    data = store_copy("large-and-paged") / "data"
    BatchReader(Options(str(data)), usual_schema()).partitions()
    live_messages(spark, str(data))
    assert not caplog.messages, "a whole store is read without a word"
    EVERY[damage](data)
    for read in (
        lambda: BatchReader(Options(str(data)), usual_schema()).partitions(),
        lambda: live_messages(spark, str(data)),
    ):
        caplog.clear()
        read()
        (told,) = (one for one in caplog.messages if "a job does not get all of this store" in one)
        assert all(reason in told for reason in reasons(data))


@pytest.mark.long
def test_a_program_has_it_on_its_stderr(store_copy: Copy, tmp_path: Path) -> None:
    """Spark plans a read in a process of its own."""
    data = store_copy("large-and-paged") / "data"
    EVERY["page_gone"](data)
    job = f"""
import journalfs.spark
from tests.spark.drivers import session
spark = session({str(tmp_path)!r}, "local[1]")
journalfs.spark.register(spark)
spark.read.format("journalfs").load({str(data)!r}).count()
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", job],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=CLUSTER_S_MAX,
    )
    assert done.stderr.count("a job does not get all of this store") == 1
    assert all(reason in done.stderr for reason in reasons(data))
