"""Publishing to pages: which addresses page, and what is written when they do.

A message by itself is one record of a page. Several together, and those with a duplicate id, are a
transaction: their records carry its number, and they count once the journal holds its page transaction,
which is written when the pages are durable.

An address goes on paging until every queue consumed what lies in its pages (`PageCleanup`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from journalfs.change.journals import Journals
from journalfs.change.publishing import Published, Publishing, has_ids, taken
from journalfs.change.routing import Alike, Routed
from journalfs.config.in_force import SettingsInForce
from journalfs.engine.message_batch import TextBatch
from journalfs.engine.page_file import PageStore
from journalfs.engine.pages import PageTexts
from journalfs.engine.waiting import Turn, checkpoint, offload
from journalfs.errors import SystemFailure
from journalfs.format import record_bodies
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.page_record import NO_TRANSACTION, page_record
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber, RecordId, TxId
from journalfs.limits import PAGE_BYTES_STAGED_MAX, PAGE_FILE_BYTES_MAX, PAGE_PIECE_BYTES
from journalfs.live.core import Core
from journalfs.live.settings import settings_in_force
from journalfs.message.outgoing import Outgoing, Record
from journalfs.pages.address import PagedAddress
from journalfs.pages.writer import PageEnd, PageWriter, Pile
from journalfs.records.files.upkept import Position

PAGE_BYTES_DEFAULT: Final = 10 * 1024 * 1024
"""`page-size-bytes` where nothing sets it."""

HOLDS_MAX: Final = 100
"""Publications to one address that are told apart while it is not known yet whether they count."""


@dataclass(slots=True, eq=False)
class Hold:
    """Pages that somebody writes to: nobody may find them consumed."""

    address: str
    """The one whose pages they are."""
    pages: set[PageNumber] = field(default_factory=set)
    position: Position | None = None
    """Until the journal is durable up to there; None: it is not known yet."""
    messages: int = 0
    """How many are written to them."""
    looks: int = 0
    """How often somebody had looked at pages when the position was known: in what was seen they may miss."""


@dataclass(frozen=True, slots=True)
class BegunTexts:
    """Texts on their way to pages."""

    address: str
    batch: TextBatch
    tx: TxId
    """0: a message by itself."""
    messages: int
    pairs: int
    """Of messages and queues that get them."""
    settles: str | None
    """The note of what was flushed that they take the place of."""


class PageTransaction:
    """Messages that count together, once the journal's transaction does."""

    def __init__(self, paging: Paging, address: str, tx: TxId, holds: Mapping[str, Hold]) -> None:
        """`address` is where messages are sent to; `holds` are by the address whose pages they go to."""
        self._paging = paging
        self._address = address
        self._tx = tx
        self._holds = holds
        self._last: dict[str, Pile] = {}
        self.pairs = 0
        """Of a message and a queue."""

    async def add(self, numbered: Sequence[tuple[MessageId, Routed]], large: frozenset[MessageId]) -> None:
        """Write those of them that go to pages. Raises JournalfsError."""
        for of, some in by_pages(numbered).items():
            self._last[of] = await self._paging.write(
                self._address, self._tx, some, large, self._holds[of], sync=False
            )
            self.pairs += sum(len(one.queues) for _, one in some)

    async def add_texts(self, begun: BegunTexts) -> None:
        """Raises JournalfsError."""
        hold = self._holds[begun.address]
        self._last[begun.address] = await self._paging.write_texts(begun, hold, sync=False)
        self.pairs += begun.pairs

    async def synced(self) -> None:
        """All of them are durable then."""
        for address, last in self._last.items():
            await self._paging.synced(address, last)


def by_pages(numbered: Iterable[tuple[MessageId, Routed]]) -> dict[str, list[tuple[MessageId, Routed]]]:
    """Those that go to pages, by the address whose pages those are."""
    found: dict[str, list[tuple[MessageId, Routed]]] = {}
    for message_id, one in numbered:
        if one.pages_of is not None:
            found.setdefault(one.pages_of, []).append((message_id, one))
    return found


