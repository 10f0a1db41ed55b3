"""Names with `=` and `:`, which in paths mean something else to Spark and Hadoop."""

from __future__ import annotations

import errno
import os

import pytest

from tests.mounting import QueueOnDisk
from tests.writing.conftest import Address, bodies, errno_of, shell


@pytest.mark.rule("S-182")
def test_a_name_is_listed_in_one_spelling_and_found_by_both(address: Address) -> None:
    made = address.path / "at=10:30"
    made.mkdir()
    listed = address.path / "at%3D10%3A30"
    assert listed.name in os.listdir(address.path)
    assert made.name not in os.listdir(address.path)
    assert made.stat().st_ino == listed.stat().st_ino == (address.path / "at%3D10:30").stat().st_ino
    assert errno_of(listed.mkdir) == errno.EEXIST
    assert errno_of((address.path / "at%3d10%3A30").stat) == errno.ENOENT
    shell(
        "echo one > at=10:30/in.txt; cd at%3D10%3A30; echo two > in.txt",
        address.path,
    )
    assert bodies(QueueOnDisk(made)) == bodies(QueueOnDisk(listed)) == ["one", "two"]
    os.setxattr(made, "user.journalfs.max-consumers", b"3")
    assert os.getxattr(listed, "user.journalfs.max-consumers") == b"3"
    assert errno_of(made.rmdir) == errno.ENOTEMPTY
    shell(f"rm {listed.name}/.all.jsonl; rmdir {made.name}", address.path)
    assert not listed.exists()


@pytest.mark.rule("S-182")
def test_addresses_and_snapshots_are_spelled_so_too(address: Address) -> None:
    root = address.mount.path
    (root / f"{address.name}:x=y").mkdir()
    assert f"{address.name}%3Ax%3Dy" in os.listdir(root)
    (root / f"{address.name}%3Ax=y").rmdir()
    snapshots = root / ".journalfs/snapshots"
    (snapshots / "2026-11-26T14:31").mkdir()
    assert "2026-11-26T14%3A31" in os.listdir(snapshots)
    assert address.name in os.listdir(snapshots / "2026-11-26T14:31")
    (snapshots / "2026-11-26T14%3A31").rmdir()
