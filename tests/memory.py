"""A store that is kept in the memory of another process: the smallest kind that there can be.

It has two lists of records and a dictionary of files (bodies, pages, what was flushed). Its URL is
`memory:` and the path of a socket; whoever is connected and took it has it until it disconnects.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

from journalfs import door
from journalfs.bodies.aside import Aside
from journalfs.bodies.flushed import FlushedFolder, FlushNote, FoundNotes
from journalfs.bodies.writing import BodyStore, NewBody
from journalfs.config.database import DRIVERS, DatabaseSettings
from journalfs.engine.disk import DiskBackend
from journalfs.engine.logged import Failing, LoggedBackend
from journalfs.engine.page_file import PageFile, PageStore
from journalfs.engine.stage import StagedRecord
from journalfs.errors import StoreBusy
from journalfs.format.record_types import RecordKind
from journalfs.ids import MessageId
from journalfs.records.capabilities import Capabilities
from journalfs.records.description import DATABASE
from journalfs.records.kinds import register_database
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import deriving, keep, make_derived, remove_derived

SCHEME: Final = "memory"
PIECE_BYTES: Final = 1 << 20
MESSAGES, BINDINGS = JOURNALS = ("messages", "bindings")
LARGE, PAGES, FLUSHED = FOLDERS = ("large-messages", "paging", "flushed")


# ---- whose memory it is ------------------------------------------------------------------------------------


class Memory:
    """What a store is. Its methods are what a `Remote` may ask for."""

    def __init__(self) -> None:
        self.journals: dict[str, list[StagedRecord]] = {name: [] for name in JOURNALS}
        self.contents: dict[str, bytearray] = {}
        self.owner: object = None

    def append(self, journal: str, records: Sequence[tuple[Any, ...]]) -> None:
        self.journals[journal] += [StagedRecord(*one) for one in records]

    def records(self, journal: str, first: int) -> list[StagedRecord]:
        return self.journals[journal][first:]

    def files(self) -> dict[str, int]:
        return {name: len(content) for name, content in self.contents.items()}

    def get(self, name: str, at: int) -> bytes:
        return bytes(self.contents.get(name, b"")[at : at + PIECE_BYTES])

    def put(self, name: str, at: int, data: bytes) -> None:
        content = self.contents.setdefault(name, bytearray())
        content[at:] = data

    def remove(self, names: Collection[str]) -> None:
        for name in names:
            self.contents.pop(name, None)

    def take(self, owner: object) -> bool:
        if self.owner is None:
            self.owner = owner
        return self.owner is owner


class MemoryServer:
    """Serves one store at a socket, in threads of this process. `close` it."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._listener = Listener(family="AF_UNIX")
        self.url = f"{SCHEME}://{self._listener.address}"
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        memory = self._memory
        try:
            while True:
                name, arguments = connection.recv()
                with self._one_at_a_time:
                    given = (connection,) if name == "take" else arguments
                    answer = getattr(memory, name)(*given)
                connection.send(answer)
        except (EOFError, OSError):
            with self._one_at_a_time:
                memory.owner = None if memory.owner is connection else memory.owner

    def close(self) -> None:
        self._listener.close()


