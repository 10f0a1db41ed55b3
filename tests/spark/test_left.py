"""What a job put aside goes with its driver: at once by the job, or by the next one when it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from journalfs.spark.left import DRIVER
from journalfs.spark.options import Options
from journalfs.spark.writer import JOBS, StagingWriter
from tests.mounting import mounted_for_writing
from tests.spark.rows import lines_of
from tests.spark.writing import written_store

TABLE = pa.table({"body": ["x"]})
JOB = """
import os, sys
from pathlib import Path

Path("/proc/self/comm").write_text("java")
if not os.fork():
    from tests.spark.test_left import begin
    begin(Path(sys.argv[1]))
    print("begun", flush=True)
    os._exit(0)
os.wait()
sys.stdin.read()
"""
"""A driver that plans in another process, as Spark does, writes, and waits."""


def begin(path: Path) -> StagingWriter:
    writer = StagingWriter(
        Options(path=str(path), queues=("a",)), from_arrow_schema(TABLE.schema), overwrite=False
    )
    writer.write(iter(TABLE.to_batches()))
    return writer


@pytest.mark.rule("S-452")
@pytest.mark.parametrize("through_a_mount", [False, True])
def test_the_next_job_clears_what_a_killed_one_left(tmp_path: Path, through_a_mount: bool) -> None:
    store = written_store(tmp_path, {"a": []})
    with ExitStack() as stack:
        path, folder = store, store / "journalfs" / "spark"
        if through_a_mount:
            path = stack.enter_context(mounted_for_writing(store, tmp_path / "mnt")).path
            folder = path / "a" / JOBS

        def jobs() -> set[str]:
            return {one.name for one in folder.iterdir() if (one / DRIVER).exists()}

        command = [sys.executable, "-c", JOB, str(path)]
        driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "begun\n"
            (running,) = jobs()
            finish(begin(path))
            assert jobs() == {running}, "its driver runs, and may publish it"
        finally:
            driver.kill()
            driver.communicate()
        finish(begin(path))
        assert not folder.exists() or running not in os.listdir(folder)
    assert len(lines_of(store)) == 2


def finish(writer: StagingWriter) -> None:
    writer.commit([writer.write(iter(TABLE.to_batches()))])
