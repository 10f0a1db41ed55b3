"""Real mounts on which disks and kernels fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.conftest import artemis_home

__all__ = ["artemis_home"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.mount)
