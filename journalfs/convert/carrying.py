"""The work of `convert`, `recover` and `repair`, in steps that can be taken up again after a kill.

A new store is put together beside its destination, under a name that begins with a dot, and moved there at
the end; so nothing of it is ever there twice. A step that was done is noted in a file of ours.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
import trio

from journalfs import door
from journalfs.account.books import Books, NotCarried, SetAside
from journalfs.account.entries import Account, exactly
from journalfs.account.filters import EVERYTHING, Wanted
from journalfs.account.taking import account_of, entry_of
from journalfs.config.address_settings import Value
from journalfs.config.database import DatabaseSettings, DatabaseStore, database_named
from journalfs.config.files import TOML_NAME
from journalfs.config.journal_settings import JournalSettings, journal_settings
from journalfs.config.journalfs_toml import settings_text
from journalfs.config.layout import StoreLayout, locate_store, of_today, plan_store
from journalfs.config.older import AMQ, ARTEMIS_1, HORNETQ, forced
from journalfs.convert.bookkeeping import books_of, drops_of, predicted, refuse_damaged
from journalfs.convert.looking import Looked, look_at, unsaid
from journalfs.convert.report import Report
from journalfs.convert.setting_aside import SettingAside
from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.links import move
from journalfs.engine.state_types import AnomalyKind, TransactionInfo
from journalfs.errors import DecodeError, OlderStore, StoreBusy, WrongCall, failing
from journalfs.format.bindings import RoutingType
from journalfs.format.large_file import format_large_name, parse_large_name
from journalfs.format.record_types import MessageType
from journalfs.format.xid import decode_xid
from journalfs.ids import MessageId, QueueId
from journalfs.records.description import derived_from
from journalfs.records.files.file_gaps import NOTED
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.reports import JournalAccount
from journalfs.records.kinds import database_kind
from journalfs.records.older import Source, derive, source_of
from journalfs.records.older.bindings import without_prefix
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import CURRENT, adapter_for, as_json, deriving, identity_of
from journalfs.records.older.rewriting import RECOVER, RENAME
from journalfs.records.older.writing_hornetq import HornetqStore
from journalfs.store import open_store
from journalfs.store.locks import lock_holder
from journalfs.store.write.compacting import compact_store
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore

LEFT_OUT: Final = "left-out"
"""Standing of messages that the format of the new store cannot hold."""

PROGRESS: Final = "unfinished.json"
MADE_FROM: Final = Path("journalfs", "made-from.json")
REWRITTEN: Final = "rewritten"
LIVE_SHARE_MIN: Final = 0.5
"""A journal of which less counts is compacted."""

_PACKED_MAX: Final = 2
"""Compactions: transactions without an end stay in the first where references lack their messages, which
tell of damage; it drops the references, and the second the transactions.
"""

_BROKEN: Final = frozenset(
    {AnomalyKind.TX_UNFINISHED, AnomalyKind.COMMIT_INCOMPLETE, AnomalyKind.PREPARE_INCOMPLETE}
)


class Mode(StrEnum):
    CONVERT = "convert"
    RECOVER = "recover"
    """Acknowledged messages that are still on disk count, too."""
    REPAIR = "repair"


class _Step(StrEnum):
    NOTHING = "nothing"
    RECORDS = "records"
    """Journals and pages are written."""
    BODIES = "bodies"
    ASIDE = "aside"
    """What nobody can decide, read, or asked for is out of the way of the rest."""
    PACKED = "packed"
    """Nothing is in the journals that a broker would complain of, and the report is written."""
    REWRITTEN = "rewritten"
    """The older store is made of it."""


_LAST: Final = frozenset({_Step.PACKED, _Step.REWRITTEN})
"""From here on files may have been moved already."""


class _State(msgspec.Struct):
    """How far the work is."""

    asked: str
    """The mode and the options of the call that began it: another call begins anew."""
    identity: str
    step: str = _Step.NOTHING
    damage: list[Damage] = []
    notes: list[tuple[str, str]] = []
    renamed: dict[str, str] = {}
    bodies: str | None = None
    looked: Looked | None = None
    on_disk: dict[int, int] = {}
    """How many messages each queue has where consumed ones count, by its id."""
    begun: bool = False
    """Something is being set aside: after a kill it is not known how much was."""
    set_aside: list[SetAside] = []
    not_carried: list[NotCarried] = []


@dataclass(slots=True)
class Carrying:
    """Makes the store `destination` of the one at `path`. `run` does it. `kind` says what the source is."""

    path: Path
    destination: Path
    mode: Mode
    kind: str | None = None
    to: str | None = None
    """The kind of store to make, `HORNETQ` or `AMQ`; None: one of the current format."""
    advance: Callable[[int], None] = lambda count: None
    packs: bool = False
    """Nothing but what counts is to be in the new journals."""
    wanted: Wanted = EVERYTHING
    """Which messages are to be in the new store."""
    keep_damaged: bool = False
    """Damaged messages stay in their queues, where a client may fail to receive them."""
    source_name: str | None = None
    """What the report calls the source; None: by its path."""
    _layout: StoreLayout | None = None
    """Of the source, or of what was derived from it."""
    _older: OlderStore | None = None
    """The source, where it is an older store that was not derived yet."""

    def run(self) -> Report:
        """Raises what `locate_store` raises, `WrongCall` where the destination is in use, `SystemFailure`."""
        database = database_named(self.destination)
        if database is not None:
            return self._into_tables(database)
        destination = Path(os.path.abspath(self.destination))
        source = self._source()
        if destination == source.root or source.root.is_relative_to(destination):
            raise WrongCall(
                f"{destination}: this is the source, which stays as it is; give another directory"
            )
        if Path(os.path.realpath(destination)).is_relative_to(source.root):
            raise WrongCall(
                f"{destination}: it is in the source, which stays as it is; give a directory outside of it"
            )
        staging = destination.parent / f".{destination.name}.unfinished"
        made = self._made_before(source, destination, staging)
        if made is not None:
            return made
        # Before root acts as the owner of the destination, who may not read the source.
        looked = self._look(source, destination, staging)
        with failing(self.mode, destination, found=True), of_today():
            door.adopt((destination,))
            door.own_folder(staging, mode=0o755)
            return self._run(source, destination, staging, looked)

    def _made_before(self, source: Source, destination: Path, staging: Path) -> Report | None:
        """Return what an earlier call with the same words made of the source as it is, to its end: a script
        that repeats a call until it succeeds would else never end.
        """
        try:
            if door.exists(staging / PROGRESS):
                return None
            report = msgspec.json.decode(door.read(destination / MADE_FROM), type=Report)
        except (OSError, ValueError, RecursionError):
            return None
        if not report.asked or (report.asked, report.identity) != (self._asked(), identity_of(source)):
            return None
        again = f"{destination} was made by this call before, of the source as it is; nothing is changed"
        return msgspec.structs.replace(report, notes=[*report.notes, ("made-before", again)])

    def preview(self) -> Report:
        """Return the report that `run` would end with, from the source alone; nothing is made."""
        source = self._source()
        destination = Path(os.path.abspath(self.destination))
        looked = self._look(source, destination, destination / "nothing")
        renamed = {one.shown: one.full for one in looked.named if one.shown != one.full}
        books = predicted(looked, renamed=renamed, keep_damaged=self.keep_damaged)
        queues = {renamed.get(queue, queue): count for queue, count in books.carried.items()}
        for aside in books.set_aside:
            queues[aside.into] = queues.get(aside.into, 0) + aside.messages
        notes = [
            ("name", f"queue {one.shown} lost its binding, and would be {one.full}: {one.by}")
            for one in looked.named
        ]
        return Report(
            mode=f"{self.mode} --dry-run",
            source=self._name_of(source),
            format=source.kind,
            destination="",
            messages=sum(queues.values()),
            queues=queues,
            large_bodies=0,
            prepared_transactions=[],
            damage=list(looked.account.losses),
            notes=notes,
            renamed=renamed,
            books=dict(books.as_json()),
            told=list(books.lines()),
        )

    def _name_of(self, source: Source) -> str:
        return self.source_name or source.shown or os.fsdecode(os.fsencode(source.root))

    def _look(self, source: Source, destination: Path, staging: Path) -> Looked:
        """Return what the source says of itself, as it was noted before a kill where it is the same still."""
        known = _state_of(staging)
        if known is not None and known.looked is not None and known.identity == identity_of(source):
            return known.looked
        if self._layout is None:
            assert self._older is not None
            self._layout = locate_store(derive(self._older, quiet=True), adopting=False)
        config = None
        with suppress(WrongCall):  # where something is there already, which is told later
            config = plan_store(destination, adopting=False).config
        looked = look_at(self._layout, kept_up=source.shown is not None, destination=config)
        self.wanted.refuse_unknown(looked.queue_names.values())
        return looked

    def _into_tables(self, database: DatabaseSettings) -> Report:
        """By a store in files in the cache directory, which is copied into the tables as one transaction."""
        from journalfs.records.tables.filling import fill_tables, is_filled  # noqa: PLC0415 - needs SQLAlchemy

        if self.to is not None:
            raise WrongCall(f"{database.shown}: no older broker keeps a store in a database")
        with deriving(f"convert {database.shown}", None) as place:
            made, node = place / "store", place / "node"
            if not door.exists(made):
                if is_filled(database):
                    raise WrongCall(f"{database.shown}: there is a store already")
                replace(self, destination=made, packs=True).run()
            report = msgspec.json.decode(door.read(made / MADE_FROM), type=Report)
            if not door.exists(node):
                door.replace(node, str(uuid.uuid4()).encode())
            # By this a filling is known that was committed before a kill.
            with of_today():
                fill_tables(database, made, door.read(node).decode())
            door.remove_tree(made)
            door.remove(node)
        return msgspec.structs.replace(report, destination=database.shown)

    def source_bytes(self) -> int:
        """What there is to read."""
        return sum(status.st_size for _, status in self._source().files())

    def _source(self) -> Source:
        given = Path(os.path.abspath(self.path))
        try:
            if self.kind is None:
                layout = self._layout = locate_store(given, adopting=False)
                found = OlderStore(
                    layout.root,
                    "a store of the current format",
                    kind=CURRENT,
                    root=layout.root,
                    journal=layout.journal_dir,
                    bindings=layout.bindings_dir,
                )
                source = source_of(found, paging=layout.paging_dir, large=layout.large_dir)
                _refuse_busy(layout.root, layout.node_manager_lock_dir)
                return source
            found = forced(self.kind, given)
        except DatabaseStore as tables:
            return self._tables(tables.settings)
        except OlderStore as older:
            found = older
        source = source_of(found)
        _refuse_busy(source.root, source.journal_dir)
        self._older = found
        return source

    def _tables(self, database: DatabaseSettings) -> Source:
        """What was read of them just now."""
        layout = self._layout = locate_store(database_kind(database).read(database, None).place)
        places = layout.journal_dir, layout.bindings_dir, layout.paging_dir, layout.large_dir
        found = f"the tables of {database.shown}"
        return Source(CURRENT, layout.root, *places, found, shown=database.shown)

    def _run(self, source: Source, destination: Path, staging: Path, looked: Looked) -> Report:
        state = _state_of(staging)
        identity = identity_of(source)
        asked = self._asked()
        if state is None or (state.asked, state.identity) != (asked, identity):
            _empty(staging)
            state = _State(asked, identity)
        if state.begun:
            state.step = _Step.NOTHING
        if state.step not in _LAST:
            _plan(destination, staging, state)
        if state.step == _Step.NOTHING:
            state.looked = looked
            self._records(source, staging, destination, state)
        if state.step == _Step.RECORDS:
            self._bodies(staging, state)
        if state.step == _Step.BODIES:
            self._set_aside(staging, destination, state)
        if state.step == _Step.ASIDE:
            self._pack(source, staging, destination, state)
        if state.step == _Step.PACKED and self.to is not None:
            self._rewrite(source, staging, destination, state)
        report = msgspec.json.decode(door.read(staging / MADE_FROM), type=Report)
        _move(staging, destination, self._places(destination))
        return report

    def _places(self, destination: Path) -> dict[str, Path]:
        if self.to is None:
            return _places(destination)
        return _hornetq_places(destination) if self.to == HORNETQ else _amq_places(destination)

    def _asked(self) -> str:
        return repr((str(self.mode), self.to, self.wanted, self.keep_damaged))

    def _records(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        _empty(staging)
        looked = state.looked
        assert looked is not None
        older = source.kind != CURRENT
        renamed = older and not self._keeps_names(source)
        flags = (RENAME if renamed else 0) | (RECOVER if self.mode is Mode.RECOVER else 0)
        size_bytes = _settings(destination).file_size_bytes
        also = frozenset(one.queue_id for one in looked.named)
        source = replace(source, also_bound=also, folders=looked.folders)
        with DerivedStore(staging, self.advance, flags=flags, file_bytes=size_bytes) as out:
            adapter_for(source)(source, out)
            out.ids_from(looked.highest_id + 1)
            _bind_lost(out, looked, renamed=renamed)
            door.make_folders(out.paging_dir)
            door.make_folders(out.large_dir)
        made_of = derived_from(source.root)
        damage = out.damaged if made_of is None else {*out.damaged, *made_of.damage}
        known = {one.file for one in looked.account.entries}
        state.damage = sorted(one for one in set(damage) if one.file not in known)
        state.notes = out.notes
        state.renamed = out.renamed
        state.bodies = None if out.bodies is None else str(out.bodies)
        state.on_disk = out.on_disk
        state.begun, state.set_aside, state.not_carried = False, [], []
        _done(staging, state, _Step.RECORDS)

    def _bodies(self, staging: Path, state: _State) -> None:
        """Copies of the bodies that messages have, each whole or not there."""
        there = [] if state.bodies is None else door.names_if_there(state.bodies)
        wanted = _bodies_of(staging, self._undecided(state)) if there else set()
        for path in (Path(state.bodies or "", name) for name in there if name in wanted):
            mode = door.mode_of(path)
            if stat.S_ISREG(mode):
                self._copy(path, staging / "large-messages" / path.name)
            elif mode:
                refused = door.kind_and_reason(door.refused(path, mode))
                state.damage.append(Damage(name_of(path, path.parent.parent), 0, 0, *refused))
        door.sync(staging / "large-messages")
        _done(staging, state, _Step.BODIES)

    def _undecided(self, state: _State) -> Mapping[int, str]:
        """Return the transactions that need a decision. `recover` takes all that any transaction sent."""
        assert state.looked is not None
        return {} if self.mode is Mode.RECOVER else state.looked.undecided

    def _set_aside(self, staging: Path, destination: Path, state: _State) -> None:
        """Take what nobody can decide, read, or asked for out of the way of the rest."""
        with unsaid():
            store = open_store(staging, index=False)
            try:
                account = account_of(store)
            finally:
                store.close()
        here = {new: old for old, new in state.renamed.items()}
        work = SettingAside(self._undecided(state), account, self.wanted, here, self.keep_damaged)
        if work.is_needed:
            state.begun = True
            _done(staging, state, _Step.BODIES)
            trio.run(work.run, _writing(staging, destination))
            for message_id in work.copied:
                door.remove_if_there(staging / "large-messages" / format_large_name(MessageId(message_id)))
        state.begun, state.set_aside, state.not_carried = False, work.set_aside, work.not_carried
        _done(staging, state, _Step.ASIDE)

    def _copy(self, source: Path, to: Path) -> None:
        if door.is_file(to) and door.status(to).st_size == door.status(source).st_size:
            return
        part = to.with_name(f"{to.name}.part")
        door.remove_if_there(part)
        door.copy(source, part, self.advance)
        with door.opened(part) as made:
            os.fsync(made)
        door.rename(part, to)

    def _pack(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        """As durable as every store is, and without what a broker would complain of; say what it is."""
        report, account, pack = self._report(source, staging, destination, state, more=True)
        pack |= self.packs or self.to is not None
        for left in reversed(range(_PACKED_MAX)):
            if not pack:
                break
            _compact(staging, destination)
            report, account, pack = self._report(source, staging, destination, state, more=left > 0)
        refuse_damaged(account, "NEW")
        ours = staging / MADE_FROM.parent
        door.make_folders(ours)
        for name in door.names(ours):
            if name != NOTED.name:  # which says why ids of files are missing
                _remove_any(ours / name)
        _write_report(staging, report)
        _sync_all(staging)
        _done(staging, state, _Step.PACKED)

    def _keeps_names(self, source: Source) -> bool:
        """Destinations have the names already that clients of the new store know."""
        return self.to == HORNETQ and source.kind in (HORNETQ, ARTEMIS_1)

    def _rewrite(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        """Make the older store of what was packed."""
        place = staging / REWRITTEN
        _remove(place)
        if self.to == AMQ:
            from journalfs.convert.writing_amq import AmqStore  # noqa: PLC0415 - seldom needed

            writing: AmqStore | HornetqStore = AmqStore(staging, place)
        else:
            writing = HornetqStore(
                staging,
                place,
                _settings(destination).file_size_bytes,
                current_names=not self._keeps_names(source),
                jms=source.bindings_dir if source.kind == HORNETQ else None,
            )
        with unsaid():
            writing.write()
        report = msgspec.json.decode(door.read(staging / MADE_FROM), type=Report)
        notes = [(kind, text) for kind, text in report.notes if kind != "jms"]
        renamed = _then(report.renamed, writing.renamed)
        reason = "it has no equal in the format of that store"
        left = [
            NotCarried(
                writing.renamed.get(queue, queue), LEFT_OUT, reason, exactly(count), LEFT_OUT, asked=False
            )
            for queue, count in _counted(staging, writing.left_out).items()
        ]
        account = self._account_of_older(staging, place)
        books = self._books(account, state, renamed=renamed, left=left)
        _write_report(
            staging,
            msgspec.structs.replace(
                report,
                notes=notes + writing.notes,
                renamed=renamed,
                books=dict(books.as_json()),
                told=list(books.lines()),
            ),
        )
        _sync_all(staging)
        _done(staging, state, _Step.REWRITTEN)

    def _account_of_older(self, staging: Path, place: Path) -> Account:
        """Open the older store that was made as any command opens it, and return its account."""
        assert self.to is not None
        opened = staging / "opened"
        try:
            layout = locate_store(derive(forced(self.to, place), opened, quiet=True), adopting=False)
            return look_at(layout, kept_up=False).account
        finally:
            _remove(opened)

    def _report(
        self, source: Source, staging: Path, destination: Path, state: _State, *, more: bool
    ) -> tuple[Report, Account, bool]:
        """What is in the new store, its account, and whether it is worth compacting. Where `more` compaction
        may follow, and it is, there are no books yet: messages that were set aside are also where they were.
        """
        assert state.looked is not None
        with unsaid():
            store = open_store(staging, index=False)
        try:
            queues = {
                f"{address.name}::{queue.name}": len(queue)
                for address in store.addresses()
                for queue in address.queues()
            }
            loader = store.core.loader
            prepared = [_xid(loader.files[one.file_slot], one) for one in loader.state.transactions()]
            bodies = [name for name in door.names(staging / "large-messages") if parse_large_name(name)]
            account = account_of(store)
            pack = _is_worth_compacting(loader) or any(drops_of(account))
        finally:
            store.close()
        books = None if pack and more else self._books(account, state)
        report = Report(
            mode=self.mode,
            source=self._name_of(source),
            format=source.kind,
            destination=str(destination),
            messages=sum(queues.values()),
            queues=queues,
            large_bodies=len(bodies),
            prepared_transactions=prepared,
            damage=[*state.looked.account.losses, *map(entry_of, state.damage)],
            notes=state.notes,
            renamed=state.renamed,
            books={} if books is None else dict(books.as_json()),
            told=[] if books is None else list(books.lines()),
            asked=state.asked,
            identity=state.identity,
        )
        return report, account, pack

    def _books(
        self,
        made: Account,
        state: _State,
        *,
        renamed: Mapping[str, str] | None = None,
        left: Sequence[NotCarried] = (),
    ) -> Books:
        assert state.looked is not None
        return books_of(
            state.looked,
            made,
            renamed=state.renamed if renamed is None else renamed,
            set_aside=state.set_aside,
            not_carried=[*state.not_carried, *left],
            on_disk=state.on_disk,
            name="NEW",
            has_bodies=renamed is None,
        )


def _counted(staging: Path, messages: Set[int]) -> Counter[str]:
    """Return how often some messages of a store are in its queues, or are sent there by transactions that
    are prepared.
    """
    found: Counter[str] = Counter()
    if not messages:
        return found
    with unsaid():
        store = open_store(staging, index=False)
    try:
        for queue in store.queues():
            content = queue.content
            for run in (*content.live(), *content.delivering()):
                found[f"{queue.model.address}::{queue.name}"] += sum(
                    one in messages for one in run.ids(content)
                )
        names = store.core.queue_names()
        for transaction in store.core.loader.state.transactions():
            for one in transaction.operations:
                if one.user_type == MessageType.ADD_REFERENCE and one.record_id in messages:
                    found[names.get(one.a, "")] += 1
    finally:
        store.close()
    return +found


def _bind_lost(out: DerivedStore, looked: Looked, *, renamed: bool) -> None:
    """Give each queue that messages name and no binding a binding in the new store."""
    for one in looked.named:
        name, address = one.name, one.address
        if renamed:
            name, address = without_prefix(name), without_prefix(address)
        while name in out.queues:
            name += "-lost"
        kind = RoutingType(one.routing_type)
        queue_id = QueueId(one.queue_id)
        out.queue(name, address, kind, filter=one.filter, queue_id=queue_id, metadata=one.metadata)
        if f"{address}::{name}" != one.shown:
            out.renamed[one.shown] = f"{address}::{name}"
        out.note("name", f"queue {one.shown} lost its binding, and is {address}::{name} now: {one.by}")


def _then(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Return names after one renaming and another: `a -> b` and `b -> c` are `a -> c`."""
    both = {old: second.get(new, new) for old, new in first.items()}
    of_first = set(first.values())
    both |= {old: new for old, new in second.items() if old not in of_first}
    return {old: new for old, new in both.items() if old != new}


