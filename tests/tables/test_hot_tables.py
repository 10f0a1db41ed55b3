"""Lines that the front stages for a store in a database: each is committed once it is answered."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.broker.polling import eventually
from tests.mounting import MountedStore, mounted_for_writing
from tests.store.writing.conftest import DISK_BYTES, small_disk
from tests.tables.instances import instance_at
from tests.tables.servers import Server

__all__ = ["small_disk"]

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

WRITERS = 8
LINES = 25
NETWORK_TIMEOUT_MS = 1_000
LEFT_BYTES = 1_000_000


class Writers:
    """Each writes numbered lines to a file of its own, and goes on with another one where it was refused."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.taken: Counter[str] = Counter()
        self.refused: list[str] = []
        self.errnos: set[int | None] = set()
        self.broken_off: list[BaseException] = []
        self.threads = [threading.Thread(target=self._try, args=(one,)) for one in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def _try(self, writer: int) -> None:
        try:
            self._write(writer)
        except AssertionError as error:
            self.broken_off.append(error)

    def _write(self, writer: int) -> None:
        number = 0
        while number < LINES:
            descriptor = os.open(self.address / f"in-{writer}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                while number < LINES:
                    line = f"{writer}-{number}"
                    number += 1
                    os.write(descriptor, f"{line}\n".encode())
                    self.taken[line] += 1
            except OSError as error:
                self.refused.append(line)
                self.errnos.add(error.errno)
            finally:
                with suppress(OSError):  # what a write was refused with is said at the close, too
                    os.close(descriptor)
            if self.refused:
                eventually(self._takes, deadline_s=30, what="it takes again")

    def _takes(self) -> bool:
        try:
            (self.address / "probe.txt").write_text("probe\n")
        except OSError:
            return False
        return True

    def has_taken(self, lines: int) -> bool:
        return self.taken.total() >= lines

    def check(self, mount: MountedStore) -> None:
        for thread in self.threads:
            thread.join()
        assert not self.broken_off, mount.events()
        assert self.errnos <= {errno.EIO}
        found = [line["body"] for line in mount.queue("orders").lines() if line["body"] != "probe"]
        assert Counter(found) - Counter(self.refused) == self.taken
        for writer in range(WRITERS):
            own = [int(body.partition("-")[2]) for body in found if body.startswith(f"{writer}-")]
            assert own == sorted(own)


@pytest.mark.rule("S-220", "S-278")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_writers_share_commits(kind: str, empty_database: Callable[[str], str], tmp_path: Path) -> None:
    with mounted_for_writing(Path(empty_database(kind)), tmp_path / "mnt", "-o", "front=on") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        writers = Writers(mount.path / "orders")
        writers.check(mount)
        assert not writers.refused
        assert mount.control("status.json")["frontRequests"]["write"] > WRITERS


@pytest.mark.rule("S-224", "S-247")
def test_a_database_that_hangs_is_told_and_nothing_else_waits(postgres: Server, tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    instance_at(folder, postgres.make("hot"), network_timeout=NETWORK_TIMEOUT_MS)
    with mounted_for_writing(folder, tmp_path / "mnt", "-o", "front=on") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        writers = Writers(mount.path / "orders")
        eventually(lambda: writers.taken.total() > WRITERS, deadline_s=30, what="some are taken")
        postgres.signal(signal.SIGSTOP)
        try:
            assert mount.queue("orders").lines()
            eventually(lambda: bool(writers.refused), deadline_s=30, what="a writer is told")
            assert mount.queue("orders").lines()
        finally:
            postgres.signal(signal.SIGCONT)
        writers.check(mount)


@pytest.mark.rule("S-224", "S-247")
def test_what_another_connection_holds_up_is_committed_once(tmp_path: Path) -> None:
    database = tmp_path / "store.db"
    with mounted_for_writing(Path(f"sqlite:///{database}"), tmp_path / "mnt", "-o", "front=on") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        writers = Writers(mount.path / "orders")
        rival = sqlite3.connect(database, isolation_level=None, timeout=30)
        for _ in range(10):
            before = writers.taken.total()
            rival.execute("BEGIN IMMEDIATE")
            assert len(mount.queue("orders").lines()) >= before
            rival.execute("COMMIT")
            wanted = min(before + 1, LINES * WRITERS)
            eventually(partial(writers.has_taken, wanted), deadline_s=30, what="some are taken")
        rival.close()
        writers.check(mount)
        assert not writers.refused


@pytest.mark.rule("S-247", "S-278")
def test_a_database_that_is_full_is_told_as_python_tells_it(small_disk: Path, tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    instance_at(folder, f"sqlite:///{small_disk}/store.db", network_timeout=NETWORK_TIMEOUT_MS)
    with mounted_for_writing(folder, tmp_path / "mnt", "-o", "front=on") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)

        descriptor = os.open(mount.path / "orders" / "in.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def write_on() -> None:
            while True:
                os.write(descriptor, b"x" * 3_000 + b"\n")

        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while filler.tell() < DISK_BYTES - LEFT_BYTES:
                filler.write(bytes(4096))
        with pytest.raises(OSError, match="No space left"):
            write_on()
        (small_disk / "filler").unlink()
        with suppress(OSError):  # told at the close, too
            os.close(descriptor)
        assert mount.control("status.json")["frontRequests"]["write"] > 1
