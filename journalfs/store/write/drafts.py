"""Transactions that are begun, filled and ended as directories: drafts until they are committed or prepared.

A draft is a folder: files that it is to publish, and a list of messages that it holds, which nobody else gets
meanwhile. Nothing of it is in the journal before it ends, in one transaction that has a record of the draft's
own id: after a crash either the record is there, and the folder goes, or the folder is, and nothing happened.
"""

from __future__ import annotations

import logging
import secrets
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from journalfs import door
from journalfs.api import Patience, QueuePath, Send
from journalfs.broker.consume.copies import Copies, Separate
from journalfs.broker.consume.delivering import Deliveries
from journalfs.broker.consume.leaving import chosen_runs
from journalfs.broker.limits.admission import Action, Admitted
from journalfs.broker.publish.publication import messages_in
from journalfs.broker.publish.sending import Sending, Sent, count
from journalfs.broker.queues.administering import address_named, queue_named
from journalfs.change.change import Change, pieces
from journalfs.change.duplicates import DRAFTS, DoneNotes
from journalfs.change.removing import FEW, Chosen
from journalfs.engine.links import append, write_durably
from journalfs.engine.pages import page_schedules
from journalfs.engine.state_batch import places
from journalfs.engine.waiting import FairLock, offload, unbroken
from journalfs.errors import (
    JournalfsError,
    MessagesGone,
    NameTaken,
    NoSuchName,
    WrongCall,
    failing,
)
from journalfs.format.record_bodies import encode_xid
from journalfs.format.record_types import MessageType
from journalfs.format.xid import xid_of
from journalfs.ids import MessageId, Position
from journalfs.store.snapshot_folder import decoded_name, encoded_name, folder_name
from journalfs.views.queues import StoreQueue
from journalfs.views.transactions import prepared_transactions, refuse_held

# The folder of one transaction that was begun and has not ended, `journalfs/staging/transactions/NAME`.
#
# `staged` holds what it is to publish, as the mount laid it out; `holds.jsonl` says, a line each, who it is
# and which messages it holds. A line counts once its newline is durable. A folder whose name begins with a
# dot is being made, or has ended.

TRANSACTIONS: Final = "transactions"
STAGED: Final = "staged"
HOLDS: Final = "holds.jsonl"
_MAKING: Final = ".making-"
_ENDED: Final = ".ended-"

Way: TypeAlias = tuple[QueuePath, QueuePath | None]
"""The queue that messages are in, and their target queue; None: they are acknowledged."""


_Int64 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Begun(msgspec.Struct, frozen=True, tag="begun", tag_field="what"):
    transaction: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    """Of no other: the journal knows by it whether this one was committed."""
    name: str
    begun_ms: _Int64
    uid: int = -1
    gid: int = -1
    """The group of its maker; -1: that of the mount's owner."""


class Holds(msgspec.Struct, frozen=True, tag="hold", tag_field="what", omit_defaults=True):
    """`ended`: it holds them no more."""

    source: tuple[str, str]
    ids: list[_Int64]
    target: tuple[str, str] | None = None
    ended: bool = False


_decode = msgspec.json.Decoder(Begun | Holds).decode


