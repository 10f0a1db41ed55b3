"""Records of page files, encoded (docs/format/pages.md, "Record")."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from journalfs.format.amqp_message import LARGE
from journalfs.format.record_types import MessageType
from journalfs.ids import QueueId

NO_TRANSACTION: Final = -1

_FRONT: Final = struct.Struct(">cIqb")
_LENGTH: Final = struct.Struct(">I")

_SMALL: Final = 0
_CORE_LARGE: Final = 1
_OTHER_LARGE: Final = 2

_BEFORE_CONTENT_BYTES: Final = 5
"""The opening byte and the length, which counts neither these nor the closing byte."""


def page_record(tx_id: int, user_type: int, payload: bytes, queues: Sequence[QueueId]) -> bytes:
    """A message for these queues, given as its record in the journal would hold it: `user_type` and body.

    `tx_id` is the page transaction, or `NO_TRANSACTION`.
    """
    if user_type == MessageType.LARGE_MESSAGE:
        kind, length = _CORE_LARGE, _LENGTH.pack(len(payload))
    else:
        kind, length = (_OTHER_LARGE if payload[0] == LARGE else _SMALL), b""
    count = len(queues)
    routed = struct.pack(f">i{count}q", count, *queues)
    content_bytes = _FRONT.size - _BEFORE_CONTENT_BYTES + len(length) + len(payload) + len(routed)
    return b"".join((_FRONT.pack(b"{", content_bytes, tx_id, kind), length, payload, routed, b"}"))
