"""Transactions that are begun, filled and ended as directories: drafts until they are committed or prepared.

A draft is a folder: files that it is to publish, and a list of messages that it holds, which nobody else gets
meanwhile. Nothing of it is in the journal before it ends, in one transaction that has a record of the draft's
own id: after a crash either the record is there, and the folder goes, or the folder is, and nothing happened.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.engine.waiting import Turn, offload, unbroken
from journalfs.errors import JournalfsError, MessagesGone, NameTaken, NoSuchName, SystemFailure, WrongCall
from journalfs.format.record_bodies import encode_xid
from journalfs.format.record_types import MessageType
from journalfs.format.xid import xid_of
from journalfs.ids import MessageId
from journalfs.journal.writer import Position
from journalfs.store.api import Patience, QueuePath, Send
from journalfs.store.core import Core
from journalfs.store.prepared import refuse_held
from journalfs.store.queues import StoreQueue
from journalfs.store.transactions import prepared_transactions
from journalfs.store.write.administering import address_named, queue_named
from journalfs.store.write.admission import Action, Admission, Admitted
from journalfs.store.write.arrivals import Arrivals
from journalfs.store.write.change import Change, Changes
from journalfs.store.write.copies import Copies, Separate
from journalfs.store.write.delivering import Deliveries
from journalfs.store.write.draft_folder import DraftFolder, Way, folders_in
from journalfs.store.write.journals import Journals
from journalfs.store.write.leaving import Leaving, chosen_runs
from journalfs.store.write.publication import Publication, Staged, messages_in
from journalfs.store.write.publishing import LongPublication
from journalfs.store.write.removals import Removal
from journalfs.store.write.removing import Chosen, Removing
from journalfs.store.write.sending import Sending
from journalfs.store.write.settled import Settled
from journalfs.store.write.ways import FindingWays

NAMED_MAX: Final = 5
"""Messages that an error names."""


@dataclass(slots=True)
class Held:
    """Messages of one queue that one call put into a draft."""

    source: QueuePath
    target: QueuePath | None
    chosen: Chosen
    message_ids: array[int]
    removal: Removal | None = None
    """So that they can be brought back once they are acknowledged."""

    @property
    def way(self) -> Way:
        return self.source, self.target


@dataclass(slots=True, eq=False)
class Draft:
    folder: DraftFolder
    held: list[Held] = field(default_factory=list)
    gone: dict[QueuePath, list[int]] = field(default_factory=dict)
    """What it held, and somebody else took while the store was not open here."""
    turn: Turn = field(default_factory=Turn)
    """One after the other fills it, or ends it."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def begun_ms(self) -> int:
        return self.folder.begun_ms

    @property
    def staged(self) -> Path:
        return self.folder.staged

    def status(self) -> Mapping[str, object]:
        return {
            "state": "draft",
            "begun": self.begun_ms,
            "holds": sum(len(held.message_ids) for held in self.held),
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

    def refuse_gone(self) -> None:
        if self.gone:
            some = (f"{'::'.join(path)}: {one}" for path, ids in self.gone.items() for one in ids)
            named = [one for one, _ in zip(some, range(NAMED_MAX), strict=False)]
            more = sum(map(len, self.gone.values())) - len(named)
            raise MessagesGone(self.name, ", ".join(named) + (f" and {more} more" if more else ""))


@dataclass(slots=True)
class Drafts:
    """Of one store. Use on the trio thread."""

    core: Core
    journals: Journals
    removing: Removing
    deliveries: Deliveries
    leaving: Leaving
    sending: Sending
    publication: Publication
    changes: Changes
    arrivals: Arrivals
    admission: Admission
    ways: FindingWays
    committed: Settled
    find: Callable[[QueuePath], StoreQueue]
    settle: Callable[[Position], Awaitable[None]]
    """Waits until a position is durable, and shown."""
    show: Callable[[], Awaitable[None]]
    """Has whoever looks see what changed."""
    tell_duplicates: Callable[[str, str, Staged], None]
    place: Callable[[], Path]
    refuse_prepared: Callable[[], None]
    """Raises where the store has nothing for a prepared transaction."""
    sync: bool
    outlive: bool
    """Whether drafts outlive the process, so that the journal has to tell which were committed."""
    _drafts: dict[str, Draft] = field(default_factory=dict)

    # ---- opening the store ----

    def recover(self, place: Path) -> None:
        """Find what has not ended, and hold what it holds. Raises OSError, and `ReadOnlyStore`."""
        self.committed.load()
        known, unread = set(self.committed.ids()) | set(self._prepared()), False
        for path in folders_in(place):
            try:
                folder = DraftFolder.read(path, self.core.clock.now_ms(), sync=self.sync)
            except (OSError, msgspec.MsgspecError) as error:
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
        there: array[int] = array("q")
        try:
            held = self._chosen(way, ids)
            there = held.message_ids
        except NoSuchName:
            pass
        else:
            draft.held.append(held)
        known = set(there)
        gone = [one for one in ids if one not in known]
        if gone:
            draft.gone.setdefault(way[0], []).extend(gone)
            reason = f"{draft.name}: {len(gone)} messages of {'::'.join(way[0])} that it held are not there"
            self.core.events.add("transaction", reason, level=logging.WARNING)

    def _chosen(self, way: Way, ids: array[int]) -> Held:
        """Those of some messages that are there, and nobody's; they are held now."""
        queue = self.find(way[0])
        wanted = [MessageId(one) for one in ids]
        chosen = self.removing.choose(queue.content, chosen_runs(queue, wanted))
        self.deliveries.keep_aside(chosen)
        return Held(*way, chosen, array("q", _ids(chosen)))

    # ---- filling them ----

    def drafts(self) -> Sequence[Draft]:
        return list(self._drafts.values())

    def draft(self, name: str) -> Draft | None:
        return self._drafts.get(name)

    async def begin(self, name: str) -> None:
        """Raises `NameTaken`."""
        self._writable()
        if name in self._drafts:
            raise NameTaken(f"there is a transaction {name}")
        make = partial(DraftFolder.make, self.place(), name, self.core.clock.now_ms(), sync=self.sync)
        with _failing(f"begin the transaction {name}", self.place()):
            folder = await unbroken(lambda: offload(make))
        self._drafts[name] = Draft(folder)

    async def hold(
        self, name: str, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath | None
    ) -> int:
        """Raises `HeldByReaders`, `HeldByTransaction`, `NoSuchName`."""
        self._writable()
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            queue = self.find(source)
            held = self._chosen((source, target), array("q", message_ids))
            if not held.message_ids:
                self.deliveries.forget(held.chosen)
                self.removing.refuse_held(held.chosen)
                refuse_held(queue.content, message_ids)
                return 0
            draft.held.append(held)
            try:
                await self._note(draft, held, held.message_ids)
            except BaseException:
                draft.held.remove(held)
                await unbroken(lambda: self._free(held))
                raise
            await unbroken(self.show)
        return len(held.message_ids)

    async def give_back(self, name: str, source: QueuePath, message_ids: Sequence[MessageId]) -> int:
        draft, wanted = self._named(name), set(message_ids)
        async with draft.turn:
            self._named(name, draft)
            some = [
                one for one in draft.held if one.source == source and not wanted.isdisjoint(one.message_ids)
            ]
            for held in some:
                going = array("q", (one for one in held.message_ids if one in wanted))
                await self._note(draft, held, going, ended=True)
                await unbroken(partial(self._free_some, draft, held, wanted))
        return sum(1 for held in some for one in held.message_ids if one in wanted)

    async def _free_some(self, draft: Draft, held: Held, wanted: set[MessageId]) -> None:
        rest = array("q", (one for one in held.message_ids if one not in wanted))
        draft.held.remove(held)
        await self._free(held, lambda: draft.held.append(self._chosen(held.way, rest)) if rest else None)

    async def _note(self, draft: Draft, held: Held, ids: array[int], *, ended: bool = False) -> None:
        with _failing(f"note what the transaction {draft.name} holds", draft.folder.path):
            note = partial(draft.folder.note, held.way, ids, ended=ended)
            await unbroken(lambda: offload(note))

    async def _free(self, held: Held, before_others: Callable[[], None] = lambda: None) -> None:
        """What was held is in its queue again."""
        self.deliveries.show_again(held.chosen)
        before_others()
        await self.show()
        await self.leaving.stayed(held.chosen)

    # ---- ending them ----

    async def commit(self, name: str, sends: Sequence[Send], patience: Patience) -> None:
        await self._end(name, sends, patience, Change.commit, prepares=False)

    async def prepare(self, name: str, xid: str, sends: Sequence[Send], patience: Patience) -> None:
        """Raises `NameTaken`, and `WrongCall` for what is no id of XA."""
        self.refuse_prepared()
        found = xid_of(xid.replace("%2F", "/"))
        if found is None:
            raise WrongCall(
                f"{xid}: no XA id: base64 of the branch qualifier, the global id and four bytes of the "
                "format id, one behind the other, as .journalfs/transactions lists prepared ones"
            )
        if any(one.name == xid for one in prepared_transactions(self.core)):
            raise NameTaken(f"there is a prepared transaction {xid}")
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
        self._writable()
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            draft.refuse_gone()
            if prepares:
                self._refuse_not_due(draft)
            with self._marked(draft):
                position = await self._staged(draft, sends, patience, end, prepares=prepares)
            await unbroken(lambda: self._ended(draft, position, prepares=prepares))

    @staticmethod
    def _refuse_not_due(draft: Draft) -> None:
        """A broker that takes one up finds no message that is not due, and does not start."""
        for held in draft.held:
            later = held.chosen.content.due_ms().keys() & set(held.message_ids)
            if later:
                where = "::".join(held.source)
                raise WrongCall(f"{draft.name}: {where}: {min(later)} is not due, and cannot be prepared")

    @contextmanager
    def _marked(self, draft: Draft) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.committed.undo(draft.folder.transaction)
            for held in draft.held:
                self.removing.leave_places(held.chosen)
            raise

    async def _staged(
        self,
        draft: Draft,
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
        moves: dict[QueuePath, bool] = {}
        """The queues that held messages go to, and whether these begin to page."""
        for held in draft.held:
            if held.target is not None:
                action = self.admission.decide_move(held.source[0], held.target[0])
                moves[held.target] = moves.get(held.target, False) or action is Action.PAGE
        async with AsyncExitStack() as stack:
            taken = {
                address: stack.enter_context(await self.admission.enter(address, patience))
                for address in sorted(by_address)
            }
            targets = {*by_address, *(address for address, _ in moves)}
            await stack.enter_async_context(self.arrivals.bringing(*sorted(targets)))
            await self.journals.make_room()
            kind = Separate if prepares else Copies
            copies = {
                target: await stack.enter_async_context(self.leaving.copies(kind, self.find(target)))
                for target in moves
            }
            publications = {
                address: await stack.enter_async_context(self.sending.publishing.long_publication(address))
                for address in taken
            }
            async with self.changes.one(is_decided=not prepares) as change:
                if self.outlive or prepares:
                    self.committed.stage_in(change.tx, draft.folder.transaction)
                staged: list[tuple[Send, Staged]] = []
                for address, admitted in taken.items():
                    for send in by_address[address]:
                        staged += await self._send(change, send, admitted, publications[address])
                for held in draft.held:
                    await self._leave(change, held, copies, moves)
                await change.written()
                position = end(change) if change.begun else self.journals.messages.position
            self._weigh(staged, position)
        return position

    def _require(self, send: Send) -> None:
        """Raises `NoSuchName`."""
        if send.queue is None:
            address_named(self.core.bindings, send.address)
        else:
            queue_named(self.core.bindings, send.address, send.queue)

    async def _send(
        self, change: Change, send: Send, admitted: Admitted, publication: LongPublication
    ) -> Iterable[tuple[Send, Staged]]:
        if admitted.action is Action.DROP and not self.ways.has_besides(send.address, send.queue):
            self.admission.drop(send.address, await self.publication.count(send.files))
            return ()
        ways = self.ways.find(send.address, send.queue, admitted)
        replaces = change.is_decided and self.sending.replaces(send.address)
        source = messages_in(send.files)
        way = await self.publication.stage_in(
            change, publication, send.queue, source, ways, replaces=replaces
        )
        for of in ways.drops:
            self.admission.drop(of, way.messages)
        return ((send, way.staged(None)),)

    async def _leave(
        self,
        change: Change,
        held: Held,
        copies: Mapping[QueuePath, Copies],
        full: Mapping[QueuePath, bool],
    ) -> None:
        if held.target is None:
            held.removal = (
                self.leaving.keeping.begin(held.chosen.content.model) if change.is_decided else None
            )
            if held.removal is not None:
                await held.removal.note_all(held.chosen)
            await self.leaving.take_in(change, held.chosen)
        else:
            target = self.find(held.target)
            await self.leaving.move_in(
                change, held.chosen, target, copies[held.target], full=full[held.target]
            )

    def _weigh(self, staged: Iterable[tuple[Send, Staged]], position: Position) -> None:
        for send, one in staged:
            for of, held in one.held.items():
                self.admission.staged(of, position, held)
            shown = "::".join(filter(None, (send.address, send.queue)))
            self.tell_duplicates(shown, send.address, one)

    async def _ended(self, draft: Draft, position: Position, *, prepares: bool) -> None:
        """It is in the journal: let go of what it held, and of itself."""
        await self.settle(position)
        for held in draft.held:
            self.deliveries.forget(held.chosen)
        if prepares:
            # The record waits with the rest of the transaction.
            self.committed.undo(draft.folder.transaction)
        del self._drafts[draft.name]
        await self._discard(draft)
        for held in draft.held:
            target = None if held.target is None else self.core.bindings.queue_named(held.target[1])
            if target is not None:
                self.admission.moved(target.address)
                self.sending.kinds.forget((target.queue_id,))
            if held.removal is not None:
                self.leaving.keeping.removals.add(held.removal)
            if not prepares:
                await self.leaving.clear(held.chosen)
        self.admission.look_again()

    async def roll_back(self, name: str) -> None:
        draft = self._named(name)
        async with draft.turn:
            self._named(name, draft)
            await unbroken(lambda: self._rolled_back(draft))

    async def _rolled_back(self, draft: Draft) -> None:
        with _failing(f"roll back the transaction {draft.name}", draft.folder.path):
            ended = await offload(draft.folder.end)
        del self._drafts[draft.name]
        for held in draft.held:
            await self._free(held)
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

    def _writable(self) -> None:
        self.journals.refuse_failed(self.core.root)


def _ids(chosen: Chosen) -> Iterator[int]:
    yield from chosen.messages()
    for one in chosen.paged:
        scan = chosen.content.page_scan(one.number)
        yield from (scan.entry(index).message_id for index in one.claim.ids)


@contextmanager
def _failing(doing: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing=doing) from error
