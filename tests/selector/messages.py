"""The messages in the journal of a real store: as the records hold them and as envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reference.journal import read_folder, replay
from tests.reference.messages import decode

MESSAGE_RECORD = 45


@dataclass(frozen=True)
class StoredMessage:
    payload: bytes
    envelope: Mapping[str, Any]


def stored_messages(store: Path) -> list[StoredMessage]:
    """The live messages in the order of the journal; large core messages are left out."""
    replayed = replay(file.scan.records for file in read_folder(store / "data" / "journal"))
    bodies = [record.body for record in replayed.records if record.user_type == MESSAGE_RECORD]
    return [StoredMessage(body, decode(body).envelope) for body in bodies]
