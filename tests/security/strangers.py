"""A store that somebody else owns, in the hands of root: what is put into it, and what must stay as it is."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.mounting import JOURNALFS, journalfs

OWNER = 65534
SECRET = b"top secret of root\n" * 300
COMMAND_S = 20
"""A command that waits for a pipe would take for ever."""


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


def give_away(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, OWNER, follow_symlinks=False)


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


def run_all(store: Path, *commands: str | tuple[str | Path, ...], as_user: int | None = None) -> str:
    """What the commands said; what follows the store comes with them. Each ends soon, without a traceback."""
    said = ""
    for given in commands:
        command, *more = (given,) if isinstance(given, str) else given
        before = (
            []
            if as_user is None
            else ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups"]
        )
        done = subprocess.run(
            [*before, JOURNALFS, command, store, *more],
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
