"""The door where the kernel has no `openat2`, or a container forbids it."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs import door
from tests.security.strangers import ODD
from tests.tidy.sources import ROOT

OPENAT2 = 437
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def without_openat2() -> None:
    """From now on this process, and what it starts, gets EPERM for it."""
    steps = [
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, OPENAT2),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(program)
    given = struct.pack("HL", len(steps), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(SET_SECCOMP, MODE_FILTER, ctypes.c_char_p(given), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "folder/deep").mkdir(parents=True)
    (root / "folder/deep/file").write_bytes(b"content")
    (root / "file").write_bytes(b"x")
    for name, target in (
        ("to-file", "file"),
        ("to-folder", "folder"),
        ("up", ".."),
        ("nowhere", "none"),
        ("round", "round"),
        ("magic", "/proc/self/cwd"),
        ("folder/deep/to-file", "file"),
    ):
        (root / name).symlink_to(target)
    for kind, put in ODD.items():
        put(root / kind)
    return root


NAMES = [
    *(
        "",
        "file",
        "folder",
        "folder/deep/file",
        "none",
        "file/below",
        "folder/none/file",
        "folder//deep/./file",
    ),
    *("to-file", "to-folder", "to-folder/deep/file", "up/tree/file", "nowhere", "round", "magic/x"),
    *("folder/deep/to-file", "folder/../file", *ODD, "pipe/x"),
]
CALLS: dict[str, Callable[[Path], object]] = {
    "open_file": door.read,
    "status": lambda path: door.status(path).st_ino,
    "names": lambda path: sorted(door.names(path)),
    "pin": lambda path: os.close(door.pin(path)),
    "sync": door.sync,
    "exists": door.exists,
    "create": lambda path: os.close(door.create(path)),
    "make_folder": door.make_folder,
    "rename": lambda path: door.rename(path, path),
    "remove": lambda path: door.remove(path / "none"),
    "disk_of": lambda path: door.disk_of(path).f_bsize,
    "resolved": door.resolved,
}


def outcome(call: Callable[[Path], object], path: Path) -> object:
    try:
        return call(path)
    except OSError as error:
        return type(error), error.errno, error.strerror, error.filename


@pytest.mark.rule("S-163")
@pytest.mark.parametrize("held", [False, True], ids=["from-the-top", "held"])
def test_the_walk_refuses_what_the_kernel_refuses(
    held: bool, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert door.has_openat2
    if held:
        door.own_folder(tree)
    for name in NAMES:
        for said, call in CALLS.items():
            made = not os.path.lexists(tree / name)
            found = []
            for way in (True, False):
                monkeypatch.setattr(door, "has_openat2", way)
                found.append(outcome(call, tree / name))
                if made and said in {"create", "make_folder"} and os.path.lexists(tree / name):
                    (os.rmdir if said == "make_folder" else os.unlink)(tree / name)
            assert found[0] == found[1], (said, name)


@pytest.mark.rule("S-163")
def test_the_system_may_have_no_openat2() -> None:
    program = "from journalfs import door; print(door.has_openat2, len(door.names('/')) > 0)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        encoding="utf-8",
        preexec_fn=without_openat2,
        check=True,
    )
    assert done.stdout == "False True\n"


@pytest.mark.long
@pytest.mark.rule("S-163")
@pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")
def test_every_attack_on_the_door_without_openat2(tmp_path: Path) -> None:
    attacks = ["tests/security/test_door_attacks.py", "tests/security/test_older_attacks.py"]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not long", f"--basetemp={tmp_path / 'base'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *attacks],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        preexec_fn=without_openat2,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
