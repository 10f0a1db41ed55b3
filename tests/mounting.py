"""Mounting a store with the real command, and reading it as shell tools do."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.elsewhere import Elsewhere
from tests.forking import forks
from tests.memory import SCHEME

JOURNALFS = Path(sys.executable).with_name("journalfs")
COMMAND_S_MAX = 120
"""No command of these tests takes longer unless it hangs."""
LISTINGS_MAX = 20
EVERY_DISK_IS_QUICK = ("INLINE_FLUSH_NS_MAX", "STALL_NS")
"""Limits without which C publishes, however long flushes take."""


class Commands:
    """How they are started: see `tests.forking`."""

    forked = True
    unlimited: tuple[str, ...] = ()
    elsewhere: Elsewhere | None = None


def journalfs(*arguments: str | Path, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run the command and return what it printed and its exit code."""
    words = given(arguments)
    if Commands.forked and not keywords and forks(*Commands.unlimited).suits():
        return forks(*Commands.unlimited).run([str(JOURNALFS), *words], COMMAND_S_MAX)
    in_memory = any(word.startswith(f"{SCHEME}:") for word in words)
    command = [sys.executable, "-m", "tests.memory"] if in_memory else [str(JOURNALFS)]
    return subprocess.run(
        [*command, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
        **keywords,
    )


def given(arguments: Iterable[str | Path]) -> list[str]:
    """The words of a command."""
    place = str if Commands.elsewhere is None else Commands.elsewhere.word
    return [place(str(one)) for one in arguments]


class QueueOnDisk:
    """The directory of one queue of a mounted store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        """Every message as a reader of `*.jsonl` gets them: parts by name, then the tail."""
        return read_lines(self.path)

    def listed(self) -> list[str]:
        """Names of `.messages/` in the order they are listed in."""
        return os.listdir(self.path / ".messages")

    def listed_ids(self) -> list[int]:
        return [int(name.split(".")[0]) for name in self.listed()]

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads((self.path / ".status").read_text())
        return status


class MountedStore:
    """A mounted store; `path` is its root. File names are given as the mount encodes them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def queue(self, address: str, queue: str | None = None) -> QueueOnDisk:
        return QueueOnDisk(self.path / address / (queue if queue is not None else address))

    def control(self, name: str) -> Any:
        """A JSON file below `.journalfs/`."""
        return json.loads((self.path / ".journalfs" / name).read_text())

    def events(self) -> list[dict[str, Any]]:
        """What `.journalfs/events.jsonl` says, oldest first."""
        return [
            json.loads(line) for line in (self.path / ".journalfs/events.jsonl").read_bytes().splitlines()
        ]

    def process_id(self) -> int:
        number: int = self.control("mount.json")["pid"]
        return number


def is_tail(name: str) -> bool:
    """Whether messages are listed by this name that are in no part yet."""
    return name.startswith("_tail-") and name.endswith(".jsonl")


def parts_and_tail(folder: Path) -> tuple[list[str], list[str]]:
    """The names listed in a queue: those of parts, in order, and those of what is no part yet."""
    names = sorted(os.listdir(folder))
    parts = [name for name in names if name.startswith("part-")]
    tails = [name for name in names if is_tail(name)]
    assert sorted(parts + tails) == names
    return parts, tails


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Every line of a queue or view. A part may go, or be made of the tail, between listing and reading; then
    all is listed again.
    """
    for _ in range(LISTINGS_MAX):
        try:
            names = os.listdir(folder)
            found = _read_lines(folder, names)
            parts = {name for name in os.listdir(folder) if not is_tail(name)}
            if parts <= {name.replace("_tail-", "part-") for name in names}:
                return found
        except OSError as error:
            # ESTALE: it went between two looks of the kernel's at it.
            if error.errno not in {errno.ENOENT, errno.ESTALE} or not folder.exists():
                raise
    raise AssertionError(f"{folder}: parts went or came while reading, {LISTINGS_MAX} times in a row")


def _read_lines(folder: Path, names: list[str]) -> list[dict[str, Any]]:
    found = []
    # `_` sorts after digits and before letters, so the tail would come first: it is put where it belongs.
    for name in sorted(names, key=lambda name: (name.startswith("_"), name)):
        found += [json.loads(line) for line in (folder / name).read_bytes().splitlines()]
    return found


def mounted(store: Path, mountpoint: Path, *options: str) -> AbstractContextManager[MountedStore]:
    """Mount `store` for reading; unmounted in the end whatever happens.

    The mount's log must hold no failure that nobody foresaw.
    """
    return _mounted(store, mountpoint, "--read-only", *options)


def mounted_for_writing(store: Path, mountpoint: Path, *options: str) -> AbstractContextManager[MountedStore]:
    """As `mounted`, but to be changed."""
    return _mounted(store, mountpoint, *options)


@contextmanager
def _mounted(store: Path, mountpoint: Path, *options: str) -> Iterator[MountedStore]:
    mountpoint.mkdir(parents=True, exist_ok=True)
    log = mountpoint.with_name(f"{mountpoint.name}.log")
    done = journalfs("mount", "--log-file", log, *options, store, mountpoint)
    assert done.returncode == 0, done.stderr
    try:
        yield MountedStore(mountpoint)
    finally:
        if os.path.ismount(mountpoint):
            ended = journalfs("umount", mountpoint)
            if ended.returncode != 0:
                subprocess.run(["umount", "--lazy", mountpoint], check=True)
            assert ended.returncode == 0, ended.stderr
    written = log.read_text()
    assert "Traceback" not in written, written
    assert "the front would have answered" not in written, written
