"""The place to mount on: whether it can be used, what is mounted there, and how to unmount it.

Nothing here needs pyfuse3, and nothing asks a mounted filesystem anything unless said so: one whose process
was killed answers every question with an error, and one that hangs never answers. What is asked is asked by a
process of its own, which nobody has to wait for.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from journalfs.errors import (
    EXIT_BUSY,
    FuseMissing,
    JournalfsError,
    MountFailed,
    MountpointBusy,
    SystemFailure,
    WrongCall,
)
from journalfs_mount.process.mount_table import FILESYSTEM_TYPE, mounted_at

FUSE_DEVICE: Final = "/dev/fuse"
USERS_NAMED_MAX: Final = 5
"""A line on a terminal has room for about this many."""
ANSWER_WAIT_S: Final = 5.0
"""A mount that works answers within milliseconds, a second on a busy machine."""
STDERR: Final = 2
LINKS_MAX: Final = 40
"""As many as Linux follows."""


class MountInUse(JournalfsError):  # noqa: N818  (named like its siblings in journalfs.errors)
    """A mount that cannot be unmounted because somebody has something of it open."""

    identifier = "mount-in-use"
    exit_code = EXIT_BUSY
    errno = errno.EBUSY

    def __init__(self, path: Path, users: Sequence[str]) -> None:
        some = ", ".join(
            [*users[:USERS_NAMED_MAX], *(["and others"] if len(users) > USERS_NAMED_MAX else [])]
        )
        by = f" by {some}" if some else ""
        super().__init__(
            f"{path}: cannot unmount: it is in use{by}; close that first, or unmount with --lazy"
        )


class MountSilent(MountFailed):
    """A mount whose process is there and does not answer: it was stopped, or waits for its disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: the mount there does not answer (waited {ANSWER_WAIT_S:.0f} s); "
            "detach it with: journalfs umount --lazy"
        )


def prepare(path: Path, store: Path, *, allow_nonempty: bool) -> Path:
    """Make sure that `path` can be mounted on, and return it absolute.

    A journalfs mount whose process died is unmounted first. Raises `MountpointBusy`, `WrongCall` or
    `MountFailed` with what stands in the way.
    """
    path = resolved(path)
    mount = mounted_at(path)
    if mount is not None and mount.filesystem == FILESYSTEM_TYPE and is_dead(path):
        unmount(path, lazy=True)
        mount = mounted_at(path)
    if mount is not None:
        raise MountpointBusy(
            path, f"{mount.source or mount.filesystem} ({mount.filesystem}) is mounted there"
        )
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        raise MountFailed(
            f"{path}: cannot mount here: the directory does not exist; create it first"
        ) from None
    except NotADirectoryError:
        raise MountFailed(f"{path}: cannot mount here: it is not a directory") from None
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise MountpointBusy(path, "another filesystem's process died and left its mount") from None
        raise SystemFailure.from_os(error, path, doing="use it as a mount point") from None
    # Before "not empty": a directory that holds the store never is, and the option would not help.
    real_store = Path(os.path.realpath(store))
    if _is_within(real_store, path):
        raise WrongCall(f"{path}: cannot mount here: it would hide the store {store}; mount elsewhere")
    if _is_within(path, real_store):
        # Looking at the store would ask the mount, which waits for itself.
        raise WrongCall(f"{path}: cannot mount here: it lies inside the store {store}; mount elsewhere")
    if names and not allow_nonempty:
        raise MountpointBusy(path, "the directory is not empty (-o nonempty hides what is in it)")
    return path


def is_dead(path: Path) -> bool:
    """True when a mount's process is gone. Asks the filesystem, by a question that the kernel never answers
    from what it remembers, as it does for the attributes of the root. Raises `MountSilent`.
    """

    def ask() -> bytes:
        try:
            os.statvfs(path)
        except OSError as error:
            if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
                return b"dead"
        return b"alive"

    return _asked(path, ask) == b"dead"


def resolved(path: Path) -> Path:
    """The path without links, not asking what is mounted there."""
    place = Path(os.path.abspath(path))
    for _ in range(LINKS_MAX):
        if mounted_at(place) is not None:
            return place
        place = Path(os.path.realpath(place.parent), place.name)
        if mounted_at(place) is not None or not place.is_symlink():
            return place
        place = Path(os.path.normpath(place.parent / place.readlink()))
    raise WrongCall(f"{path}: too many levels of symbolic links")


