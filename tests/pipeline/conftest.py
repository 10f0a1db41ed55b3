"""The Spark session of `tests/spark`, for pipelines. All tests of this folder are marked `spark`."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.pipeline.engines import LOCAL, SPARK, Engine, LocalEngine, SparkEngine
from tests.spark.conftest import mount_store, spark

HERE = Path(__file__).parent

__all__ = ["mount_store", "spark"]


@pytest.fixture(params=(LOCAL, SPARK))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each of the engines that ask the questions of a report."""
    if request.param == LOCAL:
        return LocalEngine()
    return SparkEngine(request.getfixturevalue("spark"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
