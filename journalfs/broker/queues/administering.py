"""Changes addresses, queues and their settings in the bindings journal.

The records are those of a broker for the same change (docs/format/bindings.md). Nothing counts before it is
durable.
"""

from __future__ import annotations

import difflib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from journalfs.bindings.model import Address, BindingsState, Queue
from journalfs.change.journals import Journals
from journalfs.clock import Clock
from journalfs.config.address_settings import ADDRESS_SETTINGS, NO_EFFECT, Kind, Value, parse_value
from journalfs.config.findings import alone
from journalfs.config.in_force import ORIGIN_DEFAULT, SettingsInForce
from journalfs.config.journalfs_toml import NoToml, load_toml
from journalfs.errors import JournalfsError, NameTaken, NoSuchName, SettingFixed, SettingRefused, WrongCall
from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings import (
    AddressBinding,
    QueueBinding,
    RoutingType,
    Status,
    encode_address_binding,
    encode_address_setting_json,
    encode_queue_binding,
    encode_status,
)
from journalfs.format.record_types import BindingType
from journalfs.ids import Position, RecordId, TxId
from journalfs.live.core import Core
from journalfs.live.settings import PAUSED, ROUTING_TYPES, queue_settings, settings_in_force
from journalfs.selector import compile_selector

# A queue's own settings by their names in broker.xml: which there are, and what values they take.


def _as_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text == "true"


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not minimum <= number <= maximum:
            raise ValueError(f"must be from {minimum} to {maximum}")
        return number

    return parse


def _text(text: str) -> str | None:
    return text or None


def _filter(text: str) -> str | None:
    if text:
        compile_selector(text, stored=True)
    return text or None


def names_of_clients(text: str | None) -> Mapping[str, str]:
    """Names in a queue's filter that are headers in a client's selector alone, with those that are for a
    broker: it takes them for properties there, and a client that makes a queue has translated them.
    """
    return compile_selector(text, stored=True).client_names if text else {}


def _routing_type(text: str) -> RoutingType:
    try:
        return RoutingType[text.upper()]
    except KeyError:
        raise ValueError("is neither MULTICAST nor ANYCAST") from None


_I32: Final = 2**31 - 1
_I64: Final = 2**63 - 1

QUEUE_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "routing-type": ("routing_type", _routing_type),
    "filter": ("filter", _filter),
    "max-consumers": ("max_consumers", _integer(-1, _I32)),
    "purge-on-no-consumers": ("purge_on_no_consumers", _as_boolean),
    "exclusive": ("exclusive", _as_boolean),
    "last-value": ("last_value", _as_boolean),
    "last-value-key": ("last_value_key", _text),
    "non-destructive": ("non_destructive", _as_boolean),
    "consumers-before-dispatch": ("consumers_before_dispatch", _integer(0, _I32)),
    "delay-before-dispatch": ("delay_before_dispatch_ms", _integer(-1, _I64)),
    "group-rebalance": ("group_rebalance", _as_boolean),
    "group-rebalance-pause-dispatch": ("group_rebalance_pause_dispatch", _as_boolean),
    "group-buckets": ("group_buckets", _integer(-1, _I32)),
    "group-first-key": ("group_first_key", _text),
    "ring-size": ("ring_size", _integer(-1, _I64)),
    "enabled": ("enabled", _as_boolean),
    "auto-delete": ("auto_delete", _as_boolean),
    "auto-delete-delay": ("auto_delete_delay_ms", _integer(0, _I64)),
    "auto-delete-message-count": ("auto_delete_message_count", _integer(-1, _I64)),
}
"""Name -> field of the binding, and what reads its value."""

_DEFAULTS: Final = {
    "exclusive": "default-exclusive-queue",
    "last-value": "default-last-value-queue",
    "auto-delete-delay": "auto-delete-queues-delay",
    "auto-delete-message-count": "auto-delete-queues-message-count",
}
"""Settings of addresses that say what new queues get, where they are not named `default-` and the queue's."""
_NOT_GIVEN: Final = frozenset({"routing-type", "filter", "enabled", "auto-delete"})
"""What no such setting says alone."""

