"""Reads a KahaDB store (ActiveMQ 5.4 to 6) as that broker does when it starts: the index where it can be read
and what the journal has behind it, else the whole journal.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.damage import Damage
from journalfs.errors import DecodeError
from journalfs.records.older import kahadb_log, openwire
from journalfs.records.older.activemq5 import Content, Place, Send, Taken, content_of, read_file
from journalfs.records.older.activemq5_store import ContentWriter, Places
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import Source
from journalfs.records.older.kahadb_index import Index, Indexed, Location
from journalfs.records.older.rewriting import KAHADB, Row

SCHEDULER: Final = "scheduler"
OUTCOMES: Final = "txStore"
"""Folder of a multi KahaDB: which transactions that several of its stores took part in are committed."""

SPOOLED: Final = "tmp_storage"
"""Folder of a broker: what is not persistent and had no room in memory, which goes when it starts."""

LOCAL_FORMAT: Final = 61616
"""Such a transaction of one connection is prepared in its stores as an XA transaction of this format."""

ARCHIVE: Final = "data-archive"
"""Folder of journal files that a store needs no more, unless its broker is told of another."""

_OF_STORES: Final = ("db.data", "db.redo", "lock")
"""What a store's own folder has beside its journal."""

DEPTH_MAX: Final = 4
_NOTHING: Final = Location(-1, -1)
_IN_TRANSACTIONS: Final = frozenset(
    {
        kahadb_log.Command.ADD,
        kahadb_log.Command.REMOVE,
        kahadb_log.Command.PREPARE,
        kahadb_log.Command.COMMIT,
        kahadb_log.Command.ROLLBACK,
    }
)

HIDING_VERSION: Final = 4
"""Of the index."""


def fill_kahadb(source: Source, out: DerivedStore) -> None:
    """A store, or several below one folder, each with some of the destinations."""
    folders = list(store_folders(source.root, out, source.root))
    outcomes = {one.parent: _outcomes(one, source.root, out) for one in folders if one.name == OUTCOMES}
    for folder in folders:
        if folder.name in (OUTCOMES, SPOOLED):
            continue
        if folder.name == SCHEDULER:
            text = f"{_name(folder, source.root)}: messages that wait for their time in the job scheduler"
            out.note("scheduled-jobs-left", f"{text} are not read")
        elif _is_archive(folder, folders, source.root):
            out.note(
                "archived-logs-left", f"{_name(folder, source.root)}: archived journal files are not read"
            )
        else:
            _fill(source, folder, out, outcomes.get(folder.parent))


def _is_archive(folder: Path, folders: list[Path], root: Path) -> bool:
    """Whether its journal files are those that another store has put away: brokers do so in a folder of the
    store's, and such has nothing else. Folders of destinations have # in their names.
    """
    if folder == root or "#" in folder.name or any(door.exists(folder / one) for one in _OF_STORES):
        return False
    others = any(one.name not in (ARCHIVE, SCHEDULER, OUTCOMES, SPOOLED) for one in folders)
    return folder.parent in folders or (folder.name == ARCHIVE and others)


def store_folders(root: Path, out: DerivedStore, top: Path, depth: int = 0) -> Iterator[Path]:
    """Folders with a journal, or an index of one, in the order of their names. One that cannot be listed,
    and a link, is damage; `lost+found` may be one. Raises OSError where the store's own cannot be listed.
    """
    try:
        found = [root / name for name in sorted(door.names(root))]
        if kahadb_log.log_files(root) or door.exists(root / "db.data"):
            yield root
        for one in found if depth < DEPTH_MAX else ():
            mode = door.mode_of(one)
            if stat.S_ISLNK(mode):
                out.refused(one, top, door.refused(one, mode))
            elif stat.S_ISDIR(mode):
                yield from store_folders(one, out, top, depth + 1)
    except OSError as error:
        if root == top:
            raise
        out.refused(root, top, error)


