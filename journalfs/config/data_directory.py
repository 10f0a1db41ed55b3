"""What makes a directory the data directory of a store, or one of its parts, by names of files alone.

`config.layout` and `config.elsewhere` ask. Nothing here opens a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from journalfs.config.files import TOML_NAME
from journalfs.errors import SystemFailure

JOURNAL_PREFIX: Final = "activemq-data"
JOURNAL_EXTENSION: Final = "amq"
BINDINGS_PREFIX: Final = "activemq-bindings"
BINDINGS_EXTENSION: Final = "bindings"

LARGE_NAMES: Final = ("large-messages", "largemessages")
"""As `artemis create` configures it, and the default of a configuration that does not say."""

PARTS: Final = ("journal", "bindings", "paging", *LARGE_NAMES)
"""Directories of a data directory that mean the whole of it."""


def is_data_directory(folder: Path) -> bool:
    return (
        has_journal(folder / "journal") or has_bindings(folder / "bindings") or (folder / TOML_NAME).is_file()
    )


def has_journal(folder: Path) -> bool:
    return any(
        name.endswith((f".{JOURNAL_EXTENSION}", f".{JOURNAL_EXTENSION}.bkp", f".{JOURNAL_EXTENSION}.cmp"))
        for name in names_in(folder)
    )


def has_bindings(folder: Path) -> bool:
    return any(
        name.endswith((f".{BINDINGS_EXTENSION}", f".{BINDINGS_EXTENSION}.cmp")) for name in names_in(folder)
    )


def names_in(folder: Path) -> Iterator[str]:
    try:
        return iter(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return iter(())
    except OSError as error:
        raise SystemFailure.from_os(error, folder, doing="list the directory") from error
