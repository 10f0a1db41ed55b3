"""A disk that is full when what was written is to be kept: who is told so may write it again."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store
from tests.mounting import MountedStore, mounted_for_writing
from tests.writing.conftest import Address, errno_of
from tests.writing.test_refused_writes import messages, opened

DISK_BYTES = 8 << 20
LONG_BYTES = 50_000
"""More than what becomes free meanwhile, of notes that have done their work."""


class FullDisk:
    """A mounted store whose disk can be filled up."""

    def __init__(self, mount: MountedStore, disk: Path) -> None:
        self.mount = mount
        self._filler = disk / "filler"

    @contextmanager
    def without_room(self) -> Iterator[None]:
        with self._filler.open("wb", buffering=0) as file:
            size_bytes = os.statvfs(self._filler).f_bavail * 4096
            assert file.write(bytes(size_bytes)) == size_bytes
        try:
            yield
        finally:
            os.truncate(self._filler, 0)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullDisk]:
    folder = tmp_path_factory.mktemp("full")
    small = folder / "disk"
    small.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", small], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode()}")
    try:
        # Nobody looks at the disk meanwhile, and refuses the writes before it is full.
        own: dict[str, Value] = {
            "journal-type": "NIO",
            "journal-file-size": 256 << 10,
            "disk-scan-period": 3_600_000,
        }
        create_store(small / "store", own, SystemClock(), warn=pytest.fail)
        with mounted_for_writing(small / "store", folder / "mnt") as mount:
            yield FullDisk(mount, small)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def sync(descriptor: int) -> None:
    os.fsync(descriptor)


def close_another(descriptor: int) -> None:
    """As a command does that a shell started."""
    os.close(os.dup(descriptor))


@pytest.mark.rule("S-74")
@pytest.mark.parametrize("asked", [sync, close_another], ids=["fsync", "close"])
@pytest.mark.parametrize(
    ("name", "complete", "rest"),
    [
        ("in.bin", b"", b"<order/>"),
        ("in.txt", b"one\n", b"<order/>"),
        ("in.json", b"1 ", b'{"begun":'),
        ("in.jsonl", b'{"type":"text","body":"one"}\n', b'{"type":'),
    ],
)
def test_what_was_not_kept_is_not_published(
    disk: FullDisk, asked: Callable[[int], None], name: str, complete: bytes, rest: bytes
) -> None:
    address = Address(disk.mount)
    descriptor = opened(address, name)
    rest = rest.ljust(LONG_BYTES)
    os.write(descriptor, complete + rest)
    published = messages(address.first)
    assert len(published) == bool(complete)
    with disk.without_room():
        assert errno_of(asked, descriptor) == errno.ENOSPC
    assert errno_of(os.write, descriptor, b"more\n") == errno.ENOSPC
    assert errno_of(os.fsync, descriptor) == errno.ENOSPC
    assert errno_of(os.close, descriptor) == errno.ENOSPC
    assert messages(address.first) == published
    ((what, reason),) = address.refusals()
    assert what == f"{address.name}-first/{name}: ENOSPC"
    assert reason.endswith(f"; the {len(rest)} bytes before it are not published")


@pytest.mark.rule("S-74")
@pytest.mark.parametrize(("name", "kept"), [("in.txt", "durable"), ("in.bin", "ZHVyYWJsZQ==")])
def test_what_was_made_durable_before_it_stays(disk: FullDisk, name: str, kept: str) -> None:
    address = Address(disk.mount)
    descriptor = opened(address, name)
    os.write(descriptor, b"durable")
    os.fsync(descriptor)
    os.write(descriptor, b", and not".ljust(LONG_BYTES))
    with disk.without_room():
        assert errno_of(os.fsync, descriptor) == errno.ENOSPC
    assert errno_of(os.close, descriptor) == errno.ENOSPC
    assert messages(address.first) == [kept]
    ((_, reason),) = address.refusals()
    assert "those are published that were synced" in reason


@pytest.mark.rule("S-74")
def test_who_tries_again_publishes_it_once(disk: FullDisk) -> None:
    address = Address(disk.mount)

    def publish() -> None:
        with (address.first.path / "in.txt").open("wb") as file:
            file.write(b"once".ljust(LONG_BYTES, b"!"))
            file.flush()
            with disk.without_room():
                os.fsync(file.fileno())

    assert errno_of(publish) == errno.ENOSPC
    (address.first.path / "in.txt").write_bytes(b"once")
    assert messages(address.first) == ["once"]


@pytest.mark.rule("S-69", "S-74")
def test_complete_lines_are_kept_already(disk: FullDisk) -> None:
    address = Address(disk.mount)
    descriptor = opened(address, "in.txt")
    os.write(descriptor, b"one\n")
    with disk.without_room():
        os.fsync(descriptor)
    os.write(descriptor, b"two")
    os.close(descriptor)
    assert messages(address.first) == ["one", "two"]
    assert address.refusals() == []
