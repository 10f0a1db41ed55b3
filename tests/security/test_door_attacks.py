"""A store of another user's, who put something else in the place of its files, in the hands of root."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.kinds import first_is_quick
from tests.mounting import journalfs, mounted_for_writing
from tests.security.strangers import ODD, OWNER, Victim, give_away, put_link, run_all, use_mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")

READING = ("ls", "status", "check", "print", "explain", "cat")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with messages in the journal, bodies, pages, snapshots, staged and flushed files."""
    root = tmp_path_factory.mktemp("hostile") / "store"
    assert journalfs("create", "--journal-type", "NIO", root).returncode == 0
    mountpoint = root.with_name("mnt")
    with mounted_for_writing(root, mountpoint) as mount:
        (mount.path / "orders/orders").mkdir(parents=True)
        (mount.path / "orders/in.txt").write_text("one\ntwo\n")
        (mount.path / "orders/large.bin").write_bytes(os.urandom(300_000))
        (mount.path / ".journalfs/snapshots/then").mkdir()
        (mount.path / "orders/.staged").mkdir()
        (mount.path / "orders/.staged/file.txt").write_text("staged\n")
    return root


@pytest.fixture
def store(pristine: Path, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(pristine, root, symlinks=True)
    give_away(root)
    return root


FILES = [
    "journal/activemq-data-1.amq",
    "journal/activemq-data-2.amq",
    "journal/activemq-data-9.amq.tmp",
    "journal/activemq-data-3.amq.cmp",
    "journal/journal-rename-control.ctr",
    "journal/server.lock",
    "journal/serverlock.1",
    "bindings/activemq-bindings-1.bindings",
    "large-messages/77.msg",
    "paging/some-folder/000000001.page",
    "paging/some-folder/address.txt",
    "journalfs/index",
    "journalfs/index.parts",
    "journalfs/flushed/a.note",
    "journalfs/flushed/a.body",
    "journalfs/snapshots/then/snapshot.json",
]
FOLDERS = [
    "journalfs",
    "journalfs/staging",
    "journalfs/staging/addresses",
    "journalfs/staging/queues",
    "journalfs/staging/root",
    "journalfs/staging/discarded",
    "journalfs/staging/addresses/orders/.staged",
    "journalfs/snapshots",
    "journalfs/snapshots/then",
    "journalfs/snapshots/.removing-x",
    "journalfs/snapshots/.making-x",
    "journalfs/flushed",
    "journalfs/orphans",
    "paging/some-folder",
]
CONFIGURED = ["journal", "bindings", "paging", "large-messages"]


def attack(store: Path, victim: Victim, tmp_path: Path) -> None:
    run_all(store, *READING, "compact")
    use_mount(store, tmp_path / "mnt", "--allow-other", reading=True)
    use_mount(store, tmp_path / "mnt", reading=False)
    victim.require_untouched()


OURS = [name for name in FILES if name.startswith("journalfs/")]
THEIRS = [name for name in FILES if name not in OURS]


@pytest.mark.rule("S-142")
@pytest.mark.parametrize(
    "names", first_is_quick(OURS, THEIRS[:3], THEIRS[3:]), ids=["ours", "journal", "rest"]
)
def test_links_to_files_of_roots(store: Path, victim: Victim, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        put_link(store / name, victim.file)
    attack(store, victim, tmp_path)


@pytest.mark.rule("S-142")
@pytest.mark.parametrize("name", first_is_quick(*FOLDERS[:3]))
def test_a_link_to_a_directory_of_roots(store: Path, victim: Victim, tmp_path: Path, name: str) -> None:
    put_link(store / name, victim.homes)
    attack(store, victim, tmp_path)


@pytest.mark.rule("S-142")
def test_links_to_directories_of_roots(store: Path, victim: Victim, tmp_path: Path) -> None:
    for name in FOLDERS[3:]:
        if not any(above.is_symlink() for above in (store / name).parents):
            put_link(store / name, victim.homes)
    attack(store, victim, tmp_path)


@pytest.mark.rule("S-142")
@pytest.mark.parametrize("name", CONFIGURED)
def test_a_configured_directory_that_its_owner_made_a_link(store: Path, victim: Victim, name: str) -> None:
    put_link(store / name, victim.homes)
    said = run_all(store, "ls", "compact")
    assert f"{store}/{name}: " in said
    assert f"a link that user {OWNER} made" in said
    victim.require_untouched()


@pytest.mark.rule("S-143")
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_holds_nobody_up(store: Path, tmp_path: Path, kind: str) -> None:
    for name in FILES:
        path = store / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        ODD[kind](path)
        os.chown(path, OWNER, OWNER)
    run_all(store, *READING)
    use_mount(store, tmp_path / "mnt", reading=True)
    use_mount(store, tmp_path / "mnt", reading=False)


@pytest.mark.rule("S-144")
def test_what_root_makes_is_the_owners_with_the_stores_modes(store: Path, tmp_path: Path) -> None:
    for path in (store, *store.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = set(store.rglob("*"))
    shutil.rmtree(store / "journalfs")
    old = os.umask(0)
    try:
        run_all(store, "ls", "compact")
        use_mount(store, tmp_path / "mnt", reading=False)
    finally:
        os.umask(old)
    made = [path for path in store.rglob("*") if path not in before or "journalfs" in path.parts]
    assert len(made) > 4
    assert list(store.glob("journalfs/staging/addresses/orders/.new"))
    for path in store.rglob("*"):
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (OWNER, OWNER), path
        assert not found.st_mode & 0o077, (path, oct(found.st_mode))


@pytest.mark.rule("S-145")
@pytest.mark.parametrize("name", ["", "journal", "journalfs"])
def test_root_mounts_no_store_that_others_write_to(store: Path, tmp_path: Path, name: str) -> None:
    (store / name).chmod(0o777)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    for option in ("--read-only", "--no-follow"):
        done = journalfs("mount", option, store, mountpoint)
        assert done.returncode != 0
        assert "everybody can write to it, so root does not mount it: chmod go-w" in done.stderr
    (store / name).chmod(0o755)
    use_mount(store, mountpoint, reading=True)


@pytest.mark.rule("S-146")
def test_a_mount_of_roots_acts_as_the_stores_owner(store: Path, tmp_path: Path) -> None:
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        tasks = Path(f"/proc/{mount.process_id()}/task").iterdir()
        for task in tasks:
            uids = next(
                line for line in (task / "status").read_text().splitlines() if line.startswith("Uid:")
            )
            assert uids.split()[1:] == ["0", "0", "0", str(OWNER)]


@pytest.mark.rule("S-146")
def test_a_store_of_several_users_is_refused_to_root(store: Path) -> None:
    os.chown(store / "journal", OWNER - 1, OWNER - 1)
    assert "root acts as the owner of a store, and needs one" in run_all(store, "ls")


@pytest.mark.rule("S-146")
def test_what_the_owner_does_not_reach_root_does_not(store: Path, victim: Victim, tmp_path: Path) -> None:
    """Another store of root's in a directory that is root's alone, as the one that is configured."""
    shutil.copytree(store, victim.folder / "store", symlinks=True)
    for path in (victim.folder / "store").rglob("*"):
        os.chown(path, 0, 0)
    victim.folder.chmod(0o700)
    victim.before = victim.state()
    names = {"journal-directory": "journal", "bindings-directory": "bindings"}
    (store / "journalfs.toml").write_text(
        "".join(f'{key} = "{victim.folder}/store/{name}"\n' for key, name in names.items())
    )
    said = run_all(store, "ls", "cat")
    assert "Permission denied" in said
    assert "orders" not in said
    (tmp_path / "mnt").mkdir()
    assert journalfs("mount", "--allow-other", store, tmp_path / "mnt").returncode in (1, 2)
    assert not os.path.ismount(tmp_path / "mnt")
    victim.require_untouched()


@pytest.mark.rule("S-146")
def test_lines_are_taken_where_the_owner_does_not_reach_the_store(store: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with (
        mounted_for_writing(store, tmp_path / "mnt") as mount,
        (mount.path / "orders/orders/in").open("ab", buffering=0) as file,
    ):
        for number in range(50):
            file.write(b"%d\n" % number)


@pytest.mark.rule("S-146")
def test_every_command_acts_as_the_owner(store: Path, pristine: Path) -> None:
    """What only root may open is not, as a file of root's with a second name in the store."""
    journal = store / "journal/activemq-data-1.amq"
    os.chown(journal, 0, 0)
    journal.chmod(0o600)
    before = journal.read_bytes()
    commands = ("put", "orders", os.devnull), ("take", "orders::orders", "--no-wait"), ("diff", pristine)
    for command in commands:
        assert "Permission denied" in run_all(store, command) or command[0] == "take"
        assert journal.read_bytes() == before


@pytest.mark.rule("S-142")
def test_a_user_is_led_nowhere_either(store: Path, victim: Victim, tmp_path: Path) -> None:
    """Somebody's own store, and links to what is the same user's."""
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    for path in (victim.folder, *victim.folder.rglob("*")):
        os.chown(path, OWNER, OWNER)
    victim.before = victim.state()
    for name in OURS:
        put_link(store / name, victim.file)
    put_link(store / "journalfs/staging/addresses", victim.homes)
    run_all(store, *READING, "compact", as_user=OWNER)
    victim.require_untouched()


@pytest.mark.rule("S-144")
@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o755), (0o027, 0o750), (0o077, 0o700)])
def test_a_new_store_has_what_the_umask_leaves(tmp_path: Path, mask: int, expected: int) -> None:
    """Also where everybody may make something, as in a directory for temporary files."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    old = os.umask(mask)
    try:
        assert journalfs("create", shared / "store").returncode == 0
    finally:
        os.umask(old)
    for path in (shared / "store", *(shared / "store").rglob("*")):
        wanted = expected if path.is_dir() else expected & 0o666
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    with mounted_for_writing(shared / "store", tmp_path / "mnt") as mount:
        assert (mount.path / "DLQ").is_dir()