@dataclass(slots=True)
class DraftFolder:
    path: Path
    transaction: str
    name: str
    begun_ms: int
    sync: bool
    maker: tuple[int, int] = (-1, -1)
    held: dict[Way, dict[int, None]] = field(default_factory=dict)
    """Ids of the held messages when the folder was read, in their order."""

    @property
    def staged(self) -> Path:
        return self.path / STAGED

    @classmethod
    def make(
        cls, place: Path, name: str, begun_ms: int, maker: tuple[int, int], *, sync: bool
    ) -> DraftFolder:
        """Durable on return. Raises OSError and `NameTaken`."""
        path, transaction = place / folder_name(name), secrets.token_hex(16)
        if door.exists(path):
            raise NameTaken(f"there is a transaction {name}")
        making = place / (_MAKING + transaction)
        door.make_folders(making / STAGED)
        write_durably(making / HOLDS, _line(Begun(transaction, encoded_name(name), begun_ms, *maker)))
        door.rename(making, path)
        folder = cls(path, transaction, name, begun_ms, sync, maker)
        folder._sync_place()
        return folder

    @classmethod
    def read(cls, path: Path, begun_ms: int, *, sync: bool) -> DraftFolder:
        """One that may be of a process that was killed: half a line at the end was never answered. Raises
        OSError, and ValueError for a line that is damaged.
        """
        content = door.read(path / HOLDS)
        whole = content[: content.rfind(b"\n") + 1]
        try:
            begun, *lines = [_decode(line) for line in whole.split(b"\n")[:-1] or [b""]]
        except RecursionError as error:
            raise ValueError(f"{error}") from None
        if not isinstance(begun, Begun) or folder_name(decoded_name(begun.name)) != path.name:
            raise ValueError("the first line does not say which transaction this is")
        name, maker = decoded_name(begun.name), (begun.uid, begun.gid)
        folder = cls(path, begun.transaction, name, begun.begun_ms or begun_ms, sync, maker)
        if len(whole) != len(content):
            door.truncate(path / HOLDS, len(whole))
        for line in lines:
            if isinstance(line, Holds):
                ids = folder.held.setdefault((_path(line.source), line.target and _path(line.target)), {})
                for one in line.ids:
                    if line.ended:
                        ids.pop(one, None)
                    else:
                        ids[one] = None
        return folder

    def note(self, way: Way, ids: array[int], *, ended: bool = False) -> None:
        """That messages are held, or no more: durable on return. Raises OSError, and then it is not noted."""
        source, target = way
        line = _line(Holds(_encoded(source), list(ids), target and _encoded(target), ended))
        append(self.path / HOLDS, line, sync=self.sync)

    def end(self) -> Path:
        """Rename the draft's folder so that it is not found any more. Returns the new place, to be removed.
        Raises OSError.
        """
        ended = self.path.with_name(_ENDED + self.transaction)
        door.rename(self.path, ended)
        self._sync_place()
        return ended

    def _sync_place(self) -> None:
        if self.sync:
            door.sync(self.path.parent)


def folders_in(place: Path) -> Iterator[Path]:
    """Yield the folders of transactions that have not ended; leftovers of others are removed.
    Raises OSError.
    """
    for name in sorted(door.names_if_there(place)):
        if name.startswith((_MAKING, _ENDED)):
            door.remove_tree(place / name)
        elif door.is_folder(place / name):
            yield place / name


def _encoded(path: QueuePath) -> tuple[str, str]:
    return encoded_name(path[0]), encoded_name(path[1])


def _path(encoded: tuple[str, str]) -> QueuePath:
    return decoded_name(encoded[0]), decoded_name(encoded[1])


def _line(what: Begun | Holds) -> bytes:
    return msgspec.json.encode(what) + b"\n"


NAMED_MAX: Final = 5
"""Messages that an error names."""


@dataclass(slots=True, eq=False)
class Held:
    """A few messages of one queue: so one can be given back without a look at all the others."""

    source: QueuePath
    target: QueuePath | None
    chosen: Chosen
    message_ids: array[int]

    @property
    def way(self) -> Way:
        return self.source, self.target

    @property
    def place(self) -> QueuePath:
        """Where the messages are shown in the draft."""
        return self.target or self.source


@dataclass(slots=True)
class Leaves:
    """All that leaves one queue for another, or for good."""

    chosen: Chosen
    target: QueuePath | None
    left: Callable[[], None] = lambda: None
    """Called once they are acknowledged, so that they can be brought back."""


