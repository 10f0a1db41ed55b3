"""What every command does before anything else, so that what it was started with cannot confuse it.

Entry points call `set_up` first. It imports nothing that takes time.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing for its own constant takes longer than the answer to --version
if TYPE_CHECKING:
    from typing import Final

_STANDARD: Final = 3


class WorkingDirectory:
    """The directory in which the command was started."""

    gone: str | None = None
    """Why nothing can be named relative to it: it was removed, or its mount was killed. None: it is there."""


def set_up() -> None:
    """Open descriptors 0, 1 and 2 where they are closed, take names as UTF-8, and leave a working directory
    that is gone.
    """
    _open_standard()
    _take_utf8()
    try:
        os.getcwd()
    except OSError as error:
        # Modules ask for it although all paths are absolute.
        WorkingDirectory.gone = error.strerror or str(error)
        os.chdir("/")


def refuse_relative(path: str) -> str | None:
    """Return why a path means nothing here; None: it is absolute, or the working directory is there."""
    if WorkingDirectory.gone is None or path.startswith("/") or ":/" in path:
        return None
    return f"{path}: relative, and the working directory is gone ({WorkingDirectory.gone}); give it from / on"


def _open_standard() -> None:
    """Otherwise the next file that is opened gets such a number, and what is printed is written into it."""
    for descriptor in range(_STANDARD):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    # Python has none where the descriptor was closed.
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _take_utf8() -> None:
    """Names in a mount are UTF-8, whatever the locale: begin again where Python took another encoding."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
