"""Bodies of the message journal's small records, encoded (docs/format/messages.md, "Records").

Which record type a body belongs to stands at each function (`MessageType`).
"""

from __future__ import annotations

import struct
from typing import Final

from journalfs.format import primitives
from journalfs.format.xid import Xid
from journalfs.ids import PageNumber, QueueId

_QUEUE: Final = struct.Struct(">q")
_QUEUE_I32: Final = struct.Struct(">qi")
_QUEUE_I64: Final = struct.Struct(">qq")
_CURSOR: Final = struct.Struct(">qqi")
_COUNTER: Final = struct.Struct(">qqq")

PAGE_BEGINNING: Final = -1
"""Number of an acknowledged message that only says from which page on a queue still has to read."""


def reference(queue: QueueId) -> bytes:
    """ADD_REFERENCE: the message is in this queue."""
    return _QUEUE.pack(queue)


def acknowledgement(queue: QueueId) -> bytes:
    """ACKNOWLEDGE_REFERENCE: it is no more."""
    return _QUEUE.pack(queue)


def delivery_count(queue: QueueId, count: int) -> bytes:
    """DELIVERY_COUNT; the last one holds."""
    return _QUEUE_I32.pack(queue, count)


def scheduled_time(queue: QueueId, time_ms: int) -> bytes:
    """SCHEDULED_TIME; the last one holds."""
    return _QUEUE_I64.pack(queue, time_ms)


def duplicate_id(cache_address: str, duplicate: bytes) -> bytes:
    """DUPLICATE_ID. A string's id is its UTF-16 units, low byte first."""
    return primitives.simple_string(cache_address) + primitives.byte_array(duplicate)


def page_transaction(transaction: int, messages: int) -> bytes:
    """PAGE_TRANSACTION: as an added record how many pairs of message and queue it paged, as an update how
    many of them were consumed.
    """
    return _QUEUE_I32.pack(transaction, messages)


def heuristic_completion(xid: Xid, *, committed: bool) -> bytes:
    """HEURISTIC_COMPLETION: somebody ended a prepared transaction by hand."""
    return encode_xid(xid) + primitives.boolean(committed)


def cursor_acknowledgement(queue: QueueId, page: PageNumber, number: int) -> bytes:
    """ACKNOWLEDGE_CURSOR: message `number` of a page, from 0, is consumed in this queue."""
    return _CURSOR.pack(queue, page, number)


def page_counter(queue: QueueId, messages: int, message_bytes: int) -> bytes:
    """PAGE_COUNTER_VALUE; brokers count anew when they start."""
    return _COUNTER.pack(queue, messages, message_bytes)


def page_complete(queue: QueueId, page: PageNumber, messages: int) -> bytes:
    """PAGE_COMPLETE: all of a page is consumed in this queue; stands for its cursor acknowledgements."""
    return _CURSOR.pack(queue, page, messages)


def encode_xid(xid: Xid) -> bytes:
    """A transaction manager's id: the extra data of PREPARE. The branch qualifier comes first."""
    return b"".join(
        (
            primitives.i32(xid.format_id),
            primitives.byte_array(xid.branch_qualifier),
            primitives.byte_array(xid.global_transaction_id),
        )
    )