class _Outcomes(NamedTuple):
    """What a multi KahaDB knows of transactions of its connections."""

    committed: set[openwire.Transaction]
    is_whole: bool
    """Those that are not `committed` are rolled back: nothing of what says so is lost."""


def _fill(source: Source, folder: Path, out: DerivedStore, outcomes: _Outcomes | None) -> None:
    """`outcomes` is None where it is no store of a multi KahaDB."""
    damage: list[Damage] = []
    replay = Replay(folder, source.root, damage)
    replay.run()
    if outcomes is not None:
        _end_of_connections(replay.content, outcomes)
    out.note("read-from", f"{_name(folder, source.root)}: {replay.said}")
    for one in damage:
        out.damage(one.file, one.offset, one.length_bytes, one.kind, one.reason)
    places = Places(kahadb_log.log_files(folder), folder, "db-{}.log", source.root)
    try:
        writer = ContentWriter(
            out, partial(command_at, places), places, layout=KAHADB, hide_taken=replay.hides_taken
        )
        writer.write(replay.content)
    finally:
        places.close()


def _end_of_connections(content: Content, outcomes: _Outcomes) -> None:
    of_connections = [
        one
        for one in content.prepared
        if isinstance(one, openwire.XaTransaction) and one.format_id == LOCAL_FORMAT
    ]
    for transaction in of_connections:
        if transaction in outcomes.committed or outcomes.is_whole:
            found = content.end(transaction)
            if found is not None and transaction in outcomes.committed:
                content.run(found.operations)


def _outcomes(folder: Path, root: Path, out: DerivedStore) -> _Outcomes:
    """A record of a preparation says that all stores were told to commit; that of a commit that all did."""
    damage: list[Damage] = []
    committed = set()
    for path in kahadb_log.log_files(folder).values():
        name = str(path.relative_to(root))
        content = content_of(path, name, damage)
        for record in kahadb_log.rows(content, name, damage):
            if record.command != kahadb_log.Command.PREPARE:
                continue
            try:
                committed.add(
                    kahadb_log.transaction_of(kahadb_log.Fielded(content, record.offset, record.length))
                )
            except DecodeError as error:
                reason = f"a command: {error}"
                damage.append(Damage(name, record.start, record.length, "garbage", reason))
    out.damaged += damage
    return _Outcomes({one for one in committed if one is not None}, not damage)


def _name(folder: Path, root: Path) -> str:
    return str(folder.relative_to(root)) if folder != root else folder.name


