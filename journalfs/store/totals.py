"""What all queues of a store hold together, added up in one call: there may be a hundred thousand."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from journalfs.bindings.model import BindingsState, Queue
from journalfs.store.memory import Held, held_of, is_exempt, weight_of

if TYPE_CHECKING:
    from journalfs.store.core import Core


@dataclass(frozen=True, slots=True)
class _Some:
    """Queues, and what each message that counts in one weighs beside its record."""

    ids: array[int]
    weights: array[int]

    @classmethod
    def of(cls, queues: Iterable[Queue]) -> _Some:
        ids, weights = array("q"), array("i")
        for queue in queues:
            ids.append(queue.queue_id)
            weights.append(weight_of(queue.address))
        return cls(ids, weights)


@dataclass(slots=True)
class Totals:
    core: Core
    _bindings: BindingsState | None = None
    _limited: _Some = field(default_factory=lambda: _Some.of(()))
    """Bound queues of addresses that limits apply to."""
    _exempt: _Some = field(default_factory=lambda: _Some.of(()))

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
        lost = _Some.of(self.core.lost.queues.values())
        return sum(int(self._sums(some).live_count) for some in (self._limited, self._exempt, lost))

    def _refresh(self) -> None:
        bindings = self.core.bindings
        if bindings is not self._bindings:
            queues = bindings.queues.values()
            self._limited = _Some.of(queue for queue in queues if not is_exempt(queue.address))
            self._exempt = _Some.of(queue for queue in queues if is_exempt(queue.address))
            self._bindings = bindings

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
