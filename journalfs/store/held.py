"""What delivering knows of messages by queue, and the disk does not: which are with a reader that consumes,
or wait in a draft, and how often some were delivered in vain.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from journalfs.ids import MessageId, PageNumber, QueueId


class Aside:
    """Of what was handed out, what is out of sight, as if a prepared transaction had acknowledged it."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change of what is in pages."""
        self.messages: dict[QueueId, set[MessageId]] = {}
        self.paged: dict[QueueId, set[tuple[PageNumber, int]]] = {}

    def put(self, queue: QueueId, messages: array[int], paged: Iterable[tuple[PageNumber, int]]) -> None:
        self.messages.setdefault(queue, set()).update(map(MessageId, messages))
        self._change(queue, lambda places: places.update(paged))

    def drop(self, queue: QueueId, messages: array[int], paged: Iterable[tuple[PageNumber, int]]) -> None:
        self.messages[queue].difference_update(map(MessageId, messages))
        self._change(queue, lambda places: places.difference_update(paged))

    def _change(self, queue: QueueId, change: Callable[[set[tuple[PageNumber, int]]], None]) -> None:
        places = self.paged.setdefault(queue, set())
        before = len(places)
        change(places)
        self.version += len(places) != before


class HeldMessages:
    """What was handed out and neither acknowledged nor given back. `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._messages: dict[QueueId, set[MessageId]] = {}
        self._paged: dict[QueueId, set[tuple[PageNumber, int]]] = {}
        self.aside = Aside()
        self._delayed: dict[QueueId, dict[MessageId | tuple[PageNumber, int], int]] = {}
        self._attempts: dict[QueueId, dict[MessageId, int]] = {}

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

    def delayed(self, queue: QueueId) -> dict[MessageId | tuple[PageNumber, int], int]:
        """When the next attempt is due where that is not on disk: of messages in pages, and beyond
        `max-redelivery-records`. In milliseconds since 1970, by place.
        """
        return self._delayed.setdefault(queue, {})

    def counts(self, queue: QueueId) -> bool:
        """Whether there are attempts that are not on disk."""
        return bool(self._attempts.get(queue))

    def attempts(self, queue: QueueId, message_id: MessageId) -> int:
        """How often a message was delivered in vain, where that is not on disk; otherwise 0."""
        return self._attempts.get(queue, {}).get(message_id, 0)

    def failed(self, queue: QueueId, attempts: int) -> list[MessageId]:
        """What was delivered in vain at least so often, where that is not on disk."""
        known = self._attempts.get(queue, {})
        return [message_id for message_id, count in known.items() if count >= attempts]

    def count(self, queue: QueueId, message_id: MessageId, attempts: int) -> None:
        self.version += 1
        self._attempts.setdefault(queue, {})[message_id] = attempts

    def forget(self, queue: QueueId, message_id: MessageId) -> None:
        """It left, and its attempts count no more."""
        self._attempts.get(queue, {}).pop(message_id, None)

    def any(self, queue: QueueId) -> bool:
        return bool(self._messages.get(queue) or self._paged.get(queue))

    def messages(self, queue: QueueId) -> list[MessageId]:
        """Those in the journal that are in sight, by id."""
        return sorted(self._messages.get(queue, set()) - self.aside.messages.get(queue, set()))

    def paged(self, queue: QueueId) -> dict[PageNumber, array[int]]:
        """The same of those in pages: indexes by page."""
        found: dict[PageNumber, array[int]] = {}
        for number, index in sorted(self._paged.get(queue, set()) - self.aside.paged.get(queue, set())):
            found.setdefault(number, array("I")).append(index)
        return found

    def has(self, queue: QueueId, place: MessageId | tuple[PageNumber, int]) -> bool:
        if isinstance(place, tuple):
            return place in self._paged.get(queue, ())
        return place in self._messages.get(queue, ())