def _asked(path: Path, question: Callable[[], bytes]) -> bytes:
    """The answer of a question to a filesystem, asked by a child: whoever asks one that hangs hangs too.

    Raises `MountSilent`.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            left = question()
            while left:
                left = left[os.write(writer, left) :]
        finally:
            os._exit(0)
    os.close(writer)
    answer: bytes | None = None
    try:
        answer = _read_to_end(reader)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        # One that hangs may not even be ended: nobody waits for it.
        os.waitpid(child, os.WNOHANG if answer is None else 0)
    if answer is None:
        raise MountSilent(path)
    return answer


def _read_to_end(reader: int) -> bytes | None:
    """What comes from a pipe until its end; None if that does not come in time."""
    answer, deadline_ns = b"", time.monotonic_ns() + int(ANSWER_WAIT_S * 1e9)
    while True:
        left_s = max(0, deadline_ns - time.monotonic_ns()) / 1e9
        if not select.select([reader], [], [], left_s)[0]:
            return None
        piece = os.read(reader, 65_536)
        if not piece:
            return answer
        answer += piece


def check_fuse() -> None:
    """Raise `FuseMissing`, with what to do, unless this process can use FUSE at all."""
    try:
        os.close(os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise _device_missing(error) from None
    if os.geteuid() != 0 and _fusermount() is None:
        raise FuseMissing("fusermount3 was not found", advice="install the package fuse3, or mount as root")
    try:
        import pyfuse3  # noqa: F401, PLC0415  (the rest of this module must work without it)
    except ImportError as error:
        raise _library_missing(error) from None


def serving_process(path: Path) -> int | None:
    """A pidfd of the process that serves the mount at `path`, as that mount tells; None if it cannot be had.

    Asks the filesystem. The descriptor becomes readable when the process ends; the caller closes it. Raises
    `MountSilent`.
    """

    def ask() -> bytes:
        try:
            return (path / ".journalfs" / "mount.json").read_bytes()
        except OSError:
            return b""

    try:
        process = json.loads(_asked(path, ask))["pid"]
        descriptor = os.pidfd_open(process)
    except (OSError, ValueError, KeyError):
        return None  # another user's mount, or one from within another process namespace
    if FUSE_DEVICE in _links(Path("/proc", str(process))):
        return descriptor
    os.close(descriptor)
    return None


def unmount(path: Path, *, lazy: bool = False) -> None:
    """Unmount `path`. Raises `MountInUse` naming who uses it, or `MountFailed`."""
    if os.geteuid() == 0:
        # The path is as it stands in the mount table; looking at it again would ask the filesystem.
        command = ["umount", "--no-canonicalize", *(["--lazy"] if lazy else []), str(path)]
    else:
        tool = _fusermount()
        if tool is None:
            raise FuseMissing("fusermount3 was not found", advice="install the package fuse3")
        command = [tool, "-u", *(["-z"] if lazy else []), str(path)]
    environment = {**os.environ, "LC_ALL": "C"}  # the reason is looked into below
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return
    reason = done.stderr.strip() or f"{command[0]} ended with {done.returncode}"
    if "busy" in reason:
        raise MountInUse(path, [f"{name} ({process})" for process, name in holders(path)])
    raise MountFailed(f"{path}: cannot unmount: {reason}")


def holders(path: Path) -> Iterator[tuple[int, str]]:
    """Process id and name of those that have something below `path` open or work there.

    Only what /proc shows to this user.
    """
    for process in (Path("/proc", name) for name in os.listdir("/proc") if name.isdecimal()):
        if any(_is_below(target, path) for target in _links(process)):
            yield int(process.name), _command(process)


def _is_below(target: str, path: Path) -> bool:
    """Whether what /proc says of a descriptor is of a file at or below `path`."""
    return f"{target}/".startswith(f"{path}/")


def _links(process: Path) -> Iterator[str]:
    """Where a process works and what it has open. Nothing for what ended meanwhile or is somebody else's."""
    with contextlib.suppress(OSError):
        opened = [process / "fd" / name for name in os.listdir(process / "fd")]
        for link in (process / "cwd", process / "root", *opened):
            with contextlib.suppress(OSError):
                yield os.readlink(link)


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "ended"


def _is_within(path: Path, directory: Path) -> bool:
    return path == directory or directory in path.parents


def _fusermount() -> str | None:
    return shutil.which("fusermount3") or shutil.which("fusermount")


def _device_missing(error: OSError) -> FuseMissing:
    if error.errno in (errno.EACCES, errno.EPERM):
        return FuseMissing(
            f"no permission to open {FUSE_DEVICE}",
            advice=f"run as root, or let users open it: chmod 0666 {FUSE_DEVICE}; "
            "in a container, allow the device",
        )
    return FuseMissing(
        f"{FUSE_DEVICE} cannot be opened ({error.strerror})",
        advice="load the kernel module with 'modprobe fuse'; "
        "in a container, add --device /dev/fuse --cap-add SYS_ADMIN",
    )


def _library_missing(error: ImportError) -> FuseMissing:
    if isinstance(error, ModuleNotFoundError) and error.name == "pyfuse3":
        return FuseMissing(
            "the Python module pyfuse3 is not installed",
            advice="install the headers it is built with (Debian: apt install gcc pkg-config libfuse3-dev; "
            "Fedora: dnf install gcc pkgconf fuse3-devel), then run: pip install 'journalfs[mount]'",
        )
    return FuseMissing(
        f"pyfuse3 cannot be loaded ({error})",
        advice="install the FUSE library (Debian: apt install libfuse3-3 or libfuse3-4; "
        "Fedora: dnf install fuse3-libs)",
    )
