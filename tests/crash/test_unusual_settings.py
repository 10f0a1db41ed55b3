"""SIGKILL of the mount, and unmounting, under settings that are drawn anew for each mount of one store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.crash.history import History
from tests.crash.mount_client import QUEUES, MountClient
from tests.crash.plug import LONGEST_S, texts_in
from tests.kinds import BACKENDS
from tests.mounting import MountedStore, journalfs, mounted
from tests.store.conftest import LittleStore

pytestmark = pytest.mark.mount

CYCLES_QUICK, CYCLES_LONG = 2, 300
LENGTHS = (0, 0, 0, 900, 3_000, 30_000)
"""Thirty lines of the longest go into one write: the kernel splits what is above 1 MiB."""
KILLED_SHARE = 0.7

Settings = Mapping[str, Sequence[object]]

OF_THE_STORE: Settings = {
    "journal-type": BACKENDS,
    "journal-file-size": (65_536, 131_072, 262_144, 1_048_576),
    "journal-min-files": (2, 3, 12),
    "journal-pool-files": (-1, 2, 5),
    "journal-compact-min-files": (0, 1, 3, 10),
    "journal-compact-percentage": (1, 30, 99),
    "journal-buffer-size": (4_096, 8_192, 65_536, 501_760),
    "journal-buffer-timeout": (0, 1, 500_000, 20_000_000),
    "journal-max-io": (1, 2, 4_096),
    "journal-device-block-size": (512, 4_096, 16_384),
    "journal-max-attic-files": (0, 1, 10),
    "journal-checksums": (True, False),
    "min-large-message-size": (1_000, 2_000, 102_400),
    "purge-page-folders": (True, False),
}
OF_THE_ADDRESS: Settings = {
    "max-size-messages": (-1, 1, 20, 200),
    "max-size-bytes": (-1, 10_000, 1_000_000),
    "page-size-bytes": (1_000, 4_000, 100_000),
}
OPTIONS = ((), ("-o", "sync=close"))


def draw(chance: Random, settings: Settings) -> list[str]:
    """Some of the settings, each with one of its values."""
    return [
        f"{name} = {json.dumps(chance.choice(values))}"
        for name, values in settings.items()
        if chance.random() < 0.7
    ]


def configure(root: Path, chance: Random) -> str:
    """What the next mount is told."""
    lines = [*draw(chance, OF_THE_STORE), '[address-settings."work"]', *draw(chance, OF_THE_ADDRESS)]
    text = "\n".join(lines)
    (root / "journalfs.toml").write_text(text)
    return text


def shown(store: Path, mountpoint: Path) -> dict[str, list[str]]:
    """The texts of each queue, as the next mount has them; a crash is no damage."""
    with mounted(store, mountpoint) as mount:
        assert mount.control("status.json")["damage"] == 0
        return {name: sorted(line["body"] for line in mount.queue("work", name).lines()) for name in QUEUES}


def work(little_store: LittleStore, mountpoint: Path, cycles: int) -> History:
    mountpoint.mkdir()
    history, chance = History(), Random(cycles)
    for cycle in range(cycles):
        told = configure(little_store.root, chance)
        options, killed = chance.choice(OPTIONS), chance.random() < KILLED_SHARE
        done = journalfs("mount", *options, little_store.root, mountpoint)
        assert done.returncode == 0, (told, done.stderr)
        end = threading.Timer(
            chance.uniform(0.02, LONGEST_S),
            os.kill,
            (MountedStore(mountpoint).process_id(), signal.SIGKILL if killed else signal.SIGTERM),
        )
        end.start()
        try:
            MountClient(mountpoint, history, cycle, LENGTHS).work()
        finally:
            end.join()
            subprocess.run(["umount", "--lazy", mountpoint], check=killed)
        found = texts_in(little_store.root)
        wrong = history.settle(found)
        assert not wrong, f"cycle {cycle}: {[one[:300] for one in wrong[:5]]}\n{told}"
        assert shown(little_store.root, mountpoint) == {name: sorted(found[name]) for name in QUEUES}, told
    return history


def test_settings_that_change(little_store: LittleStore, tmp_path: Path) -> None:
    assert work(little_store, tmp_path / "mnt", CYCLES_QUICK).done > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_settings_that_change_again_and_again(little_store: LittleStore, tmp_path: Path) -> None:
    history = work(little_store, tmp_path / "mnt", CYCLES_LONG)
    print(f"{CYCLES_LONG} mounts with other settings, {history.done} changes done")
