"""Fixtures for tests against a real broker. Every test of this folder carries the marker `broker`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import class_data
from tests.broker.distribution import distribution_home

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def artemis_home() -> Path:
    """An unpacked Artemis, and our client compiled against it."""
    class_data.make()
    return distribution_home()
