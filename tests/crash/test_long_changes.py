"""SIGKILL of the mount in the middle of a change of many messages: all of it is there then, or nothing."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.broker.settings import ONE_IS_QUICK
from tests.crash.plug import configure, texts_in
from tests.kinds import BACKENDS
from tests.mounting import COMMAND_S_MAX, MountedStore, journalfs
from tests.store.conftest import LittleStore

pytestmark = [pytest.mark.mount, pytest.mark.rule("S-133")]

TEXTS = [f"{number:0100}" for number in range(20_000)]
PAGED_TEXTS = TEXTS[:2_000]
"""In some eighty pages."""


@contextmanager
def killed_in_the_end(root: Path, mountpoint: Path) -> Iterator[MountedStore]:
    mountpoint.mkdir(exist_ok=True)
    done = journalfs("mount", root, mountpoint)
    assert done.returncode == 0, done.stderr
    mount = MountedStore(mountpoint)
    process = mount.process_id()
    try:
        yield mount
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        subprocess.run(["umount", "--lazy", mountpoint], check=True)


def kill_in_the_middle(mount: MountedStore, *command: str | Path, written_bytes: int) -> None:
    """Begin a change, and kill the mount once so much of it is written and nobody is told that it is done."""
    until = mount.control("status.json")["bytesWritten"] + written_bytes
    process, end = subprocess.Popen(command, stderr=subprocess.DEVNULL), time.monotonic() + COMMAND_S_MAX
    while mount.control("status.json")["bytesWritten"] < until:
        if process.poll() is not None:
            return  # it was done before it could be interrupted
        assert time.monotonic() < end
    os.kill(mount.process_id(), signal.SIGKILL)
    process.wait(COMMAND_S_MAX)


def publish(mount: MountedStore, texts: Sequence[str] = TEXTS) -> None:
    staged = mount.path / "work" / "work.a" / "_many"
    staged.write_text("".join(text + "\n" for text in texts))
    staged.rename(mount.path / "work" / "work.a" / "many.txt")


@pytest.mark.parametrize("backend", ONE_IS_QUICK)
def test_killed_while_a_file_of_many_lines_is_published(
    little_store: LittleStore, tmp_path: Path, backend: str
) -> None:
    configure(little_store.root, backend)
    with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
        queue = mount.path / "work" / "work.a"
        (queue / "_many").write_text("".join(text + "\n" for text in TEXTS))
        kill_in_the_middle(mount, "mv", queue / "_many", queue / "many.txt", written_bytes=500_000)
    found = texts_in(little_store.root)["work.a"]
    assert found in ([], TEXTS), len(found)
    if not found:
        with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
            (queue / "_many").rename(queue / "many.txt")
        assert texts_in(little_store.root)["work.a"] == TEXTS, "it was staged as before"


def _each(changes: tuple[object, object], *quick: int) -> list[Any]:
    """Both on each backend; the quick suite has those that are numbered."""
    every = [pytest.param(*one, marks=pytest.mark.long) for one in itertools.product(changes, BACKENDS)]
    for at in quick:
        every[at] = pytest.param(*every[at].values)
    return every


@pytest.mark.parametrize(("change", "backend"), _each(("rm", "mv"), 4))
def test_killed_while_many_messages_leave(
    little_store: LittleStore, tmp_path: Path, change: str, backend: str
) -> None:
    configure(little_store.root, backend)
    with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
        publish(mount)
        work = mount.path / "work"
        command: tuple[str | Path, ...] = ("rm", "-r", work / "work.a")
        if change == "mv":
            command = ("mv", work / "work.a" / ".all.jsonl", work / "work.b" / "all")
        kill_in_the_middle(mount, *command, written_bytes=200_000)
    found = texts_in(little_store.root)
    before: tuple[list[str], list[str]] = TEXTS, []
    after: tuple[list[str], list[str]] = [], TEXTS if change == "mv" else []
    there = found.get("work.a", []), found["work.b"]
    assert there in (before, after), [len(texts) for texts in there]
    if there == before:
        with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
            subprocess.run(command, check=True)
        found = texts_in(little_store.root)
        assert (found.get("work.a", []), found["work.b"]) == after


@pytest.mark.parametrize(("written_bytes", "backend"), _each((1, 4_000), 1, 3, 5))
def test_killed_while_whole_pages_leave(
    little_store: LittleStore, tmp_path: Path, written_bytes: int, backend: str
) -> None:
    """While it is staged, and while the pages go of which the journal has said that they are consumed."""
    configure(little_store.root, backend, pages=True)
    command = ("rm", tmp_path / "mnt" / "work" / "work.a" / ".all.jsonl")
    with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
        publish(mount, PAGED_TEXTS)
        kill_in_the_middle(mount, *command, written_bytes=written_bytes)
    found = texts_in(little_store.root)["work.a"]
    assert found in ([], PAGED_TEXTS), len(found)
    with killed_in_the_end(little_store.root, tmp_path / "mnt") as mount:
        subprocess.run(command, check=True)
        publish(mount, TEXTS[:5])
        end = time.monotonic() + COMMAND_S_MAX
        while len(list((little_store.root / "paging").rglob("*.page"))) > 1:
            assert time.monotonic() < end
    assert texts_in(little_store.root)["work.a"] == TEXTS[:5]