def _write_report(staging: Path, report: Report) -> None:
    _remove(staging / MADE_FROM)
    door.write(staging / MADE_FROM, msgspec.json.format(as_json(report), indent=2) + b"\n")


def _settings(destination: Path) -> JournalSettings:
    """As the broker of the new store has them."""
    return journal_settings(_layout_at(destination).config)


def _is_worth_compacting(loader: JournalLoader) -> bool:
    """Of transactions without an end, and of incomplete ones, brokers warn; and dead bytes cost room."""
    anomalies = loader.state.anomalies()
    if any(one.kind in _BROKEN for one in anomalies) or len(anomalies) < loader.state.counts().anomalies:
        return True
    live_bytes = sum(one.live_bytes for one in JournalAccount().reports(loader.files))
    return live_bytes < LIVE_SHARE_MIN * sum(read.position for read in loader.files.read_files())


def _writing(staging: Path, destination: Path) -> WritingStore:
    """Open a store that is being made for writing, with journal files as its broker will have them."""
    said: dict[str, Value] = {
        "journal-file-size": _settings(destination).file_size_bytes,
        "journal-type": "NIO",
        "journal-datasync": False,
    }
    _remove(staging / TOML_NAME)
    door.write(staging / TOML_NAME, settings_text(said).encode())
    with unsaid():
        return open_for_writing(staging, index=False, auto_delete=False, expire=False)


