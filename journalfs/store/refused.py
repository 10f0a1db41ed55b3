"""Errors of the operating system when a store is opened: they are neither damage nor absence, and end the
command.

Only bytes that were read can be damaged, and only a directory that was listed can lack a file: a command that
went on would make an empty export, copy or archive of a whole store.
"""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.errors import SystemFailure, refuse_shortage

_OF_USERS: Final = (errno.EACCES, errno.EPERM)
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""That is for those who list what is missing."""


def refuse_unreadable(layout: StoreLayout) -> None:
    """Raise `SystemFailure` where the system refuses a directory of a store, or all files of one of its
    journals.
    """
    for directory in (layout.journal_dir, layout.bindings_dir, layout.paging_dir, layout.large_dir):
        refuse_unlistable(directory)
    refuse_unopenable(layout.journal_dir, f".{layout.journal_extension}")
    refuse_unopenable(layout.bindings_dir, ".bindings")


def refuse_unlistable(directory: Path) -> Iterable[str]:
    """Return the names in a directory; none where it is not there. Raise `SystemFailure` where the system
    refuses to list it.
    """
    try:
        return door.names(directory)
    except OSError as error:
        if error.errno in _ABSENT or isinstance(error, door.NotOfTheStore):
            return []
        refuse_shortage(error, directory)
        raise refusal(error, directory, "look into it") from error


def refuse_unopenable(directory: Path, ending: str) -> None:
    """Raise `SystemFailure` where the system refuses every file of a journal: one of several is damage."""
    refused: tuple[OSError, Path] | None = None
    for path in (directory / name for name in refuse_unlistable(directory) if name.endswith(ending)):
        try:
            with door.opened(path):
                return
        except OSError as error:
            if error.errno in _ABSENT or isinstance(error, door.NotOfTheStore):
                return
            refuse_shortage(error, path)
            refused = error, path
    if refused is not None:
        raise refusal(*refused, "read it")


def refusal(error: OSError, path: Path, doing: str) -> SystemFailure:
    """Return the failure for what the system refused, with what to do."""
    reason = error.strerror or str(error)
    return SystemFailure(
        f"{path}: cannot {doing}: {reason}; {_remedy(error, path)}", system_errno=error.errno
    )


def _remedy(error: OSError, path: Path) -> str:
    if error.errno not in _OF_USERS:
        return "nothing was read: see to the disk, or the filesystem that it is on, and try again"
    user = door.acts_as_at(path)
    if os.geteuid() == 0 and user != 0:
        return (
            f"root acts as user {_named(user)} here, who has the store: let that user read it, or run this "
            "as another: setpriv --reuid=USER --regid=GROUP --clear-groups journalfs ..."
        )
    return (
        f"user {_named(os.geteuid())} may not: run this as the owner of the store, or let this user read it"
    )


def _named(user: int) -> str:
    with suppress(KeyError):
        return f"{pwd.getpwuid(user).pw_name} ({user})"
    return str(user)