@dataclass(slots=True)
class _Writing:
    """What is staged for pages by one who waits in between, so that others may go on with the same pages."""

    writer: PageWriter
    hold: Hold
    left_behind: Callable[[PageNumber], None]
    """Told of each page that nothing is appended to any more."""
    _before: PageNumber = field(init=False)
    """What was appended to before."""
    _last: Pile | None = None
    _piles: dict[int, Pile] = field(default_factory=dict)

    async def room(self) -> None:
        """Await this right before something is staged: little of it waits in memory then."""
        if self._last is not None and self.writer.staged_bytes >= PAGE_BYTES_STAGED_MAX:
            await self.writer.written(self._last, sync=False)
            await checkpoint()
        self._before = self.writer.current

    def took(self, page: PageNumber, pile: Pile) -> None:
        """Something was staged."""
        self.hold.pages.add(page)
        self._last = self._piles[id(pile)] = pile
        if page != self._before:
            self.left_behind(self._before)

    async def done(self, *, sync: bool) -> Pile:
        """Return when all of it is written, and with `sync` durable; what was staged the last."""
        assert self._last is not None, "there is something to write"
        for pile in self._piles.values():
            await self.writer.written(pile, sync=sync)
        return self._last


def _merge(holds: list[Hold]) -> None:
    """Make one of those whose publications only have to become durable."""
    staged = [(hold, hold.position) for hold in holds if hold.position is not None]
    if staged:
        pages = {page for hold, _ in staged for page in hold.pages}
        messages = sum(hold.messages for hold, _ in staged)
        looks = max(hold.looks for hold, _ in staged)
        merged = Hold(staged[0][0].address, pages, max(position for _, position in staged), messages, looks)
        holds[:] = [merged, *(hold for hold in holds if hold.position is None)]


