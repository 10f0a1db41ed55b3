"""A store of another user's, who put something else in the place of its files, in the hands of root."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mounting import JOURNALFS, journalfs, mounted_for_writing

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")

OWNER = 65534
SECRET = b"top secret of root\n" * 300
COMMAND_S = 20
"""A command that waits for a pipe would take for ever."""

READING = ("ls", "status", "check", "print", "explain", "cat")


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


class Victim:
    """What is root's, and stays as it is and unseen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "secret"
        self.homes = folder / "homes"
        for name in ("alice/mail", "bob"):
            (self.homes / name).mkdir(parents=True)
        (self.homes / "alice/mail/one").write_bytes(SECRET)
        self.file.write_bytes(SECRET)
        self.file.chmod(0o600)
        folder.chmod(0o755)
        self.before = self.state()

    def state(self) -> list[tuple[str, int, int, int, bytes]]:
        return [
            (str(path), found.st_uid, found.st_gid, found.st_mode, content(path))
            for path in sorted(self.folder.rglob("*"))
            for found in (path.lstat(),)
        ]

    def require_untouched(self) -> None:
        assert self.state() == self.before


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path / "victim")


def give_away(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, OWNER, follow_symlinks=False)


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


def put_link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    os.chown(path, OWNER, OWNER, follow_symlinks=False)


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(path.parent, os.O_PATH)
        try:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def put_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


ODD: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": put_socket,
    "device": put_device,
    "directory": os.mkdir,
}

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
    "journalfs/index.sealed",
    "journalfs/last-words",
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


def run_all(store: Path, *commands: str, as_user: int | None = None) -> str:
    """What the commands said. Each ends soon, without a traceback."""
    said = ""
    for command in commands:
        before = (
            []
            if as_user is None
            else ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups"]
        )
        done = subprocess.run(
            [*before, JOURNALFS, command, store],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )
        text = done.stdout + done.stderr
        assert b"Traceback" not in text, text.decode()
        assert b"top secret" not in text
        assert done.returncode in (0, 1, 2, 3, 4, 5, 6, 7, 8, 32), (command, done.returncode, text)
        said += text.decode(errors="replace")
    return said


def use_mount(store: Path, mountpoint: Path, *options: str, reading: bool) -> None:
    """Mount it, look at everything, publish; mounting may be refused, with a reason and soon."""
    mountpoint.mkdir(exist_ok=True)
    options = (*options, "--read-only") if reading else options
    done = journalfs("mount", *options, store, mountpoint)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.startswith("journalfs: "), done.stderr
        return
    try:
        for folder, _, names in os.walk(mountpoint):
            for name in names:
                with suppress(OSError):
                    assert b"top secret" not in Path(folder, name).read_bytes(), (folder, name)
        with suppress(OSError):
            (mountpoint / "orders/more.txt").write_text("more\n")
        with suppress(OSError):
            (mountpoint / "orders/.new").write_text("staged\n")
        with suppress(OSError):
            (mountpoint / ".journalfs/snapshots/now").mkdir()
    finally:
        assert journalfs("umount", mountpoint).returncode == 0


def attack(store: Path, victim: Victim, tmp_path: Path) -> None:
    run_all(store, *READING, "compact")
    use_mount(store, tmp_path / "mnt", "--allow-other", reading=True)
    use_mount(store, tmp_path / "mnt", reading=False)
    victim.require_untouched()


OURS = [name for name in FILES if name.startswith("journalfs/")]
THEIRS = [name for name in FILES if name not in OURS]


@pytest.mark.rule("S-142")
@pytest.mark.parametrize("names", [OURS, THEIRS[:3], THEIRS[3:]], ids=["ours", "journal", "rest"])
def test_links_to_files_of_roots(store: Path, victim: Victim, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        put_link(store / name, victim.file)
    attack(store, victim, tmp_path)


@pytest.mark.rule("S-142")
@pytest.mark.parametrize("name", FOLDERS[:3])
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
    for path in (one for one in store.rglob("*") if "staging" not in one.parts):
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
    assert "root acts as the owner of a store, which has to be one" in run_all(store, "ls")


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
