"""Cleans up consumed pages: completes them, deletes them, and ends paging when all are consumed.

When a queue has consumed a whole page, one record replaces all its positions in it. When all queues of the
address have, the page is deleted: first the bodies of its large messages, then the file, then the records
about it, so that a crash in between leaves nothing that would count again. When the last page is consumed, an
empty one replaces it and the address stops paging: later publications go to the journal.

A damaged page is not deleted: it gets the name that brokers give such a page, and is not read any more; the
journal's records about it stay. If bindings or pages cannot be read, nothing is done at all.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from journalfs.change.store_parts import StoreParts
from journalfs.damage import MISSING_FILE, name_of
from journalfs.engine.waiting import FairLock, Slices, checkpoint, offload
from journalfs.errors import JournalfsError, RecordRefused, failing
from journalfs.format import record_bodies
from journalfs.format.page_folder import INVALID_SUFFIX
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber, Position, QueueId, RecordId, TxId
from journalfs.live.content import QueueContent
from journalfs.live.missing import COUNT_IN_STEPS, known_missing
from journalfs.pages.address import PagedAddress, PageSummary
from journalfs.pages.cursors import PageOfQueue

INTERVAL_NS: Final = 60 * 1_000_000_000
"""From one note of the messages in pages to the next, while a store is at work."""

DELETED_TOGETHER: Final = 64
"""Pages of which the files are removed before the folder is listed again, or `DELETED_SHARE` of all."""
DELETED_SHARE: Final = 100
"""While more is consumed, of so many pages one at least is deleted at a time: the folder is listed each time,
which takes as long as it has pages.
"""


class PageCleanup:
    """Use from one event loop."""

    def __init__(self, parts: StoreParts) -> None:
        self.core = parts.core
        self.journals = parts.journals
        self.paging = parts.paging
        self.bodies = parts.bodies
        self._stale_too = False
        """Records about what is not there any more are to be looked for."""
        self._finished_before = 0
        """How many pages were finished and not deleted in the last look."""
        self._counted_ns = 0
        """When the messages in pages were noted the last time."""
        self.turn = FairLock()
        """While somebody has it no page is deleted."""

    def start(self) -> None:
        """Once journal and pages were read: brokers, and crashes, leave all kinds of things behind."""
        self.paging.start()
        for address in self.core.pages:
            self.check_address(address)
        self._stale_too = True

    async def consumed(self, address: str, pages: Iterable[int]) -> None:
        """Messages of these pages were acknowledged: clean up behind them, as far as it goes."""
        self.paging.check(address, map(PageNumber, pages))
        if self.due:
            await self._tidy_what_can_be()

    async def _tidy_what_can_be(self, *, at_once: bool = False) -> None:
        """Clean up as far as possible. A step that fails is tried again later, and does not
        undo the others.
        """
        try:
            await self.tidy(at_once=at_once)
        except JournalfsError as error:
            self.core.events.add("page-cleanup-postponed", str(error))

    async def look(self) -> None:
        """Clean up what waits for further pages: called now and then."""
        finished = sum(len(paged.finished) for paged in self.core.pages.values())
        at_rest, self._finished_before = finished == self._finished_before, finished
        if self.due or (finished and at_rest):
            await self._tidy_what_can_be(at_once=at_rest)
        now_ns = self.core.clock.monotonic_ns()
        if self.journals.failure is None and now_ns - self._counted_ns >= INTERVAL_NS:
            self._counted_ns = now_ns
            self._note_counts()

    async def queue_deleted(self, address: str, queue: QueueId) -> None:
        """Of a queue that is not bound any more nothing is kept about pages."""
        self.forget_queue(queue)
        self.check_address(address)
        await self._tidy_what_can_be()

    def close(self) -> None:
        """Before the journals are closed. Raises WriteFailed."""
        self.paging.close()
        if self.journals.failure is None:
            self.journals.messages.drain()
            self.paging.current()
            self._note_counts()

    # ---- how many messages each queue has in pages, in the journal for the next broker ----
    #
    # Brokers count anew when they start; until that is done they show what these records say. So they are
    # brought up to date as brokers do it: now and then, and when the store is closed.

    def _note_counts(self) -> None:
        """Stage a transaction with the changed counts. No caller waits for it. With a damaged journal nothing
        is noted: the counts would be wrong once a file is put back, and say that pages are missing.
        """
        damage = self.core.loader.damage()
        if self.core.bindings_damage or any(not one.queue or one.kind != MISSING_FILE for one in damage):
            return
        known: dict[int, list[tuple[int, int]]] = {}
        for record in self.core.loader.state.side(MessageType.PAGE_COUNTER_VALUE):
            known.setdefault(record.a, []).append((record.record_id, record.b))
        steps: dict[int, list[tuple[int, int]]] = {}
        for record in self.core.loader.state.side(MessageType.PAGE_COUNTER_INCREMENT):
            steps.setdefault(record.a, []).append((record.record_id, record.b))
        bodies: list[bytes] = []
        gone: list[int] = []
        # Without them nothing would tell any more that pages are missing, once there is no index.
        missing = known_missing(chain(self.core.loader.damage(), self.core.missing_in_pages))
        names = self.core.queue_names()
        for address, paged in self.core.pages.items():
            for queue in self._queues(address):
                messages = message_bytes = 0
                for page in paged.numbers():
                    # What is prepared or drafted may come to nothing, and brokers count it until then.
                    held = len(paged.stretch(page, queue, delivering=True))
                    live = paged.count(page, queue) + held
                    if live:
                        messages += live
                        size_bytes = paged.files[page].stamp.size_bytes
                        message_bytes += size_bytes * live // paged.summary(page).records
                messages += missing[names.get(queue, "")] if missing else 0
                records, added = known.get(int(queue), []), steps.get(int(queue), [])
                wanted = [messages - sum(step for _, step in added)]
                derived = self.core.derived
                is_read = not added or (derived is not None and derived.kind in COUNT_IN_STEPS)
                if is_read and [value for _, value in records] == (wanted if wanted != [0] else []):
                    continue
                # Steps, too: a broker adds them to the value, and HornetQ believes the sum.
                gone += [record_id for record_id, _ in (*records, *added)]
                if messages:
                    bodies.append(record_bodies.page_counter(queue, messages, message_bytes))
        self._replace(gone, MessageType.PAGE_COUNTER_VALUE, bodies)

    # ---- cleaning up ----

    @property
    def due(self) -> bool:
        return bool(self.paging.to_check) or self._stale_too

    def check_address(self, address: str) -> None:
        paged = self.core.paged(address)
        if paged is not None:
            self.paging.check(address, paged.files)

    async def tidy(self, *, at_once: bool = False) -> None:
        """Do what is due. Raises JournalfsError; the rest is done the next time. A few pages wait for the
        next ones to be deleted with, unless `at_once`.
        """
        async with self.turn:
            if not self.paging.current() or not self._readable():
                return
            if self._stale_too:
                self._delete_stale()
                self._stale_too = False
            finished = {address for address, paged in self.core.pages.items() if paged.finished}
            slices = Slices()
            for address in self.paging.to_check.keys() | finished:
                await slices.pause()
                pages = self.paging.to_check.pop(address, set())
                try:
                    await self._tidy(address, pages, at_once=at_once)
                except JournalfsError:
                    self.paging.check(address, pages)
                    raise

    def _readable(self) -> bool:
        """Return True if it is known what is consumed: a lost part of the journal may say that pages count,
        and that messages in them are not consumed.
        """
        core = self.core
        return not (
            core.bindings_damage or core.lost.queues or any(core.paging.problems()) or core.loader.damage()
        )

    async def _tidy(self, address: str, pages: set[PageNumber], *, at_once: bool) -> None:
        current_now = self.paging.current()
        paged = self.core.paged(address)
        if paged is None or not paged.files:
            return
        if not self._queues(address):
            paged.finished.clear()  # nothing is deleted before there are queues again, or the address goes
            return
        if not current_now:
            self.paging.check(address, pages)
            return
        current = self.paging.current_page(address, paged)
        there = pages & paged.files.keys()
        later = there & self.paging.held(address)
        if not self.paging.is_idle(address):
            later |= {page for page in there if page >= current}  # the next page may be being written
        position: Position | None = None
        for page in sorted(page for page in there - later if page < current):
            if self.core.pages.get(address) is not paged or page not in paged.files:
                continue  # the address went meanwhile
            position = self._complete(paged, page, self._queues_done(address, paged, page)) or position
            if self._is_finished(address, paged, page):
                paged.finished.add(page)
            # Nothing is written to these pages any more, so nobody makes what is known of them wrong.
            await checkpoint()
        if later:
            self.paging.check(address, later)
        if position is not None:
            await self.journals.messages.durable(position)
        finished, left = len(paged.finished), len(paged.files) - len(paged.finished)
        if finished and (at_once or left <= 1 or finished * DELETED_SHARE >= len(paged.files)):
            await self._delete(address, paged, sorted(paged.finished))
        if left <= 1:
            await self._leave_if_consumed(address)

    # ---- what is consumed ----

    def _queues(self, address: str) -> list[QueueId]:
        return [queue.queue_id for queue in self.core.bindings.queues_of(address)]

    def _queues_done(self, address: str, paged: PagedAddress, page: PageNumber) -> list[QueueId]:
        """Return the page's queues that have consumed it, and of which no record says so yet."""
        complete = paged.cursors.complete
        done = [
            queue
            for queue in sorted(paged.queues_in(page) & set(self._queues(address)))
            if (queue, page) not in complete and paged.is_consumed(page, queue)
        ]
        if done and (self._may_lack_some(address, paged, page) or self._never_counted(paged, page)):
            return []
        return done

    def _is_finished(self, address: str, paged: PagedAddress, page: PageNumber) -> bool:
        if self.core.others_in(address, paged, page):
            return False  # it is not known here what they have consumed
        queues = self._queues(address)
        if not all(paged.is_consumed(page, queue) for queue in queues):
            return False
        # What it lost may be had back from a copy, and only the journal says what of that was consumed.
        return not self._lost_some(address, paged, page) or all(
            paged.standing(page, queue).complete for queue in queues
        )

    def _may_lack_some(self, address: str, paged: PagedAddress, page: PageNumber) -> bool:
        """Whether there may be more in a page than can be read of it, which nobody has consumed then."""
        return bool(paged.summary(page).damage) or self._lost_some(address, paged, page)

    def _lost_some(self, address: str, paged: PagedAddress, page: PageNumber) -> bool:
        records = paged.summary(page).records
        return paged.is_emptied(page) or paged.cursors.reach_beyond(self._queues(address), page, records)

    def _never_counted(self, paged: PagedAddress, page: PageNumber) -> bool:
        """Whether all that a finished page has for queues that are bound is of transactions of which the
        journal says nothing: rolled back, or left by a crash; or what said more of them is lost.
        """
        bound = [queue for queue in paged.queues_in(page) if queue in self.core.bindings.queues]
        standings = [paged.standing(page, queue) for queue in bound]
        return bool(standings) and all(
            one.dead and not one.complete and not one.gone and not one.held for one in standings
        )

    def empties(self, content: QueueContent, page: PageNumber, leaving: array[int]) -> bool:
        """Whether a queue is done with a page for good once these leave it, which nobody else takes: nothing
        is appended to the page any more, and nothing of it will come to count yet.
        """
        paged, queue, address = content.paged, content.queue_id, content.model.address
        if paged is None or page not in paged.files or not paged.is_all(page, queue, leaving):
            return False
        # Only what is known from now on says that nothing was appended since.
        if not self.paging.current() or self.core.paged(address) is not paged or page not in paged.files:
            return False
        if page >= self.paging.current_page(address, paged) or page in self.paging.held(address):
            return False
        if self._may_lack_some(address, paged, page):
            return False
        return paged.is_all(page, queue, leaving) and paged.is_decided(page, queue)

    def _complete(self, paged: PagedAddress, page: PageNumber, queues: Iterable[QueueId]) -> Position | None:
        """Stage that these queues are done with a page."""
        position: Position | None = None
        for queue in queues:
            positions = self.core.cursors.positions((int(queue), int(page)))
            records = paged.summary(page).records
            body = record_bodies.page_complete(queue, page, records)
            position = self._replace(positions, MessageType.PAGE_COMPLETE, [body])
        return position

    def _records(self, places: Iterable[PageOfQueue]) -> Iterator[int]:
        """Records about pages."""
        return chain.from_iterable(map(self.core.cursors.records, places))

    def _counters(self, is_wanted: Callable[[QueueId], bool]) -> list[int]:
        """Records of what queues have in pages."""
        counters = self.core.loader.state.side(MessageType.PAGE_COUNTER_VALUE)
        return [one.record_id for one in counters if is_wanted(QueueId(one.a))]

    def _replace(self, records: Iterable[int], kind: MessageType, bodies: Iterable[bytes]) -> Position | None:
        """Stage one transaction: new records of a kind in the place of others that are live. None: there is
        nothing in it.
        """
        writer = self.journals.messages
        added = list(bodies)
        gone = [RecordId(one) for one in records if writer.is_live(one)]
        if not added and not gone:
            return None

        def stage(tx: TxId) -> None:
            for body in added:
                writer.stage_add_in(tx, RecordId(self.journals.ids.draw()), kind, body)
            for record in gone:
                # A prepared transaction may have a hand in it.
                with contextlib.suppress(RecordRefused):
                    writer.stage_delete_in(tx, record)

        return self.journals.in_transaction(stage)

    # ---- deleting ----

    async def _delete(self, address: str, paged: PagedAddress, pages: Sequence[PageNumber]) -> None:
        """Delete pages of which nothing is live: the files of some, then what the journal says of them. The
        folder is listed again for some together, since each listing is of all pages that are left.
        """
        together = max(DELETED_TOGETHER, len(paged.files) // DELETED_SHARE)
        for begin in range(0, len(pages), together):
            removed: dict[PageNumber, PageSummary] = {}
            try:
                for page in pages[begin : begin + together]:
                    if self.core.paged(address) is not paged:
                        return  # it went meanwhile, and there may be others of these numbers
                    await self._remove(paged, page, removed)
                    paged.finished.discard(page)
            finally:
                self._forget_pages(address, removed)

    async def _remove(
        self, paged: PagedAddress, page: PageNumber, removed: dict[PageNumber, PageSummary]
    ) -> None:
        """Remove a page's file and bodies, if it is there still and nothing hinders that."""
        if page not in paged.files:
            return
        summary, path = paged.summary(page), paged.files[page].path
        if summary.unreadable:
            return
        large = [MessageId(message_id) for _, message_id in paged.scan(page).large()]
        uncounted = self._never_counted(paged, page)
        instead = path.with_name(path.name + INVALID_SUFFIX) if summary.damage or uncounted else None
        try:
            await self._remove_file(path, large if instead is None else [], instead)
        finally:
            self.core.paging.own.changed.add(path.parent)
        if instead is None:
            removed[page] = summary
            return
        # What the journal says of it stays as long as it does: put back from a copy, it is what it was.
        name = name_of(path, self.core.root)
        reason = (
            "the journal knows of no transaction that its messages are of, as after a crash"
            if uncounted
            else "it is damaged, and all that can be read of it is consumed"
        )
        self.core.events.add("page-set-aside", f"{name}: {reason}; kept as {instead.name}")

    def _forget_pages(self, address: str, removed: Mapping[PageNumber, PageSummary]) -> None:
        """Stage deletes of what the journal says of pages that were removed."""
        self.paging.current()
        bound, paged = set(map(int, self._queues(address))), self.core.paged(address)
        for page, summary in removed.items():
            unbound = {queue for queue in summary.queues if queue not in self.core.bindings.queues}
            places = ((queue, int(page)) for queue in sorted(bound | unbound))
            self._replace(self._records(places), MessageType.PAGE_COMPLETE, [])
            if paged is not None:
                self._delete_transactions_of(paged, summary.tx_ids)

    async def _remove_file(self, path: Path, large: list[MessageId], instead: Path | None) -> None:
        def remove() -> None:
            self.bodies.remove(large)
            if instead is None:
                self.bodies.aside.keep(path)
            self.paging.pages.remove(path, instead=instead)

        with failing("delete a page", path):
            await offload(remove)

    def delete_transactions(self) -> None:
        """Stage deletes of page transactions that nothing is left of: all is consumed, or no page holds any
        of it.
        """
        some_lost = any(paged.lacks_some for paged in self.core.pages.values())
        held = {
            tx_id
            for paged in self.core.pages.values()
            for number in paged.numbers()
            for tx_id in paged.summary(number).tx_ids
        }
        transactions = self.core.cursors.transactions
        for tx_id, (record, left) in list(transactions.items()):
            if left <= 0 or not (some_lost or tx_id in held):
                self._delete_transaction(record)

    def _delete_transactions_of(self, paged: PagedAddress, tx_ids: Iterable[int]) -> None:
        """Delete the page transactions of a deleted page. Pages of other addresses may use the same ones:
        these stay.
        """
        transactions = self.core.cursors.transactions
        everywhere = (paged, *self.core.pages.values())
        for tx_id in tx_ids:
            record, left = transactions.get(tx_id, (0, 0))
            if record and (
                left <= 0 or not any(one.holds_transaction(tx_id) or one.lacks_some for one in everywhere)
            ):
                self._delete_transaction(record)

    def _delete_transaction(self, record: int) -> None:
        writer = self.journals.messages
        if writer.is_live(record):
            # A prepared transaction may consume some of it.
            with contextlib.suppress(RecordRefused):
                writer.stage_delete(RecordId(record))

    def _delete_stale(self) -> None:
        """Stage deletes of records about queues that are not bound and pages that are not there: a crash
        leaves them, and a broker warns of them. Not while pages are where they do not belong: the next time
        they may be back.
        """
        if self.core.has_strays():
            return
        bound = self.core.bindings.queues
        stale: list[PageOfQueue] = []
        for place in sorted(self.core.cursors.places()):
            queue = bound.get(QueueId(place[0]))
            paged = self.core.paged(queue.address) if queue is not None else None
            # Where there is no folder at all, it may be back the next time.
            page = PageNumber(place[1])
            # P-4: without the cursors of a page that was set aside, its consumed messages come again when it
            # is back.
            if queue is None or not (paged is None or page in paged.files or page in paged.set_aside):
                stale.append(place)
        records = chain(self._counters(lambda queue: queue not in bound), self._records(stale))
        self._replace(records, MessageType.PAGE_COMPLETE, [])
        self.delete_transactions()

    # ---- leaving ----

    async def _leave_if_consumed(self, address: str) -> None:
        if not self.paging.current():
            self.check_address(address)
            return
        paged = self.core.paged(address)
        if paged is None or not self.paging.pages_now(address) or not self.paging.is_idle(address):
            return
        current = self.paging.current_page(address, paged)
        if list(paged.files) != [current] or not self._is_finished(address, paged, current):
            return
        queues = self._queues(address)
        done = self._queues_done(address, paged, current)
        number = await self.paging.leave(address)
        position = self._complete(paged, current, done)
        marked = self.core.cursors.places()
        bookmarks = [
            record_bodies.cursor_acknowledgement(queue, number, record_bodies.PAGE_BEGINNING)
            for queue in queues
            if (queue, number) not in marked
        ]
        counters = self._counters(set(queues).__contains__)
        position = self._replace(counters, MessageType.ACKNOWLEDGE_CURSOR, bookmarks) or position
        if position is not None:
            await self.journals.messages.durable(position)
        if current != number:
            await self._delete(address, paged, [current])
        if self.core.layout.value_in_force("purge-page-folders"):
            await self._purge(address)

    async def _purge(self, address: str) -> None:
        """Remove the folder of an address that does not page any more. The journal's records about its pages
        go first, since the next folder counts from 1 again.
        """
        async with self.paging.no_page_begun(address):
            position: Position | None = None
            for queue in self._queues(address):
                position = self.forget_queue(queue) or position
            if position is not None:
                await self.journals.messages.durable(position)
            paged = self.core.paged(address)
            # P-4: the folder of a page that was set aside stays, and so does the page.
            if paged is not None and paged.set_aside:
                return  # what was set aside is kept
            if not self.paging.pages_now(address) and self.paging.is_idle(address):
                await self.forget_address(address)
                self.core.pages.pop(address, None)

    # ---- queues and addresses that go ----

    def forget_queue(self, queue: QueueId) -> Position | None:
        """Stage deletes of all that the journal says of a queue's pages. Raises JournalfsError."""
        places = sorted(place for place in self.core.cursors.places() if place[0] == queue)
        records = chain(self._records(places), self._counters(lambda one: one == queue))
        return self._replace(records, MessageType.PAGE_COMPLETE, [])

    async def forget_address(self, address: str) -> None:
        """Remove the page folder of an address without queues. Raises `SystemFailure`."""
        paged = self.core.paged(address)
        self.paging.forget(address)
        self.paging.to_check.pop(address, None)
        if paged is None:
            return
        scans = (paged.scan(number) for number in paged.numbers())
        large = [MessageId(message_id) for scan in scans for _, message_id in scan.large()]

        def remove() -> None:
            self.bodies.remove(large)
            for path in pages:
                self.bodies.aside.keep(path)
            self.paging.pages.remove_folder(paged.path)

        pages = {page.path for page in paged.files.values()}
        try:
            with failing("remove the page folder", paged.path):
                await offload(remove)
        finally:
            self.core.paging.own.changed.add(paged.path)
        self.paging.current()