def _compact(staging: Path, destination: Path) -> None:
    writing = _writing(staging, destination)
    try:
        trio.run(compact_store, writing)
    finally:
        writing.close()


def _xid(file: MappedFile, transaction: TransactionInfo) -> str:
    extra = file.copy(transaction.extra_offset, transaction.extra_bytes)
    try:
        return decode_xid(extra).base64()
    except DecodeError:
        return f"{transaction.tx_id}, whose name cannot be read"


def _refuse_busy(root: Path, lock_dir: Path) -> None:
    holder = lock_holder(lock_dir)
    if holder is not None:
        raise StoreBusy(root, f"process {holder}" if holder else "a process in another container")


def _bodies_of(staging: Path, undecided: Mapping[int, str]) -> set[str]:
    """Names of the files that messages of the new store have, also those of transactions."""
    with unsaid():
        store = open_store(staging, index=False)
    try:
        orphaned = {Path(name).name for name in store.orphaned_bodies()}
        state = store.core.loader.state
        found = {file.name for file in store.core.large.files()} - orphaned
        for transaction in state.undecided(lambda tx_id, _: tx_id in undecided):
            found |= {format_large_name(MessageId(one.record_id)) for one in transaction.operations}
        return found
    finally:
        store.close()


def _plan(destination: Path, staging: Path, state: _State) -> None:
    """Nothing may be there. Raises `WrongCall`, and leaves nothing beside it then."""
    try:
        plan_store(destination)
    except WrongCall:
        if state.step == _Step.NOTHING:
            _remove(staging)
        raise


