"""SIGKILL of the mount while transactions are filled and ended: each happened whole, or not at all."""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.crash.plug import LONGEST_S, configure, killed_mount
from tests.mounting import MountedStore, mounted_for_writing
from tests.store.conftest import LittleStore

pytestmark = pytest.mark.mount

SENT = 3
"""Messages of each transaction, beside the one that it moves."""


def work(mount: Path, cycle: int) -> None:
    """Transactions one after the other, until the mount is gone."""
    root, source = mount / ".journalfs/transactions", mount / "work/work.a"
    for number in range(1000):
        name = f"{cycle}-{number}"
        transaction = root / name
        (source / "in.txt").write_text(f"{name} moved\n")
        transaction.mkdir()
        for part in range(SENT):
            (transaction / f"work/work.b/{part}.txt").write_text(f"{name} {part}\n")
        for message in list((source / ".messages").iterdir()):
            if message.read_text() == f"{name} moved":
                message.rename(transaction / "work/work.b/x")
        if number % 4 == 3:
            transaction.rmdir()
        elif number % 4 == 1:
            xid = base64.b64encode(f"{cycle:04}-{number:04}".encode() + bytes((7, 0, 0, 0))).decode()
            transaction.rename(root / "prepared" / xid)
            (root / xid).rename(root / ("committed" if number % 8 == 1 else "rolled-back") / xid)
        else:
            transaction.rename(root / "committed" / name)


def check(mount: MountedStore) -> None:
    """What is in the queues: of each transaction all that it sends and moves, or none of it."""
    root = mount.path / ".journalfs/transactions"
    for left in os.listdir(root):
        (root / left).rmdir()
    there = [line["body"].split() for line in mount.queue("work", "work.b").lines()]
    stayed = [line["body"].split()[0] for line in mount.queue("work", "work.a").lines()]
    done = {name for name, _ in there}
    expected = [[name, part] for name in done for part in ("0", "1", "2", "moved")]
    assert sorted(there) == sorted(expected)
    assert len(stayed) == len(set(stayed))
    assert done.isdisjoint(stayed)


def kill_mounts(little_store: LittleStore, mountpoint: Path, cycles: int) -> None:
    configure(little_store.root, "NIO")
    mountpoint.mkdir()
    chance = Random(cycles)
    for cycle in range(cycles):
        after_s = chance.uniform(0.1, LONGEST_S)
        with killed_mount(little_store.root, mountpoint, after_s), suppress(OSError):
            work(mountpoint, cycle)
        with mounted_for_writing(little_store.root, mountpoint) as mount:
            check(mount)


@pytest.mark.rule("S-262")
def test_a_mount_killed_amid_transactions(little_store: LittleStore, tmp_path: Path) -> None:
    kill_mounts(little_store, tmp_path / "mnt", 2)


@pytest.mark.long
@pytest.mark.rule("S-262")
@pytest.mark.timeout(3600)
def test_a_mount_killed_amid_transactions_again_and_again(little_store: LittleStore, tmp_path: Path) -> None:
    kill_mounts(little_store, tmp_path / "mnt", 60)
