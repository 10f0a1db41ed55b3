"""Executors in processes of their own, which get journalfs sent along: nothing is shared but files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import journalfs
from tests.frozen import PristineStores
from tests.spark.drivers import CLUSTER_S_MAX, ROOT, said_by, spark_home
from tests.spark.rows import lines_of


def run_job(stores: PristineStores, path: Path, **sending: str) -> dict[str, Any]:
    """What the job says, which read what there is to be read."""
    store = stores["transactions"]
    command = [sys.executable, "-m", "tests.spark.cluster_job", str(store), str(path), json.dumps(sending)]
    said: dict[str, Any] = said_by(command, SPARK_HOME=str(spark_home(path / "home")))
    wanted = sorted([line["queue"], line["id"]] for line, _ in lines_of(store))
    assert said["read"] == wanted
    assert said["live"] == wanted
    assert said["workers"]
    return said


def wheel(path: Path) -> Path:
    """What `pip` builds of a copy of the tree, since building leaves files beside the sources."""
    for name in ("journalfs", "mount", "native"):
        shutil.copytree(
            ROOT / name, path / "tree" / name, ignore=shutil.ignore_patterns("__pycache__", "_native.*[co]")
        )
    # Manual pages and completions are installed, too.
    for name in ("man", "completions"):
        shutil.copytree(ROOT / "docs" / name, path / "tree" / "docs" / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, path / "tree")
    alone = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(path)]
    quick = {**os.environ, "JOURNALFS_CFLAGS": "-O0"}
    build = [sys.executable, "-m", "pip", "wheel", *alone, str(path / "tree")]
    subprocess.run(build, env=quick, check=True)
    (built,) = path.glob("journalfs-*.whl")
    return built


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_a_cluster_reads_with_the_package_that_was_sent(stores: PristineStores, tmp_path: Path) -> None:
    archive = tmp_path / "journalfs.tar.gz"
    package = Path(journalfs.__file__).parent
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(package, "journalfs", filter=lambda one: None if "__pycache__" in one.name else one)
    sending = {"spark.archives": f"{archive}#lib", "spark.executorEnv.PYTHONPATH": "lib"}
    for paths in run_job(stores, tmp_path, **sending)["workers"]:
        assert all("/lib/journalfs/" in path for path in paths), "from the tree, not from what was sent"


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_a_cluster_reads_with_a_wheel(stores: PristineStores, tmp_path: Path) -> None:
    """As `spark-submit --py-files` sends it: workers load the compiled core out of a zip file."""
    sent = shutil.copy(wheel(tmp_path), tmp_path / "journalfs.zip")
    for package, core in run_job(stores, tmp_path, **{"spark.submit.pyFiles": str(sent)})["workers"]:
        assert "/journalfs.zip/journalfs/" in package, "from the tree, not from what was sent"
        assert not core.startswith(str(Path(journalfs.__file__).parent))


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_the_command_that_is_documented(stores: PristineStores, tmp_path: Path) -> None:
    """`spark-submit --py-files` itself, of which the driver has the package, too."""
    sent = shutil.copy(wheel(tmp_path), tmp_path / "journalfs.zip")
    home, store = spark_home(tmp_path / "home"), stores["transactions"]
    master = ("--master", "local-cluster[2,1,1024]", "--driver-memory", "512m", "--executor-memory", "512m")
    job = Path(__file__).with_name("submitted_job.py")
    command = [str(home / "bin" / "spark-submit"), *master, "--py-files", str(sent), str(job), str(store)]
    said = said_by(command, SPARK_HOME=str(home), TMPDIR=str(tmp_path))
    assert "/journalfs.zip/journalfs/" in said["package"], "from the tree, not from what was sent"
    assert not said["core"].startswith(str(Path(journalfs.__file__).parent))
    assert said["rows"] == sorted([line["queue"], line["id"]] for line, _ in lines_of(store))
