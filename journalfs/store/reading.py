"""A store that is opened for reading, with its snapshots and its history."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from journalfs.clock import Clock, SystemClock
from journalfs.errors import SystemFailure
from journalfs.records.sources import locate_readable
from journalfs.store.opening import Opening
from journalfs.store.snapshot_folder import is_snapshot
from journalfs.store.store import JournalStore

if TYPE_CHECKING:
    from journalfs.store.history import History
    from journalfs.store.snapshots import Snapshots


class ReadingStore(JournalStore):
    """Made by `open_store`."""

    @cached_property
    def snapshots(self) -> Snapshots:
        from journalfs.store.snapshots import Snapshots  # noqa: PLC0415 - few commands look at them

        return self.closed_with_it(Snapshots(self.core.layout))

    @cached_property
    def history(self) -> History:
        from journalfs.store.history import History  # noqa: PLC0415 - few commands look at it

        return self.closed_with_it(History(self.core.layout, self.core.clock))


def open_store(
    path: Path | str,
    *,
    clock: Clock | None = None,
    index: bool | Path = True,
    anew: bool = False,
    kind: str | None = None,
    derived: Path | None = None,
    postpones: bool = False,
    make: type[ReadingStore] = ReadingStore,
) -> ReadingStore:
    """Open the store at `path` for reading: a data directory, a broker instance, or a journal directory.

    Of an older store, or one in a database, what is derived from it is opened (`kind` and `derived` are as
    `journalfs.records.sources.locate_readable` has them).

    `index=False` neither reads nor writes one; a path says where it lies. `anew` reads all there is, and asks
    the index only for what was there before; it is not written. `postpones`: long bodies in files are
    measured when their queue is asked for, or by `ReadingStore.measure`. Raises `NotAStore`,
    `UnknownVersion`, `ConfigError`. `make` is the class of the store. Damage raises nothing: it is listed in
    the store's control tree and counted in its status. The folder of a snapshot is opened as what it was when
    it was made.
    """
    layout, source = locate_readable(path, kind=kind, derived=derived)
    try:
        if is_snapshot(layout.root):
            from journalfs.store.snapshots import SnapshotOpening  # noqa: PLC0415 - few commands open one

            return SnapshotOpening.found(layout, index=index and not anew).store(make)
        opening = Opening(layout, clock or SystemClock(), index, anew=anew)
        opening.postpones = postpones
        opening.is_kept_up = source is not None
        store = opening.store(make)
        store.record_source = source
        return store
    except OSError as error:
        raise SystemFailure.from_os(error, error.filename or path, doing="read the store") from error
