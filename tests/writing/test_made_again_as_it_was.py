"""Addresses and queues that are deleted and made again are what they were: who writes one over means its
messages. And what Hadoop's committers do where queues are named as partitions.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.mounting import QueueOnDisk
from tests.writing.conftest import Address, bodies, errno_of, shell

ROUTING = "user.journalfs.routing-type"
SETTINGS = {
    ROUTING: b"ANYCAST",
    "user.journalfs.filter": b"colour = 'red'",
    "user.journalfs.ring-size": b"7",
    "user.journalfs.max-consumers": b"3",
    "user.journalfs.exclusive": b"true",
    "user.journalfs.paused": b"true",
}


def settings(folder: Path) -> dict[str, bytes]:
    """What an address or queue is, but for its numbers."""
    names = [name for name in os.listxattr(folder) if not name.endswith(("id", "Id"))]
    return {name: os.getxattr(folder, name) for name in names}


def overwrite(queue: Path, source: Path) -> None:
    """As Hadoop does with dynamic partitions: remove what is there, then rename."""
    if queue.exists():
        shutil.rmtree(queue)
    source.rename(queue)


def staged(
    address: Address, name: str, *lines: str, job: str = ".spark-staging-1", path: Path | None = None
) -> Path:
    folder = (path or address.path) / job / name
    folder.mkdir(parents=True)
    (folder / "part-0.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def partitions(address: Address, *names: str) -> list[QueueOnDisk]:
    """Queues beside the address's own, with such names. They are unique in a store."""
    return [address.queue(name) for name in names]


@pytest.mark.rule("S-173")
def test_a_queue_made_again_has_the_settings_that_it_had(address: Address) -> None:
    queue = address.first.path
    os.setxattr(address.path, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
    for name, value in SETTINGS.items():
        os.setxattr(queue, name, value)
    before = settings(queue)
    assert SETTINGS.items() <= before.items()
    for make in ("rmdir {0} && mkdir {0}", "rm -r {0} && mkdir -p {0}/_temporary/0"):
        shell(make.format(queue.name), address.path)
        assert settings(queue) == before
    assert settings(address.second.path)[ROUTING] == b"MULTICAST"


@pytest.mark.rule("S-173")
def test_an_address_made_again_is_what_it_was(address: Address) -> None:
    os.setxattr(address.path, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
    os.setxattr(address.path, "user.journalfs.max-size-bytes", b"1000000")
    os.setxattr(address.path, "user.journalfs.paused", b"true")
    os.setxattr(address.first.path, ROUTING, b"ANYCAST")
    before, of_queue = settings(address.path), settings(address.first.path)
    shutil.rmtree(address.path)
    address.first.path.mkdir(parents=True)
    assert settings(address.path) == before
    assert settings(address.first.path) == of_queue


@pytest.mark.rule("S-173")
def test_what_is_said_of_a_queue_is_not_that_of_another_address(address: Address) -> None:
    os.setxattr(address.first.path, "user.journalfs.ring-size", b"7")
    address.first.path.rmdir()
    other = Address(address.mount)
    made = other.path / address.first.path.name
    made.mkdir()
    assert os.getxattr(made, "user.journalfs.ring-size") == b"-1"


@pytest.mark.rule("S-174")
def test_a_partition_that_is_written_over_goes_to_its_queue(address: Address) -> None:
    """Dynamic partition overwrite: each partition is deleted, and then renamed to its place."""
    zero, one = partitions(address, "pd=0", "pd=1")
    (zero.path / "in.txt").write_text("old\n")
    (one.path / "in.txt").write_text("stays\n")
    os.setxattr(zero.path, "user.journalfs.ring-size", b"7")
    overwrite(zero.path, staged(address, "pd=0", "a", "b"))
    assert bodies(zero) == ["a", "b"]
    assert bodies(one) == ["stays"]
    assert os.getxattr(zero.path, "user.journalfs.ring-size") == b"7"
    overwrite(one.path, staged(address, "pd=1", "c"))
    assert (bodies(zero), bodies(one), bodies(address.first)) == (["a", "b"], ["c"], [])
    assert os.listdir(address.path / ".spark-staging-1") == []


@pytest.mark.rule("S-174")
def test_a_staged_directory_is_published_to_the_queue_of_its_new_name(address: Address) -> None:
    """Also where the queue is there, and somebody stands in it."""
    (address.first.path / "in.txt").write_text("1\n")
    inside = os.open(address.first.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(2):
            staged(address, "part", "2").rename(address.first.path)
            assert not (address.path / ".spark-staging-1" / "part").exists()
        (address.first.path / "in.txt").write_text("3\n")
        assert bodies(address.first) == ["1", "2", "2", "3"]
        assert bodies(address.second) == []
        assert shell(f"cd {address.first.path.name} && cat *.jsonl | wc -l", address.path).strip() == "4"
    finally:
        os.close(inside)


@pytest.mark.rule("S-174")
def test_a_name_that_no_queue_has_goes_to_the_address(address: Address) -> None:
    (queue,) = partitions(address, "pd=0")
    staged(address, "pd=2", "x", job=".job").rename(address.path / "pd=2")
    assert [bodies(one) for one in (queue, address.first, address.second)] == [["x"]] * 3
    staged(address, "y", "y", job=".job").rename(address.path / "%zz")
    assert bodies(queue) == ["x", "y"]


@pytest.mark.rule("S-451")
def test_a_partition_without_a_queue_gets_one(address: Address) -> None:
    queue = QueueOnDisk(address.path / "pd=2")
    for _ in range(2):
        overwrite(queue.path, staged(address, "pd=2", "x"))
        assert (bodies(queue), bodies(address.first)) == (["x"], [])
    assert errno_of(staged(address, "y", "y").rename, address.path / "%zz") is not None
    assert bodies(address.first) == []


@pytest.mark.rule("S-451")
def test_a_queue_has_no_partitions(address: Address) -> None:
    """As Spark overwrites a queue with `partitionBy`: nothing is published, and the events say why."""
    folder = staged(address, "pd=2", "x", path=address.first.path)
    assert errno_of(folder.rename, address.first.path / "pd=2") == errno.EPERM
    assert (folder / "part-0.txt").read_text() == "x\n"
    assert bodies(address.first) == []
    ((_, reason),) = address.refusals()
    assert "a queue has no partitions" in reason


@pytest.mark.rule("S-174")
def test_what_cannot_be_published_to_a_queue_stays_staged(address: Address) -> None:
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"FAIL")
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    (address.first.path / "in.txt").write_text("full\n")
    folder = staged(address, "part", "2")
    assert errno_of(folder.rename, address.first.path) is not None
    assert (folder / "part-0.txt").read_text() == "2\n"
    assert bodies(address.first) == ["full"]
