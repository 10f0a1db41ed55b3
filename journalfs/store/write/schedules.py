"""When a message of the journal is due in one queue, in records of which a broker that loads them makes the
same.

A broker takes 0 for no record: it goes by what the message says itself then. And the time that it finds for
one queue it gives to the message, which is not due before in any queue that it loads later, unless a record
says so there; of a time that is over it takes away what the message says. A time that is over says that the
message is due, and a broker takes it for that.
"""

from __future__ import annotations

from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, QueueId, RecordId
from journalfs.journal.record_log import Position
from journalfs.journal.writer import JournalWriter
from journalfs.store.content import QueueContent


def at_once_ms(now_ms: int) -> int:
    """A time that is over, and says that a message is due."""
    return max(1, now_ms)


def stage_schedule(
    writer: JournalWriter, content: QueueContent, message_id: MessageId, due_ms: int
) -> Position:
    """Stage when the message is due in a queue, and when it is in others of which perhaps no record says so.
    Raises JournalfsError.
    """
    state, now_ms = content.state, content.now_ms
    over_ms = at_once_ms(now_ms)
    for ref in state.message_refs(message_id):
        other = state.ref(ref)
        by_itself = other.own_scheduled_ms or (due_ms > now_ms and not other.scheduled_ms)
        if by_itself and other.queue_slot != content.slot:
            queue = QueueId(state.queue(other.queue_slot).queue_id)
            _stage(writer, message_id, queue, max(other.scheduled_ms, over_ms))
    return _stage(writer, message_id, content.queue_id, max(due_ms, over_ms))


def _stage(writer: JournalWriter, message_id: MessageId, queue: QueueId, due_ms: int) -> Position:
    body = record_bodies.scheduled_time(queue, due_ms)
    return writer.stage_update(RecordId(message_id), MessageType.SCHEDULED_TIME, body)
