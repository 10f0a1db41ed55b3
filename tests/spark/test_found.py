"""Spark finds the format by itself, in a package that an installation has under a name that it looks for."""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from pathlib import Path
from pkgutil import iter_modules

import pytest
from pyspark.sql.datasource import DataSource

from tests.spark.drivers import ENVIRONMENT, ROOT, said_by
from tests.spark.writing import written_store

PACKAGE = "pyspark_journalfs"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory on the path with the package in it, as a wheel would lay it out."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = ROOT / said["tool"]["setuptools"]["package-dir"][PACKAGE]
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / PACKAGE).symlink_to(shipped)
    return folder


@pytest.mark.rule("S-454")
def test_the_package_has_what_spark_looks_for(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pyspark.sql.worker.lookup_data_sources` looks."""
    monkeypatch.syspath_prepend(installed)
    assert PACKAGE in [one.name for one in iter_modules()]
    try:
        found = importlib.import_module(PACKAGE).DefaultSource
    finally:
        sys.modules.pop(PACKAGE, None)
    assert issubclass(found, DataSource)
    assert found.name() == "journalfs"
    # What Spark sends to its workers names the class where journalfs has it.
    assert found.__module__ == "journalfs.spark.source"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.rule("S-454")
def test_a_program_that_registers_nothing(installed: Path, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})
    command = [sys.executable, "-m", "tests.spark.found_job", str(store)]
    path = os.pathsep.join((str(installed), str(ROOT)))
    said = said_by(command, **ENVIRONMENT, PYTHONPATH=path)
    assert said == {"read": 2, "sql": 2, "other session": 2, "registered": 2}
