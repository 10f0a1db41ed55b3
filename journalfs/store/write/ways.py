"""The ways that what is sent to an address takes to queues: those of the address itself, and those of
wildcard addresses that match it. Each of these addresses has limits and pages of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from journalfs.store.write.admission import Action, Admission, Admitted
from journalfs.store.write.routing import Routing
from journalfs.store.write.sending import Sending, Ways


class _Decided(NamedTuple):
    address: str
    action: Action


@dataclass(frozen=True, slots=True)
class FindingWays:
    routing: Routing
    sending: Sending
    admission: Admission

    def has_besides(self, address: str, queue: str | None) -> bool:
        """Whether queues of other addresses get what is sent."""
        return queue is None and bool(self.routing.besides(address))

    def check(self, address: str, queue: str | None) -> None:
        """Raises `AddressFull` where a wildcard address refuses what is sent to an address."""
        if queue is None:
            for wild in self.routing.besides(address):
                self.admission.decide_beside(wild, late=False)

    def find(self, address: str, queue: str | None, taken: Admitted) -> Ways:
        """The ways of a publication that was taken. Raises `AddressFull`: `check`."""
        besides = self.routing.besides(address) if queue is None else ()
        if not besides and taken.action is Action.STORE:
            return Ways((address,))
        decided = [_Decided(address, taken.action)]
        for wild in besides:
            decided.append(_Decided(wild, self.admission.decide_beside(wild, late=taken.late).action))
        drops = frozenset(one.address for one in decided if one.action is Action.DROP)
        pages = frozenset(
            one.address
            for one in decided
            if one.action is Action.PAGE and self.sending.takes_pages(one.address)
        )
        stored = tuple(one.address for one in decided if one.address not in drops | pages)
        return Ways(stored, pages, drops)
