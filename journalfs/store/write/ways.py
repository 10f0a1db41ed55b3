"""The ways that what is sent to an address takes to queues: those of the address itself, and those of
wildcard addresses that match it. Each of these addresses has limits and pages of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from journalfs.store.write.admission import Action, Admission, Admitted
from journalfs.store.write.routing import Routing
from journalfs.store.write.sending import Sending, Ways


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
        actions = {address: taken.action}
        for wild in besides:
            actions[wild] = self.admission.decide_beside(wild, late=taken.late).action
        drops = frozenset(of for of, action in actions.items() if action is Action.DROP)
        paging = (of for of, action in actions.items() if action is Action.PAGE)
        pages = frozenset(filter(self.sending.takes_pages, paging))
        stored = tuple(of for of in actions if of not in drops | pages)
        return Ways(stored, pages, drops)
