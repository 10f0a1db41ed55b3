"""What a queue knows of a message, beside that it is there: how it is changed by an extended attribute."""

from __future__ import annotations

from journalfs.errors import NoSuchName, SettingRefused
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, RecordId
from journalfs.journal.record_log import Position
from journalfs.store.message import HEADER_PREFIX
from journalfs.store.prepared import refuse_held
from journalfs.store.queues import StoreQueue
from journalfs.store.runs import JournalRun
from journalfs.store.write.journals import Journals
from journalfs.store.write.schedules import stage_schedule

_LIMITS = {"deliveryCount": 2**31 - 1, "scheduledTime": 2**63 - 1}


def stage_message_update(
    journals: Journals, queue: StoreQueue, message_id: MessageId, name: str, value: bytes
) -> Position:
    """Stage the change of an extended attribute. Raises `SettingRefused`, `NoSuchName` and
    `HeldByTransaction`.
    """
    refuse_held(queue.content, (message_id,))
    if not isinstance(queue.message_run(message_id), JournalRun):
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
