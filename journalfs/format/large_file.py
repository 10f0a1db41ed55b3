"""Names inside the large-messages directory (docs/format/large-messages.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from journalfs.ids import MessageId


class LargeFileKind(Enum):
    DURABLE = "msg"
    NOT_DURABLE = "tmp"
    """Removed by the broker at every start."""
    SYNCING = "sync"
    """What arrived while a replica was still copying the body."""


@dataclass(frozen=True, slots=True)
class LargeFileName:
    message_id: MessageId
    kind: LargeFileKind


_NAME: Final = re.compile(r"([0-9]{1,19})\.(msg|tmp|sync)")


def parse_large_name(name: str) -> LargeFileName | None:
    """`142.msg` -> message 142, durable; None for any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return LargeFileName(MessageId(int(match.group(1))), LargeFileKind(match.group(2)))


def format_large_name(message_id: MessageId) -> str:
    """The file that holds a durable large message's body."""
    return f"{message_id}.msg"
