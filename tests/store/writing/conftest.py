"""A store that is written, on each backend, and what an independent reader finds in it afterwards."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from journalfs.clock import FakeClock
from journalfs.ids import MessageId
from journalfs.records.tables.deriving import DerivedTables
from journalfs.records.tables.filling import fill_tables
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from journalfs.views.queues import StoreQueue
from tests.kinds import BACKENDS, POSTGRESQL, SQLITE, new_database
from tests.reference.store import load
from tests.store.conftest import LittleStore
from tests.tables.instances import instance_at
from tests.tables.rival import settings_in

PARTS = "journal", "bindings", "paging", "large-messages"
_numbers = itertools.count()


@dataclass
class Writable:
    """A little store and how to open it for writing: in place, or in a database that is filled with it each
    time, and from which it is made again at the end.
    """

    little: LittleStore
    backend: str
    new_url: Callable[[], str] | None = None
    instance: Path | None = None
    """What says which database it is in."""
    is_open: bool = False
    """There."""
    derived: Path | None = None
    """What is worked on then."""
    _made: dict[Path, tuple[int, int]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.derived or self.little.root

    def with_small_files(self, more: str = "") -> None:
        """`more` is for its journalfs.toml, too."""
        said = f'journal-type = "{self.backend}"\njournal-file-size = 65536\n'
        (self.root / "journalfs.toml").write_text(said + more)

    @property
    def clock(self) -> FakeClock:
        return self.little.clock

    @asynccontextmanager
    async def open(
        self, *, sync: SyncMode = SyncMode.ALWAYS, index: bool = False, attended: bool = True
    ) -> AsyncIterator[WritingStore]:
        """The store, with its own work going on; not `attended`, only that of its journals."""
        with self._place() as place:
            store = open_for_writing(place, sync=sync, clock=self.clock, index=index)
            if place == self.instance:
                self.derived = store.core.layout.root
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(store.run if attended else store.journals.run)
                    yield store
                    nursery.cancel_scope.cancel()
            finally:
                store.close()

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """The database of before, where nobody changed what was made of it since."""
        root = self.little.root
        if self.new_url is None:
            yield root
            return
        if self.instance is None or self._made != _stamps(root):
            self.instance = instance_at(root.with_name(f"instance-{next(_numbers)}"), self.new_url())
            (self.instance / "data").mkdir()
            fill_tables(settings_in(self.instance), root, str(uuid.uuid4()))
        if (own := root / "journalfs.toml").exists():
            shutil.copy(own, self.instance / "data")
        self.is_open = True
        try:
            yield self.instance
        finally:
            made = self.in_files()
            self.is_open, self.derived = False, None
            for name in PARTS:
                shutil.rmtree(root / name, ignore_errors=True)
                if (made / name).exists():
                    shutil.copytree(made / name, root / name)
            self._made = _stamps(root)

    def in_files(self) -> Path:
        """A store in files, as the tables are now where it is in a database."""
        if self.instance is None or not self.is_open:
            return self.root
        return DerivedTables(settings_in(self.instance)).place


def _stamps(root: Path) -> dict[Path, tuple[int, int]]:
    files = [path for name in PARTS for path in (root / name).rglob("*") if path.is_file()]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@asynccontextmanager
async def no_upkeep(store: WritingStore) -> AsyncIterator[None]:
    """No journal file is made or set free meanwhile."""
    async with store.journals.messages.upkeep.turn, store.journals.bindings.upkeep.turn:
        yield


def queue_of(store: WritingStore, name: str, address: str = "work") -> StoreQueue:
    found = store.address(address)
    assert found is not None
    queue = found.queue(name)
    assert queue is not None
    return queue


def lines_of(store: WritingStore, name: str, address: str = "work") -> list[bytes]:
    source = queue_of(store, name, address).open_all()
    try:
        return bytes(source.read(0, source.size_bytes)).splitlines()
    finally:
        source.close()


def bodies_of(store: WritingStore, name: str = "work.a", address: str = "work") -> list[Any]:
    return [json.loads(line)["body"] for line in lines_of(store, name, address)]


def ids_of(store: WritingStore, name: str = "work.a", address: str = "work") -> list[MessageId]:
    return [MessageId(json.loads(line)["id"]) for line in lines_of(store, name, address)]


def on_disk(writable: Writable, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue as the independent reader finds them."""
    found = load(writable.in_files(), writable.clock.now_ms())
    (messages,) = (one["messages"] for one in found["queues"] if one["name"] == queue)
    return list(messages)


_BROKER_XML = """<configuration><core>
  <journal-directory>journal</journal-directory><bindings-directory>bindings</bindings-directory>
  <large-messages-directory>large-messages</large-messages-directory>
  <paging-directory>paging</paging-directory>
</core></configuration>
"""


def configured_by_broker(writable: Writable) -> None:
    """A broker's configuration belongs to the store, which says nothing of where messages go."""
    (writable.root / "broker.xml").write_text(_BROKER_XML)


@pytest.fixture(params=(*BACKENDS, SQLITE, POSTGRESQL))
def writable(
    little_store: LittleStore,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Writable:
    kind = str(request.param)
    backend = kind if kind in BACKENDS else "NIO"
    (little_store.root / "journalfs.toml").write_text(f'journal-type = "{backend}"\n')
    if kind in BACKENDS:
        return Writable(little_store, kind)
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))
    return Writable(little_store, backend, lambda: new_database(request, kind, tmp_path))


DISK_BYTES = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    path = tmp_path / "small"
    path.mkdir()
    options = f"size={DISK_BYTES}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.decode()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@dataclass(frozen=True)
class SmallStore:
    """A little store on a small disk."""

    disk: Path
    clock: FakeClock

    @property
    def root(self) -> Path:
        return self.disk / "data"

    def open(self) -> WritingStore:
        return open_for_writing(self.root, clock=self.clock, index=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[WritingStore]:
        """The store, with its own work going on."""
        with closing(self.open()) as store:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run)
                yield store
                nursery.cancel_scope.cancel()

    def usable_bytes(self) -> int:
        return os.statvfs(self.disk).f_bavail * 4096

    def fill(self) -> Path:
        """The file that takes all that is free. Call it while the store does no work of its own."""
        filler = self.disk / "filler"
        filler.write_bytes(b"x" * self.usable_bytes())
        return filler


MakeStore = Callable[..., SmallStore]


@pytest.fixture
def small_store(little_store: LittleStore, small_disk: Path) -> MakeStore:
    """No limit of the store's acts unless a test is about it: how often the disk is looked at while it is
    full would decide what happens.
    """

    def make(
        backend: str = "NIO", *, file_bytes: int = 1_048_576, limit: str = "max-disk-usage = -1"
    ) -> SmallStore:
        (little_store.root / "journalfs.toml").write_text(
            f'journal-type = "{backend}"\njournal-file-size = {file_bytes}\n{limit}\n'
        )
        made = SmallStore(small_disk, little_store.clock)
        shutil.copytree(little_store.root, made.root)
        return made

    return make
