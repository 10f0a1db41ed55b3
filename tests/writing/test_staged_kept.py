"""Staged names that the system does not let go, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mounting import mounted_for_writing
from tests.writing.conftest import Address, new_store

OWNER = 1234

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a folder on itself needs root")


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
