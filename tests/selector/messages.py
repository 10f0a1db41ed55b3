"""The messages in the journal of a real store: as the records hold them and as envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reference.journal import read_folder, replay
from tests.reference.messages import AMQP_2, AMQP_3, decode
from tests.reference.primitives import Cursor, typed_properties

MESSAGE_RECORD = 45


@dataclass(frozen=True)
class StoredMessage:
    payload: bytes
    envelope: Mapping[str, Any]


def stored_messages(store: Path) -> list[StoredMessage]:
    """The live messages in the order of the journal; large core messages are left out."""
    replayed = replay(file.scan.records for file in read_folder(store / "data" / "journal"))
    bodies = [record.body for record in replayed.records if record.user_type == MESSAGE_RECORD]
    return [StoredMessage(body, decode(body).envelope | _extra(body)) for body in bodies]


def _extra(payload: bytes) -> dict[str, Any]:
    """What lines tell of the properties that the broker keeps beside an AMQP message."""
    cursor = Cursor(payload)
    if cursor.i8() not in (AMQP_2, AMQP_3):
        return {}
    cursor.take(8 + 8)
    cursor.nullable_simple_string()
    cursor.block()
    extra = typed_properties(Cursor(cursor.block()))
    if not extra.keys() - {"_AMQ_AD"}:
        return {}
    return {"extraProperties": {name: {"t": kind, "v": value} for name, (kind, value) in extra.items()}}
