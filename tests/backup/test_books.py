"""The books of backups: what is restored balances with what the store had when it was backed up."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journalfs.backup import Backups
from journalfs.backup.accounts import restored_books
from journalfs.backup.manifest import object_name
from journalfs.errors import EXIT_DAMAGED, BooksDoNotBalance
from tests.cli.running import journalfs
from tests.frozen import PristineStores

Copy = Callable[[str], Path]


def told(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    done = journalfs(*arguments, "--json")
    return done.returncode, json.loads(done.stdout)


def fullest(data: Path) -> Path:
    """Return the journal file with the most in it."""
    return max((data / "journal").glob("*.amq"), key=lambda path: len(path.read_bytes().rstrip(b"\0")))


@pytest.mark.rule("S-325")
def test_a_damaged_store_is_backed_up_as_it_is(store_copy: Copy, tmp_path: Path) -> None:
    data, dest, new = store_copy("compacted") / "data", tmp_path / "backups", tmp_path / "new"
    assert journalfs("ls", data).returncode == 0  # makes the index, which alone knows the file that goes
    fullest(data).rename(tmp_path / "away")
    checked = json.loads(journalfs("check", data, "--json").stdout.splitlines()[0])
    code, made = told("backup", data, dest)
    assert code == EXIT_DAMAGED
    assert made["books"]["sourceMessages"] == made["books"]["carriedMessages"] > 0
    assert not made["books"]["complete"]
    done = journalfs("backup", "verify", dest)
    assert done.returncode == EXIT_DAMAGED
    assert f"so it was in the store: {checked['reason']}" in done.stdout
    code, restored = told("restore", dest, new)
    assert code == EXIT_DAMAGED
    assert restored["books"]["notCarried"][0]["standing"] == "missing"
    # The index that knew of the file is not in a backup. The new store is never cleaner than the old one.
    again = [json.loads(line) for line in journalfs("check", new, "--json").stdout.splitlines()]
    assert (checked["kind"], checked["file"]) in {(one["kind"], one["file"]) for one in again}
    assert journalfs("check", new).returncode == EXIT_DAMAGED


@pytest.mark.rule("S-325")
def test_what_was_consumed_meanwhile_is_no_loss(stores: PristineStores, tmp_path: Path) -> None:
    code, made = told("backup", stores["transactions"], tmp_path / "backups")
    assert (code, made["books"]["complete"]) == (0, True)
    (listed,) = (
        json.loads(line)
        for line in journalfs("backup", "list", "--json", tmp_path / "backups").stdout.splitlines()
    )
    assert (listed["messages"], listed["whole"]) == (made["books"]["sourceMessages"], True)
    code, restored = told("restore", tmp_path / "backups", tmp_path / "new")
    assert (code, restored["books"]["sourceMessages"]) == (0, made["books"]["sourceMessages"])


@pytest.mark.rule("S-322")
@pytest.mark.parametrize("folder", ["journal", "bindings", "paging"])
def test_a_hole_balances(folder: str, stores: PristineStores, tmp_path: Path) -> None:
    dest, new = tmp_path / "backups", tmp_path / "new"
    source = tmp_path / "source"
    shutil.copytree(stores["large-and-paged"], source)
    code, made = told("backup", source, dest)
    assert code == 0
    manifest = Backups.at(str(dest)).manifest()
    pieces = {
        piece: file.path
        for file in manifest.files
        for piece in file.pieces
        if piece is not None and file.path.startswith(folder)
    }
    victim = max(pieces, key=lambda piece: (dest / object_name(piece)).stat().st_size)
    os.truncate(dest / object_name(victim), 1)
    code, restored = told("restore", "--damaged", dest, new)
    assert code == EXIT_DAMAGED
    assert {one["file"] for one in restored["holes"]} == {pieces[victim]}
    books = restored["books"]
    left = sum(one["messages"] or 0 for one in books["notCarried"] if one["kind"] == "hole")
    assert books["sourceMessages"] == made["books"]["sourceMessages"] == books["carriedMessages"] + left
    live = len(journalfs("cat", new).stdout.splitlines())
    if folder == "bindings":  # their queues have other names, and all that was in them
        assert books["renamed"]
    assert live >= books["carriedMessages"]
    assert journalfs("check", new).returncode == EXIT_DAMAGED


@pytest.mark.rule("S-325")
def test_a_message_that_a_restore_loses_is_found(stores: PristineStores, tmp_path: Path) -> None:
    """A canary: the description has one message more than the pieces."""
    backups = Backups.at(str(tmp_path / "backups"))
    backups.make(stores["orders-basic"], None)
    manifest = backups.restore(tmp_path / "new").manifest
    assert manifest.account is not None
    queues = dict(manifest.account.queues)
    queues["orders::orders"] = msgspec.structs.replace(
        queues["orders::orders"], live=queues["orders::orders"].live + 1
    )
    account = msgspec.structs.replace(manifest.account, queues=queues)
    with pytest.raises(BooksDoNotBalance, match=r"orders::orders: .*a fault of journalfs"):
        restored_books(msgspec.structs.replace(manifest, account=account), tmp_path / "new", [])
