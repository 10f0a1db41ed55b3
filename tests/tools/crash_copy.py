"""A store as a process that ends now leaves it, copied while work in threads goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

COPY_S_MAX = 60


def copy_as_left(root: Path, to: Path) -> Path:
    """Copy a store that somebody has open; two names of one file stay that.

    A file that is made ready beside the test gets its real name in a moment of its own: a copy in which names
    may be of two moments is no state that a crash leaves, and is made again.
    """
    assert not to.exists()
    to.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + COPY_S_MAX
    while True:
        before = _names(root)
        done = subprocess.run(["cp", "-a", root, to], capture_output=True, text=True, check=False)
        if done.returncode == 0 and _names(root) == before:
            return to
        assert time.monotonic() < deadline, f"no copy of one moment could be made: {done.stderr}"
        shutil.rmtree(to, ignore_errors=True)


def _names(root: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for folder, _, _ in os.walk(root):
        try:
            with os.scandir(folder) as entries:
                found += [(entry.path, entry.inode()) for entry in entries]
        except FileNotFoundError:
            continue  # it went meanwhile, which its parent tells when it is looked at again
    return sorted(found)
