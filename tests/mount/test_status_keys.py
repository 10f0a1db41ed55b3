"""Every key of every status is documented, and every documented key is one that is produced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs_mount.nodes.report import MountReport
from tests.frozen import PristineStores
from tests.mount.conftest import ROOT, until
from tests.mounting import MountedStore, mounted

pytestmark = pytest.mark.mount

STATUS = (ROOT / "docs/reference/status.md").read_text()
SOMETIMES = {"loopFallback", "followFailure", "front", "frontFallback", "frontRequests"}
"""Keys that are there only when something went wrong, or with an option."""


def documented(heading: str) -> set[str]:
    """The keys in the first column of the table below a heading."""
    _, found, rest = STATUS.partition(f"### {heading}\n")
    assert found, heading
    table = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


@pytest.fixture(scope="module")
def mount(stores: PristineStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    with mounted(stores["transactions"], tmp_path_factory.mktemp("status") / "mnt") as mount:
        until(lambda: "readAheadKib" in mount.control("mount.json"), "the mount has settled")
        yield mount


@pytest.mark.parametrize(
    ("heading", "pattern"),
    [
        ("`.status` of a queue", "*/*/.status"),
        ("`.status` of an address", "*/.status"),
        ("`.journalfs/status.json`", ".journalfs/status.json"),
        ("`.journalfs/mount.json`", ".journalfs/mount.json"),
    ],
)
def test_documented_keys_are_those_that_are_there(mount: MountedStore, heading: str, pattern: str) -> None:
    folder, _, name = pattern.rpartition("/")
    files = [place / name for place in mount.path.glob(folder)]
    assert files
    for file in files:
        keys = json.loads(file.read_text()).keys()
        assert documented(heading) - SOMETIMES <= keys <= documented(heading), file


def test_keys_of_what_went_wrong_are_those_that_can_be_there() -> None:
    report = MountReport(FakeClock())
    report.follow_failure = "a reason"
    rendered = json.loads(report.render())
    assert "followFailure" in rendered
    assert 'details["loopFallback"]' in Path(ROOT / "mount/start/lifecycle.py").read_text()
    assert documented("`.journalfs/mount.json`") >= SOMETIMES


def test_counts_are_what_their_description_says(mount: MountedStore) -> None:
    for file in mount.path.glob("*/*/.status"):
        queue, status = file.parent, json.loads(file.read_text())
        lines = [line for part in queue.glob("*.jsonl") for line in part.read_bytes().splitlines()]
        assert status["messages"] == len(lines) == status["messageCount"] - status["deliveringCount"]
        assert status["lineBytes"] == (queue / ".all.jsonl").stat().st_size
        if not status["pagedCount"]:
            bodies = [path.stat().st_size for path in (queue / ".messages").iterdir()]
            assert status["journalBodyBytes"] == sum(bodies)
    store = json.loads((mount.path / ".journalfs/status.json").read_text())
    addresses = [json.loads(path.read_text()) for path in mount.path.glob("*/.status")]
    assert store["messages"] == sum(address["messages"] for address in addresses)
