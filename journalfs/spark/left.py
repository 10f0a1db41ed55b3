"""What writing jobs put aside, and left there when their driver was killed: the next job to the same place
removes it. Called by the writer of `format("journalfs")`; never touches what a driver that runs may publish.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from journalfs.errors import failing
from journalfs.records.tables.holder import holder_of, is_dead

DRIVER: Final = ".driver"
"""File in a job's directory that says which process its driver is; it goes before the job is published."""

_JVM: Final = "java"
_TRIES: Final = 8


def note_driver(folder: Path) -> None:
    """Note in a job's directory which process is its driver. Nothing is noted where no ancestor of this
    process is a Java runtime: planning is done in processes of Python that may end before the job does.
    """
    driver = next((one for one in _ancestors() if _command(one) == _JVM), None)
    if driver is not None:
        path = folder / DRIVER
        with failing("note which process writes", path):
            path.write_text(holder_of(driver))


def make_folder(folder: Path) -> None:
    """Make a job's directory. The one above it goes with whichever job ends last."""
    with failing("put messages aside there", folder):
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                folder.mkdir(parents=True, exist_ok=True)
                return
        folder.mkdir(parents=True, exist_ok=True)


def leave_folder(jobs: Path) -> None:
    """Remove the directory of all jobs, unless others are in it."""
    with suppress(OSError):
        jobs.rmdir()


def clear_left(folder: Path) -> None:
    """Remove the directories of jobs whose driver was a process of this machine that has ended."""
    with failing("look for what other jobs left", folder), suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            if entry.is_dir() and _is_left(Path(entry.path)):
                # Another job may be removing it; what stays is removed by the next.
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        return is_dead((folder / DRIVER).read_text())
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _ancestors() -> Iterator[int]:
    number = os.getppid()
    while number > 0:
        yield number
        try:
            status = Path(f"/proc/{number}/status").read_text()
        except OSError:
            return
        number = next((int(line[5:]) for line in status.splitlines() if line.startswith("PPid:")), 0)


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return ""
