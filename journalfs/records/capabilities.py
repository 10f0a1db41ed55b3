"""What a store has something for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from journalfs.format.properties import Property


def _any(properties: tuple[Property, ...]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What it has nothing for is refused before anything is changed."""

    administers: bool = True
    """Addresses, queues and settings can be made, changed and removed."""
    prepares: bool = True
    """Transactions can be prepared, and decided by hand."""
    amqp: bool = True
    embeds: bool = True
    """Core messages that hold one of another protocol."""
    schedules: bool = True
    marks: bool = True
    """What a queue knows of a message can be set: its delivery count and when it is due."""
    drafts_outlive: bool = True
    """Transactions that have not ended outlive the process."""
    orphans_move: bool = True
    """Bodies without a message are moved to the store's own folder; False: they stay where they lie."""
    lack_of: Callable[[tuple[Property, ...]], str | None] = _any
    """Why a message of such properties cannot be kept."""


ALL: Final = Capabilities()
"""Of a store in files of today's format."""
