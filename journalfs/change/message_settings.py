"""Changes the facts that a queue keeps about a message, by an extended attribute."""

from __future__ import annotations

from journalfs.change.journals import Journals
from journalfs.errors import NoSuchName, SettingRefused
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, Position, QueueId, RecordId
from journalfs.live.content import QueueContent
from journalfs.records.files.writer import JournalWriter
from journalfs.views.message import HEADER_PREFIX
from journalfs.views.queues import StoreQueue
from journalfs.views.transactions import refuse_held

_LIMITS = {"deliveryCount": 2**31 - 1, "scheduledTime": 2**63 - 1}


def stage_message_update(
    journals: Journals, queue: StoreQueue, message_id: MessageId, name: str, value: bytes
) -> Position:
    """Stage the change of an extended attribute. Raises `SettingRefused`, `NoSuchName` and
    `HeldByTransaction`.
    """
    refuse_held(queue.content, (message_id,))
    run = queue.message_run(message_id)
    if run is None or not run.references:
        raise NoSuchName(f"{message_id}: no message in the journal of {queue.model.address}::{queue.name}")
    setting = name.removeprefix(HEADER_PREFIX)
    number, content = _number(setting, value), queue.content
    if setting == "scheduledTime":
        return stage_schedule(journals.messages, content, message_id, number)
    body = record_bodies.delivery_count(content.queue_id, number)
    return journals.messages.stage_update(RecordId(message_id), MessageType.DELIVERY_COUNT, body)


def _number(name: str, value: bytes) -> int:
    """Raises `SettingRefused`."""
    limit = _LIMITS.get(name)
    if limit is None:
        known = ", ".join(_LIMITS)
        raise SettingRefused(
            name, f"of a message only {known} can be changed; publish a changed copy instead"
        )
    text = value.decode("utf-8", "replace").strip()
    if not text.isdecimal() or int(text) > limit:
        raise SettingRefused(name, f"{text!r} is no whole number from 0 to {limit}")
    return int(text)


# When a message of the journal is due in one queue, in records of which a broker that loads them makes the
# same.
#
# A broker takes 0 for no record: it goes by what the message says itself then. And the time that it finds for
# one queue it gives to the message, which is not due before in any queue that it loads later, unless a record
# says so there; of a time that is over it takes away what the message says. A time that is over says that the
# message is due, and a broker takes it for that.


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
