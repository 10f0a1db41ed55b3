"""Executors in processes of their own, which get journalfs sent along: nothing is shared but files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

import journalfs
from tests.frozen import PristineStores
from tests.spark.conftest import HERE
from tests.spark.rows import lines_of

CLUSTER_S_MAX = 900


def spark_home(path: Path) -> Path:
    """Spark by another name: workers work in its directory, and an installed package is no place for that."""
    path.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (path / entry.name).symlink_to(entry)
    return path


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_a_cluster_reads_with_the_package_that_was_sent(stores: PristineStores, tmp_path: Path) -> None:
    archive = tmp_path / "journalfs.tar.gz"
    package = Path(journalfs.__file__).parent
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(package, "journalfs", filter=lambda one: None if "__pycache__" in one.name else one)
    store = stores["transactions"]
    command = [sys.executable, "-m", "tests.spark.cluster_job", str(store), str(archive), str(tmp_path)]
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": str(HERE),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home(tmp_path / "home")),
    }
    done = subprocess.run(
        command,
        env=environment,
        cwd=HERE.parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=CLUSTER_S_MAX,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["workers"]
    for paths in said["workers"]:
        assert all("/lib/journalfs/" in path for path in paths), "from the tree, not from what was sent"
    wanted = sorted([line["queue"], line["id"]] for line, _ in lines_of(store))
    assert said["read"] == wanted
    assert said["live"] == wanted
