"""Records of the bindings journal that are read and kept, and never written, in the current layout."""

from __future__ import annotations

from journalfs.format.bindings import (
    PERMISSIONS,
    Bridge,
    Connector,
    Divert,
    Group,
    KeyValue,
    Roles,
    SecuritySetting,
    Transformer,
    User,
)
from journalfs.format.primitives import (
    PRESENT_FF,
    boolean,
    f64,
    i8,
    i32,
    i64,
    nullable,
    nullable_simple_string,
    nullable_string,
    simple_string,
    string,
)


def encode_group(group: Group) -> bytes:
    """Type 20."""
    return simple_string(group.group_id) + simple_string(group.cluster)


def encode_security_setting(setting: SecuritySetting) -> bytes:
    """Type 26."""
    permissions = (setting.roles.get(permission) for permission in PERMISSIONS)
    lists = (None if roles is None else ",".join(roles) for roles in permissions)
    return simple_string(setting.match) + b"".join(nullable_simple_string(roles) for roles in lists)


def encode_divert(divert: Divert) -> bytes:
    """Type 27."""
    return b"".join(
        (
            nullable_string(divert.name),
            nullable_string(divert.address),
            nullable_string(divert.forwarding_address),
            nullable_string(divert.routing_name),
            boolean(divert.exclusive),
            nullable_string(divert.filter),
            i8(divert.routing_type.value),
            _transformer(divert.transformer),
        )
    )


def encode_bridge(bridge: Bridge) -> bytes:
    """Type 28."""
    connectors = b"".join(nullable_string(connector) for connector in bridge.static_connectors)
    return b"".join(
        (
            nullable_string(bridge.name),
            nullable_string(bridge.parent_name),
            nullable_string(bridge.queue),
            nullable_string(bridge.forwarding_address),
            nullable_string(bridge.filter),
            nullable_string(bridge.discovery_group),
            nullable(boolean, bridge.ha),
            nullable(i64, bridge.retry_interval_ms),
            nullable(f64, bridge.retry_interval_multiplier, mark=PRESENT_FF),
            nullable(i32, bridge.initial_connect_attempts),
            nullable(i32, bridge.reconnect_attempts),
            nullable(i32, bridge.reconnect_attempts_same_node),
            nullable(boolean, bridge.use_duplicate_detection),
            nullable(i32, bridge.confirmation_window_bytes),
            nullable(i32, bridge.producer_window_bytes),
            nullable(i64, bridge.client_failure_check_period_ms),
            nullable_string(bridge.user),
            nullable_string(bridge.password),
            nullable(i64, bridge.connection_ttl_ms),
            nullable(i64, bridge.max_retry_interval_ms),
            nullable(i32, bridge.min_large_message_bytes),
            nullable(i64, bridge.call_timeout_ms),
            nullable(i32, bridge.concurrency),
            nullable(boolean, bridge.configuration_managed),
            i8(bridge.routing_type.value),
            _transformer(bridge.transformer),
            i32(len(bridge.static_connectors)),
            connectors,
            nullable(i64, bridge.pending_ack_timeout_ms),
            nullable_string(bridge.client_id),
        )
    )


def encode_user(user: User) -> bytes:
    """Type 47."""
    return string(user.name) + string(user.password)


def encode_roles(roles: Roles) -> bytes:
    """Type 48."""
    return string(roles.user) + i32(len(roles.roles)) + b"".join(map(string, roles.roles))


def encode_key_value(entry: KeyValue) -> bytes:
    """Type 50."""
    return string(entry.map_id) + string(entry.key) + string(entry.value)


def encode_connector(connector: Connector) -> bytes:
    """Type 51."""
    return string(connector.name) + string(connector.url)


def _transformer(transformer: Transformer | None) -> bytes:
    if transformer is None:
        return nullable_string(None)
    entries = b"".join(
        nullable_string(key) + nullable_string(value) for key, value in transformer.properties.items()
    )
    return nullable_string(transformer.class_name) + i32(len(transformer.properties)) + entries
