"""A sum of what a store is, by which a later look at it knows that nothing has changed.

Called for `journalfs pipeline archive`. It opens no file of a message: what the store read already is summed.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs.errors import failing
from journalfs.spark.place import place_of
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

_VERSION: Final = 1
"""Of what a mark is made of; no mark of another one is ever the same."""


def mark_of(store: JournalStore) -> str:
    """Return a sum of all that decides what is live in an open store: the bytes of its journal up to the last
    record, the files of pages and of large bodies, and its queues.
    """
    core = store.core
    journal = [
        (read.file.name, int(read.file.file_id), read.position, read.prefix_crc)
        for read in core.loader.files.read_files()
    ]
    queues = sorted((queue.model.address, queue.name, queue.content.queue_id) for queue in store.queues())
    layout = core.layout
    beside = [_files(layout.paging_dir), _files(layout.large_dir)]
    return sum_of([_VERSION, str(layout.root), journal, queues, beside])


def mark_at(path: str) -> str:
    """Return the mark of the store that a path leads to, as it is now."""
    with closing(open_store(place_of(path).store)) as store:
        return mark_of(store)


def _files(folder: Path) -> list[tuple[str, int, int, int]]:
    """Name, number, size and time of each file below a folder."""
    found = []
    with failing("look what is in it", folder):
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(FileNotFoundError):
                    status = os.stat(os.path.join(place, name))
                    found.append((f"{place}/{name}", status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found)


def sum_of(what: object) -> str:
    """Return the sum of what JSON can say."""
    return hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()