QUEUE_NO_EFFECT: Final = frozenset({"group-first-key"})
"""Kept for brokers, and without a meaning here."""

KEPT_BY_BROKERS: Final = frozenset(
    {PAUSED, "last-value", "last-value-key", "auto-delete", "auto-delete-delay", "auto-delete-message-count"}
)
"""Settings of a configured queue that a starting broker leaves as they are. It sets all others as the
configuration says.
"""


def changed(binding: QueueBinding, name: str, text: str) -> QueueBinding:
    """The binding with one setting changed. Raises `SettingRefused`."""
    known = QUEUE_SETTINGS.get(name)
    if known is None:
        names = ", ".join(sorted(QUEUE_SETTINGS))
        raise SettingRefused(name, f"no setting of a queue that can be changed; there are paused, {names}")
    field, parse = known
    try:
        value = parse(text)
    except JournalfsError as error:
        raise SettingRefused(name, str(error)) from error
    except ValueError as error:
        raise SettingRefused(name, f"{text!r} {_reason(error)}") from None
    settings: dict[str, object] = {field: value}
    return replace(binding, **settings)  # type: ignore[arg-type]


def check_default(name: str, text: str) -> None:
    """A `default-` setting of an address, which new queues get, takes what the queue's own does. Raises
    `SettingRefused`.
    """
    known = QUEUE_SETTINGS.get(name.removeprefix("default-")) if name.startswith("default-") else None
    if known is not None:
        try:
            known[1](text)
        except ValueError as error:
            raise SettingRefused(name, f"{text!r} {_reason(error)}") from None


def _reason(error: ValueError) -> str:
    return "is no whole number" if str(error).startswith("invalid literal") else str(error)


# What addresses and queues were before they were deleted, so that one that is made again is what it was.
#
# Who writes a queue over deletes it and makes it anew (Spark's `overwrite`, Hadoop's committers, `rsync
# --delete`), and means its messages, not its settings.

NAMES_MAX: Final = 16_384
"""How many are remembered: the newest."""

_NS_PER_S: Final = 1_000_000_000


class Deleted:
    """Addresses, and queues by the names of their address and their own, that were deleted in the last
    `keep_s()` seconds.
    """

    def __init__(self, clock: Clock, keep_s: Callable[[], int]) -> None:
        self._clock, self._keep_s = clock, keep_s
        self._found: OrderedDict[tuple[str, str | None], tuple[int, Address | Queue]] = OrderedDict()

    def add(self, what: Address | Queue) -> None:
        key = (what.address, what.name) if isinstance(what, Queue) else (what.name, None)
        self._found.pop(key, None)
        self._found[key] = self._clock.monotonic_ns(), what
        if len(self._found) > NAMES_MAX:
            self._found.popitem(last=False)

    def get(self, address: str, queue: str | None) -> Address | Queue | None:
        deleted_ns, was = self._found.get((address, queue), (0, None))
        if was is not None and self._clock.monotonic_ns() - deleted_ns > self._keep_s() * _NS_PER_S:
            del self._found[address, queue]
            return None
        return was

    def address(self, name: str) -> Address | None:
        was = self.get(name, None)
        return was if isinstance(was, Address) else None

    def queue(self, address: str, name: str) -> Queue | None:
        was = self.get(address, name)
        return was if isinstance(was, Queue) else None


