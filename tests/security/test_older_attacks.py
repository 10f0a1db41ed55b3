"""An older store of a stranger's in the hands of root, and the places where something is made of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from journalfs import door
from journalfs.records.older.deriving import DERIVED_VARIABLE
from tests.frozen import PristineStores
from tests.mounting import journalfs
from tests.security.strangers import ODD, OWNER, SECRET, Victim, give_away, put_link, run_all, use_mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")

REPLACED = {
    "hq-2.1-core": [
        "journal/hornetq-data-2.hq",
        "bindings/hornetq-bindings-2.bindings",
        "large-messages/23.msg",
        "paging/*/address.txt",
    ],
    "hq-2.4-main": [
        "journal/hornetq-data-4.hq",
        "journal/server.lock",
        "bindings/hornetq-jms-1.jms",
        "large-messages/100.msg",
    ],
    "art-1.5-main": ["journal/activemq-data-2.amq", "paging/*/000000002.page", "large-messages/101.msg"],
    "kaha-5.8.0-clean": ["db-3.log", "db-15.log", "db.data"],
    "amq-5.4-clean": ["localhost/journal/data-4", "localhost/kr-store/data/index-queue-data"],
}
"""By store, files in whose places there is something else."""

FOLDERS = [
    ("hq-2.1-core", "paging"),
    *(
        pytest.param(*one, marks=pytest.mark.long)
        for one in (
            ("hq-2.1-core", "large-messages"),
            ("hq-2.1-core", "journal"),
            ("hq-2.4-main", "bindings"),
            ("kaha-5.8.0-clean", "more"),
            ("amq-5.4-clean", "localhost/journal"),
            ("amq-5.4-clean", "localhost/kr-store/data"),
        )
    ),
]

STORES = [pytest.param(one, marks=() if one == "hq-2.1-core" else pytest.mark.long) for one in REPLACED]


@pytest.fixture(autouse=True)
def derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "derived"
    monkeypatch.setenv(DERIVED_VARIABLE, str(folder))
    return folder


def strangers(stores: PristineStores, name: str, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(stores[name], root, symlinks=True)
    give_away(root)
    return root


def attack(root: Path, tmp_path: Path) -> str:
    new = tmp_path / "new"
    said = run_all(root, "check", ("convert", new))
    use_mount(root, tmp_path / "mnt", reading=True)
    return said + (run_all(new, "export") if new.exists() else "")


@pytest.mark.rule("S-142")
@pytest.mark.parametrize("name", STORES)
def test_links_to_files_of_roots(name: str, stores: PristineStores, victim: Victim, tmp_path: Path) -> None:
    root = strangers(stores, name, tmp_path)
    for pattern in REPLACED[name]:
        found = list(root.glob(pattern))
        assert found, pattern
        for path in found:
            put_link(path, victim.file)
    said = attack(root, tmp_path)
    assert "not a file of the store: a link" in said
    victim.require_untouched()


@pytest.mark.rule("S-142")
@pytest.mark.parametrize(("name", "folder"), FOLDERS)
def test_links_to_directories(
    name: str, folder: str, stores: PristineStores, victim: Victim, tmp_path: Path
) -> None:
    """What the directory of root's holds has the names of the store's."""
    root = strangers(stores, name, tmp_path)
    hidden = victim.folder / "hidden"
    shutil.copytree(root / folder if (root / folder).is_dir() else root, hidden, symlinks=True)
    put_link(root / folder, hidden)
    victim.before = victim.state()
    said = attack(root, tmp_path)
    assert f"a link that user {OWNER} made" in said or "not a file of the store: a link" in said, said
    victim.require_untouched()


@pytest.mark.rule("S-143")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=() if (name, kind) == ("hq-2.1-core", "pipe") else pytest.mark.long)
        for name in REPLACED
        for kind in ODD
    ],
)
def test_what_is_no_file_is_refused(name: str, kind: str, stores: PristineStores, tmp_path: Path) -> None:
    root = strangers(stores, name, tmp_path)
    for pattern in REPLACED[name]:
        for path in list(root.glob(pattern)):
            path.unlink()
            ODD[kind](path)
            os.chown(path, OWNER, OWNER)
    said = run_all(root, "check", ("convert", tmp_path / "new"))
    assert f"not a file of the store: a {kind}" in said


@pytest.mark.rule("S-161")
def test_root_reads_an_older_store_as_its_owner(stores: PristineStores, tmp_path: Path) -> None:
    """A second name of a file of root's, which the store's owner could not read, shows nothing of it."""
    root = strangers(stores, "hq-2.1-core", tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    for pattern in REPLACED["hq-2.1-core"]:
        for path in list(root.glob(pattern)):
            path.unlink()
            path.hardlink_to(secret)
    said = run_all(root, "check", ("convert", tmp_path / "new"))
    assert "Permission denied" in said
    assert "top secret" not in run_all(tmp_path / "new", "export")


@pytest.mark.rule("S-161")
def test_what_root_converts_is_whole_and_the_owners_of_where_it_goes(
    stores: PristineStores, tmp_path: Path
) -> None:
    root = strangers(stores, "hq-2.4-main", tmp_path)
    for path in (root, *root.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chown(home, OWNER - 1, OWNER - 1)
    for where, owner in ((tmp_path / "new", 0), (home / "new", OWNER - 1)):
        done = journalfs("convert", root, where)
        assert done.returncode == 0, done.stderr
        assert "large-messages" not in done.stdout
        assert len(list((where / "large-messages").iterdir())) == 5
        for path in (where, *where.rglob("*")):
            found = path.lstat()
            assert (found.st_uid, found.st_mode & 0o022) == (owner, 0), path
    give_away(tmp_path / "new")
    assert journalfs("repair", tmp_path / "new", "--out", tmp_path / "again").returncode == 0


@pytest.mark.rule("S-162")
@pytest.mark.parametrize("planted", ["link", "folder", "writable"])
def test_nothing_is_derived_in_a_folder_of_another_user(
    planted: str, stores: PristineStores, victim: Victim, derived: Path, tmp_path: Path
) -> None:
    root = strangers(stores, "hq-2.1-core", tmp_path)
    assert journalfs("ls", root).returncode == 0
    (place,) = derived.iterdir()
    shutil.rmtree(place)
    if planted == "link":
        put_link(place, victim.homes)
    else:
        place.mkdir()
        place.chmod(0o777 if planted == "writable" else 0o755)
        if planted == "folder":
            os.chown(place, OWNER, OWNER)
    done = journalfs("ls", root)
    assert done.returncode != 0
    assert f"{place}: cannot derive a store from {root}: not " in done.stderr
    assert planted == "link" or not list(place.iterdir())
    victim.require_untouched()


@pytest.mark.rule("S-162")
def test_what_others_put_beside_what_is_derived_is_left_alone(
    stores: PristineStores, victim: Victim, derived: Path, tmp_path: Path
) -> None:
    root = strangers(stores, "hq-2.1-core", tmp_path)
    others = derived / "others"
    (others / "old").mkdir(parents=True)
    os.mkfifo(others / "old" / "in-use")
    put_link(derived / "away", victim.homes)
    for path in (others, *others.rglob("*")):
        os.chown(path, OWNER, OWNER)
        os.utime(path, (0, 0))
    run_all(root, "ls", "check")
    assert (others / "old" / "in-use").exists()
    victim.require_untouched()


@pytest.mark.rule("S-162")
def test_a_store_that_somebody_else_began_to_make_is_not_gone_on_with(
    stores: PristineStores, tmp_path: Path
) -> None:
    staging = tmp_path / ".new.unfinished"
    staging.mkdir()
    os.chown(staging, OWNER, OWNER)
    done = journalfs("convert", stores["hq-2.1-core"], tmp_path / "new")
    assert done.returncode != 0
    assert f"{staging}: cannot convert: not made by this user: user {OWNER} has it" in done.stderr
    assert not list(staging.iterdir())


def test_a_folder_of_our_own_is_held(tmp_path: Path) -> None:
    """Whoever renames it does not lead anybody elsewhere."""
    place = tmp_path / "own"
    door.own_folder(place)
    place.rename(tmp_path / "away")
    place.mkdir()
    door.write(place / "file", b"x")
    assert (tmp_path / "away" / "file").read_bytes() == b"x"
    assert not list(place.iterdir())
