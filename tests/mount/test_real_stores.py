"""Stores of real brokers through the kernel: every file of the tree says its size and can be read."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from tests.frozen import FILE_STORES, PristineStores
from tests.mounting import mounted as mounted_reading

pytestmark = pytest.mark.mount

QUEUES_READ_MAX = 60
NOT_LISTED_IN_A_QUEUE = (".all.jsonl", ".status", ".settings")
VIEWS_OF_A_QUEUE = (".", ".scheduled", ".delivering", ".where/JMSPriority >= 0")


@pytest.fixture(scope="module", params=FILE_STORES)
def mounted(
    request: pytest.FixtureRequest, stores: PristineStores, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("mnt")
    with mounted_reading(stores[request.param], place):
        yield place
    assert mounted_at(place) is None


def queues(mounted: Path) -> list[Path]:
    """The first queues of a store: all there are, but for the one store that is about having very many."""
    found = (queue for address in sorted(mounted.iterdir()) for queue in sorted(address.iterdir()))
    return list(itertools.islice(found, QUEUES_READ_MAX))


def check(file: Path) -> bytes:
    stat = file.stat()
    assert stat.st_mtime_ns > 0, file
    content = file.read_bytes()
    assert len(content) == stat.st_size, file
    return content


def test_every_file_has_the_size_it_says(mounted: Path) -> None:
    for queue in queues(mounted):
        for name in NOT_LISTED_IN_A_QUEUE:
            check(queue / name)
            if name != ".all.jsonl":
                check(queue.parent / name)
        for listed in os.listdir(queue):
            check(queue / listed)
        for message in os.scandir(queue / ".messages"):
            content = check(Path(message.path))
            assert message.stat().st_size == len(content)
            assert os.getxattr(message.path, "user.journalfs.id") == message.name.partition(".")[0].encode()


def test_parts_and_tail_together_are_everything(mounted: Path) -> None:
    for queue in queues(mounted):
        for view in VIEWS_OF_A_QUEUE:
            directory = queue / view
            parts = sorted(name for name in os.listdir(directory) if name.startswith("part-"))
            tail = (directory / "_tail.jsonl").stat().st_size > 0 or not parts
            listed = sorted(set(os.listdir(directory)) - set(parts))
            assert all(name.startswith("_tail") for name in listed)
            assert len(listed) == tail
            together = b"".join((directory / name).read_bytes() for name in [*parts, "_tail.jsonl"])
            assert together == (directory / ".all.jsonl").read_bytes(), directory
            assert together.count(b"\n") == len(os.listdir(directory / ".messages")), directory


def test_everything_under_the_control_directory_can_be_read(mounted: Path) -> None:
    read = 0
    for directory, _, files in os.walk(mounted / ".journalfs", onerror=_fail):
        for name in files:
            content = Path(directory, name).read_bytes()
            # What the mount counts and how long its turns take changes meanwhile.
            assert (
                name in ("mount.json", "status.json", "events.jsonl", "metrics")
                or len(content) == Path(directory, name).stat().st_size
            )
            read += len(content)
    assert read > 1000


def test_copying_and_searching_meet_no_error(mounted: Path, tmp_path: Path) -> None:
    addresses = sorted({queue.parent for queue in queues(mounted)})
    (tmp_path / "copy").mkdir()
    subprocess.run(["cp", "-r", *addresses, tmp_path / "copy"], check=True)
    for queue in queues(mounted):
        for name in os.listdir(queue):
            relative = queue.relative_to(mounted) / name
            assert (tmp_path / "copy" / relative).read_bytes() == (queue / name).read_bytes()
    done = subprocess.run(["grep", "-rc", "", *addresses], capture_output=True, check=False)
    assert done.stderr == b""


def _fail(error: OSError) -> None:
    raise error


@pytest.mark.rule("S-14")
def test_all_that_was_there_is_in_parts_from_the_first_listing_on(
    stores: PristineStores, tmp_path: Path
) -> None:
    """Also what takes long to be measured, which happens when it is asked for."""
    store = tmp_path / "store"
    shutil.copytree(stores["large-and-paged"], store, ignore=shutil.ignore_patterns("journalfs"))
    with mounted_reading(store, tmp_path / "mnt", "--read-only") as mount:
        queues = sorted(mount.path.glob("*.large/*.large"))
        assert len(queues) > 1
        for queue in queues:
            assert [name for name in os.listdir(queue) if name.startswith("_tail")] == []
