"""A copy of hard links, as `cp -al` and `rsync --link-dest` make: its files are the original's."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from journalfs.store.write.opening import change
from journalfs.store.write.store import WritingStore
from tests.cli.running import Done, journalfs
from tests.named.instances import fingerprint, make_instance

pytestmark = pytest.mark.rule("S-401")


def put(store: Path, *options: str) -> Done:
    file = store.parent / "one.txt"
    file.write_text("x\n")
    return journalfs("put", *options, store, "DLQ::DLQ", file)


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Path]:
    """The original, and a copy of links."""
    prod = make_instance(tmp_path / "prod") / "data"
    assert put(prod).returncode == 0
    assert journalfs("ls", prod).returncode == 0
    subprocess.run(["cp", "-al", prod, tmp_path / "copy"], check=True)
    return prod, tmp_path / "copy"


def test_it_is_read_and_not_written_to(copied: tuple[Path, Path]) -> None:
    prod, copy = copied
    before = fingerprint(prod)
    assert journalfs("ls", copy).returncode == 0
    assert fingerprint(prod) == before, "what journalfs keeps of a store is its own there"
    calls: list[list[str | Path]] = [
        ["put", copy, "DLQ::DLQ", copy.parent / "one.txt"],
        ["take", copy, "DLQ::DLQ"],
        ["compact", copy],
    ]
    for call in calls:
        (copy.parent / "one.txt").write_text("x\n")
        done = journalfs(*call)
        assert (done.returncode, "another name outside of" in done.stderr) == (1, True), (call, done.stderr)
        assert done.stderr.count("\n") == 1
    assert fingerprint(prod) == before


@pytest.mark.parametrize("shared", ["journal", "bindings"])
def test_one_shared_file_is_enough(tmp_path: Path, shared: str) -> None:
    prod = make_instance(tmp_path / "prod") / "data"
    subprocess.run(["cp", "-a", prod, tmp_path / "copy"], check=True)
    file = next((prod / shared).glob("activemq-*"))
    (tmp_path / "copy" / shared / file.name).unlink()
    (tmp_path / "copy" / shared / file.name).hardlink_to(file)
    before = fingerprint(prod)
    assert put(tmp_path / "copy").returncode == 1
    assert fingerprint(prod) == before


def test_its_remedies_work(copied: tuple[Path, Path], tmp_path: Path) -> None:
    prod, copy = copied
    before = fingerprint(prod)
    found = re.search(r"cp -a --reflink=auto \S+ NEW", put(copy).stderr)
    assert found
    subprocess.run(shlex.split(found[0].replace("NEW", str(tmp_path / "new"))), check=True)
    assert put(tmp_path / "new").returncode == 0
    assert fingerprint(prod) == before
    assert put(copy, "--force").returncode == 0


def test_names_that_snapshots_gave_are_the_stores_own(tmp_path: Path) -> None:
    prod = make_instance(tmp_path / "prod") / "data"
    assert put(prod).returncode == 0
    (tmp_path / "much.txt").write_text(("y" * 200 + "\n") * 600)
    filled = journalfs("put", prod, "DLQ::DLQ", tmp_path / "much.txt")
    assert filled.returncode == 0, filled.stderr

    async def snapshot(store: WritingStore) -> None:
        await store.snapshotting.create("one")

    change(prod, snapshot)
    assert any(one.stat().st_nlink > 1 for one in prod.rglob("*") if one.is_file())
    assert put(prod).returncode == 0