class Paging:
    """The pages that this process writes. Use from one event loop."""

    def __init__(
        self,
        core: Core,
        journals: Journals,
        publishing: Publishing,
        *,
        pages: PageStore,
        sync_alone: bool,
        take_over: Callable[[], bool],
    ) -> None:
        """`sync_alone` off: single messages are not synced. `take_over` brings
        what is known of journal and pages up to what is durable; False: not now.
        """
        self._core = core
        self._journals = journals
        self._publishing = publishing
        self.pages = pages
        self._sync_alone = sync_alone
        self._take_over = take_over
        self._paging: set[str] = set()
        self._writers: dict[str, PageWriter] = {}
        self._changing: dict[str, Turn] = {}
        """By address: a page is being begun, or a folder made."""
        self._holds: dict[str, list[Hold]] = {}
        self._page_bytes: dict[str, int] = {}
        self._settings: SettingsInForce | None = None
        self._texts = PageTexts(PAGE_PIECE_BYTES)
        self._taken_position = Position(0)
        """What the journal says up to there was taken over, together with the pages as they were then."""
        self._looks = 0
        """How often."""
        self.left_behind: Callable[[str, PageNumber], None] = lambda _address, _page: None
        """Told of each page that nothing is appended to any more."""

    def start(self) -> None:
        """Which addresses page, as a broker would find it."""
        self._paging = {address for address, paged in self._core.pages.items() if paged.pages_now()}

    def pages_now(self, address: str) -> bool:
        """Whether what is published to the address goes to pages."""
        return address in self._paging

    @property
    def addresses(self) -> frozenset[str]:
        """Those that page."""
        return frozenset(self._paging)

    # ---- publishing ----

    async def stage(self, address: str, routed: Sequence[Routed], settles: str | None) -> Published | None:
        """Write messages to pages, which are durable on return, and stage what belongs to them in the
        journal, together with those that go there. None: there is nothing to publish. `address` is where they
        are sent to; `settles` is the note of what was flushed that they take the place of.

        Raises JournalfsError with nothing that would count; so does being cancelled.
        """
        if has_ids(routed):
            # One after the other: whether it is the first is known when the pages are written.
            async with self._publishing.turn(address):
                return await self._stage_prepared(address, routed, settles)
        return await self._stage_prepared(address, routed, settles)

    async def _stage_prepared(
        self, address: str, routed: Sequence[Routed], settles: str | None
    ) -> Published | None:
        async with self._publishing.prepared(address, routed) as (numbered, large):
            if not numbered:
                return None
            return await self._stage(address, numbered, large, settles)

    async def _stage(
        self,
        address: str,
        numbered: Sequence[tuple[MessageId, Routed]],
        large: frozenset[MessageId],
        settles: str | None,
    ) -> Published:
        first = numbered[0][1]
        alone = len(numbered) == 1 and first.message.duplicate_id is None and settles is None
        if alone and first.pages_of is not None:
            with self._held(first.pages_of) as hold:
                await self.write(address, NO_TRANSACTION, numbered, large, hold, sync=self._sync_alone)
                position = self._staged_up_to(hold, self._journals.messages.position)
            return Published(position, False, 1)
        tx, paged = self._journals.new_tx(), by_pages(numbered)
        with self._all_held(paged) as holds:
            for of, some in paged.items():
                await self.write(address, tx, some, large, holds[of], sync=True)
            pairs = sum(len(one.queues) for some in paged.values() for _, one in some)

            def stage() -> None:
                if paged:
                    self.stage_page_transaction(tx, pairs)
                self._publishing.stage_numbered_in(tx, address, numbered, large, arriving=True)

            position = self._publishing.in_transaction(tx, address, numbered, stage, settles)
            for hold in holds.values():
                self._staged_up_to(hold, position)
        return Published(position, True, taken(one for _, one in numbered))

    @contextmanager
    def transaction(self, address: str, tx: TxId, pages_of: Iterable[str] = ()) -> Iterator[PageTransaction]:
        """Write messages that are sent to an address to its pages, or to those of others (`pages_of`), a few
        at a time, as part of a transaction of the journal that is committed within this. No duplicate is
        looked for. If it comes to nothing, nothing of them counts.
        """
        with self._all_held(pages_of or (address,)) as holds:
            yield PageTransaction(self, address, tx, holds)
            for hold in holds.values():
                self._staged_up_to(hold, self._journals.messages.position)

    async def synced(self, address: str, last: Pile) -> None:
        """Return when what was written up to there is durable. Raises JournalfsError."""
        writer = await self._writer(address)
        await writer.written(last, sync=True)

    async def stage_pages(self, tx: TxId, written: Iterable[PageTransaction]) -> None:
        """What a transaction wrote to pages is durable then, and the journal says that it counts with it: one
        record for all of it, since a transaction is counted down by its number. Raises JournalfsError.
        """
        pairs = 0
        for pages in written:
            await pages.synced()
            pairs += pages.pairs
        if pairs:
            self.stage_page_transaction(tx, pairs)

    def stage_page_transaction(self, tx: TxId, pairs: int) -> None:
        """Stage that messages with the number of a transaction count: so many in all queues together."""
        record = RecordId(self._journals.ids.draw())
        body = record_bodies.page_transaction(tx, pairs)
        self._journals.messages.stage_add_in(tx, record, MessageType.PAGE_TRANSACTION, body)

    def begun_texts(
        self, alike: Alike, *, settles: str | None = None, tx: TxId | None = None
    ) -> BegunTexts | None:
        """Texts on their way to pages; None if they have to be looked at one by one: one may be too long for
        a record, or there is a history to be written. `tx`: what they are a part of.
        """
        if self._journals.messages.retention is not None:
            return None
        if tx is None:
            tx = TxId(0) if len(alike.texts) == 1 and settles is None else self._journals.new_tx()
        _, batch = self._publishing.begun_texts(alike, tx)
        if batch.too_long():
            batch.end()
            return None
        self._publishing.keep_batch(alike)
        return BegunTexts(alike.address, batch, tx, len(alike.texts), alike.pairs, settles)

    async def stage_texts(self, begun: BegunTexts) -> Published:
        """`stage` for these. Raises JournalfsError with nothing that would count."""
        with self._held(begun.address) as hold:
            if not begun.tx:
                await self.write_texts(begun, hold, sync=self._sync_alone)
                position = self._staged_up_to(hold, self._journals.messages.position)
                return Published(position, False)
            await self.write_texts(begun, hold, sync=True)
            position = self._publishing.in_transaction(
                begun.tx,
                begun.address,
                (),
                lambda: self.stage_page_transaction(begun.tx, begun.pairs),
                begun.settles,
            )
            self._staged_up_to(hold, position)
        return Published(position, True)

    async def write_texts(self, begun: BegunTexts, hold: Hold, *, sync: bool) -> Pile:
        """`write` for these."""
        hold.messages += begun.messages
        writing = await self._writing(hold)
        page_bytes = self._page_bytes_max(begun.address)
        while not begun.batch.ended:
            await writing.room()
            writing.took(*writing.writer.stage_texts(self._texts, begun.batch, page_bytes))
        return await writing.done(sync=sync)

    async def write(
        self,
        address: str,
        tx_id: int,
        numbered: Sequence[tuple[MessageId, Routed]],
        large: frozenset[MessageId],
        hold: Hold,
        *,
        sync: bool,
    ) -> Pile:
        """Write messages that are sent to `address` to pages; returns what was written the last, which is to
        be synced for them to be durable unless this does. Cancelled, nothing counts. Raises JournalfsError.
        """
        hold.messages += len(numbered)
        writing = await self._writing(hold)
        page_bytes, now_ms = self._page_bytes_max(hold.address), self._core.clock.now_ms()
        for message_id, one in numbered:
            await writing.room()
            kind, payload = self._record(address, message_id, one.message, message_id in large, now_ms)
            writing.took(*writing.writer.stage(page_record(tx_id, kind, payload, one.queues), page_bytes))
            self._record_history(message_id, one, kind, payload)
        return await writing.done(sync=sync)

    async def _writing(self, hold: Hold) -> _Writing:
        address = hold.address
        writer = await self._writer(address)
        self._paging.add(address)
        return _Writing(writer, hold, lambda page: self.left_behind(address, page))

    @staticmethod
    def _record(address: str, message_id: MessageId, message: Outgoing, large: bool, now_ms: int) -> Record:
        held = message.in_page(now_ms)
        encode = held.large_record if large else held.record
        return encode(message_id, message.named(address), now_ms)

    def _record_history(self, message_id: MessageId, one: Routed, kind: int, payload: bytes) -> None:
        """The history knows of pages only by events in the journal."""
        writer = self._journals.messages
        if writer.retention is not None:
            writer.stage_event(RecordId(message_id), kind, payload)
            for queue in one.queues:
                reference = record_bodies.reference(queue)
                writer.stage_event(RecordId(message_id), MessageType.ADD_REFERENCE, reference)

    def _page_bytes_max(self, address: str) -> int:
        """`page-size-bytes` of an address."""
        settings = settings_in_force(self._core)
        if settings is not self._settings:
            self._settings = settings
            self._page_bytes.clear()
        found = self._page_bytes.get(address)
        if found is None:
            value = settings.value(address, "page-size-bytes")
            found = value if isinstance(value, int) else PAGE_BYTES_DEFAULT
            self._page_bytes[address] = found = min(found, PAGE_FILE_BYTES_MAX, self.pages.page_bytes_max)
        return found

    # ---- pages that are being written ----

    @contextmanager
    def _held(self, address: str) -> Iterator[Hold]:
        hold = self._hold(address)
        try:
            yield hold
        except BaseException:
            self._let_go(address, hold)
            raise

    @contextmanager
    def _all_held(self, addresses: Iterable[str]) -> Iterator[Mapping[str, Hold]]:
        with ExitStack() as stack:
            yield {address: stack.enter_context(self._held(address)) for address in addresses}

    def _hold(self, address: str) -> Hold:
        hold, holds = Hold(address), self._holds.setdefault(address, [])
        if len(holds) >= HOLDS_MAX:
            _merge(holds)
        holds.append(hold)
        return hold

    def _let_go(self, address: str, hold: Hold) -> None:
        self._holds[address].remove(hold)
        for page in hold.pages:
            self.left_behind(address, page)

    def current(self) -> bool:
        """Take over what is durable; False: not now. What is decided afterwards, before anything is waited
        for, is decided by what is true.
        """
        reached = self._journals.messages.committer.reached_position
        if not self._take_over():
            return False
        self._taken_position = Position(reached)
        self._looks += 1
        return True

    def _staged_up_to(self, hold: Hold, position: Position) -> Position:
        hold.position, hold.looks = position, self._looks
        return position

    def _unknown(self, address: str) -> Sequence[Hold]:
        """Publications of which it was not taken over yet whether they count."""
        left = [
            hold
            for hold in self._holds.get(address, ())
            if hold.position is None or hold.position > self._taken_position or hold.looks == self._looks
        ]
        if address in self._holds:
            self._holds[address] = left
        return left

    def held(self, address: str) -> frozenset[PageNumber]:
        """Pages with records that are not known yet to count or not."""
        return frozenset(page for hold in self._unknown(address) for page in hold.pages)

    def messages_unknown(self, address: str) -> int:
        """How many messages in its pages are not known yet to count or not."""
        return sum(hold.messages for hold in self._unknown(address))

    def page_count(self, address: str) -> int:
        """How many pages the address has, with those that were begun since the last look, and without those
        that nobody needs any more.
        """
        paged, writer = self._core.pages.get(address), self._writers.get(address)
        numbers = paged.numbers() if paged is not None else ()
        needed = len(numbers) - (len(paged.finished) if paged is not None else 0)
        if writer is None:
            return needed
        end, last = writer.end, numbers[-1] if numbers else 0
        return needed + max(0, end.number - last - (0 if end.records else 1))

    def undecided(self, address: str) -> frozenset[PageNumber]:
        """Pages with records that count only once something is durable that is not yet."""
        reached = self._journals.messages.committer.reached_position
        return frozenset(
            page
            for hold in self._holds.get(address, ())
            if hold.position is None or hold.position > reached
            for page in hold.pages
        )

    def is_idle(self, address: str) -> bool:
        """Nobody is writing to pages of the address, and what was written is known to count or not."""
        self.held(address)
        writer = self._writers.get(address)
        return not self._holds.get(address) and (writer is None or writer.idle)

    def current_page(self, address: str, paged: PagedAddress) -> PageNumber:
        """The page that is appended to, or would be."""
        writer = self._writers.get(address)
        return writer.current if writer is not None else max(paged.files)

    async def leave(self, address: str) -> PageNumber:
        """Stop paging: what is published from now on goes to the journal. Returns the number of the empty
        page that stays. Only while idle.
        """
        self._paging.discard(address)
        async with self._changing.setdefault(address, Turn()):
            writer = await self._opened(address)
            return await writer.begin_page()

    def no_page_begun(self, address: str) -> Turn:
        """While this is held, nobody begins a page of the address, or writes to one who has not begun to."""
        return self._changing.setdefault(address, Turn())

    def forget(self, address: str) -> None:
        """The address is deleted, or its pages were."""
        self._paging.discard(address)
        writer = self._writers.pop(address, None)
        if writer is not None:
            writer.close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    async def _writer(self, address: str) -> PageWriter:
        async with self._changing.setdefault(address, Turn()):
            return await self._opened(address)

    async def _opened(self, address: str) -> PageWriter:
        writer = self._writers.get(address)
        if writer is None:
            paged = self._core.paged(address)
            if paged is None:
                folder = self.pages.new_folder(self._core.layout.paging_dir, self._journals.ids.draw)
                try:
                    await offload(lambda: self.pages.make_folder(folder, ADDRESS_FILE_NAME, address))
                except OSError as error:
                    raise SystemFailure.from_os(error, folder, doing="make a page folder") from error
            else:
                folder = paged.path
            writer = self._writers[address] = PageWriter(
                folder,
                self._end_of(address, paged),
                pages=self.pages,
                own=self._core.paging.own,
                failed=self._journals.messages.committer.give_up,
            )
        return writer

    def _end_of(self, address: str, paged: PagedAddress | None) -> PageEnd:
        """Where to go on: in the last page, unless something is wrong with its end, it is of other queues, a
        queue is done with it, or there were later ones; then behind all of them.
        """
        cursors = self._core.cursors
        queues = {int(one.queue_id) for one in self._core.bindings.queues_of(address)}
        last = max(paged.files, default=PageNumber(0)) if paged is not None else PageNumber(0)
        # What the journal says of pages that are gone must not come to be said of new ones.
        places = (*cursors.places(), *cursors.delivering)
        told_of = max((page for queue, page in places if queue in queues), default=0)
        # Nor of one that was set aside and is put back later.
        told_of = max((told_of, *(paged.set_aside if paged is not None else ())))
        if paged is None or not last or told_of > last:
            return PageEnd(PageNumber(max(last, told_of) + 1), 0, 0)
        summary, size_bytes = paged.summary(last), paged.files[last].stamp.size_bytes
        # No page is begun needlessly: behind an empty one it would look as if that had lost something.
        is_complete = any(page == last and queue in queues for queue, page in cursors.complete)
        is_stray = bool(self._core.others_in(address, paged, last))
        # Nor may what comes get the place of something that is lost, and was consumed.
        is_short = cursors.reach_beyond(queues, last, summary.records)
        if is_complete or is_stray or is_short or summary.damage or paged.scan(last).end != size_bytes:
            return PageEnd(PageNumber(last + 1), 0, 0)
        return PageEnd(last, size_bytes, summary.records)
