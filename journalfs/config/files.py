"""The one place where configuration reads files: whole, and never more than a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.errors import failing

TOML_NAME: Final = "journalfs.toml"
"""Our own configuration, in a store's data directory."""

DERIVED_NAME: Final = Path("journalfs", "older.json")
"""In what is derived from an older store: which that is."""

CONFIGURED_BY: Final = Path("journalfs", "configured-by")
"""In what is derived from a database: paths of the broker.xml that says its settings, and of a journalfs.toml
that does, if any, with a zero byte between.
"""

CONFIG_VARIABLE: Final = "JOURNALFS_CONFIG"
"""In the environment: the broker's configuration, said by hand (`--config`)."""


FORCE_VARIABLE: Final = "JOURNALFS_FORCE"
"""In the environment: write although others may have the same database, or the same files (`--force`)."""


def read_beginning(path: Path, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes of a file, or all of it. It may be a link, as in a container, that root or
    this process's user made. Raises `SystemFailure`.
    """
    with failing("read", path):
        return door.read(door.resolved(path), bytes_max)
