"""Backups: whole, incremental, checked, and restored as what they were, whatever ends a process."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from journalfs.backup import Backups, places
from journalfs.backup.keeping import Keep
from journalfs.backup.manifest import PIECE_BYTES, encode, manifest_name, object_name
from journalfs.errors import SystemFailure, WrongCall
from journalfs.store import open_store
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.mounting import JOURNALFS, journalfs, mounted, mounted_for_writing
from tests.writing.conftest import new_store


def run(*arguments: str | Path) -> str:
    done = journalfs(*arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def listed(dest: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("backup", "list", "--json", dest).splitlines()]


def equal(first: Path, second: Path) -> bool:
    return journalfs("diff", first, second).returncode == 0


@pytest.fixture(params=first_is_quick("directory", "objects"))
def dest(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = tmp_path / "backups"
    return str(place) if request.param == "directory" else f"file://{place}"


@pytest.mark.rule("S-240", "S-241")
@pytest.mark.parametrize("name", ["large-and-paged", pytest.param("transactions", marks=pytest.mark.long)])
def test_what_is_restored_is_what_was_backed_up(
    name: str, dest: str, stores: PristineStores, tmp_path: Path
) -> None:
    made = json.loads(run("backup", "--json", stores[name], dest))
    assert made["how"] == "closed"
    assert 0 < made["new_bytes"] <= made["content_bytes"]
    again = json.loads(run("backup", "--json", stores[name], dest))
    assert again["new_bytes"] == 0
    assert run("backup", "verify", "--all", dest).endswith("no damage\n")
    run("restore", dest, tmp_path / "restored")
    assert equal(stores[name], tmp_path / "restored")
    assert [one["name"] for one in listed(dest)] == [made["name"], again["name"]]
    done = journalfs("restore", dest, tmp_path / "restored")
    assert done.returncode != 0
    assert "there is a store already" in done.stderr


@pytest.mark.rule("S-240")
def test_a_mount_goes_on_while_it_is_backed_up(dest: str, tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        queue = mount.path / "orders" / "orders"
        queue.mkdir(parents=True)
        (queue / "in.txt").write_text("".join(f"{number}\n" for number in range(5000)))
        first = json.loads(run("backup", "--json", mount.path, dest))
        assert first["how"] == "snapshot"
        (queue / "in.txt").write_text("later\n")
        second = json.loads(run("backup", "--json", mount.path, dest))
        assert 0 < second["new_bytes"] <= 4 * PIECE_BYTES
        assert list((mount.path / ".journalfs" / "snapshots").iterdir()) == []
        by_path = json.loads(run("backup", "--json", store, dest))
        assert (by_path["how"], by_path["new_bytes"]) == ("snapshot", 0)
        run("restore", dest, tmp_path / "newest")
        assert equal(tmp_path / "newest", mount.path)
        (queue / "in.txt").write_text("later still\n")
        run("restore", dest, tmp_path / "older", "--name", first["name"])
    assert len(lines_of(tmp_path / "older")) == 5000
    assert len(lines_of(tmp_path / "newest")) == 5001
    with mounted_for_writing(tmp_path / "newest", tmp_path / "mnt2") as mount:
        (mount.path / "orders" / "orders" / "in.txt").write_text("it is a store as any\n")


def lines_of(store: Path) -> list[str]:
    return run("cat", store, "orders::orders").splitlines()


@pytest.mark.rule("S-240")
def test_a_mount_that_only_reads_is_in_nobodys_way(stores: PristineStores, tmp_path: Path) -> None:
    with mounted(stores["orders-basic"], tmp_path / "mnt") as mount:
        for given in (mount.path, stores["orders-basic"]):
            assert json.loads(run("backup", "--json", given, tmp_path / "backups"))["how"] == "closed"


@pytest.mark.rule("S-242")
def test_damage_of_a_backup_is_named(stores: PristineStores, tmp_path: Path) -> None:
    dest = tmp_path / "backups"
    run("backup", stores["orders-basic"], dest)
    pieces = sorted((dest / "objects").rglob("*"))
    victim = max((one for one in pieces if one.is_file()), key=lambda one: one.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[100] ^= 1
    victim.write_bytes(content)
    checked = journalfs("backup", "verify", dest)
    assert checked.returncode == 5
    assert f"{victim}: a piece of" in checked.stdout
    assert "is not what was written" in checked.stdout
    restored = journalfs("restore", dest, tmp_path / "restored")
    assert restored.returncode == 5
    assert not (tmp_path / "restored").exists()
    victim.unlink()
    assert "is not there" in journalfs("backup", "verify", dest).stdout
    manifest = next((dest / "backups").iterdir())
    manifest.write_bytes(manifest.read_bytes().replace(b"orders", b"0rders", 1))
    checked = journalfs("backup", "verify", dest, "--all")
    assert checked.returncode == 5
    assert "its description at byte 0: the checksum does not match" in checked.stdout


def spoil(dest: Path, path: str) -> Path:
    """Change one byte of the first piece of a file in the newest backup."""
    manifest = Backups.at(str(dest)).manifest()
    (file,) = (one for one in manifest.files if one.path == path)
    piece = file.pieces[0]
    assert piece is not None
    victim = dest / object_name(piece)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    return victim


def body_of(store: Path) -> str:
    return "large-messages/" + min(one.name for one in (store / "large-messages").glob("*.msg"))


@pytest.mark.rule("S-321")
@pytest.mark.parametrize("gone", [False, True])
def test_a_piece_is_mended_while_the_store_has_it(gone: bool, stores: PristineStores, tmp_path: Path) -> None:
    store, dest, state = tmp_path / "copy", tmp_path / "backups", tmp_path / "state"
    shutil.copytree(stores["large-and-paged"] / "data", store)
    run("backup", store, dest)
    run("backup", store, dest)
    victim = spoil(dest, body_of(store))
    if gone:
        victim.unlink()
    assert journalfs("backup", "verify", "--all", dest).returncode == 5
    done = journalfs("scrub", "--json", "--state", state, dest)
    (mended, facts) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, facts["damage"], facts["mended"]) == (0, 0, 1)
    assert (mended["kind"], dest / mended["file"]) == ("mended", victim)
    assert f"{store}: {body_of(store)}" in mended["reason"]
    assert run("backup", "verify", "--all", dest).endswith("no damage\n")
    run("restore", dest, tmp_path / "restored")
    assert equal(store, tmp_path / "restored")


@pytest.mark.rule("S-321", "S-322")
def test_a_piece_that_the_store_has_no_more_is_a_hole(stores: PristineStores, tmp_path: Path) -> None:
    store, dest, state, new = (tmp_path / name for name in ("copy", "backups", "state", "new"))
    shutil.copytree(stores["large-and-paged"] / "data", store)
    run("backup", store, dest)
    body = body_of(store)
    moved = tmp_path / "moved"
    shutil.copytree(store, moved)
    with (store / body).open("r+b") as file:
        file.write(b"other")
    victim = spoil(dest, body)
    done = journalfs("scrub", "--json", "--state", state, dest)
    (rotten, _) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, rotten["kind"]) == (5, "rotten")
    assert f"{body} at byte 0 of backup" in rotten["reason"]
    refused = journalfs("restore", dest, new)
    assert refused.returncode == 5
    assert "restore --damaged" in refused.stderr
    assert not new.exists()
    done = journalfs("restore", "--damaged", "--json", dest, new)
    facts = json.loads(done.stdout)
    assert done.returncode == 5
    assert [(one["file"], one["offset"]) for one in facts["holes"]] == [(body, 0)]
    assert str(victim) in done.stderr
    assert not (new / body).read_bytes()[:100].strip(b"\0")
    # Zeros say nothing of themselves: the new store is never cleaner than what it was made of.
    checked = [json.loads(line) for line in journalfs("check", "--json", new).stdout.splitlines()]
    assert ("hole", body) in {(one["kind"], one["file"]) for one in checked}
    assert journalfs("check", new).returncode == 5
    again = tmp_path / "again"
    journalfs("backup", new, again)
    journalfs("restore", again, tmp_path / "newer")
    assert journalfs("check", tmp_path / "newer").returncode == 5
    done = journalfs("scrub", "--json", "--state", state, "--from", moved, dest)
    assert done.returncode == 0, done.stdout
    run("restore", dest, tmp_path / "whole")
    assert equal(moved, tmp_path / "whole")


@pytest.mark.rule("S-243")
def test_what_is_pruned_is_what_no_kept_backup_has(stores: PristineStores, tmp_path: Path) -> None:
    dest, copy = tmp_path / "backups", tmp_path / "copy"
    for name in ("orders-basic", "transactions", "killed"):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(stores[name], copy)
        run("backup", copy, dest)
    names = [str(one["name"]) for one in listed(dest)]
    before = sum(1 for one in (dest / "objects").rglob("*") if one.is_file())
    assert journalfs("backup", "prune", "--keep", "0", dest).returncode != 0
    assert run("backup", "prune", "--keep", "1", dest).split() == [
        word for name in names[:2] for word in (f"{name}:", "removed")
    ]
    assert sum(1 for one in (dest / "objects").rglob("*") if one.is_file()) < before
    run("restore", dest, tmp_path / "restored")
    assert equal(stores["killed"], tmp_path / "restored")


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from journalfs.backup import Backups
from journalfs.backup.places import _Folder
left = [int(sys.argv[4])]
def dying(call):
    def act(self, *given):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return call(self, *given)
    return act
_Folder.write, _Folder.read = dying(_Folder.write), dying(_Folder.read)
backups = Backups.at(sys.argv[3])
if sys.argv[1] == "backup":
    backups.make(Path(sys.argv[2]), None)
else:
    backups.restore(Path(sys.argv[2]))
"""


