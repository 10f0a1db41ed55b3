"""An exception that nobody foresaw is answered with EIO, and an event says so: never an errno alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mounting import COMMAND_S_MAX, MountedStore, journalfs

pytestmark = pytest.mark.mount

RAISES = "def raises(*given, **named):\n    raise OverflowError('no such number')\n"
IN_A_PUBLICATION = (
    "from journalfs.broker.publish import framing\n"
    "framing.Framer.feed = raises\n"
)  # fmt: skip
WHERE_IT_IS_LOOKED_AT = (
    "from journalfs_mount.nodes import queue\n"
    "queue.QueueDirectory.find = raises\n"
)  # fmt: skip


def mount_with(change: str, store: Path, mountpoint: Path) -> MountedStore:
    """Mount by a process in which a function of journalfs raises."""
    program = f"{RAISES}{change}from journalfs.cli.main import main\nmain()"
    mountpoint.mkdir()
    words = ["mount", "--log-file", str(mountpoint.with_name("log")), str(store), str(mountpoint)]
    subprocess.run([sys.executable, "-c", program, *words], check=True, timeout=COMMAND_S_MAX)
    return MountedStore(mountpoint)


def publish(mountpoint: Path) -> None:
    writer = os.open(mountpoint / "orders/in.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(writer, b"line\n")
    finally:
        os.close(writer)


def look(mountpoint: Path) -> None:
    (mountpoint / "orders/orders/.all.jsonl").read_bytes()


@pytest.mark.rule("S-340")
@pytest.mark.parametrize(
    ("change", "act", "named"),
    [(IN_A_PUBLICATION, publish, "orders/in.txt: EIO"), (WHERE_IT_IS_LOOKED_AT, look, "lookup: EIO")],
    ids=["in a publication", "in looking"],
)
def test_it_is_told(tmp_path: Path, change: str, act: Callable[[Path], None], named: str) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    mount = mount_with(change, store, tmp_path / "mnt")
    try:
        (mount.path / "orders/orders").mkdir(parents=True)
        with pytest.raises(OSError, match="Input/output error") as refused:
            act(mount.path)
        told = [one["message"] for one in mount.events() if one["event"] == "refused"]
        why = journalfs("why", mount.path).stdout
    finally:
        assert journalfs("umount", mount.path).returncode == 0
    assert refused.value.errno == errno.EIO
    assert named in told[0]
    assert "a fault of journalfs, not of the request (OverflowError: no such number)" in told[0]
    assert "OverflowError: no such number" in why
    assert "Traceback" in (tmp_path / "log").read_text()
