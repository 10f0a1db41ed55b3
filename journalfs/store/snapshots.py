"""The snapshots of a store, and one of them as a store of its own, which ends where it was made.

It is read as any other store is, from second names of its files: the journal up to where it was durable,
pages up to where they ended. Its clock stands still, so what was scheduled then is scheduled, and all is in
parts, whose names are the same each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from journalfs import door
from journalfs.clock import NS_PER_MS, StoppedClock
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage
from journalfs.engine.state import LiveState
from journalfs.engine.waiting import FairLock, offload
from journalfs.errors import Damaged, JournalfsError, ReadOnlyStore, SystemFailure
from journalfs.live.core import Core
from journalfs.records.files.loader import JournalLoader
from journalfs.store.opening import Opening
from journalfs.store.snapshot_folder import (
    DESCRIPTION,
    SNAPSHOTS,
    SnapshotDescription,
    damage_of,
    decoded_name,
    folders,
    held_alone,
    layout_found,
    layout_of,
    read_description,
    sizes,
)
from journalfs.store.store import JournalStore


class SnapshotOpening(Opening):
    """Puts together the store of a snapshot."""

    def __init__(
        self, layout: StoreLayout, description: SnapshotDescription, index: bool | Path = True
    ) -> None:
        clock = StoppedClock(description.created_ms)
        super().__init__(layout, clock, index, ours=True, generation=description.generation)
        self._snapshot = description

    @classmethod
    def found(cls, layout: StoreLayout, *, index: bool | Path) -> SnapshotOpening:
        """Of one that was given by its folder."""
        return cls(layout_found(layout), read_description(layout.root), index)

    def _loader(self, state: LiveState | None = None) -> JournalLoader:
        loader = super()._loader(state)
        loader.limit = self._snapshot.limit
        return loader

    def _core(self, loader: JournalLoader) -> Core:
        core = super()._core(loader)
        pages = self.layout.paging_dir
        core.paging.own.durable_bytes = {
            pages / page.folder / page.name: page.bytes for page in self._snapshot.pages
        }
        return core

    def _other_damage(self) -> Iterable[Damage]:
        return damage_of(self.layout.root, self._snapshot)


class StoreSnapshot:
    """One snapshot; `folder` is where it is. Opened when it is first read."""

    def __init__(self, folder: Path, layout: StoreLayout, found: SnapshotDescription | Damaged) -> None:
        self.folder = folder
        self._layout = layout
        self._found = found
        self._turn = FairLock()
        self._store: JournalStore | None = None

    @property
    def name(self) -> str:
        """Of one whose description cannot be read that of its folder."""
        known = self._found.name if isinstance(self._found, SnapshotDescription) else self.folder.name
        return decoded_name(known)

    @property
    def identity(self) -> str:
        return self._found.identity if isinstance(self._found, SnapshotDescription) else ""

    @property
    def maker(self) -> int:
        return self._found.maker if isinstance(self._found, SnapshotDescription) else -1

    def held_alone(self) -> tuple[int, int]:
        return held_alone(self.folder)

    @property
    def mtime_ns(self) -> int:
        return self._found.created_ms * NS_PER_MS if isinstance(self._found, SnapshotDescription) else 0

    async def status(self) -> Mapping[str, object]:
        """Sizes are bytes on the disk; raises `SystemFailure` when the folder cannot be read."""
        try:
            total, alone = await offload(lambda: sizes([self.folder]))
        except OSError as error:
            raise SystemFailure.from_os(error, self.folder, doing="measure the snapshot") from error
        status: dict[str, object] = {"name": self.name, "bytes": total, "bytesHeldAlone": alone}
        if isinstance(self._found, Damaged):
            return {**status, "problem": str(self._found)}
        status["created"] = self._found.created_ms
        if self._store is not None:
            of_store = self._store.status()
            status |= {key: of_store[key] for key in ("addresses", "queues", "messages", "damage")}
        return status

    async def opened(self) -> JournalStore:
        """The store as it was. Raises what `open_store` raises."""
        async with self._turn:
            if self._store is None:
                self._store = await offload(self._open)
            return self._store

    def _open(self) -> JournalStore:
        if isinstance(self._found, Damaged):
            raise self._found
        try:
            return SnapshotOpening(layout_of(self.folder, self._layout), self._found).store(JournalStore)
        except OSError as error:
            raise SystemFailure.from_os(error, self.folder, doing="read the snapshot") from error

    def close(self, *, removed: bool = False) -> None:
        """`removed`: its folder is gone."""
        store, self._store = self._store, None
        if store is not None:
            if removed:
                store.discard()
            else:
                store.close()
            store.core.let_go()


class Snapshots:
    """The snapshots of one store, as they are on the disk now. The caller must `close` it."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._known: dict[Path, tuple[tuple[int, int], StoreSnapshot]] = {}

    @property
    def mtime_ns(self) -> int:
        """When one came or went last; 0 while there was none."""
        try:
            return door.status(self._layout.root / SNAPSHOTS).st_mtime_ns
        except OSError:
            return 0

    def all(self) -> Sequence[StoreSnapshot]:
        """By name. While they cannot be listed those that are known."""
        try:
            listed = folders(self._layout.root)
        except OSError:
            listed = sorted(self._known)
        found = [self._one(folder) for folder in listed]
        there = {snapshot.folder for snapshot in found if snapshot is not None}
        for folder in self._known.keys() - there:
            self.forget(folder)
        return [snapshot for snapshot in found if snapshot is not None]

    def named(self, name: str) -> StoreSnapshot | None:
        return next((snapshot for snapshot in self.all() if snapshot.name == name), None)

    async def status(self) -> Mapping[str, object]:
        """Sizes are bytes on the disk; raises `SystemFailure` when the folders cannot be read."""
        folders_there = [snapshot.folder for snapshot in self.all()]
        try:
            total, alone = await offload(lambda: sizes(folders_there))
        except OSError as error:
            folder = self._layout.root / SNAPSHOTS
            raise SystemFailure.from_os(error, folder, doing="measure the snapshots") from error
        return {"snapshots": len(folders_there), "bytes": total, "bytesHeldAlone": alone}

    async def create(self, name: str, maker: int = -1) -> None:
        raise ReadOnlyStore(f"{self._layout.root}: opened for reading, so no snapshot is made")

    async def delete(self, name: str) -> None:
        raise ReadOnlyStore(f"{self._layout.root}: opened for reading, so no snapshot is removed")

    def forget(self, folder: Path) -> None:
        known = self._known.pop(folder, None)
        if known is not None:
            known[1].close(removed=True)

    def close(self) -> None:
        for _, snapshot in self._known.values():
            snapshot.close()
        self._known.clear()

    def _one(self, folder: Path) -> StoreSnapshot | None:
        """`None`: it is no snapshot, or not any more."""
        try:
            status = door.status(folder / DESCRIPTION)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            known = self._known.get(folder)
            return None if known is None else known[1]
        stamp = (status.st_ino, status.st_mtime_ns)
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            self.forget(folder)
            known = self._known[folder] = stamp, StoreSnapshot(folder, self._layout, _described(folder))
        return known[1]


def _described(folder: Path) -> SnapshotDescription | Damaged:
    try:
        return read_description(folder)
    except Damaged as error:
        return error
    except (OSError, JournalfsError) as error:
        return Damaged(folder / DESCRIPTION, 0, f"cannot be read: {error}")
