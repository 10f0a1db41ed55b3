"""A command that is told to end while it waits for its mount leaves no process, and no mount later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from tests.frozen import PristineStores
from tests.mount.conftest import DEADLINE_S, ROOT, until

pytestmark = pytest.mark.mount

PROGRAM = """
import os, sys
from pathlib import Path
from journalfs.errors import JournalfsError
from journalfs.store import open_store
from journalfs_mount.start.launch import Start, exit_code, start
from journalfs_mount.options import MountOptions
store, place, gate, said = map(Path, sys.argv[1:])
def slowly():
    said.write_text(str(os.getpid()))
    gate.open("rb").close()
    return open_store(store)
try:
    sys.exit(start(Start(store, place, MountOptions(read_only=True), slowly)))
except JournalfsError as error:
    print(error, file=sys.stderr)
    sys.exit(exit_code(error))
"""


class SlowMount:
    """A mount command whose store opens only when the gate is."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.place, self.gate, self._said = folder / "mnt", folder / "gate", folder / "pid"
        self.place.mkdir()
        os.mkfifo(self.gate)
        self.command = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, store, self.place, self.gate, self._said],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: self._said.exists() and self._said.read_text() != "", "the store is being opened")
        self.server = int(self._said.read_text())

    def lives(self) -> bool:
        """Whether the mount's process runs. One that ended and waits to be reaped does not."""
        try:
            return Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False


@pytest.fixture
def slow(stores: PristineStores, tmp_path: Path) -> Iterator[SlowMount]:
    mount = SlowMount(stores["aio"], tmp_path)
    yield mount
    if mount.command.poll() is None:
        mount.command.kill()
    if mount.lives():
        os.kill(mount.server, signal.SIGKILL)
        until(lambda: not mount.lives(), "the mount's process ended")
    while mounted_at(mount.place) is not None:
        subprocess.run(["umount", "--lazy", mount.place], check=True)


def test_ctrl_c_while_the_store_is_opened_leaves_nothing(slow: SlowMount) -> None:
    slow.command.send_signal(signal.SIGINT)
    _, said = slow.command.communicate(timeout=DEADLINE_S)
    assert slow.command.returncode == 32
    assert said == f"{slow.place}: interrupted before the mount answered; nothing is mounted\n"
    assert not slow.lives()
    assert mounted_at(slow.place) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_command_that_was_ended_leaves_no_mount(slow: SlowMount, number: signal.Signals) -> None:
    slow.command.send_signal(number)
    slow.command.wait(DEADLINE_S)
    opener = os.open(slow.gate, os.O_RDWR)
    until(lambda: not slow.lives(), "the mount's process found that nobody waits")
    os.close(opener)
    assert mounted_at(slow.place) is None
