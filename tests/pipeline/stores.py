"""Stores that remember few duplicate ids, and what stores and archives hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.pipeline.archive import archived
from journalfs.pipeline.folders import Folder
from journalfs.store.creating import create_store
from tests.spark.rows import lines_of
from tests.spark.writing import change, made


def store_with(path: Path, *, id_cache_size: int) -> Path:
    """A new store with the address and queue `to`."""
    settings: dict[str, Value] = {"journal-type": "NIO", "journal-file-size": 1 << 20}
    settings["id-cache-size"] = id_cache_size
    create_store(path, settings, SystemClock(), warn=pytest.fail)
    change(path, lambda opened: made(opened, "to"))
    return path


def envelopes(spark: SparkSession, folder: Folder) -> list[Any]:
    return sorted(json.dumps(json.loads(row.envelope)) for row in archived(spark, folder).collect())


def lines(store: Path) -> list[str]:
    return sorted(json.dumps(line) for line, _ in lines_of(store))
