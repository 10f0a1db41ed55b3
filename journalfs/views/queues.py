"""Addresses and queues as the store shows them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Generic, TypeVar

from journalfs.api import Part
from journalfs.bindings.model import Address as AddressModel
from journalfs.bindings.model import Queue as QueueModel
from journalfs.limits import PART_BYTES_MAX, PART_MESSAGES_MAX
from journalfs.live.content import QueueContent, total_messages
from journalfs.live.core import Core
from journalfs.live.memory import Footprint, held_in_queues
from journalfs.live.page_parts import PageParts
from journalfs.live.runs import Run
from journalfs.views.filters import StateFilter
from journalfs.views.views import DeliveringView, QueueView

# Things with names, in the order of these: one more, or one less, costs the same however many there are.

_Thing = TypeVar("_Thing")


class ByName(Generic[_Thing]):
    __slots__ = ("_all", "_names", "_things")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._things: dict[str, _Thing] = {}
        self._all: Sequence[_Thing] | None = None

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def get(self, name: str) -> _Thing | None:
        return self._things.get(name)

    def put(self, name: str, thing: _Thing) -> None:
        if name not in self._things:
            insort(self._names, name)
        self._things[name] = thing
        self._all = None

    def drop(self, name: str) -> None:
        if self._things.pop(name, None) is not None:
            del self._names[bisect_left(self._names, name)]
            self._all = None

    def all(self) -> Sequence[_Thing]:
        """Return all things, in order of their names."""
        if self._all is None:
            self._all = tuple(map(self._things.__getitem__, self._names))
        return self._all


COUNTED = ("messagesExpired", "messagesKilled", "messagesReplaced")
"""Messages that left since the store was opened without anybody having asked; a store that is only read has
none.
"""


PART_FULL_BYTES: Final = PART_BYTES_MAX // 2


class StoreQueue(QueueView):
    """A queue and everything live in it. `seal` gives its tail a part."""

    def __init__(
        self,
        core: Core,
        model: QueueModel,
        page_parts: PageParts,
        seal: Callable[[StoreQueue], None] = lambda queue: None,
    ) -> None:
        super().__init__(QueueContent(core, model), page_parts)
        self._seal = seal

    @property
    def model(self) -> QueueModel:
        return self.content.model

    def take_model(self, model: QueueModel) -> None:
        """The binding changed; the queue, by its id, is still the same."""
        self.content.model = model

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def slot(self) -> int:
        return self.content.slot

    @property
    def content_version(self) -> Hashable:
        return self.content.version

    def tails(self) -> Sequence[Part]:
        """Return the tails. A tail of the size of a part is sealed first, so that messages listed under one
        name are in one part later, however many came at once.
        """
        if self.has_full_tail() and self.content.is_settled():
            self._seal(self)
        return super().tails()

    def has_full_tail(self) -> bool:
        """Whether its tail is about as much as goes into a part."""
        tail = self.tail()
        return tail.messages >= PART_MESSAGES_MAX or tail.size_bytes > PART_FULL_BYTES

    # There may be 100,000 queues, and few of them have such messages.

    @cached_property
    def _scheduled(self) -> QueueView:
        return self._in_state(self.content.scheduled)

    @cached_property
    def _failed(self) -> QueueView:
        return self._in_state(self.content.failed)

    @cached_property
    def _expired(self) -> QueueView:
        return self._in_state(self.content.expired)

    @cached_property
    def _delivering(self) -> DeliveringView:
        return DeliveringView(self.content, self.page_parts)

    def _in_state(self, choose: Callable[[], list[Run]]) -> QueueView:
        return QueueView(self.content, self.page_parts, StateFilter(self.content, choose))

    def scheduled(self) -> QueueView:
        return self._scheduled

    def delivering(self) -> QueueView:
        return self._delivering

    def failed(self) -> QueueView:
        return self._failed

    def expired(self) -> QueueView:
        return self._expired

    @property
    def message_count(self) -> int:
        """The number of messages as a broker counts them: with those that are not due, and those that a
        prepared transaction has acknowledged.
        """
        content = self.content
        return content.count() + total_messages(content.delivering())

    def status(self) -> Mapping[str, object]:
        """Return the status. One reading of its file asks four times (look-up, opening, size), so the last
        answer is kept for a moment.
        """
        return self.content.core.statuses.get(
            self.content.queue_id, self._status_of(), self.content.now_ms, self._status
        )

    def _status_of(self) -> object:
        """Return a key that changes with all that the status depends on, except the time."""
        content = self.content
        core = content.core
        tally = tuple(core.tally[content.queue_id, name] for name in COUNTED) if core.tally else ()
        return self._now(), self.model, core.bindings.address_settings, core.layout.config, tally

    def _status(self) -> Mapping[str, object]:
        content = self.content
        info = content.state.queue(content.slot)
        paged = total_messages(content.page_runs())
        tail, parts = self.tail(), self.parts()
        status: dict[str, object] = {
            "queue": self.name,
            "address": self.model.address,
            "id": self.model.queue_id,
            "routingType": self.model.binding.routing_type.name,
            "filter": self.model.binding.filter or None,
            "messageCount": info.live_count + paged + total_messages(content.delivering()),
            "messages": sum(part.messages for part in parts) + tail.messages,
            "scheduledCount": total_messages(content.scheduled()),
            "deliveringCount": len(self._delivering),
            "failedCount": total_messages(content.failed()),
            "expiredCount": total_messages(content.expired()),
            "pagedCount": paged,
            "journalBodyBytes": info.live_bytes,
            "lineBytes": sum(part.size_bytes for part in parts) + tail.size_bytes,
            "oldestTimestamp": content.state.oldest_ms(content.slot) or None,
            "parts": len(parts),
            "tailMessages": tail.messages,
            "paused": self.model.paused,
        }
        status |= {name: content.core.tally[content.queue_id, name] for name in COUNTED}
        if self.model.lost:
            status |= {"binding": "lost", "routingType": None}
        return status

    def settings_toml(self) -> str:
        from journalfs.live.settings import queue_toml  # noqa: PLC0415 - few commands show settings

        return queue_toml(self.content.core, self.model)

    def attributes(self) -> Mapping[str, bytes]:
        from journalfs.live.settings import queue_attributes  # noqa: PLC0415 - as above

        return queue_attributes(self.model)


@dataclass(slots=True)
class StoreAddress:
    """An address and the queues bound to it."""

    core: Core
    model: AddressModel
    bound: ByName[StoreQueue] = field(default_factory=ByName)
    mtime_ns: int = 0

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def address_id(self) -> int:
        return self.model.address_id if self.model.address_id is not None else 0

    def queues(self) -> Sequence[StoreQueue]:
        return self.bound.all()

    def queue(self, name: str) -> StoreQueue | None:
        return self.bound.get(name)

    def status(self) -> Mapping[str, object]:
        paged = self.core.paged(self.name)
        pages = paged.numbers() if paged is not None else []
        return {
            "address": self.name,
            "id": self.model.address_id,
            "routingTypes": [kind.name for kind in self.model.binding.routing_types],
            "queues": {queue.name: len(queue) for queue in self.queues()},
            "messages": sum(len(queue) for queue in self.queues()),
            "paging": paged is not None and paged.pages_now(),
            "pages": len(pages),
            "pageBytes": sum(page.stamp.size_bytes for page in paged.files.values()) if paged else 0,
            "paused": self.model.paused,
            "autoCreated": self.model.binding.auto_created,
            "internal": self.model.binding.internal,
            "duplicateIdCacheSize": self.core.duplicate_ids().get(self.name, 0),
            "duplicateMessages": self.core.duplicates_left_out[self.name],
            "addressSize": self.held().size_bytes,
            **self._limits(),
        }

    def _limits(self) -> Mapping[str, object]:
        acting = self.core.limits_of(self.name)
        if acting is None:
            return {}
        return {
            "limit": acting.limit,
            "limitAction": acting.action,
            "limitSince": acting.since_ms,
            "blockedWriters": acting.blocked_writers,
            "droppedMessages": acting.dropped_messages,
        }

    def held(self) -> Footprint:
        """Return the memory that its messages would take in a broker."""
        return held_in_queues(self.core, self.name, [queue.content.queue_id for queue in self.queues()])

    def settings_toml(self) -> str:
        from journalfs.live.settings import address_toml  # noqa: PLC0415 - as above

        return address_toml(self.core, self.model)

    def attributes(self) -> Mapping[str, bytes]:
        from journalfs.live.settings import address_attributes  # noqa: PLC0415 - as above

        return address_attributes(self.core, self.model)
