"""How many messages came to each queue, and left it, since a store was first looked at.

The state of the journal counts what left; pages keep no such count, so of paged messages only the difference
between two looks is known, and so it is where the journal was read anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from journalfs.engine.state_types import QueueInfo


class Flow(NamedTuple):
    """Of one queue."""

    added: int
    acknowledged: int
    """Messages that left for no other reason."""


NONE: Final = Flow(0, 0)


@dataclass(slots=True)
class _Known:
    epoch: int
    left: int
    """The state's own count."""
    held: int
    """Live and delivering messages of the journal."""
    paged: int
    told: int
    """Messages that left for a reason that is counted by itself: expired, killed, replaced."""
    flow: Flow = NONE
    surplus: int = 0
    """Of those told of, messages that the state still has."""


@dataclass(slots=True)
class Flows:
    """Of one open store."""

    _known: dict[int, _Known] = field(default_factory=dict)
    """By queue id."""

    def look(self, info: QueueInfo, paged: int, told: int, epoch: int) -> Flow:
        """Return what came and left so far. `told`: messages that left for another reason. `epoch`: changes
        when the journal is read anew.
        """
        held = info.live_count + info.delivering_count
        before = self._known.get(info.queue_id)
        now = _Known(epoch, info.left, held, paged, told)
        self._known[info.queue_id] = now
        if before is None:
            return now.flow
        if before.epoch == epoch and info.left >= before.left:
            left = info.left - before.left
            added = held - before.held + left
        else:
            added, left = _difference(held - before.held)
        paged_added, paged_left = _difference(paged - before.paged)
        acknowledged = left + paged_left - (told - before.told) - before.surplus
        now.surplus = max(0, -acknowledged)
        now.flow = Flow(
            before.flow.added + added + paged_added, before.flow.acknowledged + max(0, acknowledged)
        )
        return now.flow

    def forget_all_but(self, queues: set[int]) -> None:
        """Queues that went: another one never gets the same id."""
        for queue_id in self._known.keys() - queues:
            del self._known[queue_id]


def _difference(more: int) -> tuple[int, int]:
    return max(0, more), max(0, -more)