@dataclass(slots=True, eq=False)
class Draft:
    folder: DraftFolder
    places: dict[QueuePath, dict[int, Held]] = field(default_factory=dict)
    """The held messages, by the queue that they are shown in."""
    gone: dict[QueuePath, list[int]] = field(default_factory=dict)
    """Messages that the draft held, and that another program took while the store was not open here."""
    turn: FairLock = field(default_factory=FairLock)
    """One after the other fills it, or ends it."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def begun_ms(self) -> int:
        return self.folder.begun_ms

    @property
    def maker(self) -> tuple[int, int]:
        return self.folder.maker

    @property
    def staged(self) -> Path:
        return self.folder.staged

    @property
    def held(self) -> Iterable[Held]:
        """In the order in which they came to each place."""
        return dict.fromkeys(held for place in self.places.values() for held in place.values())

    def put(self, held: Held) -> None:
        self.places.setdefault(held.place, {}).update(dict.fromkeys(held.message_ids, held))

    def drop(self, held: Held) -> None:
        place = self.places[held.place]
        for one in held.message_ids:
            del place[one]
        if not place:
            del self.places[held.place]

    def leaves(self) -> list[Leaves]:
        found: dict[Way, Leaves] = {}
        for held in self.held:
            of = found.setdefault(held.way, Leaves(Chosen(held.chosen.content), held.target))
            of.chosen.claims += held.chosen.claims
            of.chosen.paged += held.chosen.paged
        return list(found.values())

    def status(self) -> Mapping[str, object]:
        return {
            "state": "draft",
            "begun": self.begun_ms,
            "holds": sum(len(place) for place in self.places.values()),
            "gone": {"::".join(path): ids for path, ids in self.gone.items()},
        }

    def operations(self) -> Sequence[Mapping[str, object]]:
        return [
            {"operation": "ack" if held.target is None else "move", "id": one}
            | {"address": held.source[0], "queue": held.source[1]}
            | ({} if held.target is None else {"toAddress": held.target[0], "toQueue": held.target[1]})
            for held in self.held
            for one in held.message_ids
        ]

    def refuse_shown(self, source: QueuePath, place: QueuePath, ids: Iterable[int]) -> None:
        """Queues of one address have the same messages, and a place shows one by an id."""
        there = self.places.get(place, {})
        known = next((one for one in ids if one in there and there[one].source != source), None)
        if known is not None:
            of = f"{'::'.join(place)} has {known} of {'::'.join(there[known].source)}"
            raise NameTaken(f"{self.name}: {of} already: move it in a transaction of its own")

    def refuse_gone(self) -> None:
        if self.gone:
            some = (f"{'::'.join(path)}: {one}" for path, ids in self.gone.items() for one in ids)
            named = [one for one, _ in zip(some, range(NAMED_MAX), strict=False)]
            more = sum(map(len, self.gone.values())) - len(named)
            raise MessagesGone(self.name, ", ".join(named) + (f" and {more} more" if more else ""))


class Drafts:
    """Of one store. Use on the trio thread."""

    def __init__(
        self,
        sending: Sending,
        deliveries: Deliveries,
        place: Callable[[], Path],
        *,
        sync: bool,
        outlive: bool,
    ) -> None:
        """`outlive`: drafts outlive the process, so the journal has to tell which ones were committed."""
        self.sending = sending
        self.deliveries = deliveries
        self.leaving = deliveries.leaving
        self.admission = sending.admission
        self.parts = parts = sending.parts
        self.core = parts.core
        self.removing = parts.removing
        self.find = parts.store.queue_at
        self.committed = DoneNotes(parts.core, parts.journals, DRAFTS)
        self.place = place
        self.sync = sync
        self.outlive = outlive
        self._drafts: dict[str, Draft] = {}

    # ---- opening the store ----

    def recover(self, place: Path) -> None:
        """Find what has not ended, and hold what it holds. Raises OSError, and `ReadOnlyStore`."""
        self.committed.load()
        known, unread = set(self.committed.ids()) | set(self._prepared()), False
        for path in folders_in(place):
            try:
                folder = DraftFolder.read(path, self.core.clock.now_ms(), sync=self.sync)
            except (OSError, ValueError) as error:
                unread = True
                reason = f"{path}: the transaction cannot be read, and waits for it: {error}"
                self.core.events.add("transaction", reason, level=logging.ERROR)
                continue
            if folder.transaction in known:
                door.remove_tree(folder.end())
                continue
            draft = self._drafts[folder.name] = Draft(folder)
            for way, ids in folder.held.items():
                self._hold_again(draft, way, array("q", ids))
        if not unread:
            self.committed.forget(self.committed.ids())

    def _prepared(self) -> Iterator[str]:
        """The drafts that became prepared transactions."""
        for prepared in prepared_transactions(self.core):
            for operation in prepared.records:
                if operation.user_type == MessageType.DUPLICATE_ID:
                    note_id = self.committed.note_of(operation)
                    if note_id is not None:
                        yield note_id

    def _hold_again(self, draft: Draft, way: Way, ids: array[int]) -> None:
        try:
            known = {one for held in self._held(draft, way, ids) for one in held.message_ids}
        except NoSuchName:
            known = set()
        gone = [one for one in ids if one not in known]
        if gone:
            draft.gone.setdefault(way[0], []).extend(gone)
            reason = f"{draft.name}: {len(gone)} messages of {'::'.join(way[0])} that it held are not there"
            self.core.events.add("transaction", reason, level=logging.WARNING)

    def _held(self, draft: Draft, way: Way, ids: array[int]) -> list[Held]:
        """Hold those of some messages that are live and free, and return them. Raises `HeldByReaders` if
        readers have all that are live.
        """
        queue = self.find(way[0])
        found = [self._chosen(way, queue, some) for some in pieces(ids, FEW)]
        for held in found:
            if held.message_ids:
                draft.put(held)
            else:
                self.removing.let_go(held.chosen)
        if not any(held.message_ids for held in found):
            for held in found:
                self.removing.refuse_held(held.chosen)
        return [held for held in found if held.message_ids]

    def _chosen(self, way: Way, queue: StoreQueue, ids: array[int]) -> Held:
        wanted = [MessageId(one) for one in ids]
        chosen = self.removing.choose(queue.content, chosen_runs(queue, wanted))
        held = Held(*way, chosen, array("q", _ids(chosen)))
        if held.message_ids:
            self.deliveries.keep_aside(chosen)
        return held

    # ---- filling them ----

    def drafts(self) -> Sequence[Draft]:
        return list(self._drafts.values())

    def draft(self, name: str) -> Draft | None:
        return self._drafts.get(name)

    async def begin(self, name: str, uid: int = -1, gid: int = -1) -> None:
        """Begin a draft. Raises `NameTaken`. `uid`, `gid`: its maker; -1: the mount's owner."""
        self.parts.store.refuse_failed()
        if name in self._drafts:
            raise NameTaken(f"there is a transaction {name}")
        begun_ms = self.core.clock.now_ms()
        make = partial(DraftFolder.make, self.place(), name, begun_ms, (uid, gid), sync=self.sync)
        with failing(f"begin the transaction {name}", self.place()):
            folder = await unbroken(lambda: offload(make))
        self._drafts[name] = Draft(folder)

    async def hold(
        self, name: str, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath | None
    ) -> int:
        """Raises `HeldByReaders`, `HeldByTransaction`, `NameTaken`, `NoSuchName`."""
        self.parts.store.refuse_failed()
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            queue = self.find(source)
            draft.refuse_shown(source, target or source, message_ids)
            held = self._held(draft, (source, target), array("q", message_ids))
            if not held:
                refuse_held(queue.content, message_ids)
                return 0
            ids = array("q", (one for few in held for one in few.message_ids))
            try:
                await self._note(draft, (source, target), ids)
            except BaseException:
                await unbroken(lambda: self._free(draft, held))
                raise
            await unbroken(self.parts.store.show)
        return len(ids)

    async def give_back(self, name: str, place: QueuePath, message_ids: Sequence[MessageId]) -> int:
        draft, wanted = self._named(name), set(message_ids)
        async with draft.turn:
            self._named(name, draft)
            there = draft.places.get(place, {})
            some = dict.fromkeys(there[one] for one in message_ids if one in there)
            ended = sum(1 for one in message_ids if one in there)
            for held in some:
                going = array("q", (one for one in held.message_ids if one in wanted))
                await self._note(draft, held.way, going, ended=True)
                await unbroken(partial(self._free_some, draft, held, wanted))
        return ended

    async def _free_some(self, draft: Draft, held: Held, wanted: set[MessageId]) -> None:
        rest = array("q", (one for one in held.message_ids if one not in wanted))
        await self._free(draft, [held], lambda: self._held(draft, held.way, rest))

    async def _note(self, draft: Draft, way: Way, ids: array[int], *, ended: bool = False) -> None:
        with failing(f"note what the transaction {draft.name} holds", draft.folder.path):
            note = partial(draft.folder.note, way, ids, ended=ended)
            await unbroken(lambda: offload(note))

    async def _free(
        self, draft: Draft, held: Iterable[Held], before_others: Callable[[], object] = lambda: None
    ) -> None:
        """Return the held messages to their queues."""
        for few in held:
            draft.drop(few)
            self.deliveries.show_again(few.chosen)
        before_others()
        await self.parts.store.show()
        for few in held:
            await self.leaving.stayed(few.chosen)

    # ---- ending them ----

    async def commit(self, name: str, sends: Sequence[Send], patience: Patience) -> None:
        await self._end(name, sends, patience, Change.commit, prepares=False)

    async def prepare(self, name: str, xid: str, sends: Sequence[Send], patience: Patience) -> None:
        """Raises `NameTaken`, and `WrongCall` for what is no id of XA."""
        self.parts.store.refuse_prepared()
        found = xid_of(xid.replace("%2F", "/"))
        if found is None:
            raise WrongCall(
                f"{xid}: no XA id: FORMAT.GLOBAL.BRANCH, a number of 32 bits but -1, and base64url without "
                "padding of 1 to 64 and of 0 to 64 bytes; or base64 of branch qualifier, global id and four "
                "bytes of the format id, as .journalfs/transactions lists prepared ones"
            )
        if any(one.xid == found or xid in one.names for one in prepared_transactions(self.core)):
            raise NameTaken(f"there is a prepared transaction {xid}; FORMAT.GLOBAL.BRANCH names another")
        extra = encode_xid(found)
        await self._end(name, sends, patience, lambda change: change.prepare(extra), prepares=True)

    async def _end(
        self,
        name: str,
        sends: Sequence[Send],
        patience: Patience,
        end: Callable[[Change], Position],
        *,
        prepares: bool,
    ) -> None:
        self.parts.store.refuse_failed()
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            draft.refuse_gone()
            if prepares:
                self._refuse_not_due(draft)
            leaves = draft.leaves()
            position = await self._staged(draft, leaves, sends, patience, end, prepares=prepares)
            with self.parts.journals.past_commit:
                await unbroken(lambda: self._ended(draft, leaves, position, prepares=prepares))

    @staticmethod
    def _refuse_not_due(draft: Draft) -> None:
        """A broker that takes one up finds no message that is not due, and does not start."""
        for held in draft.held:
            later = next(_not_due(held.chosen), None)
            if later is not None:
                where = "::".join(held.source)
                raise WrongCall(f"{draft.name}: {where}: {later} is not due, and cannot be prepared")

    async def _staged(
        self,
        draft: Draft,
        leaves: Sequence[Leaves],
        sends: Sequence[Send],
        patience: Patience,
        end: Callable[[Change], Position],
        *,
        prepares: bool,
    ) -> Position:
        by_address: dict[str, list[Send]] = {}
        for send in sends:
            self._require(send)
            by_address.setdefault(send.address, []).append(send)
        moves: dict[QueuePath | None, bool] = {}
        """The queues that held messages go to, and whether these are full, so that they begin to page."""
        for one in leaves:
            if one.target is not None:
                action = self.admission.decide_move(one.chosen.content.model.address, one.target[0])
                moves[one.target] = moves.get(one.target, False) or action is Action.PAGE
        async with AsyncExitStack() as stack:
            taken = {
                address: stack.enter_context(await self.admission.enter(address, patience))
                for address in sorted(by_address)
            }
            targets = {*by_address, *(queue[0] for queue in moves if queue is not None)}
            await stack.enter_async_context(self.parts.arrivals.bringing(*sorted(targets)))
            await self.parts.journals.make_room()
            async with self.parts.changes.one(is_decided=not prepares) as change:
                if self.outlive or prepares:
                    self.committed.stage_in(change.tx, draft.folder.transaction)
                    change.undo.append(lambda: self.committed.undo(draft.folder.transaction))
                staged: list[tuple[Send, Sent]] = []
                for address, admitted in taken.items():
                    for send in by_address[address]:
                        staged += await self._send(change, send, admitted)
                for one in leaves:
                    await self._leave(change, one, full=moves.get(one.target))
                await change.written()
                position = end(change) if change.begun else self.parts.journals.messages.position
            for send, sent in staged:
                self.sending.weighed(sent, position)
                shown = "::".join(filter(None, (send.address, send.queue)))
                self.sending.tell_duplicates(shown, send.address, sent)
        return position

    def _require(self, send: Send) -> None:
        """Raises `NoSuchName`."""
        if send.queue is None:
            address_named(self.core.bindings, send.address)
        else:
            queue_named(self.core.bindings, send.address, send.queue)

    async def _send(self, change: Change, send: Send, admitted: Admitted) -> Iterable[tuple[Send, Sent]]:
        if admitted.action is Action.DROP and not self.sending.has_besides(send.address, send.queue):
            self.admission.drop(send.address, await count(messages_in(send.files)))
            return ()
        sinks = self.sending.sinks(send.address, send.queue, admitted)
        sent = await self.sending.stage_in(change, send.address, send.queue, messages_in(send.files), sinks)
        for of in sinks.drops:
            self.admission.drop(of, sent.messages)
        return ((send, sent),)

    async def _leave(self, change: Change, one: Leaves, *, full: bool | None) -> None:
        if one.target is not None:
            kind = Copies if change.is_decided else Separate
            await self.leaving.move_in(change, one.chosen, self.find(one.target), kind, full=bool(full))
            return
        if change.is_decided:
            one.left = await self.leaving.noting.leaving(one.chosen)
        await self.leaving.take_in(change, one.chosen)

    async def _ended(
        self, draft: Draft, leaves: Iterable[Leaves], position: Position, *, prepares: bool
    ) -> None:
        """End a draft whose transaction is in the journal: drop its claims and its folder."""
        await self.parts.store.settled(position)
        for held in draft.held:
            self.deliveries.forget(held.chosen)
        if prepares:
            # The record waits with the rest of the transaction.
            self.committed.undo(draft.folder.transaction)
        del self._drafts[draft.name]
        await self._discard(draft)
        for one in leaves:
            self.removing.leave_places(one.chosen)
            target = None if one.target is None else self.core.bindings.queue_named(one.target[1])
            if target is not None:
                self.admission.moved(target.address)
                self.parts.kinds.forget((target.queue_id,))
            one.left()
            if not prepares:
                await self.leaving.clear(one.chosen)
        self.admission.look_again()

    async def roll_back(self, name: str) -> None:
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            await unbroken(lambda: self._rolled_back(draft))

    async def _rolled_back(self, draft: Draft) -> None:
        with failing(f"roll back the transaction {draft.name}", draft.folder.path):
            ended = await offload(draft.folder.end)
        del self._drafts[draft.name]
        await self._free(draft, list(draft.held))
        await self._remove(ended)

    async def _discard(self, draft: Draft) -> None:
        """That it cannot be removed takes nothing from what was done: the journal says that it was."""
        try:
            ended = await offload(draft.folder.end)
            self.committed.forget([draft.folder.transaction])
        except (OSError, JournalfsError) as error:
            reason = (
                f"{draft.name}: it has ended, and its folder goes when the store is opened again: {error}"
            )
            self.core.events.add("transaction", reason)
        else:
            await self._remove(ended)

    async def _remove(self, ended: Path) -> None:
        try:
            await offload(lambda: door.remove_tree(ended))
        except OSError as error:
            self.core.events.add("transaction", f"{ended} goes when the store is opened again: {error}")

    def _named(self, name: str, draft: Draft | None = None) -> Draft:
        """Raises `NoSuchName` where it is not there, or is not `draft` any more."""
        found = self._drafts.get(name)
        if found is None or draft not in {None, found}:
            raise NoSuchName(f"{name}: there is no such transaction")
        return found


def _ids(chosen: Chosen) -> Iterator[int]:
    yield from chosen.messages()
    for one in chosen.paged:
        scan = chosen.content.page_scan(one.number)
        yield from (scan.entry(index).message_id for index in one.claim.ids)


def _not_due(chosen: Chosen) -> Iterator[int]:
    content = chosen.content
    ids = array("q", chosen.messages())
    times = places(content.state, content.slot, ids, live=False).scheduled_ms
    yield from (one for one, due_ms in zip(ids, times, strict=True) if due_ms > content.now_ms)
    for of in chosen.paged:
        scan, indexes = content.page_scan(of.number), array("I", of.claim.ids)
        times = page_schedules(scan, indexes, now_ms=content.now_ms)
        yield from (scan.entry(one).message_id for one in compress(indexes, times))
