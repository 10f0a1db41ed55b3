"""Messages that change queues: what is staged when they are moved as they are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from journalfs.errors import JournalfsError, WriteFailed
from journalfs.ids import MessageId, PageNumber, TxId
from journalfs.journal.writer import Position
from journalfs.store.outgoing import Outgoing
from journalfs.store.queues import StoreQueue
from journalfs.store.runs import PageRun, Run
from journalfs.store.stored_runs import stored_messages
from journalfs.store.write.journals import Journals
from journalfs.store.write.paging import Paging
from journalfs.store.write.publishing import Publishing, Routed
from journalfs.store.write.queue_kinds import QueueKinds
from journalfs.store.write.removing import Chosen, Removing


class Moving:
    def __init__(
        self,
        journals: Journals,
        publishing: Publishing,
        removing: Removing,
        kinds: QueueKinds,
        paging: Paging,
    ) -> None:
        self._kinds = kinds
        self._journals = journals
        self._publishing = publishing
        self._removing = removing
        self._paging = paging

    async def stage(self, source: StoreQueue, chosen: Chosen, target: StoreQueue) -> Position:
        """Messages in the journal stay the records that they are and change queues; those in pages, which are
        never rewritten, are copied, and so are those that the other queue has already, or that others have to
        leave for.
        """
        address, queue = target.model.address, target.content.queue_id
        if self._paging.pages_now(address) and not self._kinds.special((queue,)):
            return await self._stage_in_pages(source, chosen, target)
        as_they_are: frozenset[MessageId] = frozenset()
        if not self._kinds.special((queue,)):
            as_they_are = self._removing.take_places(chosen, target.content)
        again = [message_id for message_id in chosen.messages if message_id not in as_they_are]
        runs = [*runs_of(source, again), *paged_runs(chosen)]
        due_ms = source.content.due_ms()
        copies = [(MessageId(self._journals.ids.draw()), _copy(source, run, due_ms)) for run in runs]
        large = await self._publishing.write_bodies(address, copies)

        def stage(tx: TxId) -> None:
            left = iter(copies)
            for message_id in chosen.messages:
                if message_id in as_they_are:
                    self._removing.stage_reference_in(tx, message_id, queue, due_ms.get(message_id, 0))
                else:
                    self._publishing.stage_copies_in(tx, address, [next(left)], queue, large=large)
            self._publishing.stage_copies_in(tx, address, list(left), queue, large=large)
            self._removing.stage_in(tx, chosen)

        try:
            return self._removing.in_transaction(stage)
        except JournalfsError:
            await self._publishing.remove_bodies(large)
            raise

    async def _stage_in_pages(self, source: StoreQueue, chosen: Chosen, target: StoreQueue) -> Position:
        """An address that pages gets copies, behind all that it has."""
        address, queues = target.model.address, (target.content.queue_id,)
        runs, due_ms = [*runs_of(source, chosen.messages), *paged_runs(chosen)], source.content.due_ms()
        copies = [(MessageId(self._journals.ids.draw()), _copy(source, run, due_ms)) for run in runs]
        large = await self._publishing.write_bodies(address, copies)
        numbered = [(message_id, Routed(message, queues)) for message_id, message in copies]
        try:
            return await self._paging.stage_copies(
                address, numbered, large, lambda tx: self._removing.stage_in(tx, chosen)
            )
        except WriteFailed:
            raise  # nobody knows what is on the disk: it may name the bodies
        except JournalfsError:
            await self._publishing.remove_bodies(large)
            raise


def _copy(source: StoreQueue, run: Run, due_ms: Mapping[int, int]) -> Outgoing:
    """What a run of one message holds, with the schedule that it has in its queue. Deliveries that were tried
    from the queue that it leaves do not count.
    """
    ((message_id, message),) = stored_messages(source.content, run)
    message.queue_schedule_ms = due_ms.get(message_id)
    return message.kept()


def runs_of(queue: StoreQueue, message_ids: Iterable[MessageId]) -> list[Run]:
    """A run for each of the messages that is there."""
    found = (queue.message_run(message_id) for message_id in message_ids)
    return [run for run in found if run is not None]


def paged_runs(chosen: Chosen) -> Sequence[PageRun]:
    """A run for each of the chosen messages that lie in pages."""
    return [PageRun(PageNumber(one.page), array("I", [one.index])) for one in chosen.paged]