class Remote:
    """The memory, from another process. Use from any thread."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self.shown = settings.url
        self._connection = Client("/" + settings.url.partition("://")[2], "AF_UNIX")
        self._one_at_a_time = threading.Lock()

    def ask(self, name: str, *arguments: object) -> Any:
        with self._one_at_a_time:
            self._connection.send((name, arguments))
            return self._connection.recv()

    def mirror(self, name: str, path: Path) -> None:
        """Keep a file, in place of what was kept by this name."""
        self.ask("put", name, 0, b"")
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                self.ask("put", name, file.tell() - len(piece), piece)

    def fetch(self, name: str, path: Path) -> None:
        with path.open("wb") as file:
            while piece := self.ask("get", name, file.tell()):
                file.write(piece)

    def close(self) -> None:
        self._connection.close()


# ---- reading -----------------------------------------------------------------------------------------------


class Reading:
    """What was taken over into a derived store, which goes on from there."""

    def __init__(self, remote: Remote, out: DerivedStore, *, owned: bool) -> None:
        """`owned`: what did not end never will."""
        self._remote, self._out = remote, out
        self._seen: dict[str, int] = dict.fromkeys(JOURNALS, 0)
        self._bindings: defaultdict[int, list[StagedRecord]] = defaultdict(list)
        self._open: set[int] = set()
        self._id_max = 0
        self.look()
        for tx in self._open if owned else ():
            out.rollback(tx)
        out.ids_from(self._id_max + 1)

    def look(self) -> None:
        """Take over what came since. Records first: what they name is there before them."""
        new = {name: self._remote.ask("records", name, self._seen[name]) for name in JOURNALS}
        self._take_files()
        for name, take in ((BINDINGS, self._take_binding), (MESSAGES, self._take_message)):
            for record in new[name]:
                self._id_max = max(self._id_max, record.record_id, record.tx_id)
                take(record)
            self._seen[name] += len(new[name])

    def _take_files(self) -> None:
        folders = {LARGE: self._out.large_dir, PAGES: self._out.paging_dir}
        for name, size_bytes in self._remote.ask("files").items():
            folder, _, below = name.partition("/")
            if folder not in folders:
                continue
            path = folders[folder] / below
            door.make_folders(path.parent)
            if not path.exists() or path.stat().st_size != size_bytes:
                self._remote.fetch(name, path)

    def _take_binding(self, record: StagedRecord) -> None:
        kind = record.kind
        if kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX):
            self._bindings[record.tx_id].append(record)
        elif kind == RecordKind.COMMIT:
            for one in self._bindings.pop(record.tx_id, ()):
                self._put_binding(one)
        elif kind == RecordKind.ROLLBACK:
            self._bindings.pop(record.tx_id, None)
        else:
            self._put_binding(record)

    def _put_binding(self, record: StagedRecord) -> None:
        if record.kind in (RecordKind.DELETE, RecordKind.DELETE_TX):
            self._out.binding_gone(record.record_id)
        else:
            self._out.binding(record.record_id, record.user_type, record.body)

    def _take_message(self, record: StagedRecord) -> None:
        kind, tx, out = record.kind, record.tx_id, self._out
        within = {
            RecordKind.ADD_TX: RecordKind.ADD,
            RecordKind.UPDATE_TX: RecordKind.UPDATE,
            RecordKind.DELETE_TX: RecordKind.DELETE,
        }
        if kind in within:
            self._open.add(tx)
            out.record(within[RecordKind(kind)], record.record_id, record.user_type, record.body, tx=tx)
        elif kind == RecordKind.PREPARE:
            self._open.discard(tx)
            out.prepare_encoded(tx, record.body)
        elif kind in (RecordKind.COMMIT, RecordKind.ROLLBACK):
            self._open.discard(tx)
            (out.commit if kind == RecordKind.COMMIT else out.rollback)(tx)
        else:
            out.record(RecordKind(kind), record.record_id, record.user_type, record.body)


def _derived(remote: Remote, base: Path | None, *, owned: bool) -> tuple[Path, Reading, DerivedStore]:
    with deriving(remote.shown, base) as folder:
        place = folder / uuid.uuid4().hex
        found: list[tuple[Reading, DerivedStore]] = []
        make_derived(
            place,
            lambda out: found.append((Reading(remote, out, owned=owned), out)),
            lambda _: None,
            kind=DATABASE,
            found="a store in memory",
            source=remote.shown,
            identity=place.name,
        )
        keep(place)
    return place, *found[0]


class Followed:
    """See `journalfs.records.kinds.RecordSource`."""

    def __init__(self, remote: Remote, base: Path | None) -> None:
        self._remote = remote
        self.place, self._reading, self._out = _derived(remote, base, owned=False)

    @property
    def has_broker(self) -> bool:
        return False

    def look(self) -> None:
        self._reading.look()
        self._out.flush()

    def close(self) -> None:
        self._remote.close()


# ---- writing -----------------------------------------------------------------------------------------------


class MemoryLog:
    """See `journalfs.engine.logged.RecordLog`."""

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote, self._name = remote, name

    def commit(self, records: Iterable[StagedRecord]) -> None:
        self._remote.ask("append", self._name, [tuple(one) for one in records])


class OwnedMemory:
    """See `journalfs.records.kinds.DatabaseOwnership`."""

    capabilities = Capabilities(drafts_outlive=False)

    directories: tuple[Path, ...] = ()
    journal_file_bytes: int | None = None

    def __init__(self, remote: Remote) -> None:
        self.shown = remote.shown
        self.failing = Failing()
        with ExitStack() as undo:
            undo.callback(remote.close)
            if not remote.ask("take"):
                raise StoreBusy(remote.shown, "another process has it")
            self.is_new = not remote.ask("records", BINDINGS, 0)
            self.place, _, _ = _derived(remote, None, owned=True)
            undo.callback(remove_derived, self.place)
            self._undo = undo.pop_all()
        self._remote = remote

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        messages, bindings = (MemoryLog(self._remote, name) for name in JOURNALS)
        failed = self.failing
        return LoggedBackend(journal_dir, messages, failed), LoggedBackend(bindings_dir, bindings, failed)

    def bodies(self, directory: Path, aside: Aside) -> BodyStore:
        return MemoryBodies(directory, aside, self._remote)

    def pages(self) -> PageStore:
        return MemoryPages(self._remote)

    def flushed(self, path: Path) -> FlushedFolder:
        return MemoryFlushed(path, self._remote)

    def activated(self) -> None:
        """Killed or not, it is let go of when it disconnects."""

    def status(self) -> Mapping[str, object]:
        return {"database": self.shown}

    def release(self) -> None:
        self._undo.close()


class MemoryBodies(BodyStore):
    def __init__(self, directory: Path, aside: Aside, remote: Remote) -> None:
        super().__init__(directory, aside, sync=False)
        self._remote = remote

    def write(self, bodies: Iterable[NewBody]) -> None:
        given = list(bodies)
        super().write(given)
        for path in (self.path(body.message_id) for body in given):
            self._remote.mirror(f"{LARGE}/{path.name}", path)

    def remove(self, message_ids: Collection[MessageId]) -> None:
        self._remote.ask("remove", [f"{LARGE}/{self.path(one).name}" for one in message_ids])
        super().remove(message_ids)


def _page_name(path: Path) -> str:
    return f"{PAGES}/{path.parent.name}/{path.name}"


class MemoryPages(PageStore):
    def __init__(self, remote: Remote) -> None:
        super().__init__(datasync=False)
        self._remote = remote

    def make_folder(self, folder: Path, name: str, address: str) -> None:
        super().make_folder(folder, name, address)
        self._remote.mirror(_page_name(folder / name), folder / name)

    def open(self, path: Path) -> PageFile:
        return MemoryPage(path, self._remote)

    def remove(self, path: Path, *, instead: Path | None = None) -> None:
        if instead is not None and path.exists():
            self._remote.mirror(_page_name(instead), path)
        self._remote.ask("remove", [_page_name(path)])
        super().remove(path, instead=instead)

    def remove_folder(self, folder: Path) -> None:
        self._remote.ask("remove", [_page_name(folder / name) for name in os.listdir(folder)])
        super().remove_folder(folder)


class MemoryPage(PageFile):
    __slots__ = ("_remote",)

    def __init__(self, path: Path, remote: Remote) -> None:
        super().__init__(path, datasync=False)
        self._remote = remote

    def append(self, data: bytes | bytearray) -> None:
        self._remote.ask("put", _page_name(self.path), self.size_bytes, bytes(data))
        super().append(data)

    def cut(self, size_bytes: int) -> None:
        self._remote.ask("put", _page_name(self.path), size_bytes, b"")
        super().cut(size_bytes)


class MemoryFlushed(FlushedFolder):
    def __init__(self, path: Path, remote: Remote) -> None:
        super().__init__(path, sync=False)
        self._remote = remote

    def write(self, note: FlushNote, content: bytes | memoryview) -> None:
        super().write(note, content)
        for path in filter(Path.exists, self.files_of(note.note_id)):
            self._remote.mirror(f"{FLUSHED}/{path.name}", path)

    def notes(self) -> FoundNotes:
        door.make_folders(self.path)
        for name in self._remote.ask("files"):
            if name.startswith(f"{FLUSHED}/"):
                self._remote.fetch(name, self.path / name.partition("/")[2])
        return super().notes()

    def remove(self, note_ids: Collection[str]) -> None:
        names = [f"{FLUSHED}/{path.name}" for one in note_ids for path in self.files_of(one)]
        self._remote.ask("remove", names)
        super().remove(note_ids)


class InMemory:
    """See `journalfs.records.kinds.DatabaseKind`."""

    def read(self, settings: DatabaseSettings, base: Path | None) -> Followed:
        return Followed(Remote(settings), base)

    def acquire(self, settings: DatabaseSettings) -> OwnedMemory:
        return OwnedMemory(Remote(settings))


def make_known() -> None:
    """To be called before anything is looked for at a URL."""
    DRIVERS[SCHEME] = SCHEME
    register_database(InMemory(), SCHEME)


if __name__ == "__main__":
    make_known()
    from journalfs.cli.main import main

    main()
