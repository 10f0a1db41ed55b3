"""Every file store through a real mount, seen as any program sees it, against the broker's own account."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.reference.compare import compare_store
from tests.truth.from_mount import account

pytestmark = pytest.mark.mount

COMMAND = (sys.executable, "-c", "from journalfs.cli.main import main; main()")
DEADLINE_S = 60


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mount a store as its user would, in the background; unmounted after the test."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be used")
    places: list[Path] = []

    def mount(store: Path) -> Path:
        place = tmp_path / f"mnt{len(places)}"
        place.mkdir()
        log = tmp_path / f"mount{len(places)}.log"
        command = [*COMMAND, "mount", "--read-only", "--log-file", str(log), str(store), str(place)]
        subprocess.run(command, check=True, timeout=DEADLINE_S)
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run([*COMMAND, "umount", str(place)], check=True, timeout=DEADLINE_S)


@pytest.mark.rule("S-1", "S-2", "S-3", "S-5", "S-13", "S-16", "S-19", "S-20", "S-21", "S-22", "S-25", "S-26")
@pytest.mark.parametrize("name", FILE_STORES)
def test_mount_shows_what_the_broker_told(
    name: str, store_copy: Callable[[str], Path], mounted: Callable[[Path], Path], expected: ExpectedStores
) -> None:
    actual, wrong = account(mounted(store_copy(name)))
    assert compare_store(expected[name], actual) == []
    assert wrong == []


@pytest.mark.rule("S-39")
def test_mounting_and_reading_leaves_the_store_as_it_was(
    stores: PristineStores, mounted: Callable[[Path], Path]
) -> None:
    before = stores.changed_files()
    account(mounted(stores["transactions"]))
    assert stores.changed_files() == before