@pytest.mark.rule("S-241")
@pytest.mark.parametrize("at", [3, *(pytest.param(one, marks=pytest.mark.long) for one in (0, 1, 7, 12))])
@pytest.mark.parametrize("doing", ["backup", "restore"])
def test_a_kill_leaves_what_was_there(doing: str, at: int, stores: PristineStores, tmp_path: Path) -> None:
    dest, new = tmp_path / "backups", tmp_path / "restored"
    source = stores["large-and-paged"]
    if doing == "restore":
        run("backup", source, dest)
    given = source if doing == "backup" else new
    command = [str(JOURNALFS.with_name("python")), "-c", KILLED_AT, doing, str(given), str(dest), str(at)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not new.exists()
    if doing == "backup":
        assert listed(dest) == []
        run("backup", source, dest)
    run("backup", "verify", dest)
    run("restore", dest, new)
    assert equal(source, new)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.rule("S-240")
def test_a_store_that_changes_while_it_is_read_is_read_again(
    stores: PristineStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stores["orders-basic"], copy)
    journal = next(copy.rglob("*.amq"))
    read = os.pread
    changes = iter((b"a", b"b"))

    def read_and_change(descriptor: int, length: int, at: int) -> bytes:
        change = next(changes, None)
        if change is not None:
            journal.with_name("new.amq").write_bytes(change)
        return read(descriptor, length, at)

    monkeypatch.setattr(os, "pread", read_and_change)
    made = Backups.at(str(tmp_path / "backups")).make(copy, None)
    monkeypatch.undo()
    journal.with_name("new.amq").unlink()
    assert made.files
    done = journalfs("restore", tmp_path / "backups", tmp_path / "restored")
    assert done.returncode == 5  # that file is none of a journal
    assert (tmp_path / "restored" / "journal" / "new.amq").read_bytes() == b"b"
    store = open_store(tmp_path / "restored")
    store.close()


def test_a_place_that_somebody_else_holds(
    stores: PristineStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAITS_S", 0)
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SystemFailure, match="somebody else makes or removes backups there"):
            Backups.at(str(tmp_path)).make(stores["aio"], None)
    finally:
        os.close(held)


def test_what_a_list_shows_is_no_command_to_a_terminal(stores: PristineStores, tmp_path: Path) -> None:
    backups = Backups.at(str(tmp_path))
    name = backups.make(stores["aio"], None).name
    manifest = msgspec.structs.replace(backups.manifest(name), source="/a\x1b[2J\n")
    (tmp_path / manifest_name(name)).write_bytes(encode(manifest))
    assert "/a\\x1b[2J\\x0a\tclosed" in journalfs("backup", "list", tmp_path).stdout


def test_days_weeks_and_months_keep_their_newest_backup() -> None:
    days = ["01-10", "01-31", "02-01", "02-02", "02-08", "02-09", "02-09", "02-11"]
    names = [f"2026-{day}T0{number}.00.00.000Z" for number, day in enumerate(days)]

    def kept(**keep: int) -> list[str]:
        chosen = Keep(**keep).chosen(names)
        return [day for day, name in zip(days, names, strict=True) if name in chosen]

    assert kept(newest=2) == ["02-09", "02-11"]
    assert kept(daily=3) == ["02-08", "02-09", "02-11"]
    assert Keep(daily=2).chosen(names) == {names[6], names[7]}, "of a day the newest"
    assert kept(weekly=3) == ["02-01", "02-08", "02-11"], "a week begins on Monday"
    assert kept(monthly=5) == ["01-31", "02-11"], "a month without a backup does not count"
    assert kept(newest=1, monthly=2) == ["01-31", "02-11"]
    assert kept(daily=1, weekly=2) == ["02-08", "02-11"]
    with pytest.raises(WrongCall, match="at least one"):
        kept(daily=0)


@pytest.mark.rule("S-423")
def test_what_days_keep_can_be_restored(stores: PristineStores, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    for _ in range(3):
        run("backup", stores["orders-basic"], dest)
    names = run("backup", "list", dest).split("\n")
    dry = run("backup", "prune", "--keep-daily", "7", "--dry-run", dest)
    assert dry.count("would be removed") == 2
    assert run("backup", "list", dest).split("\n") == names
    assert run("backup", "prune", "--keep-daily", "7", dest).count(": removed") == 2
    run("restore", dest, tmp_path / "back")
    assert equal(stores["orders-basic"], tmp_path / "back")
    assert journalfs("backup", "prune", dest).returncode == 1