_ADDRESS_SETTINGS = {definition.name: definition for definition in ADDRESS_SETTINGS}
_OF_ADDRESSES = frozenset(("dead-letter-address", "expiry-address"))
"""Settings that name an address."""
_WOULD_SHARE = (
    "its only queue is ANYCAST, and a second one would take every other message from it. For a subscription "
    "to all messages: setfattr -n user.journalfs.routing-types -v ANYCAST,MULTICAST ADDRESS. To share "
    "messages: setfattr -n user.journalfs.default-queue-routing-type -v ANYCAST ADDRESS"
)
_DELETED = "is deleted, but a broker that starts makes it anew where its configuration lists it"
_UNLISTED = (
    "config-delete-addresses is FORCE: a broker that starts deletes the address, with queues and messages, "
    "unless its configuration lists it"
)
_OF_LISTED = "is as set until a broker starts whose configuration lists the queue, and has it as it is there"


@dataclass(slots=True)
class Administering:
    """Changes bindings. Every method stages one change and returns when it is complete."""

    core: Core
    journals: Journals
    deleted: Deleted

    @property
    def _state(self) -> BindingsState:
        return self.core.bindings

    # ---- addresses ----

    def create_address(self, name: str) -> Position:
        _check_name(name)
        if name in self._state.addresses:
            raise NameTaken(f"{name}: there is such an address already")
        # Its first queue says which kind it is of, where no setting does.
        said = self._said_routing(name, "default-address-routing-type")
        routing = tuple(RoutingType) if said is None else (said,)
        was = self.deleted.address(name)
        binding = new_address(name, *routing) if was is None else was.binding
        if self._in_force().value(name, "config-delete-addresses") == "FORCE":
            self.core.events.add("configuration", f"{name}: {_UNLISTED}")

        def stage(tx: TxId) -> None:
            new_id = self._new_id()
            self._add_in(tx, new_id, BindingType.ADDRESS_BINDING, encode_address_binding(binding))
            if was is not None and was.paused:
                self._pause_in(tx, BindingType.ADDRESS_STATUS, new_id)

        return self._in_transaction(stage)

    def delete_address(self, address: Address) -> Position | None:
        """None when there is no record to be deleted: the address was only implied by its queues."""
        address_id = address.address_id
        if address_id is None:
            return None
        position = self._in_transaction(lambda tx: self._delete_in(tx, address_id))
        return self._delete_statuses(BindingType.ADDRESS_STATUS, address_id) or position

    def _add_address(
        self, tx: TxId, name: str, routing: tuple[RoutingType, ...], *, auto_created: bool = False
    ) -> None:
        binding = new_address(name, *routing, auto_created=auto_created)
        self._add_in(tx, self._new_id(), BindingType.ADDRESS_BINDING, encode_address_binding(binding))

    # ---- queues ----

    def create_queue(self, address: Address, name: str) -> Position:
        _check_name(name)
        taken = self._state.queue_named(name)
        if taken is not None:
            raise NameTaken(
                f"{name}: there is a queue of this name bound to {taken.address}; names are unique in a store"
            )
        was = self.deleted.queue(address.name, name)
        if was is None:
            kind = self._kind_of_new(address, name)
            binding = new_queue(self._in_force(), address.name, name, kind)
        else:
            binding, kind = was.binding, was.binding.routing_type

        def stage(tx: TxId) -> None:
            if was is not None or address.address_id is None or self._state.queues_of(address.name):
                self._ensure_routing(tx, address, kind)
            elif set(address.binding.routing_types) != {kind}:
                self._replace_address(tx, address, address.address_id, {kind})
            self._add_queue(tx, binding, paused=was is not None and was.paused_itself)

        return self._in_transaction(stage)

    def _kind_of_new(self, address: Address, name: str) -> RoutingType:
        """ANYCAST is what clients mean by a queue that is named as its address, MULTICAST a subscription.
        Raises `SettingRefused` for a second queue that would take messages from the first one.
        """
        said = self._said_routing(address.name, "default-queue-routing-type")
        if said is not None:
            return said
        kinds = address.binding.routing_types
        if len(kinds) != 1:
            return RoutingType.ANYCAST if name == address.name else RoutingType.MULTICAST
        if kinds[0] is RoutingType.ANYCAST and len(self._state.queues_of(address.name)) == 1:
            raise SettingRefused(ROUTING_TYPES, f"{address.name}: {_WOULD_SHARE}")
        return kinds[0]

    def create_automatic(self, address_name: str, name: str, accepted: str) -> Position:
        """A queue that nobody asked for by name, with a filter, and its address if that is missing."""
        address = self._state.addresses.get(address_name)
        was = self.deleted.queue(address_name, name)
        if was is None:
            routing = self._default_routing(address_name, "default-queue-routing-type")
            binding = new_queue(
                self._in_force(), address_name, name, routing, accepted=accepted, auto_created=True
            )
        else:
            binding, routing = was.binding, was.binding.routing_type

        def stage(tx: TxId) -> None:
            if address is None:
                self._add_address(tx, address_name, (routing,), auto_created=True)
            else:
                self._ensure_routing(tx, address, routing)
            self._add_queue(tx, binding, paused=was is not None and was.paused_itself)

        return self._in_transaction(stage)

    def _add_queue(self, tx: TxId, binding: QueueBinding, *, paused: bool) -> None:
        new_id = self._new_id()
        self._add_in(tx, new_id, BindingType.QUEUE_BINDING, encode_queue_binding(binding))
        if paused:
            self._pause_in(tx, BindingType.QUEUE_STATUS, new_id)

    def delete_queue(self, queue: Queue) -> Position:
        position = self._in_transaction(lambda tx: self._delete_in(tx, queue.queue_id))
        if queue.binding.configuration_managed:
            self.core.events.add("configuration", f"{queue.address}::{queue.name}: {_DELETED}")
        return self._delete_statuses(BindingType.QUEUE_STATUS, queue.queue_id) or position

    def _ensure_routing(self, tx: TxId, address: Address, routing: RoutingType) -> None:
        """An address has the routing type of each of its queues. A change of it is a new record."""
        if address.address_id is not None and routing in address.binding.routing_types:
            return
        if address.address_id is None:
            self._add_address(tx, address.name, (routing,))
        else:
            self._replace_address(tx, address, address.address_id, {*address.binding.routing_types, routing})

    def _replace_address(
        self, tx: TxId, address: Address, address_id: int, kinds: Collection[RoutingType]
    ) -> None:
        """Whether it is paused is known of the record, so that is said again."""
        routing_types = tuple(sorted(kinds, key=lambda kind: kind.value))
        binding, new_id = replace(address.binding, routing_types=routing_types), self._new_id()
        self._delete_in(tx, address_id)
        self._add_in(tx, new_id, BindingType.ADDRESS_BINDING, encode_address_binding(binding))
        self._delete_statuses_in(tx, BindingType.ADDRESS_STATUS, address_id)
        if address.paused:
            self._pause_in(tx, BindingType.ADDRESS_STATUS, new_id)

    # ---- settings ----

    def set_queue(self, queue: Queue, changes: Mapping[str, str]) -> Position | None:
        """Change settings of a queue, all or none; None when nothing changes. Raises `SettingRefused`."""
        binding, paused = planned_queue(queue, changes)
        position = None
        if binding != queue.binding:
            position = self._update_queue(queue, binding, paused=paused)
            self._tell_kept(f"{queue.address}::{queue.name}", QUEUE_NO_EFFECT & changes.keys())
            self._tell_listed(queue, changes.keys())
            if binding.filter != queue.binding.filter:
                self._tell_names(f"{queue.address}::{queue.name}", binding.filter)
        elif paused != queue.paused_itself:
            position = self._pause(BindingType.QUEUE_STATUS, queue.queue_id, paused)
        return position

    def _update_queue(self, queue: Queue, binding: QueueBinding, *, paused: bool) -> Position:
        """A broker forgets what it has read of a queue when it reads this record, so what says that the queue
        is paused follows it.
        """
        address, queue_id = self._state.addresses[queue.address], queue.queue_id
        body = encode_queue_binding(binding)

        def stage(tx: TxId) -> None:
            self._ensure_routing(tx, address, binding.routing_type)
            self.journals.bindings.stage_update_in(tx, RecordId(queue_id), BindingType.QUEUE_BINDING, body)
            self._delete_statuses_in(tx, BindingType.QUEUE_STATUS, queue_id)
            if paused:
                self._pause_in(tx, BindingType.QUEUE_STATUS, queue_id)

        return self._in_transaction(stage)

    def set_address(self, address: Address, changes: Mapping[str, str]) -> Position | None:
        """Change settings of the addresses that this one's name matches, which is itself alone: all or none;
        None when nothing changes. Raises `SettingRefused`.
        """
        if ROUTING_TYPES in changes:
            return self._set_routing_types(address, changes[ROUTING_TYPES])
        values, paused = planned_address(address, changes)
        position = self._store_settings(address.name, values) if values else None
        if position is not None:
            self._tell_kept(address.name, NO_EFFECT & values.keys())
            self._tell_alone(address.name, values)
        if paused != address.paused and address.address_id is not None:
            position = self._pause(BindingType.ADDRESS_STATUS, address.address_id, paused)
        return position

    def _set_routing_types(self, address: Address, text: str) -> Position | None:
        """As a broker does: not without those that its queues have."""
        address_id = address.address_id
        if address_id is None:
            raise SettingRefused(ROUTING_TYPES, f"{address.name} has no record of its own")
        names = {one.strip().upper() for one in text.split(",")}
        if not names <= RoutingType.__members__.keys():
            raise SettingRefused(ROUTING_TYPES, f"{text!r} is not ANYCAST, MULTICAST, or both with a comma")
        kinds = {RoutingType[name] for name in names}
        for queue in self._state.queues_of(address.name):
            if queue.binding.routing_type not in kinds:
                reason = f"its queue {queue.name} is of type {queue.binding.routing_type.name}"
                raise SettingRefused(ROUTING_TYPES, reason)
        if kinds == set(address.binding.routing_types):
            return None
        return self._in_transaction(lambda tx: self._replace_address(tx, address, address_id, kinds))

    def reset(self, address: str, queue: str | None, name: str) -> Position | None:
        """Take a setting back. Raises `SettingFixed` and `NoSuchName`."""
        if queue is None:
            return self.reset_address(address_named(self._state, address), name)
        return self.reset_queue(queue_named(self._state, address, queue), name)

    def reset_queue(self, queue: Queue, name: str) -> Position | None:
        """Give a setting of a queue the value that a new queue of its address would get; None when it has
        that. Raises `SettingFixed`.
        """
        if name == PAUSED:
            return self._pause(BindingType.QUEUE_STATUS, queue.queue_id, False)
        known = QUEUE_SETTINGS.get(name)
        if known is None:
            raise SettingFixed(name, "a queue always has this value")
        routing = self._default_routing(queue.address, "default-queue-routing-type")
        created = queue.binding.auto_created
        new = new_queue(self._in_force(), queue.address, queue.name, routing, auto_created=created)
        changes: dict[str, object] = {known[0]: getattr(new, known[0])}
        binding = replace(queue.binding, **changes)  # type: ignore[arg-type]
        if binding == queue.binding:
            return None
        self._tell_listed(queue, (name,))
        return self._update_queue(queue, binding, paused=queue.paused_itself)

    def reset_address(self, address: Address, name: str) -> Position | None:
        """Remove the settings that were set for this address. Those of a configuration, those of wildcards
        that match it, or the defaults are in force again. Raises `SettingFixed`.
        """
        if name == PAUSED and address.address_id is not None:
            return self._pause(BindingType.ADDRESS_STATUS, address.address_id, False)
        stored = self._state.address_settings.get(address.name)
        definition = _ADDRESS_SETTINGS.get(name)
        if stored is None or definition is None or definition.json_key not in stored.values:
            raise SettingFixed(name, "its value comes from elsewhere; .settings says where, change it there")
        configured = self._configured(address.name)
        kept = {key: value for key, value in stored.values.items() if key != definition.json_key}
        if definition.json_key in configured:
            kept[definition.json_key] = configured[definition.json_key]
        if kept == configured:  # no record is needed to say so
            kept = {}
        elif kept == stored.values:
            raise SettingFixed(name, "the configuration says the same; change it there")
        return self._write_settings(address.name, kept)

    def _tell_kept(self, where: str, names: Iterable[str]) -> None:
        for name in sorted(names):
            message = f"{where}: {name} is kept for brokers, and has no effect here"
            self.core.events.add("configuration", message, level=logging.INFO)

    def _tell_alone(self, match: str, changes: Mapping[str, Value]) -> None:
        """Say which of the changes do nothing as long as another setting is missing."""
        for one in alone(self.core.layout.config, {match: self._with(match, changes)}):
            if one.line is None and one.setting in changes:
                self.core.events.add("configuration", f"{match}: {one.setting}: {one.reason}")

    def _tell_listed(self, queue: Queue, names: Iterable[str]) -> None:
        if not queue.binding.configuration_managed:
            return
        for name in sorted(set(names) - KEPT_BY_BROKERS):
            message = f"{queue.address}::{queue.name}: {name} {_OF_LISTED}"
            self.core.events.add("configuration", message)

    def _tell_names(self, where: str, text: str | None) -> None:
        for name, header in names_of_clients(text).items():
            message = f"in a filter of a queue {name} is a property of that name; the header is {header}"
            self.core.events.add("configuration", f"{where}: {message}")

    def _store_settings(self, match: str, changes: Mapping[str, Value]) -> Position | None:
        values = self._with(match, changes)
        return None if values == self._with(match, {}) else self._write_settings(match, values)

    def _with(self, match: str, changes: Mapping[str, Value]) -> dict[str, Value]:
        """Return the record of a match after some changes, by the names of settings. It replaces the
        configuration's settings of the same match as a whole.
        """
        stored = self._state.address_settings.get(match)
        before = dict(stored.values) if stored is not None else self._configured(match)
        return before | {_ADDRESS_SETTINGS[name].json_key: value for name, value in changes.items()}

    def _write_settings(self, match: str, values: dict[str, Value]) -> Position:
        """In place of what is stored for a match; nothing at all where there are none."""
        setting = StoredAddressSetting(match, values, msgspec.json.encode(values).decode())
        body = encode_address_setting_json(setting)
        earlier = [
            record_id
            for kind in (BindingType.ADDRESS_SETTING, BindingType.ADDRESS_SETTING_JSON)
            for record_id in self._state.record_ids.get((kind, match), ())
        ]

        def stage(tx: TxId) -> None:
            for record_id in earlier:
                self._delete_in(tx, record_id)
            if values:
                self._add_in(tx, self._new_id(), BindingType.ADDRESS_SETTING_JSON, body)

        return self._in_transaction(stage)

    def _configured(self, match: str) -> dict[str, Value]:
        """Return the configuration's settings of just this match, by the names of records."""
        config = self.core.layout.config
        matches = config.address_settings if config is not None else ()
        return {
            _ADDRESS_SETTINGS[name].json_key: configured.value
            for setting in matches
            if setting.match == match
            for name, configured in setting.values.items()
        }

    def _pause(self, kind: BindingType, target: int, wanted: bool) -> Position | None:
        if not wanted:
            return self._delete_statuses(kind, target)
        body = encode_status(Status(target, paused=True))
        return self.journals.bindings.stage_add(RecordId(self._new_id()), kind, body)

    def _delete_statuses(self, kind: BindingType, target: int) -> Position | None:
        position = None
        for record_id in self._state.record_ids.get((kind, target), ()):
            position = self.journals.bindings.stage_delete(RecordId(record_id))
        return position

    def _pause_in(self, tx: TxId, kind: BindingType, target: int) -> None:
        self._add_in(tx, self._new_id(), kind, encode_status(Status(target, paused=True)))

    def _delete_statuses_in(self, tx: TxId, kind: BindingType, target: int) -> None:
        for record_id in self._state.record_ids.get((kind, target), ()):
            self._delete_in(tx, record_id)

    # ---- inside ----

    def _in_transaction(self, stage: Callable[[TxId], None]) -> Position:
        return self.journals.in_transaction(stage, self.journals.bindings)

    def _add_in(self, tx: TxId, record_id: int, user_type: int, body: bytes) -> None:
        self.journals.bindings.stage_add_in(tx, RecordId(record_id), user_type, body)

    def _delete_in(self, tx: TxId, record_id: int) -> None:
        self.journals.bindings.stage_delete_in(tx, RecordId(record_id))

    def _new_id(self) -> int:
        return self.journals.ids.draw()

    def _in_force(self) -> SettingsInForce:
        return settings_in_force(self.core)

    def _said_routing(self, address: str, setting: str) -> RoutingType | None:
        """None where no setting says it."""
        found = next(one for one in self._in_force().address(address) if one.name == setting)
        said = found.origin != ORIGIN_DEFAULT and isinstance(found.value, str)
        return RoutingType[str(found.value)] if said else None

    def _default_routing(self, address: str, setting: str) -> RoutingType:
        value = self._in_force().value(address, setting)
        return RoutingType[value] if isinstance(value, str) else RoutingType.MULTICAST


