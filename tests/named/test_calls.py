"""Calls with a path of the wrong kind: one line, the reason, and a remedy that works when it is typed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mounting import JOURNALFS, MountedStore, journalfs, mounted_for_writing
from tests.named.instances import make_instance

pytestmark = [pytest.mark.rule("S-336"), pytest.mark.mount]

INNER = re.compile(r"_put-|put-[0-9a-f]{8}|\.take\b|Errno|Traceback")
"""What no message of a command may have in it: names that nobody typed."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_instance(tmp_path_factory.mktemp("calls") / "broker") / "data"


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[MountedStore]:
    folder = store.parents[1]
    (folder / "one.txt").write_text("x\n")
    made = journalfs("backup", "make", store, folder / "backup")
    assert made.returncode == 0, made.stderr
    with mounted_for_writing(store, folder / "mnt") as mounted:
        (mounted.path / "orders/orders").mkdir(parents=True)
        (mounted.path / "orders/.batch").mkdir()
        yield mounted


def refused(code: int, *words: str | Path) -> str:
    """What a command says that is refused: one line, without names that nobody typed."""
    done = journalfs(*words)
    said = done.stderr
    assert done.returncode == code, (words, said)
    assert said.count("\n") == 1, said
    assert not INNER.search(said.replace(str(words), "")), said
    return said


def test_taking(mount: MountedStore, store: Path) -> None:
    mnt, orders = mount.path, mount.path / "orders/orders"
    (orders / "one.txt").write_text("x\n")
    assert str(orders) in refused(1, "take", mnt / "orders", "--no-wait")
    assert f"{mnt}/ADDRESS/QUEUE" in refused(1, "take", mnt, "--no-wait")
    assert "no such queue" in refused(1, "take", mnt / "orders/none", "--no-wait")
    assert f"give {orders}" in refused(1, "take", orders / ".messages", "--no-wait")
    assert f"give {orders}" in refused(1, "take", mnt, "orders::orders")
    assert "ADDRESS::QUEUE" in refused(1, "take", store, "orders")
    taken = journalfs("take", orders, "--no-wait")
    assert (taken.returncode, taken.stdout.count("\n")) == (0, 1)


def test_publishing(mount: MountedStore, store: Path) -> None:
    mnt, file = mount.path, store.parents[1] / "one.txt"
    said = refused(1, "put", mnt / "fresh", file)
    (remedy,) = re.findall(r"mkdir -p \S+", said)
    subprocess.run(remedy.split(), check=True)
    said = refused(1, "put", mnt / "fresh/fresh", file)
    (remedy,) = re.findall(r"mkdir -p \S+", said)
    subprocess.run(remedy.split(), check=True)
    assert journalfs("put", mnt / "fresh", file).returncode == 0
    assert f"{mnt}/ADDRESS" in refused(1, "put", mnt, file)
    assert f"give {mnt}/orders/orders" in refused(1, "put", mnt / "orders/orders/.messages", file)
    assert f"give {mnt}/orders/orders" in refused(1, "put", mnt, "orders::orders", file)
    assert "no such file" in refused(1, "put", mnt / "orders", "nothing.txt")


@pytest.mark.parametrize("name", ["in.json", pytest.param("in.jsonl", marks=pytest.mark.long)])
def test_publishing_the_input(mount: MountedStore, name: str) -> None:
    """What the mount refuses has its reason, and the path that was typed."""
    done = subprocess.run(
        [JOURNALFS, "put", mount.path / "orders", "--as", name],
        input="{bad\n", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"journalfs: {mount.path}/orders: cannot publish:")
    assert "JSON" in done.stderr
    assert not INNER.search(done.stderr), done.stderr


@pytest.mark.parametrize("command", ["ls", "cat", "status", "check"])
def test_looking(mount: MountedStore, store: Path, command: str) -> None:
    mnt = mount.path
    queue = [] if command == "check" else ["orders::orders"]
    for inside, named in (("orders", "orders"), ("orders/orders", "orders::orders")):
        said = refused(3, command, mnt / inside)
        assert f"{mnt} {named}" in said
    assert journalfs(command, mnt, *queue).returncode == 0
    assert f"restore {store.parents[1]}/backup NEW" in refused(3, command, store.parents[1] / "backup")
    assert f"{store} orders" in refused(3, command, store / "orders")


def test_a_backup_is_no_store(mount: MountedStore, store: Path) -> None:
    backup, file = store.parents[1] / "backup", store.parents[1] / "one.txt"
    calls: list[list[str | Path]] = [
        ["put", backup, "a::a", file],
        ["take", backup, "a::a"],
        ["mount", backup, backup.parent],
    ]
    for words in calls:
        if words[0] == "mount":
            (backup.parent / "free").mkdir(exist_ok=True)
            words[-1] = backup.parent / "free"
        assert "journalfs restore" in refused(3, *words)


def test_a_store_is_made_in_no_mount(mount: MountedStore, store: Path) -> None:
    for inside in ("orders/.batch/new", "orders/.batch", "new", "orders/new"):
        said = refused(1, "create", mount.path / inside)
        assert f"a directory outside of {mount.path}" in said
    assert list((mount.path / "orders/.batch").iterdir()) == []


def test_swapped_arguments(store: Path, tmp_path: Path) -> None:
    other = make_instance(tmp_path / "other")
    empty = tmp_path / "empty"
    empty.mkdir()
    for given in (other, other / "data"):
        said = refused(1, "mount", empty, given)
        (remedy,) = re.findall(r"journalfs (mount \S+ \S+)", said)
        assert journalfs(*remedy.split()).returncode == 0
        assert journalfs("umount", empty).returncode == 0


def test_a_replay_without_a_history(mount: MountedStore, store: Path, tmp_path: Path) -> None:
    assert "journal-retention-directory" in refused(1, "replay", mount.path)
    other = make_instance(tmp_path / "other") / "data"
    assert "journal-retention-directory" in refused(3, "replay", other, "DLQ::DLQ")
    said = 'journal-retention-directory = "history"\njournal-retention-period = 1000000\n'
    (other / "journalfs.toml").write_text(said)
    assert journalfs("put", other, "DLQ::DLQ", __file__).returncode == 0
    assert journalfs("replay", other, "DLQ::DLQ").returncode == 0