def _state_of(staging: Path) -> _State | None:
    try:
        return msgspec.json.decode(door.read(staging / PROGRESS), type=_State)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None


def _done(staging: Path, state: _State, step: _Step) -> None:
    """Note that a step was taken: afterwards it is not taken again."""
    state.step = step
    door.replace(staging / PROGRESS, as_json(state))


def _empty(staging: Path) -> None:
    for name in door.names(staging):
        door.remove_tree(staging / name)


def _remove(place: Path) -> None:
    """What an earlier try has left, if there was one."""
    with suppress(FileNotFoundError):
        door.remove_tree(place)


def _remove_any(place: Path) -> None:
    if door.is_folder(place):
        door.remove_tree(place)
    else:
        door.remove(place)


def _sync_all(folder: Path) -> None:
    for parent, _, names in door.below(folder):
        for name in names:
            with door.opened(os.path.join(parent, name)) as descriptor:
                os.fsync(descriptor)
        door.sync(parent)


def _places(destination: Path) -> dict[str, Path]:
    """Where parts of the new store belong; the journal last, which makes it one."""
    layout = _layout_at(destination)
    return {
        "large-messages": layout.large_dir,
        "paging": layout.paging_dir,
        "bindings": layout.bindings_dir,
        "journalfs": layout.root / "journalfs",
        "journal": layout.journal_dir,
    }


