"""Drivers of Spark: sessions that begin quickly and say nothing, and jobs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""With one tier alone the cache of compiled code is a fifth of that, and sessions of many tests fill it."""
ENVIRONMENT = {
    "SPARK_CONF_DIR": str(HERE),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}
CLUSTER_S_MAX = 900


def session(work: str | Path, master: str, **others: str) -> SparkSession:
    """`others` are more settings of Spark."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
        "spark.local.dir": str(work),
        **others,
    }
    builder = SparkSession.Builder().master(master).appName("journalfs-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def said_by(command: Sequence[str], **environment: str) -> Any:
    """What a job with a cluster of its own says at its end."""
    done = subprocess.run(
        command,
        env={**os.environ, **ENVIRONMENT, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=CLUSTER_S_MAX,
    )
    return json.loads(done.stdout.splitlines()[-1])


def spark_home(path: Path) -> Path:
    """Spark by another name: workers work in its directory, and an installed package is no place for that."""
    path.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (path / entry.name).symlink_to(entry)
    return path
