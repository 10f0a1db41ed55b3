"""What the end of a mount has to say when nobody can read its events any more: the next opening tells it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.limits import LAST_WORDS_BYTES_MAX
from journalfs.store.index_file import FOLDER

NAME: Final = "last-words"

logger = logging.getLogger("journalfs")


def leave_words(root: Path, text: str) -> None:
    """Keep `text` in the store at `root`, in place of what was there."""
    path = root / FOLDER / NAME
    try:
        door.make_folders(path.parent)
        with door.replacing(path) as made:
            os.write(made, text.encode())
    except OSError as error:
        logger.warning("%s: cannot keep it for the next mount to tell: %s", path, error.strerror or error)


def take_words(root: Path) -> str | None:
    """What was left, which is gone with that; None where nothing was."""
    path = root / FOLDER / NAME
    try:
        text = door.read(path, LAST_WORDS_BYTES_MAX).decode(errors="replace")
        door.remove(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: what the last mount left to be told cannot be read: {error.strerror or error}"
    return text
