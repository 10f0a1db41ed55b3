"""Staged trees of any depth: what they cost, and what is done in them while they move and go."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.mounting import MountedStore
from tests.writing.conftest import Address, errno_of

LEVELS = 400
LOOKUPS = 2_400


def deep(top: Path, levels: int) -> Path:
    top.mkdir()
    held = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=held)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
        os.close(held)
        held = below
    os.close(held)
    return top.joinpath(*["d"] * levels)


def processor_s(mount: MountedStore) -> float:
    fields = Path(f"/proc/{mount.process_id()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_a_name_s(mount: MountedStore, path: Path, names: int) -> float:
    before = processor_s(mount)
    for _ in range(LOOKUPS // names):
        path.stat()
    return (processor_s(mount) - before) / (LOOKUPS // names * names)


@pytest.mark.rule("S-191")
def test_a_name_costs_the_same_at_any_depth(mount: MountedStore, address: Address) -> None:
    bottom = deep(address.path / "_deep", LEVELS)
    shallow = Path(*bottom.parts[: -LEVELS + 20])
    low = cost_of_a_name_s(mount, shallow, 20)
    assert cost_of_a_name_s(mount, bottom, LEVELS) < 2 * low
    held = [os.readlink(one) for one in Path(f"/proc/{mount.process_id()}/fd").iterdir()]
    assert sum("/d/d" in one for one in held) <= 64
    shutil.rmtree(address.path / "_deep")


@pytest.mark.rule("S-191")
def test_what_is_held_is_what_is_named(mount: MountedStore, address: Address) -> None:
    """Directories that are looked at often are held open, which nobody notices."""
    bottom = deep(address.path / "_one", 300)
    (bottom / "f.txt").write_text("first\n")
    other = deep(address.path / "_two", 3)
    (other / "f.txt").write_text("second\n")
    # A rename above, and another directory under the old name.
    (address.path / "_one/d").rename(address.path / "_moved")
    assert errno_of((bottom / "f.txt").read_text) == errno.ENOENT
    (address.path / "_two/d").rename(address.path / "_one/d")
    assert (address.path / "_one/d/d/d/f.txt").read_text() == "second\n"
    moved = address.path.joinpath("_moved", *["d"] * 299)
    assert (moved / "f.txt").read_text() == "first\n"
    # Removed and made again, while somebody works in it.
    working = os.open(moved, os.O_RDONLY | os.O_DIRECTORY)
    (moved / "f.txt").unlink()
    moved.rmdir()
    moved.mkdir()
    (moved / "f.txt").write_text("again\n")
    assert errno_of(lambda: os.stat("f.txt", dir_fd=working)) in (errno.ENOENT, errno.ESTALE)
    assert (moved / "f.txt").read_text() == "again\n"
    os.close(working)
    # Published from the depth: it is gone there.
    (moved / "f.txt").rename(address.path / "in.txt")
    assert not (moved / "f.txt").exists()
    assert os.listdir(moved) == []
    shutil.rmtree(address.path / "_moved")
    assert not (address.path / "_moved").exists()
    log = mount.path.with_name(f"{mount.path.name}.log")
    assert "Traceback" not in log.read_text()
