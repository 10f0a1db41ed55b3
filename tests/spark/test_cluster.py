"""Executors in processes of their own, which get journalfs sent along: nothing is shared but files."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

import journalfs
from tests.frozen import PristineStores
from tests.spark.drivers import CLUSTER_S_MAX, said_by, spark_home
from tests.spark.rows import lines_of


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_a_cluster_reads_with_the_package_that_was_sent(stores: PristineStores, tmp_path: Path) -> None:
    archive = tmp_path / "journalfs.tar.gz"
    package = Path(journalfs.__file__).parent
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(package, "journalfs", filter=lambda one: None if "__pycache__" in one.name else one)
    store = stores["transactions"]
    command = [sys.executable, "-m", "tests.spark.cluster_job", str(store), str(archive), str(tmp_path)]
    said = said_by(command, SPARK_HOME=str(spark_home(tmp_path / "home")))
    assert said["workers"]
    for paths in said["workers"]:
        assert all("/lib/journalfs/" in path for path in paths), "from the tree, not from what was sent"
    wanted = sorted([line["queue"], line["id"]] for line, _ in lines_of(store))
    assert said["read"] == wanted
    assert said["live"] == wanted
