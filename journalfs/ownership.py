"""Whose new files are: a broker that runs as a user of its own goes on with what root adds to its store."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def give_to_owner(made: int | Path, directory: Path) -> None:
    """Give a file or directory, just made in `directory`, the owner and group of that, if we are root."""
    if os.geteuid() != 0:
        return
    owner = os.stat(directory)
    # Where not even root may give away, as on some network disks, it stays as it was made.
    with contextlib.suppress(PermissionError):
        os.chown(made, owner.st_uid, owner.st_gid)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, each owned as the one it is in. It may be there."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        give_to_owner(path, path.parent)
