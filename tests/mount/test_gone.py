"""What goes while somebody has it open: the queue of a file, and the directory of the whole store."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.frozen import PristineStores
from tests.mount.conftest import MountFake
from tests.mounting import mounted
from tests.tools.crash_copy import copy_as_left

pytestmark = pytest.mark.mount

OPEN_FILES = [
    "part-0001-1-0000000001.jsonl",
    "_tail.jsonl",
    ".all.jsonl",
    ".messages/3.txt",
    ".status",
    ".where/color = 'red'/.all.jsonl",
]


@pytest.mark.rule("S-18")
@pytest.mark.parametrize("name", OPEN_FILES)
def test_an_open_file_keeps_what_it_had_though_its_queue_goes(mount_fake: MountFake, name: str) -> None:
    mounted = mount_fake("small")
    path = mounted.path / "orders/billing" / name
    wanted = path.read_bytes()
    before = path.stat()
    with path.open("rb") as file:
        mounted.tell("remove_queue", "orders", "billing")
        after = os.fstat(file.fileno())
        assert (after.st_ino, after.st_size, after.st_mode) == (before.st_ino, len(wanted), before.st_mode)
        done = subprocess.run(["cat"], stdin=file, capture_output=True, check=False, timeout=30)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == wanted
        assert file.seek(0, os.SEEK_END) == len(wanted)
    with pytest.raises(FileNotFoundError):
        path.stat()


@pytest.mark.rule("S-35")
def test_df_answers_though_the_store_was_removed(stores: PristineStores, tmp_path: Path) -> None:
    store = tmp_path / "store"
    copy_as_left(stores["aio"], store)
    with mounted(store, tmp_path / "mnt") as mount:
        before = os.statvfs(mount.path)
        shutil.rmtree(store)
        after = os.statvfs(mount.path)
        assert (after.f_blocks, after.f_files) == (before.f_blocks, before.f_files)
        done = subprocess.run(["df", mount.path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
