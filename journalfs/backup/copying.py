"""A copy of the files of a store that somebody writes to, for what needs a store that holds still: `recover`
beside a broker. It is taken as `backup` takes one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.backup.contents import Contents, contents_of
from journalfs.errors import SystemFailure, failing

ATTEMPTS_MAX: Final = 5
"""A broker may take a journal file into use again while it is copied."""


def copy_beside(path: Path, to: Path, advance: Callable[[int], None] = lambda count: None) -> None:
    """Copy the store at `path` into the directory `to`, which is made. Raises what `locate_store` raises, and
    `SystemFailure` where the store changes faster than it is copied.
    """
    with contents_of(path, None) as contents, failing("copy the store", path, found=True):
        for _ in range(ATTEMPTS_MAX):
            if door.exists(to):
                door.remove_tree(to)
            if _copied(contents, to, advance):
                return
    raise SystemFailure(
        f"{path}: the store changed while it was copied, {ATTEMPTS_MAX} times; stop what writes to it, or "
        "give a backup that was restored"
    )


def _copied(contents: Contents, to: Path, advance: Callable[[int], None]) -> bool:
    """Copy all files; return False where something was lost to the copy meanwhile."""
    try:
        before = contents.state()
        door.make_folders(to, mode=0o700)
        for name in ("journal", "bindings", "paging", "large-messages"):
            door.make_folders(to / name)
        for one in contents.files():
            target = to / one.name
            door.make_folders(Path(os.path.dirname(target)))
            door.copy(one.path, target, advance)
        return before == contents.state()
    except FileNotFoundError:
        return False  # used up by the broker since it was listed
