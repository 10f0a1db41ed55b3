"""Changes of many messages on a real mount: others are served, memory stays small, they can be given up."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore
from tests.writing.conftest import Address, Remount

MESSAGES = 120_000
GROWTH_BYTES_MAX = 1_200
"""Anonymous memory for each message: what the live set takes for good, and what is known of a transaction
until it ends.
"""
SERVED_MIN = 2
"""So often somebody else is served at least during a change: not just in the moment before it begins. How
long nobody is, is counted in `tests/store/writing/test_long_changes.py`.
"""

RENAME = "import os, sys; os.rename(*sys.argv[1:])"


def stage(address: Address, messages: int = MESSAGES) -> Path:
    path = address.first.path / "_many"
    with path.open("wb") as file:
        for begin in range(0, messages, 1000):
            file.write(b"".join(b"%0100d\n" % number for number in range(begin, begin + 1000)))
    return path


def anonymous_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


class Others:
    """Somebody who looks at another queue all the time, and how much memory the mount takes meanwhile."""

    def __init__(self, mount: MountedStore, beside: Path) -> None:
        self._mount = mount
        self._beside = beside
        self._ended = threading.Event()
        self.served = 0
        self.most_bytes = 0

    def during(self, change: Callable[[], object]) -> None:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            change()
        finally:
            self._ended.set()
            thread.join()

    def _look(self) -> None:
        process = self._mount.process_id()
        while not self._ended.is_set():
            (self._beside / ".status").read_bytes()
            self.served += 1
            self.most_bytes = max(self.most_bytes, anonymous_bytes(process))


@pytest.mark.rule("S-133")
def test_others_are_served_while_many_messages_come_and_go(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    staged, beside = stage(address), address.queue("beside").path
    before = anonymous_bytes(mount.process_id())
    changes: dict[str, Callable[[], object]] = {
        "publish": lambda: staged.rename(address.first.path / "many.txt"),
        "move": lambda: (address.first.path / ".all.jsonl").rename(address.second.path / "all"),
        "remove": (address.second.path / ".all.jsonl").unlink,
    }
    for name, change in changes.items():
        others = Others(mount, beside)
        others.during(change)
        assert others.served >= SERVED_MIN, name
        assert others.most_bytes - before < MESSAGES * GROWTH_BYTES_MAX, name
        if name == "publish":
            assert address.first.status()["messages"] == MESSAGES
    assert address.first.status()["messages"] == address.second.status()["messages"] == 0


@pytest.mark.rule("S-133")
def test_many_messages_come_to_pages_and_leave_them(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    for _ in range(2):
        (address.first.path / "in.txt").write_text("before\n")
    staged, beside = stage(address), address.queue("beside").path
    before = anonymous_bytes(mount.process_id())
    changes: dict[str, Callable[[], object]] = {
        "publish": lambda: staged.rename(address.first.path / "many.txt"),
        "remove": (address.first.path / ".all.jsonl").unlink,
    }
    for name, change in changes.items():
        others = Others(mount, beside)
        others.during(change)
        assert others.served >= SERVED_MIN, name
        assert others.most_bytes - before < MESSAGES * GROWTH_BYTES_MAX, name
        assert address.first.status()["messages"] == (MESSAGES + 2 if name == "publish" else 0)
    assert address.first.status()["pagedCount"] == 0


def begun(mount: MountedStore, address: Address, staged: Path) -> subprocess.Popen[bytes]:
    """A process that publishes a staged file, once some of that is written."""
    before = mount.control("status.json")["bytesWritten"]
    target = address.first.path / "many.txt"
    process = subprocess.Popen([sys.executable, "-c", RENAME, staged, target], stderr=subprocess.DEVNULL)
    end = time.monotonic() + COMMAND_S_MAX
    while mount.control("status.json")["bytesWritten"] < before + 1_000_000:
        assert process.poll() is None, "it was done before it could be interrupted"
        assert time.monotonic() < end
    return process


@pytest.mark.rule("S-133")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_publication_whose_caller_is_ended_did_not_happen(remount: Remount, number: int) -> None:
    mount = remount()
    address = Address(mount)
    staged = stage(address)
    process = begun(mount, address, staged)
    process.send_signal(number)
    assert process.wait(COMMAND_S_MAX) != 0
    assert address.first.status()["messages"] == 0
    assert staged.stat().st_size > 0, "it is staged as before"
    staged.rename(address.first.path / "many.txt")
    assert address.first.status()["messages"] == MESSAGES


@pytest.mark.rule("S-133")
def test_a_publication_that_the_end_of_the_mount_breaks_off_did_not_happen(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    staged = stage(address)
    process = begun(mount, address, staged)
    daemon = mount.process_id()
    os.kill(daemon, signal.SIGTERM)
    assert process.wait(COMMAND_S_MAX) != 0
    until(lambda: not Path(f"/proc/{daemon}").exists(), "the mount's process has ended")
    remount()
    assert address.first.status()["messages"] == 0
    assert staged.stat().st_size > 0


def test_a_name_that_is_gone_cannot_be_removed_twice(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    stage(address, 1000).rename(address.first.path / "many.txt")
    (address.first.path / ".all.jsonl").unlink()
    with pytest.raises(OSError) as caught:
        (address.first.path / "part-0001-0000000001.jsonl").unlink()
    assert caught.value.errno == errno.ENOENT
