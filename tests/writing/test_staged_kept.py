"""Staged names that the system does not let go, and whose they are."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mounting import mounted_for_writing
from tests.writing.conftest import Address, bodies, errno_of, new_store

OWNER = 1234

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a folder on itself needs root")


@contextmanager
def mounted_on_itself(folder: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        if options:
            subprocess.run(["mount", "-o", ",".join(["remount", "bind", *options]), folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Another user's."""
    root = new_store(tmp_path / "store")
    for path in [root, *root.rglob("*")]:
        os.chown(path, OWNER, OWNER)
    return root


@pytest.fixture
def address(store: Path, tmp_path: Path) -> Iterator[Address]:
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        yield Address(mount)


def staged_in(store: Path, address: Address) -> Path:
    (folder,) = store.rglob(f"staging/addresses/{address.name}")
    return folder


@pytest.mark.rule("S-79")
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_could_not_be_removed_is_not_published(store: Path, address: Address, kind: str) -> None:
    """Who is told of a failure tries again, and would publish it twice."""
    staged = address.path / f".{kind}"
    if kind == "directory":
        staged.mkdir()
        (staged / "one.txt").write_text("one\n")
    else:
        staged.write_text("one\n")
    target = address.path / f"{address.name}.txt"
    with mounted_on_itself(staged_in(store, address), "ro"):
        for _ in range(2):
            assert errno_of(os.rename, staged, target) == errno.EACCES
        assert bodies(address.first) == []
    name, reason = address.refusals()[-1]
    assert name.endswith(f".{kind}: EACCES")
    assert "could not be removed once it is published" in reason
    staged.rename(target)
    assert bodies(address.first) == ["one"]
    assert not staged.exists()


@pytest.mark.rule("S-79")
def test_what_is_published_and_cannot_be_removed_is_not_published_again(
    store: Path, address: Address
) -> None:
    staged = address.path / ".batch"
    staged.mkdir()
    (staged / "one.txt").write_text("one\n")
    with mounted_on_itself(staged_in(store, address) / ".batch"):
        staged.rename(address.path / "batch")
        assert bodies(address.first) == ["one"]
        assert "cannot be removed from where it was staged" in address.refusals()[-1][1]
        assert errno_of(os.rename, staged, address.path / "again") == errno.EEXIST
        assert bodies(address.first) == ["one"]
    (staged / "one.txt").unlink()
    (staged / "two.txt").write_text("two\n")
    staged.rename(address.path / "again")
    assert bodies(address.first) == ["one", "two"]


@pytest.mark.rule("S-78")
def test_what_is_staged_belongs_to_whom_the_store_does(store: Path, address: Address) -> None:
    (address.path / ".file").write_text("one\n")
    (address.path / ".batch").mkdir()
    (address.path / ".batch/two.txt").write_text("two\n")
    (address.path / ".left").mkdir()
    (address.path / ".batch").rename(address.path / "batch")
    made = []
    for folder, folders, files in os.walk(store / "journalfs/staging"):
        made += [Path(folder, name) for name in folders + files]
        # What is discarded is removed behind its callers' backs, so it may go while one looks.
        folders[:] = [name for name in folders if name != "discarded"]
    assert {path.name for path in made} >= {"addresses", address.name, ".file", ".left", "discarded"}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(OWNER, OWNER)}
