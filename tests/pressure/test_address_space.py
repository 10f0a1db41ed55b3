"""A mount that gets no more address space: each request is answered, and SIGTERM ends it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from tests.crash.plug import texts_in
from tests.mount.conftest import until

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

ANSWERED_S_MAX = 100
"""Less than after which a hanging mount ends by itself (S-360)."""
ROOM_BYTES = (0, 1 << 20, 16 << 20)
ROUNDS = 6


@contextlib.contextmanager
def mounted(store: Path, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    place.mkdir()
    command = [sys.executable, "-m", "journalfs", "mount", "-f", str(store), str(place)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: mounted_at(place) is not None or process.poll() is not None, "the mount is there")
        yield process
    finally:
        process.kill()
        process.wait()
        if mounted_at(place) is not None:
            subprocess.run(["umount", "--lazy", "--no-canonicalize", place], check=True)


def used_bytes(process_id: int) -> int:
    pages = Path(f"/proc/{process_id}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def leave_room(process_id: int, room_bytes: int) -> None:
    limit = used_bytes(process_id) + room_bytes
    resource.prlimit(process_id, resource.RLIMIT_AS, (limit, limit))


def published(queue: Path, text: str) -> bool:
    """Whether that was answered."""
    try:
        with (queue / "in.txt").open("w") as file:
            file.write(f"{text}\n")
    except OSError:
        return False
    return True


def looks(place: Path) -> list[Callable[[], object]]:
    queue = place / "work/work.a"
    return [
        lambda: os.statvfs(place),
        lambda: os.listdir(queue / ".messages"),
        (queue / ".all.jsonl").read_bytes,
        (place / ".journalfs/status.json").read_bytes,
        lambda: (queue / "in.bin").write_bytes(bytes(1 << 20)),
    ]


def asked(what: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        what()


@pytest.mark.parametrize(
    "room_bytes",
    [pytest.param(one, marks=() if one == ROOM_BYTES[0] else pytest.mark.long) for one in ROOM_BYTES],
)
@pytest.mark.rule("S-361")
def test_each_request_is_answered_and_sigterm_ends_it(
    empty_store: Path, tmp_path: Path, room_bytes: int
) -> None:
    store, place = Path(shutil.copytree(empty_store, tmp_path / "data")), tmp_path / "mnt"
    told: list[str] = []
    with mounted(store, place) as process, ThreadPoolExecutor(8) as pool:
        queue = place / "work/work.a"
        leave_room(process.pid, room_bytes)
        for number in range(ROUNDS):
            text = f"line {number} ".ljust(20_000, ".")
            writing = pool.submit(published, queue, text)
            for one in [pool.submit(asked, look) for look in looks(place)]:
                one.result(ANSWERED_S_MAX)
            if writing.result(ANSWERED_S_MAX):
                told.append(text)
        process.send_signal(signal.SIGTERM)
        process.wait(ANSWERED_S_MAX)
        assert mounted_at(place) is None
    found = [text for text in texts_in(store)["work.a"] if text.startswith("line")]
    assert len(found) == len(set(found))
    assert set(told) <= set(found)