def _hornetq_places(destination: Path) -> dict[str, Path]:
    made = {f"{REWRITTEN}/{name}": destination / name for name in ("paging", "bindings", "journal")}
    beside = {"large-messages": destination / "largemessages", "journalfs": destination / "journalfs"}
    return beside | made


def _amq_places(destination: Path) -> dict[str, Path]:
    """The reference store first: without it a broker would take the data logs for another store's."""
    made = {f"{REWRITTEN}/{name}": destination / name for name in ("kr-store", "journal")}
    return {"journalfs": destination / "journalfs"} | made


def _move(staging: Path, destination: Path, places: Mapping[str, Path]) -> None:
    """All that is left of the new store to where it belongs."""
    for name, place in places.items():
        for path in _files_of(staging / name):
            to = place / path.relative_to(staging / name)
            door.make_folders(to.parent)
            move(path, to)
            door.sync(to.parent)
        if door.is_folder(staging / name):
            door.make_folders(place)
    door.remove_tree(staging)
    door.sync(destination)


def _layout_at(destination: Path) -> StoreLayout:
    """Where its parts go: as its configuration says, also when some are there already."""
    try:
        return plan_store(destination)
    except WrongCall:
        return locate_store(destination)


def _files_of(folder: Path) -> Iterator[Path]:
    for parent, _, names in door.below(folder) if door.is_folder(folder) else ():
        yield from (Path(os.fsdecode(os.path.join(parent, name))) for name in sorted(names))
