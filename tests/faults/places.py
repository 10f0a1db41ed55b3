"""A small store that is mounted, and what its users do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store
from tests.mounting import MountedStore, QueueOnDisk

FILE_BYTES = 1 << 20
TOLD = [f"told {number}" for number in range(100)]


def make_store(path: Path, journal_type: str, **settings: Value) -> Path:
    own: dict[str, Value] = {"journal-type": journal_type, "journal-file-size": FILE_BYTES, **settings}
    create_store(path, own, SystemClock(), warn=pytest.fail)
    return path


def fill(mount: MountedStore) -> QueueOnDisk:
    """The only queue, with `TOLD` in it: their writer was told that they are durable."""
    queue = mount.queue("work", "work.a")
    queue.path.mkdir(parents=True)
    write(queue.path / "in.txt", "".join(f"{body}\n" for body in TOLD).encode())
    return queue


def write(path: Path, content: bytes) -> None:
    """Open, write in one call, close. Raises what the first of them that fails raises."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        assert os.write(descriptor, content) == len(content)
    finally:
        os.close(descriptor)


def bodies(queue: QueueOnDisk) -> list[str]:
    return [line["body"] for line in queue.lines()]


def refusals(mount: MountedStore) -> list[tuple[str, str]]:
    """Path with errno, and why, of every change that was refused."""
    return [(one["what"], one["reason"]) for one in mount.events() if one["event"] == "refused"]


def named(mount: MountedStore, event: str) -> list[dict[str, Any]]:
    return [one for one in mount.events() if one["event"] == event]
