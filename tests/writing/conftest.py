"""New stores, mounted for writing. Everything here goes through the kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store
from tests.kinds import FILES, KINDS, new_database
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, journalfs, mounted_for_writing

HERE = Path(__file__).parent
FILE_BYTES = 1 << 20

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.mount)


def new_store(path: Path, url: str | None = None) -> Path:
    """An empty store at `path`, or in a database."""
    if url is not None:
        done = journalfs("create", url)
        assert done.returncode == 0, done.stderr
        return Path(url)
    own: dict[str, Value] = {"journal-type": "NIO", "journal-file-size": FILE_BYTES}
    create_store(path, own, SystemClock(), warn=pytest.fail)
    return path


class Address:
    """An address of its own for one test, with the queues `first` and `second` bound to it."""

    def __init__(self, mount: MountedStore) -> None:
        self.mount = mount
        self.name = f"address-{next(_numbers)}"
        self.path = mount.path / self.name
        self.path.mkdir()
        self.first = self.queue("first")
        self.second = self.queue("second")

    def queue(self, name: str) -> QueueOnDisk:
        """A new queue. Names of queues are unique in a store."""
        path = self.path / f"{self.name}-{name}"
        path.mkdir()
        return QueueOnDisk(path)

    def refusals(self) -> list[tuple[str, str]]:
        """Paths within the address that were refused a change, with errno, and why."""
        said = [event for event in self.mount.events() if event["event"] == "refused"]
        prefix = f"{self.name}/"
        return [
            (event["what"].removeprefix(prefix), event["reason"])
            for event in said
            if event["what"].startswith(prefix)
        ]


def bodies(queue: QueueOnDisk) -> list[str]:
    return [line["body"] for line in queue.lines()]


def shell(command: str, folder: Path, *, succeeds: bool = True) -> str:
    """Run a bash script in `folder`; what it printed."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert (done.returncode == 0) is succeeds, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def errno_of(action: Callable[..., Any], *arguments: Any) -> int | None:
    with pytest.raises(OSError) as caught:
        action(*arguments)
    return caught.value.errno


def write_at_once(path: Path, pieces: Sequence[bytes], flags: int = 0) -> None:
    """Open a new name, write each piece with a call of its own, and close."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        for piece in pieces:
            assert os.write(descriptor, piece) == len(piece)
    finally:
        os.close(descriptor)


Remount = Callable[..., MountedStore]


@pytest.fixture(scope="module", params=KINDS)
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _new_store(request: pytest.FixtureRequest, kind: str, folder: Path) -> Path:
    return new_store(folder / "store", None if kind == FILES else new_database(request, kind, folder))


@pytest.fixture
def own_store(request: pytest.FixtureRequest, store_kind: str, tmp_path: Path) -> Path:
    return _new_store(request, store_kind, tmp_path)


@pytest.fixture
def remount(own_store: Path, tmp_path: Path) -> Iterator[Remount]:
    """Mount a store of this test's own, with `-o` words; called again, unmount it before."""
    with ExitStack() as mounts:

        def mount(*words: str) -> MountedStore:
            mounts.close()
            options = ["-o", ",".join(words)] if words else []
            return mounts.enter_context(mounted_for_writing(own_store, tmp_path / "mnt", *options))

        yield mount


@pytest.fixture(scope="module")
def mount(
    request: pytest.FixtureRequest, store_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MountedStore]:
    """One mount for the tests of a module; each takes an `Address` of its own."""
    folder = tmp_path_factory.mktemp("writing")
    with mounted_for_writing(_new_store(request, store_kind, folder), folder / "mnt") as mounted:
        yield mounted


@pytest.fixture
def address(mount: MountedStore) -> Address:
    return Address(mount)
