"""Publishes to pages: knows which addresses page, and writes their pages.

A single message becomes one record of a page. Several messages, and those with a duplicate id, form a
transaction: their records carry its number, and they count once the journal holds the page transaction
record, which is staged when the pages are durable.

An address pages until its queues have consumed all of its pages (`PageCleanup`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs.change.address_rules import AddressRules
from journalfs.change.change import Change
from journalfs.change.journals import Journals
from journalfs.change.publishing import Numbered, Publishing
from journalfs.change.routing import Alike, Routed
from journalfs.engine.message_batch import TextBatch
from journalfs.engine.page_file import PageStore
from journalfs.engine.pages import PageTexts
from journalfs.engine.waiting import FairLock, checkpoint, offload
from journalfs.errors import JournalfsError, failing
from journalfs.format import record_bodies
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.page_record import NO_TRANSACTION, page_record
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber, Position, RecordId, TxId
from journalfs.limits import PAGE_BYTES_STAGED_MAX, PAGE_FILE_BYTES_MAX, PAGE_PIECE_BYTES
from journalfs.live.core import Core
from journalfs.message.outgoing import Record
from journalfs.pages.address import PagedAddress
from journalfs.pages.writer import PageEnd, PageWriter, Pile

PAGE_BYTES_DEFAULT: Final = 10 * 1024 * 1024
"""`page-size-bytes` where nothing sets it."""

HOLDS_MAX: Final = 100
"""Publications to one address that are told apart while it is not known yet whether they count."""


@dataclass(slots=True, eq=False)
class Hold:
    """A claim on pages that a task writes to: while it stands, cleanup must not take them for consumed."""

    address: str
    """The one whose pages they are."""
    pages: set[PageNumber] = field(default_factory=set)
    position: Position | None = None
    """The journal position that ends the claim when it is durable; None while it is not known."""
    messages: int = 0
    """How many are written to them."""
    looks: int = 0
    """The number of looks at pages when `position` became known: an earlier look may lack these pages."""


class InPages:
    """Messages of a change that are sent to an address, written to its pages or to those of others. If it
    comes to nothing, nothing of them counts.
    """

    def __init__(self, paging: Paging, change: Change, address: str, pages_of: Iterable[str]) -> None:
        self._paging = paging
        self._change = change
        self._address = address
        self._writing: dict[str, Writing] = {}
        self._holds = {of: change.entered.enter_context(paging.held_by(of)) for of in pages_of}
        change.entered.push_async_exit(self._ended)
        self.pairs = 0
        change.pages.append(self)

    async def _to(self, of: str, messages: int) -> Writing:
        if of not in self._writing:
            self._writing[of] = await self._paging.writing(self._holds[of])
        self._holds[of].messages += messages
        return self._writing[of]

    async def add(self, numbered: Numbered) -> None:
        """Write those of some messages that go to pages. Raises JournalfsError."""
        for message_id, one in numbered:
            if one.pages_of is not None:
                writing = await self._to(one.pages_of, 1)
                large = message_id in self._change.bodies
                await writing.add(self._address, self._change.tx, message_id, one, large=large)
                self.pairs += len(one.queues)

    async def add_texts(self, alike: Alike) -> bool:
        """Write texts to pages as one batch. Returns False, with nothing written, if they must be written one
        by one.
        """
        batch = self._paging.begun_texts(alike, self._change.tx)
        if batch is None:
            return False
        writing = await self._to(alike.address, len(alike.texts))
        await writing.add_texts(batch)
        self.pairs += alike.pairs
        return True

    async def synced(self) -> None:
        for writing in self._writing.values():
            await writing.done(sync=self._change.tx != 0 or self._paging.sync_alone)

    async def _ended(self, kind: type[BaseException] | None, *_error: object) -> None:
        """Write what is staged of a failed change: with unwritten records its pages would never be idle."""
        for writing in self._writing.values() if kind is not None else ():
            with suppress(JournalfsError):
                await writing.done(sync=False)


@dataclass(slots=True)
class Writing:
    """Messages staged for pages by one task. It waits between pieces, so other tasks may write to the same
    pages.
    """

    paging: Paging
    writer: PageWriter
    hold: Hold
    page_bytes_max: int
    _piles: list[Pile] = field(default_factory=list)
    """Page files that may still be unsynced, and the current one."""

    async def add(self, address: str, tx: TxId, message_id: MessageId, one: Routed, *, large: bool) -> None:
        """A message that is sent to `address`. Raises JournalfsError."""
        before = await self._room()
        kind, payload = self.paging.record(address, message_id, one, large=large)
        record = page_record(tx or NO_TRANSACTION, kind, payload, one.queues)
        self._took(before, *self.writer.stage(record, self.page_bytes_max))

    async def add_texts(self, batch: TextBatch) -> None:
        while not batch.ended:
            before = await self._room()
            self._took(before, *self.writer.stage_texts(self.paging.texts, batch, self.page_bytes_max))

    async def _room(self) -> PageNumber:
        """Await this right before something is staged: little of it waits in memory then. The page that is
        appended to.
        """
        if self._piles and self.writer.staged_bytes >= PAGE_BYTES_STAGED_MAX:
            await self.writer.written(self._piles[-1], sync=False)
            await checkpoint()
        while len(self._piles) > 1 and self._piles[0].done:
            await self.writer.written(self._piles.pop(0), sync=False)
        return self.writer.current

    def _took(self, before: PageNumber, page: PageNumber, pile: Pile) -> None:
        self.hold.pages.add(page)
        if not self._piles or pile is not self._piles[-1]:
            self._piles.append(pile)
        if page != before:
            self.paging.check(self.hold.address, [before])

    async def done(self, *, sync: bool) -> None:
        """Return when all of it is written, and with `sync` durable."""
        for pile in self._piles:
            await self.writer.written(pile, sync=sync)


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
        rules: AddressRules,
        *,
        pages: PageStore,
        take_over: Callable[[], bool],
    ) -> None:
        """`take_over` brings what is known of journal and pages up to what is durable; False: not now."""
        self._core = core
        self._journals = journals
        self._publishing = publishing
        self._rules = rules
        self.pages = pages
        self.sync_alone = journals.messages.settings.sync_non_transactional
        """Whether a single message is synced."""
        self._take_over = take_over
        self._paging: set[str] = set()
        self._writers: dict[str, PageWriter] = {}
        self._begun: dict[str, Path] = {}
        """By address: folders that could not be made. Where something of one is left, a second one would be
        damage, so no other is tried."""
        self._changing: dict[str, FairLock] = {}
        """By address: a page is being begun, or a folder made."""
        self._holds: dict[str, list[Hold]] = {}
        self.texts = PageTexts(PAGE_PIECE_BYTES)
        self._taken_position = Position(0)
        """The journal position up to which the records about pages were applied, together with the pages of
        that moment.
        """
        self._looks = 0
        """How often."""
        self.to_check: dict[str, set[PageNumber]] = {}
        """Pages of which something was consumed, or that are not appended to any more, until they are cleaned
        up.
        """

    def check(self, address: str, pages: Iterable[PageNumber]) -> None:
        """Something of these pages was consumed, or they are not appended to any more."""
        if some := set(pages):
            self.to_check.setdefault(address, set()).update(some)

    def start(self) -> None:
        """Which addresses page, as a broker would find it."""
        self._paging = {address for address, paged in self._core.pages.items() if paged.pages_now()}

    def pages_now(self, address: str) -> bool:
        """Return True if messages for the address are published to pages now."""
        return address in self._paging

    @property
    def addresses(self) -> frozenset[str]:
        """Return the addresses that page."""
        return frozenset(self._paging)

    # ---- publishing ----

    def begun_texts(self, alike: Alike, tx: TxId) -> TextBatch | None:
        """Texts on their way to pages; None if they have to be looked at one by one: one may be too long for
        a record, or there is a history to be written.
        """
        if self._journals.messages.retention is not None:
            return None
        _, batch = self._publishing.begun_texts(alike, tx)
        if batch.too_long():
            batch.end()
            return None
        self._publishing.keep_batch(alike)
        return batch

    async def writing(self, hold: Hold) -> Writing:
        """To the pages of its address. Raises JournalfsError."""
        writer = await self._writer(hold.address)
        self._paging.add(hold.address)
        return Writing(self, writer, hold, self._page_bytes_max(hold.address))

    def record(self, address: str, message_id: MessageId, one: Routed, *, large: bool) -> Record:
        """Return a message's page record, and stage its history event: the history sees paged messages only
        as events in the journal.
        """
        now_ms, writer = self._core.clock.now_ms(), self._journals.messages
        held = one.message.in_page(now_ms)
        encode = held.large_record if large else held.record
        kind, payload = encode(message_id, one.message.named(address), now_ms)
        if writer.retention is not None:
            writer.stage_event(RecordId(message_id), kind, payload)
            for queue in one.queues:
                reference = record_bodies.reference(queue)
                writer.stage_event(RecordId(message_id), MessageType.ADD_REFERENCE, reference)
        return kind, payload

    def takes_pages(self, address: str) -> bool:
        """Return True if an address that is over its limit writes to pages. An address whose new messages
        replace old ones starts no pages, since nothing in a page can be replaced. One that has pages goes on
        with them: a reader takes pages for newer than the journal.
        """
        queues = self._core.bindings.queues_of(address)
        return self.pages_now(address) or not self._publishing.kinds.special(
            tuple(queue.queue_id for queue in queues)
        )

    def _page_bytes_max(self, address: str) -> int:
        """`page-size-bytes` of an address."""
        found = self._rules.number(address, "page-size-bytes")
        wanted = PAGE_BYTES_DEFAULT if found < 0 else found
        return min(wanted, PAGE_FILE_BYTES_MAX, self.pages.page_bytes_max)

    # ---- pages that are being written ----

    @contextmanager
    def held_by(self, address: str) -> Iterator[Hold]:
        """Pages that are written to within this, for what is staged in the journal by the end of it."""
        hold = self._hold(address)
        try:
            yield hold
        except BaseException:
            self._holds[address].remove(hold)
            self.check(address, hold.pages)
            raise
        hold.position, hold.looks = self._journals.messages.position, self._looks

    def _hold(self, address: str) -> Hold:
        hold, holds = Hold(address), self._holds.setdefault(address, [])
        if len(holds) >= HOLDS_MAX:
            _merge(holds)
        holds.append(hold)
        return hold

    def current(self) -> bool:
        """Apply the durable records about pages. Returns False if that is not possible now. Decisions made
        after a True, before the next wait, rest on the current state.
        """
        reached = self._journals.messages.committer.reached_position
        if not self._take_over():
            return False
        self._taken_position = Position(reached)
        self._looks += 1
        return True

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

    def messages_unknown(self, address: str, entering: int) -> int:
        """How many messages in its pages are not known yet to count or not, with one of each publication that
        is `entering`, as far as it has not written any.
        """
        unknown = self._unknown(address)
        writing = sum(1 for hold in unknown if hold.position is None and hold.messages)
        return sum(hold.messages for hold in unknown) + max(0, entering - writing)

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
        """Return True if no task writes to pages of the address, and each of its page transactions is known
        to count or not.
        """
        self.held(address)
        writer = self._writers.get(address)
        return not self._holds.get(address) and (writer is None or writer.idle)

    def current_page(self, address: str, paged: PagedAddress) -> PageNumber:
        """The page that is appended to, or would be."""
        writer = self._writers.get(address)
        return writer.current if writer is not None else max(paged.files)

    async def leave(self, address: str) -> PageNumber:
        """Stop paging: later messages go to the journal. Returns the number of the empty page that stays. The
        address must be idle.
        """
        self._paging.discard(address)
        async with self._changing.setdefault(address, FairLock()):
            writer = await self._opened(address)
            return await writer.begin_page()

    def no_page_begun(self, address: str) -> FairLock:
        """While this is held, nobody begins a page of the address, or writes to one who has not begun to."""
        return self._changing.setdefault(address, FairLock())

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
        async with self._changing.setdefault(address, FairLock()):
            return await self._opened(address)

    async def _opened(self, address: str) -> PageWriter:
        writer = self._writers.get(address)
        if writer is None:
            paged = self._core.paged(address)
            if paged is None:
                folder = self._begun.get(address)
                if folder is None:
                    folder = self.pages.new_folder(self._core.layout.paging_dir, self._journals.ids.draw)
                    self._begun[address] = folder
                await self._make_folder(folder, address)
                del self._begun[address]
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

    async def _make_folder(self, folder: Path, address: str) -> None:
        with failing("make a page folder", folder):
            await offload(lambda: self.pages.make_folder(folder, ADDRESS_FILE_NAME, address))

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
        # P-4: a new page must not get the number of one that was set aside: putting the old one back would
        # replace it.
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
