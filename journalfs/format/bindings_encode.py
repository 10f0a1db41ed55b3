"""Records of the bindings journal, written in the layout of the current format (docs/format/bindings.md)."""

from __future__ import annotations

from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings import (
    AddressBinding,
    IdCounter,
    QueueBinding,
    Status,
)
from journalfs.format.encoding import (
    boolean,
    i8,
    i16,
    i32,
    i64,
    nullable_simple_string,
    simple_string,
)


def encode_queue_binding(binding: QueueBinding) -> bytes:
    """Type 21. A metadata of None would keep brokers from starting, so it is written as an empty one."""
    return b"".join(
        (
            simple_string(binding.name),
            simple_string(binding.address),
            nullable_simple_string(binding.filter),
            nullable_simple_string(binding.metadata or ""),
            boolean(binding.auto_created),
            i32(binding.max_consumers),
            boolean(binding.purge_on_no_consumers),
            i8(binding.routing_type.value),
            boolean(binding.exclusive),
            boolean(binding.last_value),
            boolean(binding.configuration_managed),
            i32(binding.consumers_before_dispatch),
            i64(binding.delay_before_dispatch_ms),
            nullable_simple_string(binding.last_value_key),
            boolean(binding.non_destructive),
            boolean(binding.group_rebalance),
            i32(binding.group_buckets),
            boolean(binding.auto_delete),
            i64(binding.auto_delete_delay_ms),
            i64(binding.auto_delete_message_count),
            nullable_simple_string(binding.group_first_key),
            i64(binding.ring_size),
            boolean(binding.enabled),
            boolean(binding.group_rebalance_pause_dispatch),
            boolean(binding.internal),
            binding.unknown,
        )
    )


def encode_address_binding(binding: AddressBinding) -> bytes:
    """Type 44."""
    types = b"".join(i8(routing_type.value) for routing_type in binding.routing_types)
    flags = boolean(binding.auto_created) + boolean(binding.internal)
    return simple_string(binding.name) + i32(len(types)) + types + flags + binding.unknown


def encode_status(status: Status) -> bytes:
    """Type 22 or 46."""
    return i64(status.target) + i16(0 if status.paused else 1)


def encode_id_counter(counter: IdCounter) -> bytes:
    """Type 24."""
    return i64(counter.value)


def encode_address_setting_json(setting: StoredAddressSetting) -> bytes:
    """Type 52. The text is written as it is: settings of the older binary form have none, and are written
    by giving them one.
    """
    if setting.text is None:
        raise ValueError(f"the settings of {setting.match!r} have no JSON text")
    return simple_string(setting.match) + simple_string(setting.text)
