"""Copies of messages for another queue, where a move cannot use the present records."""

from __future__ import annotations

from array import array
from typing import ClassVar, Final

from journalfs.change.address_rules import AS_STATED
from journalfs.change.change import Change, pieces
from journalfs.change.paging import InPages
from journalfs.change.routing import Routed
from journalfs.change.store_parts import StoreParts
from journalfs.engine.message_batch import NOTES_KEPT, NOTES_MADE, NOTES_TAKEN, CopyBatch
from journalfs.engine.state_batch import NOWHERE, Places, message_ids, places
from journalfs.format import core_message
from journalfs.ids import MessageId, QueueId
from journalfs.limits import PIECE_RECORDS, ROUTED_PIECE_MESSAGES
from journalfs.live.content import QueueContent
from journalfs.live.runs import JournalRun, Run
from journalfs.live.stored_runs import stored_messages
from journalfs.message.outgoing import Outgoing, known_routing_type

TOGETHER_MAX: Final = PIECE_RECORDS // 2
"""Messages that are copied in one turn: each is a record and a reference."""


class Copies:
    """The messages that a move copies: their records, with new ids and addresses. A copy for another address
    gets the broker's note of its origin, and expires by the settings of that address. Bodies in files are
    copied from file to file.
    """

    notes: ClassVar[int] = NOTES_MADE
    """What happens to the notes of origin."""

    separate: ClassVar[bool] = False
    """True if no present record may be put into the target queue."""

    def __init__(self, parts: StoreParts, change: Change, address: str, queue: QueueId) -> None:
        self._publishing = parts.publishing
        self._rules = parts.rules
        self._change = change
        self.address = address
        self._queue = queue

    async def numbered(
        self, source: QueueContent, run: Run, pages_of: str | None = None
    ) -> list[tuple[MessageId, Routed]]:
        """Copies of a few messages, with the schedule that they have in their queue; bodies of large ones are
        there. `pages_of`: for pages of that address. Deliveries that were tried from there do not count.
        Raises `Damaged` for one that is not whole.
        """
        due_ms = _due(source, run)
        found: list[tuple[MessageId, Outgoing]] = []
        for message_id, stored in stored_messages(source, run):
            message = self._noted(message_id, stored, source)
            self._publishing.kinds.refuse_unloadable((self._queue,), message)
            message.queue_schedule_ms = due_ms.get(message_id)
            found.append((self._publishing.new_id(), message.kept().in_journal(source.now_ms)))
        await self._publishing.write_bodies(self._change, self.address, found)
        return [(one_id, Routed(message, (self._queue,), pages_of)) for one_id, message in found]

    def _noted(self, message_id: MessageId, message: Outgoing, source: QueueContent) -> Outgoing:
        if source.model.address == self.address:
            return message
        notes = core_message.origin(message_id, source.name, message.sent_to or source.model.address)
        (ruled,) = self._rules.expiring(self.address, [message.with_properties(notes)])
        return ruled

    def keeps_records(self, source: QueueContent) -> bool:
        """Whether messages may be put into the queue as the records that they are."""
        return source.model.address == self.address

    def _is_noted(self, source: QueueContent) -> bool:
        """Whether all that changes of a message is what is noted on it."""
        return not self.keeps_records(source) and self._rules.expiry(self.address) == AS_STATED

    async def add_journal(self, source: QueueContent, ids: array[int]) -> None:
        """Stage copies of messages of the journal, in their order: of most of them many in one go, and of the
        rest (large and AMQP ones, those that are not due) a few.
        """
        at, window = 0, TOGETHER_MAX
        while at < len(ids):
            some = ids[at : at + window]
            together, alike = self._alike(source, some)
            if together is not None and self._publishing.stage_copied_in(together, alike):
                await self._change.after(2 * alike)
            else:
                for few in pieces(some[:alike], ROUTED_PIECE_MESSAGES):
                    await self.add(source, run_of(source, few))
            at += alike
            window = min(2 * window, TOGETHER_MAX) if alike == window else ROUTED_PIECE_MESSAGES

    def _alike(self, source: QueueContent, ids: array[int]) -> tuple[CopyBatch | None, int]:
        """How many of them, from the first one on, can be staged in one go, with what does that; or cannot.
        That is so until others go on.
        """
        run = run_of(source, ids)
        if not self._is_noted(source) or len(run) != len(ids):
            return None, len(ids)
        fields = self._publishing.copy_fields(
            self._change.tx, self.address, self._queue, source.name, notes=self.notes
        )
        batch = CopyBatch(fields, ids, *run.lines(source))
        possible, alike = batch.alike()
        return batch if possible else None, alike

    async def add(self, source: QueueContent, run: Run) -> None:
        """Stage copies of a few messages."""
        self._publishing.stage_in(self._change, self.address, await self.numbered(source, run))
        await self._change.after(2 * len(run))

    async def add_arriving(self, source: QueueContent, run: Run) -> None:
        """Stage the copies, and what leaves the target for them."""
        numbered = await self.numbered(source, run)
        self._publishing.stage_arriving_in(self._change, self.address, numbered)
        await self._change.after(len(numbered))

    async def add_to(self, pages: InPages, of: str, source: QueueContent, run: Run) -> None:
        """Stage the copies in pages of an address."""
        numbered = await self.numbered(source, run, of)
        await pages.add(numbered)
        await self._change.after(len(numbered))


