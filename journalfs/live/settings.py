"""Settings of addresses and queues as files and extended attributes, under the broker's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from journalfs.bindings.model import Address, Queue
from journalfs.config.in_force import ORIGIN_DEFAULT, SettingInForce, SettingsInForce, settings_toml, toml
from journalfs.config.layout import DIRECTORY_FIELDS
from journalfs.live.opened import KnownSettings, OpenStore

PREFIX = "user.journalfs."

PAUSED: Final = "paused"
ROUTING_TYPES: Final = "routing-types"
"""Both are said of an address by records of its own, and are not among its settings."""


def settings_in_force(core: OpenStore) -> SettingsInForce:
    """Return the settings in force. The object stays the same while neither the settings in the bindings nor
    the configuration change, so a caller may compare it to know whether its own results hold.
    """
    stored, config, known = core.bindings.address_settings, core.layout.config, core.settings
    if known is None or known.stored is not stored or known.config is not config:
        values = {match: setting.values for match, setting in stored.items()}
        known = core.settings = KnownSettings(stored, config, SettingsInForce(config, values))
    return known.settings


def broker_toml(core: OpenStore) -> str:
    """The settings of the whole store, with where each comes from; directories as they are used."""
    used = {name: getattr(core.layout, field) for name, field in DIRECTORY_FIELDS.items()}
    root = core.layout.root

    def shown_as(path: Path) -> str:  # of a copy of the store it is to be the copy's
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    def shown(one: SettingInForce) -> SettingInForce:
        path, other = used.get(one.name), core.in_use.get(one.name)
        if path is not None:
            return replace(one, value=shown_as(path))
        if other is None or other[0] == one.value:
            return one
        return replace(one, value=other[0], origin=f"{one.origin}: {other[1]}")

    return settings_toml(map(shown, settings_in_force(core).core()))


def _address_settings(core: OpenStore, address: Address) -> tuple[SettingInForce, ...]:
    return settings_in_force(core).address(address.name)


def address_toml(core: OpenStore, address: Address) -> str:
    """Whether it is paused, which is said of the address itself, and every address setting in force, with
    where it comes from.
    """
    return toml({PAUSED: address.paused}) + settings_toml(_address_settings(core, address))


def address_attributes(core: OpenStore, address: Address) -> Mapping[str, bytes]:
    found = {PREFIX + ROUTING_TYPES: ",".join(kind.name for kind in address.binding.routing_types).encode()}
    if address.paused:
        found[PREFIX + PAUSED] = _text(address.paused)
    for setting in _address_settings(core, address):
        # Eighty defaults would say nothing, and be more than ext4 takes when a tree is copied with them.
        if setting.value is not None and setting.origin != ORIGIN_DEFAULT:
            found[PREFIX + setting.name] = _text(setting.value)
    return found


def queue_settings(queue: Queue) -> dict[str, object]:
    """Return the binding's settings by their names in broker.xml, without those that are not set."""
    if queue.lost:
        return {}
    binding = queue.binding
    settings: dict[str, object] = {
        "routing-type": binding.routing_type.name,
        "filter": binding.filter,
        "user": binding.user,
        "max-consumers": binding.max_consumers,
        "purge-on-no-consumers": binding.purge_on_no_consumers,
        "exclusive": binding.exclusive,
        "last-value": binding.last_value,
        "last-value-key": binding.last_value_key,
        "non-destructive": binding.non_destructive,
        "consumers-before-dispatch": binding.consumers_before_dispatch,
        "delay-before-dispatch": binding.delay_before_dispatch_ms,
        "group-rebalance": binding.group_rebalance,
        "group-rebalance-pause-dispatch": binding.group_rebalance_pause_dispatch,
        "group-buckets": binding.group_buckets,
        "group-first-key": binding.group_first_key,
        "ring-size": binding.ring_size,
        "enabled": binding.enabled,
        "auto-created": binding.auto_created,
        "auto-delete": binding.auto_delete,
        "auto-delete-delay": binding.auto_delete_delay_ms,
        "auto-delete-message-count": binding.auto_delete_message_count,
        "configuration-managed": binding.configuration_managed,
        "internal": binding.internal,
        PAUSED: queue.paused,
    }
    return {name: value for name, value in settings.items() if value is not None}


def queue_toml(core: OpenStore, queue: Queue) -> str:
    """The queue's own settings, then those of its address."""
    own = toml(queue_settings(queue))
    address = core.bindings.addresses.get(queue.address)
    inherited = address_toml(core, address) if address is not None else ""
    return f"{own}\n[address]\n{inherited}"


def queue_attributes(queue: Queue) -> Mapping[str, bytes]:
    return {PREFIX + name: _text(value) for name, value in queue_settings(queue).items()}


def _text(value: object) -> bytes:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.encode("utf-8", "surrogatepass")
