"""Interprets the live records of a bindings journal by the broker's rules, and keeps the result up to date.

A change takes time for what it changes, not for all bindings.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from journalfs.bindings.model import Address, Anomaly, Changed, ChangeLog, Queue
from journalfs.errors import DecodeError
from journalfs.format import address_settings, bindings
from journalfs.format.record_types import BindingType, user_type_name
from journalfs.ids import AddressId, QueueId


@dataclass(frozen=True, slots=True)
class Emitted:
    """A record that took effect: an ADD or UPDATE, or one of a committed transaction."""

    record_id: int
    user_type: int
    body: bytes
    file: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """A live record, and what it says."""

    emitted: Emitted
    value: Any


_Thing = tuple[str, str | int | None]
"""The subject of a record. When one record about a thing changes, all records about it are read again."""
_Reader = tuple[str, Callable[[bytes], Any], Callable[[Any], str | int | None] | None]


def _all_together(value: object) -> None:
    """There are few of these: all of a kind are one thing."""


_target: Final = attrgetter("target")
_match: Final = attrgetter("match")
_name: Final = attrgetter("name")
_READERS: Final[Mapping[int, _Reader]] = {
    BindingType.QUEUE_BINDING: ("queue", bindings.decode_queue_binding, None),
    BindingType.QUEUE_STATUS: ("queue", bindings.decode_queue_status, _target),
    BindingType.ADDRESS_BINDING: ("address", bindings.decode_address_binding, None),
    BindingType.ADDRESS_STATUS: ("address", bindings.decode_address_status, _target),
    BindingType.ID_COUNTER: ("counter", bindings.decode_id_counter, _all_together),
    BindingType.ADDRESS_SETTING: ("setting", address_settings.decode_address_setting, _match),
    BindingType.ADDRESS_SETTING_JSON: ("setting", address_settings.decode_address_setting_json, _match),
    BindingType.DIVERT: ("divert", bindings.decode_divert, _all_together),
}
"""What a record of a type is about, how it is read, and which thing of that kind it is about: None, that of
its own id.
"""


_OF_BROKERS: Final = frozenset(
    {
        BindingType.SECURITY_SETTING, BindingType.BRIDGE, BindingType.CONNECTOR, BindingType.USER,
        BindingType.ROLE, BindingType.GROUP, BindingType.KEY_VALUE_PAIR,
    }
)  # fmt: skip
"""Types that mean something to running brokers alone."""

_IDS_KEPT: Final = {
    "queue": (BindingType.QUEUE_STATUS,),
    "address": (BindingType.ADDRESS_STATUS,),
    "counter": (BindingType.ID_COUNTER,),
    "setting": (BindingType.ADDRESS_SETTING, BindingType.ADDRESS_SETTING_JSON),
}
SORTED_ANEW_MIN: Final = 16
"""When so many queues of an address change all are put in order; fewer are put where they belong."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """The binding of a queue or an address."""

    binding: Any
    emitted: Emitted
    paused: bool


@dataclass(slots=True)
class Interpretation:
    """A later record of the same thing replaces the earlier one."""

    log: ChangeLog = field(default_factory=ChangeLog)
    queues: dict[QueueId, Queue] = field(default_factory=dict)
    addresses: dict[str, Address] = field(default_factory=dict)
    settings: dict[str, address_settings.StoredAddressSetting] = field(default_factory=dict)
    record_ids: dict[tuple[int, str | int | None], tuple[int, ...]] = field(default_factory=dict)
    by_address: dict[str, tuple[Queue, ...]] = field(default_factory=dict)
    by_name: dict[str, Queue] = field(default_factory=dict)
    diverts: Mapping[str, bindings.Divert] = field(default_factory=dict)
    id_counter: int | None = None
    _said: dict[_Thing, list[_Said]] = field(default_factory=dict)
    _by_record: dict[int, list[tuple[_Thing, _Said]]] = field(default_factory=dict)
    _bound: dict[QueueId, _Bound] = field(default_factory=dict)
    _named: dict[AddressId, _Bound] = field(default_factory=dict)
    _ids_of_name: dict[str, dict[AddressId, None]] = field(default_factory=dict)
    """Of addresses: the first counts."""
    _ids_of_address: dict[str, dict[QueueId, None]] = field(default_factory=dict)
    _times_named: Counter[str] = field(default_factory=Counter)
    """How many queues have a name."""
    _shown_as: dict[QueueId, str] = field(default_factory=dict)
    """Queues with the name of an earlier one."""
    _doubles: int = 0
    _unread: dict[_Said, Anomaly] = field(default_factory=dict)
    _anomalies: dict[str, dict[object, list[Anomaly]]] = field(
        default_factory=lambda: {kind: {} for kind in ("status", "queue", "duplicate", "implied")}
    )

    # ---- records that come and go ----

    def take(self, come: Iterable[Emitted], gone: Collection[int]) -> None:
        """Records that took effect, in the order of the journal, and ids of those that are deleted."""
        touched: dict[_Thing, None] = {}
        for record_id in gone:
            for thing, said in self._by_record.pop(record_id, ()):
                if self._unread.pop(said, None) is None:
                    self._said[thing].remove(said)
                    touched[thing] = None
        for emitted in come:
            if emitted.user_type in _OF_BROKERS:
                continue
            thing, said = self._read(emitted)
            self._by_record.setdefault(emitted.record_id, []).append((thing, said))
            if said not in self._unread:
                self._said.setdefault(thing, []).append(said)
                touched[thing] = None
        if touched:
            self._settle(touched)

    def anomalies(self) -> list[Anomaly]:
        found = [*self._unread.values()]
        for by_thing in self._anomalies.values():
            found += chain.from_iterable(by_thing.values())
        return found

    def _read(self, emitted: Emitted) -> tuple[_Thing, _Said]:
        reader = _READERS.get(emitted.user_type)
        kind, reason = "unknown-type", f"records of type {emitted.user_type} are not known"
        if emitted.user_type <= 0:
            kind, reason = "undecodable", f"type {emitted.user_type} is none"
        elif reader is not None:
            about, decode, target = reader
            try:
                value = decode(emitted.body)
            except DecodeError as error:
                where = user_type_name(emitted.user_type)
                kind, reason = "undecodable", f"{where} record, byte {error.offset}: {error.reason}"
            else:
                return (about, emitted.record_id if target is None else target(value)), _Said(emitted, value)
        said = _Said(emitted, None)
        self._unread[said] = _anomaly(kind, reason, emitted)
        return ("unread", None), said

    # ---- what they say ----

    def _settle(self, touched: Iterable[_Thing]) -> None:
        """Bring in line with what is said of some things whatever depends on them."""
        ids: set[QueueId] = set()
        names: set[str] = set()
        settings = self.settings
        for thing in touched:
            kind, target = thing
            said = self._said[thing]
            self._keep_ids(kind, target, said)
            if kind == "queue":
                ids.add(QueueId(cast(int, target)))
                names |= self._settle_queue(QueueId(cast(int, target)), said)
            elif kind == "address":
                names |= self._settle_named(AddressId(cast(int, target)), said)
            elif kind == "setting":
                settings = {**self.settings} if settings is self.settings else settings
                settings.pop(cast(str, target), None)
                settings |= {cast(str, target): one.value for one in said[-1:]}
            elif kind == "counter":
                # The last record counts, not the largest: after a clean stop it is lower than the range
                # reserved before.
                self.id_counter = said[-1].value.value if said else None
            else:
                self.diverts = {one.value.name or "": one.value for one in said}
            if not said:
                del self._said[thing]
        self.settings = settings
        if self._doubles or self._shown_as:
            ids.update(self._name_anew())
        for name in names:
            ids.update(self._settle_address(name))
        self._make_queues(ids)
        if ids or names:
            self.log.add(Changed(frozenset(ids), frozenset(names)))

    def _keep_ids(self, kind: str, target: str | int | None, said: Sequence[_Said]) -> None:
        for user_type in _IDS_KEPT.get(kind, ()):
            ids = tuple(one.emitted.record_id for one in said if one.emitted.user_type == user_type)
            if ids:
                self.record_ids[user_type, target] = ids
            else:
                self.record_ids.pop((user_type, target), None)

    def _settle_queue(self, queue_id: QueueId, said: Sequence[_Said]) -> set[str]:
        """The addresses that it was bound to, and is."""
        before, now = self._bound.get(queue_id), self._last_binding(("queue", queue_id), said)
        names = {one.binding.address for one in (before, now) if one is not None}
        if before is not None:
            self._count_name(before.binding.name, -1)
            if now is None or now.binding.address != before.binding.address:
                _take_out(self._ids_of_address, before.binding.address, queue_id)
        if now is None:
            self._bound.pop(queue_id, None)
            return names
        self._count_name(now.binding.name, 1)
        self._ids_of_address.setdefault(now.binding.address, {})[queue_id] = None
        self._bound[queue_id] = now
        return names

    def _count_name(self, name: str, more: int) -> None:
        before = self._times_named[name]
        self._doubles += max(before + more - 1, 0) - max(before - 1, 0)
        self._times_named[name] = before + more
        if not self._times_named[name]:
            del self._times_named[name]

    def _settle_named(self, address_id: AddressId, said: Sequence[_Said]) -> set[str]:
        """The names that the record of an address had, and has."""
        before, now = self._named.get(address_id), self._last_binding(("address", address_id), said)
        names = {one.binding.name for one in (before, now) if one is not None}
        if before is not None and (now is None or now.binding.name != before.binding.name):
            _take_out(self._ids_of_name, before.binding.name, address_id)
        if now is None:
            self._named.pop(address_id, None)
        else:
            self._ids_of_name.setdefault(now.binding.name, {})[address_id] = None
            self._named[address_id] = now
        return names

    def _last_binding(self, thing: _Thing, said: Sequence[_Said]) -> _Bound | None:
        """Return the last binding of a thing. A broker forgets all that came before it."""
        kind, target = thing
        bound: _Bound | None = None
        statuses: list[Emitted] = []
        paused = False
        for one in said:
            if not isinstance(one.value, bindings.Status):
                bound, paused = _Bound(one.value, one.emitted, paused=False), False
                continue
            statuses.append(one.emitted)
            # Resuming a queue deletes the record: the broker pauses for any that is left.
            paused = one.value.paused or (paused and kind == "queue")
        unknown = [] if bound is not None else statuses
        reason = f"there is no {kind} {target}"
        self._tell("status", thing, [_anomaly("status-of-unknown", reason, one) for one in unknown])
        return replace(bound, paused=True) if bound is not None and paused else bound

    def _settle_address(self, name: str) -> Iterable[QueueId]:
        """The queues that are paused with it from now on, or are not any more."""
        before, queues = self.addresses.get(name), self._ids_of_address.get(name, {})
        first, *others = self._ids_of_name.get(name, {}) or (None,)
        again = (self._named[other].emitted for other in others)
        reason = f"a second record of {name!r} is ignored"
        self._tell("duplicate", name, [_anomaly("duplicate-address", reason, one) for one in again])
        implied: list[Anomaly] = []
        if first is not None:
            named = self._named[first]
            self.addresses[name] = Address(first, named.binding, named.paused)
        elif queues:
            bound = [self._bound[queue_id] for queue_id in queues]
            self.addresses[name] = _implied_address(name, [one.binding.routing_type for one in bound])
            shown = self._shown_as.get(next(iter(queues)), bound[0].binding.name)
            reason = f"queue {shown!r} is bound to {name!r}, which has no record"
            implied = [_anomaly("queue-without-address", reason, bound[0].emitted)]
        else:
            self.addresses.pop(name, None)
        self._tell("implied", name, implied)
        now = self.addresses.get(name)
        was, is_now = (one is not None and one.paused for one in (before, now))
        return queues if was != is_now else ()

    def _name_anew(self) -> Iterable[QueueId]:
        """How queues are shown of which several have one name; those that are shown otherwise than before."""
        names: set[str] = set()
        before, self._shown_as = self._shown_as, {}
        told: list[Anomaly] = []
        renamed = 0
        for queue_id, bound in self._bound.items():
            name = own = bound.binding.name
            while name in names:
                name = f"{own}-{renamed}"
                renamed += 1
            if name != own:
                self._shown_as[queue_id] = name
                reason = f"a second queue {own!r} is shown as {name!r}"
                told.append(_anomaly("duplicate-queue", reason, bound.emitted))
            names.add(name)
        self._tell("queue", None, told)
        return [queue_id for queue_id, _ in before.items() ^ self._shown_as.items()]

    def _make_queues(self, ids: Collection[QueueId]) -> None:
        gone = [queue for queue_id in ids if (queue := self.queues.get(queue_id)) is not None]
        for queue in gone:
            if self.by_name.get(queue.name) is queue:
                del self.by_name[queue.name]
        made: list[Queue] = []
        for queue_id in ids:
            bound = self._bound.get(queue_id)
            if bound is None:
                self.queues.pop(queue_id, None)
                continue
            name = self._shown_as.get(queue_id, bound.binding.name)
            # Pausing an address pauses its queues for as long as it lasts; nothing is stored with them.
            paused = bound.paused or self.addresses[bound.binding.address].paused
            queue = Queue(queue_id, name, bound.binding, paused=paused, paused_itself=bound.paused)
            self.queues[queue_id] = self.by_name[name] = queue
            made.append(queue)
        self._put_in_order(gone, made)

    def _put_in_order(self, gone: Sequence[Queue], made: Sequence[Queue]) -> None:
        changes: dict[str, tuple[list[Queue], list[Queue]]] = {}
        for which, queues in enumerate((gone, made)):
            for queue in queues:
                changes.setdefault(queue.address, ([], []))[which].append(queue)
        for address, (old, new) in changes.items():
            if len(old) + len(new) < SORTED_ANEW_MIN:
                ordered = [*self.by_address.get(address, ())]
                for queue in old:
                    del ordered[bisect_left(ordered, queue.name, key=_name)]
                for queue in new:
                    insort(ordered, queue, key=_name)
            else:
                ids = self._ids_of_address.get(address, ())
                ordered = sorted((self.queues[queue_id] for queue_id in ids), key=_name)
            if ordered:
                self.by_address[address] = tuple(ordered)
            else:
                self.by_address.pop(address, None)

    def _tell(self, kind: str, thing: object, anomalies: list[Anomaly]) -> None:
        if anomalies:
            self._anomalies[kind][thing] = anomalies
        else:
            self._anomalies[kind].pop(thing, None)


_Id = TypeVar("_Id", QueueId, AddressId)


def _take_out(ids: dict[str, dict[_Id, None]], name: str, one: _Id) -> None:
    del ids[name][one]
    if not ids[name]:
        del ids[name]


def _anomaly(kind: str, reason: str, emitted: Emitted) -> Anomaly:
    return Anomaly(kind, reason, emitted.file, emitted.offset, emitted.record_id)


def _implied_address(name: str, routing_types: Iterable[bindings.RoutingType]) -> Address:
    """Return the address that a broker would make for queues that are bound to it."""
    kinds = tuple(dict.fromkeys(routing_types))
    binding = bindings.AddressBinding(name, kinds, auto_created=True, internal=False, unknown=b"")
    return Address(None, binding, paused=False)
