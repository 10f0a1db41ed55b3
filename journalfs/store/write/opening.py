"""Opens a store for writing, in files or elsewhere."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio

from journalfs.clock import Clock, SystemClock
from journalfs.config.database import DatabaseStore
from journalfs.config.journal_settings import JournalSettings, journal_settings
from journalfs.config.layout import locate_store
from journalfs.config.older import forced
from journalfs.errors import (
    JournalfsError,
    NotAStore,
    OlderStore,
    ReadOnlyStore,
    StoreBusy,
    StoreShared,
    failing,
)
from journalfs.records.description import refuse_derived
from journalfs.records.kinds import older_kinds
from journalfs.store.store import JournalStore
from journalfs.store.write.acquiring import Acquiring, AcquiringUnkept
from journalfs.store.write.elsewhere import AcquiringElsewhere
from journalfs.store.write.store import SyncMode, WritingStore


def open_for_writing(
    path: Path | str,
    *,
    sync: SyncMode = SyncMode.ALWAYS,
    clock: Clock | None = None,
    index: bool | Path = True,
    auto_delete: bool = True,
    expire: bool = True,
    postpones: bool = False,
    kind: str | None = None,
    derived: Path | None = None,
) -> WritingStore:
    """Open the store at `path` for writing. `close` it, whatever happens. Where the configuration says that
    nothing is kept, nothing is: it is an empty store of its own. `auto_delete` off: queues and addresses stay
    that would go by themselves. `expire` off: messages stay whose time is over. `postpones`, `kind`,
    `derived`: as for `open_store`; an older store is written only where `kind` says what it is.

    Raises what `open_store` raises, and `StoreBusy` naming who has the store.
    """
    clock = clock or SystemClock()
    with failing("open the store", path, found=True):
        acquiring = (
            _acquiring(path, sync, clock, index) if kind is None else _older(path, kind, derived, sync, clock)
        )
        acquiring.postpones = postpones
        store = acquiring.store()
        acquiring.tell_unconfigured(store.core)
    store.auto_deleting.enabled = auto_delete and acquiring.capabilities.administers
    store.expiring.enabled = expire
    return store


def _acquiring(path: Path | str, sync: SyncMode, clock: Clock, index: bool | Path) -> Acquiring:
    try:
        layout = locate_store(Path(path))
    except DatabaseStore as found:
        from journalfs.store.write.tables import acquire_tables  # noqa: PLC0415 - an optional library

        return acquire_tables(found.settings, sync, clock)
    refuse_derived(layout)
    if layout.history_of is not None:
        raise ReadOnlyStore(
            f"{layout.root}: this is the history of {layout.history_of}, which is only read (mount "
            "--read-only); to publish from it, copy its messages into a mount of a store"
        )
    layout.refuse_outside()
    settings = journal_settings(layout.config)
    if sync is SyncMode.NONE:
        settings = _unsynced(settings)
    acquiring = Acquiring if layout.not_kept_by is None else AcquiringUnkept
    return acquiring(layout, settings, sync, clock, index)


def _older(path: Path | str, kind: str, derived: Path | None, sync: SyncMode, clock: Clock) -> Acquiring:
    given = Path(os.path.abspath(path))
    try:
        locate_store(given)
        found = forced(kind, given)
    except (OlderStore, NotAStore) as seen:
        found = seen if isinstance(seen, OlderStore) and seen.kind == kind else forced(kind, given)
    layout = found.layout
    if layout is not None and layout.not_kept_by is not None:
        return AcquiringUnkept(layout, journal_settings(layout.config), sync, clock, False)
    return AcquiringElsewhere(older_kinds().own(found, derived, clock), sync, clock, found)


def _unsynced(settings: JournalSettings) -> JournalSettings:
    from msgspec.structs import replace as with_  # noqa: PLC0415 - beside dataclasses.replace

    return with_(settings, journal_datasync=False, large_message_sync=False)


# A store that is opened for one change, and closed again.

T = TypeVar("T")
StoreT = TypeVar("StoreT", bound=JournalStore)


def open_alone(path: Path) -> WritingStore:
    """Open a store for something that needs it for itself. Raises what `open_for_writing` raises."""
    try:
        return open_for_writing(path)
    except StoreShared:
        raise  # its advice is another
    except StoreBusy as busy:
        raise StoreBusy(busy.path, busy.holder, "stop that first: only one at a time may change it") from None


def change(path: Path, action: Callable[[WritingStore], Awaitable[T]]) -> T:
    """Do something to a store that nobody else writes, while its own work goes on. Raises `StoreBusy`, and
    what `action` raises.
    """

    async def opened() -> T:
        store = open_alone(path)
        return await change_in(store, action, store.run)

    return trio.run(opened)


async def change_in(
    store: StoreT, action: Callable[[StoreT], Awaitable[T]], work: Callable[[], Awaitable[None]]
) -> T:
    """Do something to an open store while `work` goes on, its own or that of its journals alone; then close
    it. Raises what `action` raises.
    """
    ended: list[T | JournalfsError | OSError] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            try:
                ended.append(await action(store))
            except (JournalfsError, OSError) as error:
                ended.append(error)  # raised outside, where it is itself and no part of a group
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    (result,) = ended
    if isinstance(result, JournalfsError | OSError):
        raise result
    return result