class Replay:
    """What one store holds. After `run`, `said` tells how it was found."""

    def __init__(self, folder: Path, root: Path, damage: list[Damage]) -> None:
        self._folder = folder
        self._root = root
        self._damage = damage
        self.content = Content()
        self.said = "the whole journal was replayed"
        self.hides_taken = True
        """Whether what a transaction in doubt acknowledged is not delivered: not so before ActiveMQ 5.6."""
        self._is_known = False
        """The index has what the record says."""

    def run(self) -> None:
        indexed = self._from_index()
        files = kahadb_log.log_files(self._folder)
        start = indexed.start if indexed is not None else None
        last = indexed.last if indexed is not None and indexed.last is not None else _NOTHING
        if start is not None and start.file not in files:
            name = self._called(self._folder / f"db-{start.file}.log")
            reason = "it is not there, and the index ends in it"
            self._damage.append(Damage(name, start.offset, 0, "missing", reason))
        elif not files:
            reason = "it is the index of a journal of which no file is there"
            self._damage.append(Damage(self._called(self._folder / "db.data"), 0, 0, "missing", reason))
        for number, path in files.items():
            if start is not None and number < start.file:
                continue
            first = start.offset if start is not None and number == start.file else 0
            skip = start if start is not None and indexed is not None and not indexed.inclusive else None
            self._is_known = number < last.file
            self._file(number, path, first, skip, files, last=last)
        if start is not None:
            self._verify({number: path for number, path in files.items() if number <= start.file}, start)

    def _verify(self, files: dict[int, Path], start: Location) -> None:
        """Files before the place where the replay began: what is wrong with those that have live messages."""
        live = self.content.files()
        for number, path in files.items():
            if number not in live or (number == start.file and not start.offset):
                continue
            name, found = self._called(path), list[Damage]()
            kahadb_log.verify(content_of(path, name, found), name, found)
            if number == start.file:
                found = [one for one in found if one.offset < start.offset]
            self._damage += [one for one in found if one not in self._damage]

    def _from_index(self) -> Indexed | None:
        path = self._folder / "db.data"
        try:
            redo = self._folder / "db.redo"
            if not door.exists(path):
                return None
            index = Index(read_file(path), read_file(redo) if door.exists(redo) else b"")
            index.fill(self.content)
        except (DecodeError, OSError, IndexError, RecursionError) as error:
            reason = f"the index cannot be read, so the journal is replayed: {error}"
            self._damage.append(Damage(self._called(path), 0, 0, "garbage", reason))
            self.content = Content()
            return None
        self.said = (
            f"the index (db.data, version {index.version}) was read, and the journal behind it replayed"
        )
        self.hides_taken = index.version >= HIDING_VERSION
        return index.indexed if index.indexed.start is not None else None

    def _called(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _file(
        self,
        number: int,
        path: Path,
        first: int,
        skip: Location | None,
        files: dict[int, Path],
        *,
        last: Location,
    ) -> None:
        name = self._called(path)
        content = content_of(path, name, self._damage)
        for record in kahadb_log.rows(content, name, self._damage, first):
            if skip is not None and (number, record.start) == skip:
                continue
            if number == last.file:
                self._is_known = record.start <= last.offset
            try:
                if isinstance(record, Row) and record.usual:
                    self._apply_usual(number, record, content)
                elif record.command == kahadb_log.Command.REWRITTEN_FILE:
                    if _is_superseded(kahadb_log.Fielded(content, record.offset, record.length), files):
                        return
                else:
                    self._apply(number, record, content)
            except (DecodeError, IndexError) as error:
                reason = f"a command: {error}"
                self._damage.append(Damage(name, record.start, record.length, "garbage", reason))

    def _apply_usual(self, number: int, row: Row, content: bytes) -> None:
        """A message that is added or removed."""
        if self._is_known and not row.transaction:
            return
        destination = _destination_in(content[row.destination : row.destination + row.destination_bytes])
        transaction = None
        if row.transaction:
            transaction = _transaction_in(content[row.transaction : row.transaction + row.transaction_bytes])
        identity = content[row.id : row.id + row.id_bytes].decode("utf-8", "replace")
        if row.command == kahadb_log.Command.REMOVE:
            key = content[row.extra : row.extra + row.extra_bytes].decode("utf-8", "replace")
            self.content.do(transaction, Taken(destination, identity, key if row.extra else None))
            return
        place = Place(number, row.extra + 4, row.extra_bytes - 4)
        if transaction is None:
            self.content.send(destination, identity, place)
        else:
            self.content.note(transaction, Send(destination, identity, place))

    def _apply(self, number: int, record: kahadb_log.Record | Row, content: bytes) -> None:
        fields = kahadb_log.Fielded(content, record.offset, record.length)
        if self._is_known and (
            record.command not in _IN_TRANSACTIONS or kahadb_log.transaction_of(fields) is None
        ):
            return
        match record.command:
            case kahadb_log.Command.ADD:
                operation = _send(number, fields)
                self.content.do(kahadb_log.transaction_of(fields), operation)
            case kahadb_log.Command.UPDATE:
                self._update(_send(number, fields.message(1)))
            case kahadb_log.Command.REMOVE:
                key = fields.text(5) if fields.has(5) else None
                taken = Taken(kahadb_log.destination_of(fields.message(2)), fields.text(3), key)
                self.content.do(kahadb_log.transaction_of(fields), taken)
            case kahadb_log.Command.PREPARE | kahadb_log.Command.COMMIT | kahadb_log.Command.ROLLBACK:
                self._end(record.command, kahadb_log.transaction_of(fields))
            case kahadb_log.Command.REMOVE_DESTINATION:
                self._remove_destination(fields)
            case kahadb_log.Command.SUBSCRIPTION:
                self._subscribe(fields)

    def _update(self, send: Send) -> None:
        """The same message with another place, where it is."""
        destination, place = send.destination, send.place
        assert place is not None, "it lies in the journal"
        all_of = (
            [one.messages for one in self.content.topic(destination.name).values()]
            if destination.topic
            else [self.content.queue(destination.name)]
        )
        known = [messages for messages in all_of if send.id in messages]
        for messages in known:
            messages[send.id] = place._replace(order=messages[send.id].order)
        if not known:
            self.content.run([send])

    def _end(self, command: int, transaction: openwire.Transaction | None) -> None:
        if transaction is None:
            return
        if command == kahadb_log.Command.PREPARE:
            self.content.prepare(transaction)
            return
        found = self.content.end(transaction)
        if found is not None and command == kahadb_log.Command.COMMIT and not self._is_known:
            self.content.run(found.operations)

    def _remove_destination(self, fields: kahadb_log.Fielded) -> None:
        found = kahadb_log.destination_of(fields.message(1))
        (self.content.topics if found.topic else self.content.queues).pop(found.name, None)

    def _subscribe(self, fields: kahadb_log.Fielded) -> None:
        destination = kahadb_log.destination_of(fields.message(1))
        known = self.content.topic(destination.name)
        if not fields.has(4):
            known.pop(fields.text(2), None)
            if not known:
                self.content.topics.pop(destination.name, None)
            return
        subscribed = self.content.subscribe(openwire.decode(fields.bytes(4)[4:], openwire.Subscription))
        if subscribed is not None and fields.number(3):
            everything = sorted(
                {item for one in known.values() for item in one.messages.items()},
                key=lambda one: one[1].order,
            )
            subscribed.messages.update(everything)


@lru_cache(openwire.CACHED)
def _destination_in(encoded: bytes) -> openwire.Destination:
    """Few destinations get everything."""
    return kahadb_log.destination_of(kahadb_log.Fielded(encoded, 0, len(encoded)))


@lru_cache(openwire.CACHED)
def _transaction_in(encoded: bytes) -> openwire.Transaction | None:
    """What a transaction did lies together."""
    return kahadb_log.transaction_in(kahadb_log.Fielded(encoded, 0, len(encoded)))


def _send(number: int, fields: kahadb_log.Fielded) -> Send:
    """Of the command that adds a message, whose OpenWire command has its length before it."""
    at, length = fields.place(4)
    return Send(
        kahadb_log.destination_of(fields.message(2)), fields.text(3), Place(number, at + 4, length - 4)
    )


def _is_superseded(fields: kahadb_log.Fielded, files: dict[int, Path]) -> bool:
    """Whether what acknowledgements were copied from is still there, so that the copies count for nothing."""
    return fields.number(1) in files and bool(fields.number(3, 1))


def command_at(places: Places, place: Place) -> bytes:
    """The OpenWire command of a message. An index says only where its record lies."""
    if place.length:
        return places.read(place.file, place.offset, place.length)
    head = places.read(place.file, place.offset, kahadb_log.HEAD.size)
    if len(head) < kahadb_log.HEAD.size:
        raise DecodeError(place.offset, "no record lies where the index says")
    size, _ = kahadb_log.HEAD.unpack(head)
    record = places.read(place.file, place.offset, size)
    if len(record) < max(size, kahadb_log.HEAD.size + 2):
        raise DecodeError(place.offset, f"a record of {size} bytes is cut off")
    length, at = kahadb_log.varint(record, kahadb_log.HEAD.size + 1)
    fields = kahadb_log.Fielded(record, at, length)
    if record[kahadb_log.HEAD.size] == kahadb_log.Command.UPDATE:
        fields = fields.message(1)
    elif record[kahadb_log.HEAD.size] != kahadb_log.Command.ADD:
        raise DecodeError(place.offset, "no message lies where the index says")
    return fields.bytes(4)[4:]
