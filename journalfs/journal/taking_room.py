"""Which records take room, and are not there to make some."""

from __future__ import annotations

from typing import Final

from journalfs.format.record_types import BindingType, MessageType, RecordKind

_ADDS: Final = frozenset({RecordKind.ADD, RecordKind.ADD_TX, RecordKind.EVENT})
_OF_CONSUMING: Final = frozenset(
    {
        MessageType.ACKNOWLEDGE_CURSOR,
        MessageType.PAGE_COMPLETE,
        MessageType.PAGE_COUNTER_VALUE,
        MessageType.PAGE_COUNTER_INCREMENT,
        BindingType.ID_COUNTER,
    }
)
"""User types of what is added to consume messages: that those of pages are, and the ids that it takes."""


def takes_room(kind: int, user_type: int) -> bool:
    """Whether a record is not there to make some."""
    if kind in _ADDS:
        return user_type not in _OF_CONSUMING
    return user_type == MessageType.ADD_REFERENCE and kind in (RecordKind.UPDATE, RecordKind.UPDATE_TX)
