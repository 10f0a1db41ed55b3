"""Stores that a stranger wrote, and mounts for those who do their worst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mounting import MountedStore, mounted_for_writing
from tests.security.strangers import Victim
from tests.store.conftest import little_store
from tests.writing.conftest import new_store

__all__ = ["little_store"]

BUSY_MS_MAX = 50


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[MountedStore]:
    """A mount whose loop nobody may keep busy for longer than everybody may wait. On a machine with more to
    do, a turn may take longer than it works.
    """
    with mounted_for_writing(new_store(tmp_path / "store"), tmp_path / "mnt") as mount:
        yield mount
        slow = [event for event in mount.events() if event["event"] == "slow"]
        assert not [event for event in slow if event["busyMs"] >= BUSY_MS_MAX], slow


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path / "victim")
