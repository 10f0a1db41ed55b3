"""Which files a backup of a store holds, and how much of each."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.backup.manifest import OURS
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import SystemFailure, failing
from journalfs.format.server_lock import PRIMARY_LOCK_NAME, SERVER_LOCK_NAME
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.heads import read_regular_file
from journalfs.records.files.kept_damage import FOLDER as KEPT_DAMAGE
from journalfs.store.locks import lock_holder
from journalfs.store.refused import refuse_unreadable
from journalfs.store.snapshot_folder import folder_name, layout_of, read_description

SNAPSHOT, CLOSED, BESIDE = "snapshot", "closed", "beside"

_LOCKS: Final = frozenset({SERVER_LOCK_NAME, PRIMARY_LOCK_NAME})


@dataclass(frozen=True, slots=True)
class Content:
    """A file to copy, of which the first `bytes_max` bytes belong to the store; None: all of it."""

    path: Path
    name: str
    bytes_max: int | None = None


@dataclass(slots=True)
class Contents:
    """The files of a store as it is to be backed up. Journals come first: what they name and is gone when it
    is read was consumed meanwhile.
    """

    source: Path
    """The store, whatever its files are read through."""
    layout: StoreLayout
    how: str
    ends: dict[str, int]
    """Where a snapshot says that its files end, by name below the store."""

    @property
    def journal_file_bytes(self) -> int:
        return journal_settings(self.layout.config).file_size_bytes

    def files(self) -> Iterator[Content]:
        """Raises OSError."""
        layout = self.layout
        for folder, name in (
            (layout.journal_dir, "journal"),
            (layout.bindings_dir, "bindings"),
            (layout.paging_dir, "paging"),
            (layout.large_dir, "large-messages"),
        ):
            yield from self._below(folder, name)
        for name in OURS:
            if door.is_file(self.source / name):
                yield Content(self.source / name, name)
        # Without what is kept of damage a restored store would have none.
        for name in door.names_if_there(self.source / KEPT_DAMAGE):
            if "@" in name and door.is_file(self.source / KEPT_DAMAGE / name):
                yield Content(self.source / KEPT_DAMAGE / name, f"{KEPT_DAMAGE}/{name}")

    def _below(self, folder: Path, name: str) -> Iterator[Content]:
        for one in door.names_if_there(folder):
            path, inside = folder / one, f"{name}/{one}"
            if door.is_folder(path):
                if name == "paging":
                    yield from self._below(path, inside)
            elif one not in _LOCKS and door.is_file(path):
                yield Content(path, inside, self.ends.get(inside))

    def state(self) -> object:
        """Equal as long as nothing was lost to a copy that is being made: beside a broker its journal files
        stay what they were, and of a closed store everything does.
        """
        if self.how == BESIDE:
            return [
                (one.name, read_regular_file(one.path, JOURNAL_HEADER_BYTES))
                for one in self._below(self.layout.journal_dir, "journal")
            ]
        facts = ((one.name, door.status(one.path)) for one in self.files())
        return [(name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in facts]


@contextmanager
def contents_of(path: Path, mounted: Path | None) -> Iterator[Contents]:
    """Of the store at `path`, or of what is mounted there: `mounted` is the store's own path then. A snapshot
    is made and removed for a mount that writes. Raises what `locate_store` raises, and
    `SystemFailure`.
    """
    made = None if mounted is None else _new_snapshot(path)
    if made is not None and mounted is not None:
        with _snapshot(made, mounted) as contents:
            yield contents
        return
    layout = locate_store(mounted or path, adopting=False)
    layout.enter()
    refuse_unreadable(layout)
    holder = lock_holder(layout.node_manager_lock_dir)
    yield Contents(layout.root, layout, CLOSED if holder is None else BESIDE, {})


def _new_snapshot(mountpoint: Path) -> Path | None:
    """None: the mount only reads."""
    made = mountpoint / ".journalfs" / "snapshots" / f"backup-{uuid.uuid4().hex[:12]}"
    try:
        made.mkdir()
    except OSError as error:
        if error.errno == errno.EROFS:
            return None
        raise SystemFailure.from_os(error, made, doing="make a snapshot for the backup") from error
    return made


@contextmanager
def _snapshot(made: Path, store: Path) -> Iterator[Contents]:
    name = made.name
    try:
        layout = locate_store(store, adopting=False)
        layout.enter()
        folder = layout.root / "journalfs" / "snapshots" / folder_name(name)
        description = read_description(folder)
        ends = {f"journal/{one.name}": one.bytes for one in description.journal}
        ends |= {f"paging/{one.folder}/{one.name}": one.bytes for one in description.pages}
        yield Contents(layout.root, layout_of(folder, layout), SNAPSHOT, ends)
    finally:
        _remove(made)


def _remove(made: Path) -> None:
    with failing("remove the snapshot of the backup", made):
        made.rmdir()


def created_ms(name: str) -> int:
    """When a backup of that name was made, in milliseconds since 1970; 0 for a name that says no time."""
    try:
        moment = datetime.strptime(name.rstrip("+"), "%Y-%m-%dT%H.%M.%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return round(moment.timestamp() * 1000)


def now_name(created_ms: int) -> str:
    """As names of backups sort by time: `2026-11-26T17.58.00.123Z`."""
    return time.strftime("%Y-%m-%dT%H.%M.%S", time.gmtime(created_ms / 1000)) + f".{created_ms % 1000:03}Z"