class Restored(Copies):
    """Copies for the queue that the messages came from, as they were sent to its address: the notes of their
    removal are taken away, and the wishes of their senders hold again. As in a broker's retry, they expire by
    the address's settings alone, since their own expiration is lost.
    """

    notes: ClassVar[int] = NOTES_TAKEN

    def keeps_records(self, source: QueueContent) -> bool:
        return False

    def _noted(self, message_id: MessageId, message: Outgoing, source: QueueContent) -> Outgoing:
        return restored(message).expiring_at(self._rules.expiry(self.address).expiration_ms(0, source.now_ms))


class Separate(Copies):
    """Copies in a transaction that is prepared: a broker that takes it up looks for what it puts into queues
    among what it adds.
    """

    separate: ClassVar[bool] = True

    def keeps_records(self, source: QueueContent) -> bool:
        return False

    def _is_noted(self, source: QueueContent) -> bool:
        return source.model.address != self.address and super()._is_noted(source)


class BroughtBack(Separate):
    """Copies of messages that were removed: in the address that they were in as they were, with the one that
    they were sent to, and in another as a move would have brought them there.
    """

    def _noted(self, message_id: MessageId, message: Outgoing, source: QueueContent) -> Outgoing:
        message.keeps_address = source.model.address == self.address
        return super()._noted(message_id, message, source)


class Replayed(Copies):
    """Copies that are sent again, to the same address or another one. Nothing is noted on them, and as in a
    broker's replay they are due at their own times. They are not checked for duplicates, since the caller
    wants them again.
    """

    notes: ClassVar[int] = NOTES_KEPT

    def keeps_records(self, source: QueueContent) -> bool:
        return False

    def _noted(self, message_id: MessageId, message: Outgoing, source: QueueContent) -> Outgoing:
        (ruled,) = self._rules.expiring(self.address, [message])
        return ruled


def restored(message: Outgoing) -> Outgoing:
    """Without what was noted on it. It may say by its destination too what it wants."""
    wanted = known_routing_type(message.integer(core_message.ORIGINAL_ROUTING_TYPE))
    found = message.wanting(None).without_properties(core_message.NOTES)
    return found if found.routing_type == wanted else found.wanting(wanted)


def run_of(content: QueueContent, ids: array[int]) -> JournalRun:
    """Return the run of those messages of the journal that are in a queue."""
    return JournalRun(array("I", (one for one in _places(content, ids).refs if one != NOWHERE)))


def _due(content: QueueContent, run: Run) -> dict[int, int]:
    """Return when the run's messages of the journal are due in their queue, by message; 0: at once."""
    ids, now_ms = message_ids(content.state, run.references), content.now_ms
    found = zip(ids, _places(content, ids).scheduled_ms, strict=True)
    return {message_id: due_ms if due_ms > now_ms else 0 for message_id, due_ms in found}


def _places(content: QueueContent, ids: array[int]) -> Places:
    return places(content.state, content.slot, ids, live=False)
