"""Which messages are with a reader that consumes, by queue."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from journalfs.ids import MessageId, PageNumber, QueueId


class HeldMessages:
    """What was handed out and neither acknowledged nor given back. `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._messages: dict[QueueId, set[MessageId]] = {}
        self._paged: dict[QueueId, set[tuple[PageNumber, int]]] = {}

    def hold(
        self, queue: QueueId, messages: Iterable[MessageId], paged: Iterable[tuple[PageNumber, int]]
    ) -> None:
        self.version += 1
        self._messages.setdefault(queue, set()).update(messages)
        self._paged.setdefault(queue, set()).update(paged)

    def let_go(
        self, queue: QueueId, messages: Iterable[MessageId], paged: Iterable[tuple[PageNumber, int]]
    ) -> None:
        self.version += 1
        self._messages[queue].difference_update(messages)
        self._paged[queue].difference_update(paged)

    def messages(self, queue: QueueId) -> list[MessageId]:
        """Those in the journal, by id."""
        return sorted(self._messages.get(queue, ()))

    def paged(self, queue: QueueId) -> dict[PageNumber, array[int]]:
        """Those in pages: indexes by page."""
        found: dict[PageNumber, array[int]] = {}
        for number, index in sorted(self._paged.get(queue, ())):
            found.setdefault(number, array("I")).append(index)
        return found

    def has(self, queue: QueueId, place: MessageId | tuple[PageNumber, int]) -> bool:
        if isinstance(place, tuple):
            return place in self._paged.get(queue, ())
        return place in self._messages.get(queue, ())
