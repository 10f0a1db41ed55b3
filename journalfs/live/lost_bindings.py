"""Finds queues that messages are in and that no binding names, where bindings are lost.

With a bindings journal that is whole such references are remains of deleted queues: a broker drops them, and
they are only counted. When bindings are damaged or missing they may be all that is left of a queue, and they
are when the journal has all its history, and nothing in it deletes the queue.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journalfs.bindings.model import Address, Queue
from journalfs.damage import Damage, name_of
from journalfs.engine.lines import LineBatch
from journalfs.engine.state_batch import file_slots
from journalfs.format.bindings import AddressBinding, QueueBinding, RoutingType
from journalfs.ids import QueueId
from journalfs.limits import LOST_QUEUES_SHOWN_MAX
from journalfs.message.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.live.opened import OpenStore


# What stands for queues and addresses whose bindings are lost: their messages still name them by id.


def lost_queue(queue_id: QueueId, name: str, address: str) -> Queue:
    """A queue of which nothing is known but its id, and where its messages were sent."""
    binding = QueueBinding(
        name=name,
        address=address,
        metadata=None,
        routing_type=RoutingType.MULTICAST,
    )
    return Queue(queue_id, name, binding, paused=False, paused_itself=False, lost=True)


def lost_address(name: str) -> Address:
    """The address of lost queues, where no record names it either."""
    binding = AddressBinding(name=name, routing_types=(), auto_created=False, internal=False, unknown=b"")
    return Address(None, binding, paused=False)


NAMED_MAX = 5
"""Lost queues that the event names; all of them are listed as damage."""
MESSAGES_ASKED_MAX = 16
"""Messages of a queue that are asked for its address; the first knows, unless it is damaged."""


@dataclass(slots=True)
class LostBindings:
    """The queues found in the last look, as they are shown."""

    core: OpenStore
    queues: dict[QueueId, Queue] = field(default_factory=dict)
    _messages: Counter[QueueId] = field(default_factory=Counter)
    _hidden: int = 0
    """How many are not shown."""

    def look(self) -> bool:
        """Look for lost queues again. Returns True if there are others than before."""
        before = self.queues
        self._messages = Counter()
        bindings = self.core.bindings
        in_journal = self._in_journal()
        if bindings.queues and not self.core.bindings_damage:
            newer = self.core.live_broker or self.core.loader.following
            surely = [one for one in sorted(in_journal) if bindings.surely_bound(one, may_be_newer=newer)]
            shown = self._first(surely)
            self.queues = {queue_id: before.get(queue_id) or self._queue(queue_id) for queue_id in shown}
        else:
            in_pages = self._addresses_by_pages()
            self.queues = {
                queue_id: before.get(queue_id) or self._queue(queue_id, in_pages.get(queue_id))
                for queue_id in self._first(sorted(in_journal | in_pages.keys()))
            }
        return self.queues.keys() != before.keys()

    def _first(self, queue_ids: Sequence[QueueId]) -> Sequence[QueueId]:
        """Return the lost queues that are shown: a few bytes of a journal can name one, and showing it takes
        kilobytes.
        """
        self._hidden = max(0, len(queue_ids) - LOST_QUEUES_SHOWN_MAX)
        return queue_ids[:LOST_QUEUES_SHOWN_MAX]

    def addresses(self) -> dict[str, Address]:
        """Addresses of lost queues that no binding names."""
        known = self.core.bindings.addresses
        names = {queue.address for queue in self.queues.values()}
        return {name: lost_address(name) for name in sorted(names) if name not in known}

    def explained(self) -> str:
        """Return a text for people: which bindings are missing, what that means for their queues, and what
        helps.
        """
        messages = sum(self._messages[queue_id] for queue_id in self.queues)
        shown = ", ".join(f"{queue.address}/{queue.name}" for queue in list(self.queues.values())[:NAMED_MAX])
        more = len(self.queues) - NAMED_MAX
        others = f" and {more} more" if more > 0 else ""
        place = self.core.layout.bindings_dir if self.core.derived is None else self.core.shown
        return (
            f"{place}: the bindings of {len(self.queues)} queues with {messages} "
            f"messages are lost; they are shown as {shown}{others}, and nothing has the names that they had: "
            "writing there fails with ENOENT; put the bindings back, or make the queues anew and move the "
            "messages to them"
        )

    def damage(self) -> Iterator[Damage]:
        """One entry for each lost queue."""
        file = name_of(self.core.layout.bindings_dir, self.core.root)
        for queue_id, queue in self.queues.items():
            reason = (
                f"no binding names queue {queue_id}, to which {self._messages[queue_id]} messages refer; "
                f"it is shown as {queue.address}::{queue.name}"
            )
            name, messages = f"{queue.address}::{queue.name}", self._messages[queue_id]
            yield Damage(file, 0, 0, "lost-binding", reason, name, messages)

        if self._hidden:
            reason = (
                f"no binding names {self._hidden} more queues to which messages refer; of lost queues "
                f"{LOST_QUEUES_SHOWN_MAX} are shown"
            )
            yield Damage(file, 0, 0, "lost-binding", reason)

    def _in_journal(self) -> set[QueueId]:
        found: set[QueueId] = set()
        for number, messages in self.core.loader.state.unbound_messages().items():
            self._messages[QueueId(number)] += messages
            found.add(QueueId(number))
        return found

    def _addresses_by_pages(self) -> dict[QueueId, str]:
        """Lost queues of which there is something in pages."""
        found: dict[QueueId, str] = {}
        for address, paged in sorted(self.core.pages.items()):
            for number in paged.numbers():
                for queue_id in paged.queues_in(number) - self.core.bindings.queues.keys():
                    messages = len(paged.live(number, queue_id)) + len(paged.delivering(number, queue_id))
                    if messages:
                        self._messages[queue_id] += messages
                        found.setdefault(queue_id, address)
        return found

    def _queue(self, queue_id: QueueId, address: str | None = None) -> Queue:
        name = f"queue-{queue_id}"
        while self.core.bindings.queue_named(name) is not None:
            name += "-lost"
        return lost_queue(queue_id, name, address or self._address_by_messages(queue_id) or name)

    def _address_by_messages(self, queue_id: QueueId) -> str | None:
        """Where the queue's messages were sent."""
        state = self.core.loader.state
        refs = state.refs(state.register_queue(queue_id), "arrival", "all")
        for ref in refs[:MESSAGES_ASKED_MAX]:
            address = self._address_of(array("I", [ref]))
            if address:
                return address
        return None

    def _address_of(self, ref: array[int]) -> str | None:
        loader = self.core.loader
        slots = file_slots(loader.state, ref, loader.files.slot_limit)
        files = {slot: loader.files[slot] for slot in slots}
        lines, keep = loader.state.fill_lines(ref, files, sealed=False)
        address = decode_envelope(LineBatch(lines, 1, queue=None, keep=keep).line(0)).get("address")
        return address if isinstance(address, str) else None
