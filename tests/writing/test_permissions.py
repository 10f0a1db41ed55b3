"""Who may do what with addresses and queues: what `chmod` and `chown` say of them, and that it lasts."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from journalfs.api import OWNER_ALONE, Permissions
from journalfs.store.permissions import KeptPermissions, line_of, parse
from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import bodies, new_store

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")

ANNE, BOB, STRANGER, TEAM = 20001, 20002, 20003, 20010


@pytest.fixture
def shared() -> Iterator[Callable[..., MountedStore]]:
    """Mount a store that other users may look into; called again, unmount it before."""
    base = Path("/tmp") / f"journalfs-permissions-{os.getpid()}"
    base.mkdir(mode=0o755)
    store = new_store(base / "store")
    try:
        with ExitStack() as mounts:

            def mount(options: str = "allow_other,umask=022") -> MountedStore:
                mounts.close()
                return mounts.enter_context(mounted_for_writing(store, base / "mnt", "-o", options))

            yield mount
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


def run_as(user: int, command: str, folder: Path, *, groups: str = "") -> tuple[bool, str]:
    """Run a shell command as a user of a group of its own: whether it succeeded, and what it printed."""
    belongs = f"--groups={groups}" if groups else "--clear-groups"
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", belongs, "sh", "-c", command]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


def may(user: int, command: str, folder: Path) -> bool:
    return run_as(user, command, folder, groups=str(TEAM))[0]


def mode_of(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


@AS_ROOT
@pytest.mark.rule("S-175")
def test_two_users_share_a_queue(shared: Callable[..., MountedStore]) -> None:
    root = shared().path
    queue = root / "orders/orders"
    queue.mkdir(parents=True)
    assert not may(ANNE, "echo 1 > orders/orders/in.txt", root)
    os.chown(queue, -1, TEAM)
    queue.chmod(0o2770)
    assert mode_of(queue) == (0o770, 0, TEAM)
    assert mode_of(queue / ".all.jsonl") == (0o660, 0, TEAM)
    assert mode_of(queue / ".take") == (0o660, 0, TEAM)
    for remounted in range(2):
        assert may(ANNE, "echo 1 > orders/orders/in.txt", root)
        assert may(BOB, "echo 2 > orders/orders/in.txt && grep -c body orders/orders/.all.jsonl", root)
        assert may(BOB, "head -n 1 orders/orders/.take | grep '\"1\"'", root)
        assert may(ANNE, "rm orders/orders/.all.jsonl", root)
        assert bodies(QueueOnDisk(queue)) == []
        for command in ("ls", "cat orders/orders/.all.jsonl", "cat orders/orders/.status"):
            assert run_as(STRANGER, f"{command} orders/orders", root)[0] is False
        if not remounted:
            root = shared().path
    assert mode_of(queue) == (0o770, 0, TEAM)


@AS_ROOT
@pytest.mark.rule("S-175")
def test_what_each_bit_means(shared: Callable[..., MountedStore]) -> None:
    root = shared().path
    queue = root / "a/q"
    queue.mkdir(parents=True)
    (queue / "in.txt").write_text("1\n")
    read, publish = "cat a/q/.all.jsonl", "echo 2 > a/q/in.txt"
    remove, take, listed = "rm a/q/.all.jsonl", "head -n 1 a/q/.take", "ls a/q"
    allowed = {
        0o755: {read, listed},
        0o751: set[str](),
        0o753: {publish, remove},
        0o750: set[str](),
        0o757: {read, listed, publish, take, remove},
    }
    for mode, expected in allowed.items():
        queue.chmod(mode)
        found = {command for command in (listed, read, publish, take, remove) if may(STRANGER, command, root)}
        assert found == expected, oct(mode)
        (queue / "in.txt").write_text("1\n")
    (root / "a").chmod(0o700)
    assert not may(STRANGER, read, root)
    assert not may(STRANGER, "chmod 777 a", root)


@AS_ROOT
@pytest.mark.rule("S-175")
def test_what_somebody_makes_is_theirs(shared: Callable[..., MountedStore]) -> None:
    root = shared().path
    (root / "a").mkdir()
    (root / "a").chmod(0o777)
    assert may(ANNE, "mkdir a/q && chmod 700 a/q && echo 1 > a/q/in.txt", root)
    assert mode_of(root / "a/q") == (0o700, ANNE, 0)
    assert not may(BOB, "cat a/q/.all.jsonl", root)
    assert may(ANNE, "echo staged > a/.new && mkdir a/.folder && stat -c %u a/.new a/.folder", root)
    assert (mode_of(root / "a/.new"), mode_of(root / "a/.folder")) == (
        (0o644, ANNE, ANNE),
        (0o755, ANNE, ANNE),
    )
    # Made again at once it is what it was, also by somebody else.
    assert may(ANNE, "rm a/q/.all.jsonl && rmdir a/q", root)
    (root / "a/q").mkdir()
    assert mode_of(root / "a/q")[:2] == (0o700, ANNE)


@AS_ROOT
@pytest.mark.rule("S-175")
@pytest.mark.rule("S-196")
@pytest.mark.parametrize("options", ["file_mode=0664,dir_mode=0775", "umask=007"])
def test_nobody_gets_round_what_was_said(shared: Callable[..., MountedStore], options: str) -> None:
    root = shared(f"allow_other,gid={TEAM},{options}").path
    (root / "a" / "q").mkdir(parents=True)
    (root / "a/q/in.txt").write_text("secret\n")
    (root / "a/q/.all.jsonl").unlink()
    removed = root / ".journalfs/removed"
    assert mode_of(removed) == (0o700, 0, TEAM)
    assert mode_of(removed / ".undo")[0] == 0o600
    assert may(ANNE, "cat a/q/.all.jsonl .journalfs/journal/*", root)
    assert not may(ANNE, "cat .journalfs/removed/a/q/.all.jsonl", root)
    (root / "a/q").chmod(0o700)
    until(lambda: mode_of(root / ".journalfs")[0] == 0o700, "nobody else looks in")
    for command in (
        "cat a/q/.all.jsonl",
        "cat .journalfs/journal/*",
        "ls .journalfs",
        "ls .journalfs/snapshots",
    ):
        assert not may(ANNE, command, root), command
    assert may(ANNE, "ls a", root)


@pytest.mark.rule("S-176")
def test_lines_that_say_nothing_are_found() -> None:
    lines = [line_of(("a", name), Permissions(0o700 + number)) for number, name in enumerate((None, "q"))]
    assert parse(b"".join(lines)) == ({("a", None): Permissions(0o700), ("a", "q"): Permissions(0o701)}, [])
    assert parse(lines[0] + lines[1][:-1]) == ({("a", None): Permissions(0o700)}, [])
    assert parse(lines[0] + line_of(("a", None), None)) == ({}, [])
    for bad in (b"x\n", lines[1].replace(b"q", b"r"), line_of(("a", "q"), Permissions(0o10000)), b"\n"):
        assert parse(lines[0] + bad) == ({("a", None): Permissions(0o700)}, [len(lines[0])])


@pytest.mark.rule("S-176")
def test_damage_lets_nobody_in(tmp_path: Path) -> None:
    told: list[str] = []
    kept = KeptPermissions(tmp_path, told.append)
    kept.give("a", "q", Permissions(0o750))
    kept.give("b", None, Permissions(0o711))
    file = tmp_path / "journalfs/permissions"
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    again = KeptPermissions(tmp_path, told.append)
    assert (again.of("a", "q"), again.of("b", None), told) == (Permissions(0o750), None, [])
    again.give("b", None, Permissions(0o700))
    assert KeptPermissions(tmp_path, told.append).of("b", None) == Permissions(0o700)
    file.write_bytes(b"?" + content[1:])
    damaged = KeptPermissions(tmp_path, told.append)
    assert (damaged.of("a", "q"), damaged.of("b", None)) == (OWNER_ALONE, Permissions(0o711))
    assert "1 lines are damaged, the first at offset 0" in told[0]


def test_the_file_does_not_grow_with_each_change(tmp_path: Path) -> None:
    kept = KeptPermissions(tmp_path, pytest.fail)
    for number in range(3000):
        kept.give("a", "q", Permissions(number % 0o1000))
    assert (tmp_path / "journalfs/permissions").stat().st_size < 100_000
    assert KeptPermissions(tmp_path, pytest.fail).of("a", "q") == Permissions(2999 % 0o1000)
