"""Mounts a store whose clock stands still but for what a file says: STORE MOUNTPOINT CLOCK LOG."""

from __future__ import annotations

import mmap
import sys
import time
from functools import partial
from pathlib import Path

from journalfs.store.write.opening import open_for_writing
from journalfs_mount.options import MountOptions
from journalfs_mount.start.launch import Start, start

CLOCK_BYTES = 8


class ClockInAFile:
    """What time it is, in milliseconds since 1970, stands in a file that somebody else writes."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), CLOCK_BYTES, prot=mmap.PROT_READ)

    def now_ms(self) -> int:
        return int.from_bytes(self._bytes[:CLOCK_BYTES])

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


def main(store: Path, mountpoint: Path, clock: Path, log: Path) -> int:
    opening = partial(open_for_writing, store, clock=ClockInAFile(clock))
    return start(Start(store, mountpoint, MountOptions(), opening, log_file=log))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
