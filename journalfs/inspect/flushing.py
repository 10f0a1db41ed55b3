"""Measures how long a directory's disk takes to make bytes durable. Everything written is removed again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend

FILE_BYTES: Final = 1 << 20
BLOCK_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Latency:
    """Of flushes of one size, in nanoseconds; sorted."""

    write_bytes: int
    took_ns: tuple[int, ...]

    def percentile_ns(self, percent: float) -> int:
        return self.took_ns[min(len(self.took_ns) - 1, int(len(self.took_ns) * percent / 100))]

    @property
    def a_second(self) -> float:
        """Flushes, one after the other."""
        return len(self.took_ns) * 1e9 / max(1, sum(self.took_ns))


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A folder on the same disk, for as long as that takes. Raises OSError."""
    folder = directory / f".journalfs-probe-{os.getpid()}"
    door.make_folder(folder)
    try:
        yield folder
    finally:
        with suppress(OSError):
            door.remove_tree(folder)


def backend_of(folder: Path, kind: str) -> tuple[BackendKind, str | None]:
    """Return the backend that a mount would write with where `journal-type` is `kind`, and why not that one.
    Raises OSError.
    """
    said: list[str] = []
    backend = open_backend(folder, BackendKind(kind), warn=said.append)
    try:
        return backend.kind, said[0].partition(": ")[2] if said else None
    finally:
        backend.close()


def measure(folder: Path, write_bytes: int, flushes: int) -> Latency:
    """Write and sync again and again, one after the other, into a file that has its room. Raises OSError."""
    took_ns: list[int] = []
    content = os.urandom(write_bytes)
    size_bytes = max(FILE_BYTES, write_bytes)
    descriptor = door.create(folder / "flushed")
    try:
        door.write_all(descriptor, bytes(size_bytes))
        os.fsync(descriptor)
        for number in range(flushes):
            begun_ns = time.monotonic_ns()
            os.pwrite(descriptor, content, number * write_bytes % (size_bytes - write_bytes + 1))
            os.fdatasync(descriptor)
            took_ns.append(time.monotonic_ns() - begun_ns)
    finally:
        os.close(descriptor)
        door.remove(folder / "flushed")
    return Latency(write_bytes, tuple(sorted(took_ns)))