def _boolean(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise SettingRefused(name, f"{text!r} is neither true nor false")
    return text == "true"


def _value(name: str, text: str) -> Value:
    definition = _ADDRESS_SETTINGS.get(name)
    if definition is None:
        raise SettingRefused(name, "there is no such address setting; .settings lists them")
    if definition.kind is Kind.BOOLEAN:
        return _boolean(name, text.lower())
    try:
        value = parse_value(definition, text)
    except ValueError as error:
        raise SettingRefused(name, str(error)) from None
    check_default(name, str(value))
    if name in _OF_ADDRESSES and "::" in text:
        raise SettingRefused(name, f"{text!r} is the full name of a queue, and messages go to an address")
    return value


def planned_queue(queue: Queue, changes: Mapping[str, str]) -> tuple[QueueBinding, bool]:
    """The binding of a queue with `changes`, and whether it is paused. Raises `SettingRefused`."""
    binding, paused = queue.binding, queue.paused_itself
    for name, text in changes.items():
        if name == PAUSED:
            paused = _boolean(name, text)
        else:
            binding = changed(binding, name, text)
    return binding, paused


def planned_address(address: Address, changes: Mapping[str, str]) -> tuple[dict[str, Value], bool]:
    """Return the settings that `changes` set for an address, and whether it is paused. Raises
    `SettingRefused`.
    """
    texts = dict(changes)
    paused = _boolean(PAUSED, texts.pop(PAUSED)) if PAUSED in texts else address.paused
    if paused != address.paused and address.address_id is None:
        reason = f"{address.name} has no record of its own; it goes with its queues"
        raise SettingRefused(PAUSED, reason)
    return {name: _value(name, text) for name, text in texts.items()}, paused


def new_queue(
    settings: SettingsInForce,
    of: str,
    name: str,
    routing: RoutingType,
    *,
    accepted: str | None = None,
    auto_created: bool = False,
) -> QueueBinding:
    """A durable queue with the defaults that the settings of the address `of` give."""
    given: dict[str, Any] = {}
    for setting, (field, _) in QUEUE_SETTINGS.items():
        if setting in _NOT_GIVEN:
            continue
        found = settings.value(of, _DEFAULTS.get(setting, f"default-{setting}"))
        if found not in (None, ""):
            given[field] = found  # brokers bind what they are told, within bounds or not
    return QueueBinding(
        name=name,
        address=of,
        filter=accepted,
        metadata="",
        auto_created=auto_created,
        routing_type=routing,
        auto_delete=bool(settings.value(of, f"auto-delete-{'' if auto_created else 'created-'}queues")),
        **given,
    )


def new_address(name: str, *routing: RoutingType, auto_created: bool = False) -> AddressBinding:
    return AddressBinding(name, routing, auto_created=auto_created, internal=False, unknown=b"")


def address_named(state: BindingsState, name: str) -> Address:
    """Raises `NoSuchName`."""
    address = state.addresses.get(name)
    if address is None:
        raise NoSuchName(f"{name}: there is no such address")
    return address


def queue_named(state: BindingsState, address: str, name: str) -> Queue:
    """Raises `NoSuchName`."""
    for queue in state.queues_of(address):
        if queue.name == name:
            return queue
    raise NoSuchName(f"{address}::{name}: there is no such queue")


def _check_name(name: str) -> None:
    """No broker starts with an empty one, and brokers take what a client asks for apart at the first `::`,
    wherever it stands.
    """
    if not name:
        raise WrongCall("no broker starts on a store in which an address or queue has an empty name")
    if "::" in name:
        raise WrongCall(
            f"{name}: no broker finds an address or queue with '::' in its name: address::queue is the full "
            "name of a queue"
        )


# An edited `.settings` file: what of it differs from what is in force.

Changes = dict[str, str]

_OF_ADDRESS: Final = "address"
"""The only table that there is, in the file of a queue."""


def checked_settings(core: Core, address: str, queue: str | None, text: bytes) -> tuple[Changes, Changes]:
    """Return the result of `changed_settings` if all of it can be set. Raises `SettingRefused`
    and `NoSuchName`.
    """
    own, of_address = changed_settings(core, address, queue, text)
    address_model = address_named(core.bindings, address)
    if queue is None:
        planned_address(address_model, own)
    else:
        planned_queue(queue_named(core.bindings, address, queue), own)
        planned_address(address_model, of_address)
    return own, of_address


def changed_settings(core: Core, address: str, queue: str | None, text: bytes) -> tuple[Changes, Changes]:
    """Changes of the queue or address itself, and for a queue those of its address, by name.

    Raises `SettingRefused` for text that is no TOML, and for what is neither text, number nor boolean.
    """
    try:
        edited = load_toml(text)
    except NoToml as error:
        raise SettingRefused(".settings", f"no TOML: {error}") from None
    address_model = address_named(core.bindings, address)
    in_force: Mapping[str, object] = {
        setting.name: setting.value for setting in settings_in_force(core).address(address)
    }
    in_force = {PAUSED: address_model.paused, **in_force}
    if queue is None:
        return _differing(edited, in_force), {}
    of_address = edited.pop(_OF_ADDRESS, {})
    if not isinstance(of_address, dict):
        raise SettingRefused(_OF_ADDRESS, "is no table of settings")
    model = queue_named(core.bindings, address, queue)
    own = _differing(edited, queue_settings(model), tables=(_OF_ADDRESS,))
    return own, _differing(of_address, in_force, within=f"{_OF_ADDRESS}.")


def _differing(
    edited: Mapping[str, object],
    in_force: Mapping[str, object],
    *,
    tables: Collection[str] = (),
    within: str = "",
) -> Changes:
    """Yield the settings that differ, of a file that may have `tables`, or of the table that
    `within` names.
    """
    changes: Changes = {}
    for name, value in edited.items():
        if isinstance(value, dict):
            near = difflib.get_close_matches(name, tables, n=1)
            meant = f"; did you mean [{near[0]}]?" if near else ""
            raise SettingRefused(within + name, f"there is no table [{within}{name}] here{meant}")
        if not isinstance(value, bool | int | float | str):
            raise SettingRefused(name, "is neither text, number nor boolean")
        if in_force.get(name) != value:
            changes[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return changes
