"""Turns the live records of a bindings journal into a `BindingsState`, by the broker's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from journalfs.bindings.model import Address, Anomaly, BindingsState, Queue
from journalfs.errors import DecodeError
from journalfs.format import address_settings, bindings, bridges
from journalfs.format.record_types import BindingType, user_type_name
from journalfs.ids import AddressId, QueueId

_Decoded = TypeVar("_Decoded")


@dataclass(slots=True)
class Emitted:
    """A record that took effect: an ADD or UPDATE, or one of a committed transaction."""

    record_id: int
    user_type: int
    body: bytes
    file: str
    offset: int
    _decoded: object = None

    def decoded(self, decode: Callable[[bytes], _Decoded]) -> _Decoded:
        """The body, decoded the first time: most records are looked at again with each one that comes."""
        if self._decoded is None:
            self._decoded = decode(self.body)
        return cast(_Decoded, self._decoded)


def interpret(live: Sequence[Emitted], *, max_id: int, anomalies: Sequence[Anomaly]) -> BindingsState:
    """Build the state from `live`, in journal order. A later record of the same thing replaces the earlier
    one. What is deleted, and whether the history is whole, is for those to say who saw the other records.
    """
    builder = _Builder(list(anomalies))
    for emitted in live:
        builder.take(emitted)
    return builder.state(max_id)


class _Builder:
    def __init__(self, anomalies: list[Anomaly]) -> None:
        self._anomalies = anomalies
        self._queue_bindings: dict[QueueId, tuple[bindings.QueueBinding, Emitted]] = {}
        self._address_bindings: dict[AddressId, tuple[bindings.AddressBinding, Emitted]] = {}
        self._queue_paused: set[QueueId] = set()
        self._address_paused: dict[AddressId, bool] = {}
        self._statuses: list[tuple[bindings.Status, Emitted]] = []
        self._settings: dict[str, address_settings.StoredAddressSetting] = {}
        self._security: dict[str, bindings.SecuritySetting] = {}
        self._diverts: dict[str, bindings.Divert] = {}
        self._bridges: dict[str, bridges.Bridge] = {}
        self._connectors: dict[str, bindings.Connector] = {}
        self._users: dict[str, None] = {}
        self._roles: dict[str, tuple[str, ...]] = {}
        self._groups: list[bindings.Group] = []
        self._key_values: dict[str, dict[str, str]] = {}
        self._id_counter: int | None = None
        self._record_ids: dict[tuple[int, str | int | None], tuple[int, ...]] = {}
        self._takers: dict[int, Callable[[Emitted], None]] = {
            BindingType.QUEUE_BINDING: self._take_queue,
            BindingType.ADDRESS_BINDING: self._take_address,
            BindingType.QUEUE_STATUS: self._take_queue_status,
            BindingType.ADDRESS_STATUS: self._take_address_status,
            BindingType.ID_COUNTER: self._take_id_counter,
            BindingType.ADDRESS_SETTING: self._take_address_setting,
            BindingType.ADDRESS_SETTING_JSON: self._take_address_setting_json,
            BindingType.SECURITY_SETTING: self._take_security,
            BindingType.DIVERT: self._take_divert,
            BindingType.BRIDGE: self._take_bridge,
            BindingType.CONNECTOR: self._take_connector,
            BindingType.USER: self._take_user,
            BindingType.ROLE: self._take_roles,
            BindingType.GROUP: self._take_group,
            BindingType.KEY_VALUE_PAIR: self._take_key_value,
        }

    def take(self, emitted: Emitted) -> None:
        taker = self._takers.get(emitted.user_type)
        if emitted.user_type <= 0:
            self._report("undecodable", f"type {emitted.user_type} is none", emitted)
            return
        if taker is None:
            self._report("unknown-type", f"records of type {emitted.user_type} are not known", emitted)
            return
        try:
            taker(emitted)
        except DecodeError as error:
            where = user_type_name(emitted.user_type)
            self._report("undecodable", f"{where} record, byte {error.offset}: {error.reason}", emitted)

    def state(self, max_id: int) -> BindingsState:
        self._report_statuses_of_unknown()
        queues = self._unique_queues()
        addresses = self._unique_addresses(queues)
        return BindingsState(
            addresses=addresses,
            queues={queue_id: _paused_with(addresses, queue) for queue_id, queue in queues.items()},
            address_settings=self._settings,
            security_settings=self._security,
            diverts=self._diverts,
            bridges=self._bridges,
            connectors=self._connectors,
            users=tuple(self._users),
            roles=self._roles,
            groups=tuple(self._groups),
            key_values=self._key_values,
            id_counter=self._id_counter,
            record_ids=self._record_ids,
            max_id=max_id,
            anomalies=tuple(self._anomalies),
        )

    def _take_queue(self, emitted: Emitted) -> None:
        binding = emitted.decoded(bindings.decode_queue_binding)
        queue_id = QueueId(emitted.record_id)
        self._queue_bindings[queue_id] = (binding, emitted)
        # What came before this record of it the broker has forgotten.
        self._queue_paused.discard(queue_id)

    def _take_address(self, emitted: Emitted) -> None:
        binding = emitted.decoded(bindings.decode_address_binding)
        address_id = AddressId(emitted.record_id)
        self._address_bindings[address_id] = (binding, emitted)
        self._address_paused.pop(address_id, None)

    def _take_queue_status(self, emitted: Emitted) -> None:
        status = bindings.decode_queue_status(emitted.body)
        self._keep_id(emitted, status.target)
        self._statuses.append((status, emitted))
        # Resuming deletes the record. The broker pauses for any that is left and looks at no other value.
        if status.paused:
            self._queue_paused.add(status.queue_id)

    def _take_address_status(self, emitted: Emitted) -> None:
        status = bindings.decode_address_status(emitted.body)
        self._keep_id(emitted, status.target)
        self._statuses.append((status, emitted))
        self._address_paused[status.address_id] = status.paused

    def _keep_id(self, emitted: Emitted, about: str | int | None) -> None:
        key = emitted.user_type, about
        self._record_ids[key] = (*self._record_ids.get(key, ()), emitted.record_id)

    def _take_id_counter(self, emitted: Emitted) -> None:
        # The last record counts, not the largest: after a clean stop it is lower than the range reserved
        # before.
        self._id_counter = bindings.decode_id_counter(emitted.body).value
        self._keep_id(emitted, None)

    def _take_address_setting(self, emitted: Emitted) -> None:
        setting = address_settings.decode_address_setting(emitted.body)
        self._settings[setting.match] = setting
        self._keep_id(emitted, setting.match)

    def _take_address_setting_json(self, emitted: Emitted) -> None:
        setting = address_settings.decode_address_setting_json(emitted.body)
        self._settings[setting.match] = setting
        self._keep_id(emitted, setting.match)

    def _take_security(self, emitted: Emitted) -> None:
        setting = bindings.decode_security_setting(emitted.body)
        self._security[setting.match] = setting

    def _take_divert(self, emitted: Emitted) -> None:
        divert = bindings.decode_divert(emitted.body)
        self._diverts[divert.name or ""] = divert

    def _take_bridge(self, emitted: Emitted) -> None:
        bridge = bridges.decode_bridge(emitted.body)
        self._bridges[bridge.name or ""] = bridge

    def _take_connector(self, emitted: Emitted) -> None:
        connector = bindings.decode_connector(emitted.body)
        self._connectors[connector.name] = connector

    def _take_user(self, emitted: Emitted) -> None:
        self._users[bindings.decode_user(emitted.body).name] = None

    def _take_roles(self, emitted: Emitted) -> None:
        roles = bindings.decode_roles(emitted.body)
        self._roles[roles.user] = roles.roles

    def _take_group(self, emitted: Emitted) -> None:
        self._groups.append(bindings.decode_group(emitted.body))

    def _take_key_value(self, emitted: Emitted) -> None:
        pair = bindings.decode_key_value(emitted.body)
        self._key_values.setdefault(pair.map_id, {})[pair.key] = pair.value

    def _report_statuses_of_unknown(self) -> None:
        for status, emitted in self._statuses:
            of_queue = isinstance(status, bindings.QueueStatus)
            known: object = self._queue_bindings if of_queue else self._address_bindings
            assert isinstance(known, dict)
            if status.target not in known:
                what = "queue" if of_queue else "address"
                self._report("status-of-unknown", f"there is no {what} {status.target}", emitted)

    def _unique_queues(self) -> dict[QueueId, Queue]:
        queues: dict[QueueId, Queue] = {}
        names: set[str] = set()
        renamed = 0
        for queue_id, (binding, emitted) in self._queue_bindings.items():
            name = binding.name
            while name in names:
                name = f"{binding.name}-{renamed}"
                renamed += 1
            if name != binding.name:
                self._report(
                    "duplicate-queue", f"a second queue {binding.name!r} is shown as {name!r}", emitted
                )
            names.add(name)
            paused = queue_id in self._queue_paused
            queues[queue_id] = Queue(queue_id, name, binding, paused=paused, paused_itself=paused)
        return queues

    def _unique_addresses(self, queues: dict[QueueId, Queue]) -> dict[str, Address]:
        addresses: dict[str, Address] = {}
        for address_id, (binding, emitted) in self._address_bindings.items():
            if binding.name in addresses:
                self._report("duplicate-address", f"a second record of {binding.name!r} is ignored", emitted)
                continue
            paused = self._address_paused.get(address_id, False)
            addresses[binding.name] = Address(address_id, binding, paused)
        for queue_id, queue in queues.items():
            if queue.address not in addresses:
                emitted = self._queue_bindings[queue_id][1]
                reason = f"queue {queue.name!r} is bound to {queue.address!r}, of which there is no record"
                self._report("queue-without-address", reason, emitted)
                addresses[queue.address] = _implied_address(queue)
            elif addresses[queue.address].address_id is None:
                addresses[queue.address] = _with_routing(addresses[queue.address], queue)
        return addresses

    def _report(self, kind: str, reason: str, emitted: Emitted) -> None:
        self._anomalies.append(Anomaly(kind, reason, emitted.file, emitted.offset, emitted.record_id))


def _paused_with(addresses: dict[str, Address], queue: Queue) -> Queue:
    """Pausing an address pauses its queues for as long as it lasts; nothing is stored with them."""
    return replace(queue, paused=True) if addresses[queue.address].paused else queue


def _implied_address(queue: Queue) -> Address:
    binding = bindings.AddressBinding(
        name=queue.address,
        routing_types=(queue.binding.routing_type,),
        auto_created=True,
        internal=False,
        unknown=b"",
    )
    return Address(None, binding, paused=False)


def _with_routing(address: Address, queue: Queue) -> Address:
    known = address.binding.routing_types
    if queue.binding.routing_type in known:
        return address
    return replace(
        address, binding=replace(address.binding, routing_types=(*known, queue.binding.routing_type))
    )
