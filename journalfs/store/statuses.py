"""What queues said of themselves last, for who asks again at once: reading one file asks four times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from journalfs.ids import QueueId

KEPT_MAX: Final = 64
"""Queues that are read side by side."""

KEPT_MS: Final = 100
"""For how long messages that become due or expire meanwhile are not looked for."""


class Statuses:
    """By queue."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[QueueId, tuple[object, int, Mapping[str, object]]] = OrderedDict()

    def get(
        self, queue: QueueId, made_of: object, now_ms: int, make: Callable[[], Mapping[str, object]]
    ) -> Mapping[str, object]:
        """As it was made, if that was just now and of the same."""
        made_before, before_ms, status = self._kept.get(queue, (None, 0, {}))
        if made_before != made_of or not 0 <= now_ms - before_ms < KEPT_MS:
            status = make()
            self._kept[queue] = made_of, now_ms, status
            self._kept.move_to_end(queue)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return status
