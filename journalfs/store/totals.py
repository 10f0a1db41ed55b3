"""What all queues of a store hold together, added up in one call: there may be a hundred thousand."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from journalfs.bindings.model import BindingsState, Queue
from journalfs.engine.waiting import Slices
from journalfs.ids import QueueId
from journalfs.store.memory import Held, held_of, is_exempt, weight_of
from journalfs.store.opened import OpenStore

if TYPE_CHECKING:
    from journalfs.store.lost_bindings import LostBindings


class _Some:
    """Queues, and what each message that counts in one weighs beside its record."""

    __slots__ = ("_places", "ids", "weights")

    def __init__(self, queues: Iterable[Queue] = ()) -> None:
        self.ids, self.weights = array("q"), array("i")
        self._places: dict[QueueId, int] = {}
        queues = list(queues)
        self.ids.extend([queue.queue_id for queue in queues])
        self.weights.extend([weight_of(queue.address) for queue in queues])
        self._places.update((queue.queue_id, place) for place, queue in enumerate(queues))

    def put(self, queue: Queue) -> None:
        self.drop(queue.queue_id)
        self._places[queue.queue_id] = len(self.ids)
        self.ids.append(queue.queue_id)
        self.weights.append(weight_of(queue.address))

    def drop(self, queue_id: QueueId) -> None:
        """The last one takes its place."""
        place = self._places.pop(queue_id, None)
        last_id, last_weight = (self.ids.pop(), self.weights.pop()) if place is not None else (0, 0)
        if place is not None and last_id != queue_id:
            self.ids[place], self.weights[place] = last_id, last_weight
            self._places[QueueId(last_id)] = place


class _Store(OpenStore, Protocol):
    lost: LostBindings


@dataclass(slots=True)
class Totals:
    core: _Store
    _bindings: BindingsState | None = None
    _limited: _Some = field(default_factory=_Some)
    """Bound queues of addresses that limits apply to."""
    _exempt: _Some = field(default_factory=_Some)

    async def learn(self) -> None:
        """Look at every queue while others go on, before somebody asks: from then on only at changed ones."""
        if self._bindings is not None:
            return
        slices, bindings = Slices(), self.core.bindings
        limited, exempt = _Some(), _Some()
        for queue in list(bindings.queues.values()):
            await slices.pause()
            (exempt if is_exempt(queue.address) else limited).put(queue)
        if self._bindings is None:  # else somebody asked meanwhile
            self._bindings, self._limited, self._exempt = bindings, limited, exempt

    def live(self) -> int:
        """Messages in queues that are shown."""
        return self._in_journal() + sum(self._in_pages())

    def held(self) -> Held:
        """What all messages in the journal take that limits count, of which each belongs to one address."""
        self._refresh()
        return held_of(self._sums(self._limited))

    def orphans(self) -> int:
        """References to queues that no binding names: a broker drops them, so they are counted and not
        shown.
        """
        return int(self.core.loader.state.sums(None).live_count) - self._in_journal()

    def _in_journal(self) -> int:
        self._refresh()
        lost = _Some(self.core.lost.queues.values())
        return sum(int(self._sums(some).live_count) for some in (self._limited, self._exempt, lost))

    def _refresh(self) -> None:
        before, bindings = self._bindings, self.core.bindings
        if bindings is before:
            return
        self._bindings, changed = bindings, bindings.changed_since(before)
        if changed is None:
            exempt = [one for one in bindings.queues.values() if is_exempt(one.address)]
            rest = (
                bindings.queues.values()
                if not exempt
                else (one for one in bindings.queues.values() if not is_exempt(one.address))
            )
            self._limited, self._exempt = _Some(rest), _Some(exempt)
            return
        for queue_id in changed.queues:
            queue = bindings.queues.get(queue_id)
            for some in (self._limited, self._exempt):
                some.drop(queue_id)
            if queue is not None:
                (self._exempt if is_exempt(queue.address) else self._limited).put(queue)

    def _sums(self, some: _Some) -> Any:
        return self.core.loader.state.sums(some.ids, some.weights)

    def _in_pages(self) -> Iterable[int]:
        """Live messages of each page and queue."""
        lost = self.core.lost.queues.values()
        for address, paged in self.core.pages.items():
            queues = [
                *self.core.bindings.queues_of(address),
                *(one for one in lost if one.address == address),
            ]
            for number in paged.numbers():
                yield from (paged.count(number, queue.queue_id) for queue in queues)
