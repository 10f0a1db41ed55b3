"""Bridges that management created (type 28 of the bindings journal, docs/format/bindings.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from journalfs.format.bindings import DivertRouting, Transformer, read_divert_routing, read_transformer
from journalfs.format.primitives import Reader


@dataclass(frozen=True, slots=True)
class Bridge:
    """Forwards a queue's messages to another broker. None: the broker's default."""

    name: str | None
    parent_name: str | None
    queue: str | None
    forwarding_address: str | None
    filter: str | None
    discovery_group: str | None
    ha: bool | None
    retry_interval_ms: int | None
    retry_interval_multiplier: float | None
    initial_connect_attempts: int | None
    reconnect_attempts: int | None
    reconnect_attempts_same_node: int | None
    use_duplicate_detection: bool | None
    confirmation_window_bytes: int | None
    producer_window_bytes: int | None
    client_failure_check_period_ms: int | None
    user: str | None
    password: str | None = field(repr=False)
    """Stored as it was given, in clear."""
    connection_ttl_ms: int | None
    max_retry_interval_ms: int | None
    min_large_message_bytes: int | None
    call_timeout_ms: int | None
    concurrency: int | None
    configuration_managed: bool | None
    routing_type: DivertRouting
    transformer: Transformer | None
    static_connectors: tuple[str | None, ...]
    pending_ack_timeout_ms: int | None
    client_id: str | None


def decode_bridge(body: bytes | memoryview) -> Bridge:
    """Decode type 28. The last two fields are missing in older records."""
    reader = Reader(body)
    text, integer, long = reader.nullable_string, reader.i32, reader.i64
    return Bridge(
        name=text(),
        parent_name=text(),
        queue=text(),
        forwarding_address=text(),
        filter=text(),
        discovery_group=text(),
        ha=reader.nullable(reader.boolean),
        retry_interval_ms=reader.nullable(long),
        retry_interval_multiplier=reader.nullable(reader.f64),
        initial_connect_attempts=reader.nullable(integer),
        reconnect_attempts=reader.nullable(integer),
        reconnect_attempts_same_node=reader.nullable(integer),
        use_duplicate_detection=reader.nullable(reader.boolean),
        confirmation_window_bytes=reader.nullable(integer),
        producer_window_bytes=reader.nullable(integer),
        client_failure_check_period_ms=reader.nullable(long),
        user=text(),
        password=text(),
        connection_ttl_ms=reader.nullable(long),
        max_retry_interval_ms=reader.nullable(long),
        min_large_message_bytes=reader.nullable(integer),
        call_timeout_ms=reader.nullable(long),
        concurrency=reader.nullable(integer),
        configuration_managed=reader.nullable(reader.boolean),
        routing_type=read_divert_routing(reader),
        transformer=read_transformer(reader),
        static_connectors=tuple(text() for _ in range(reader.count())),
        pending_ack_timeout_ms=reader.nullable(long) if reader.remaining_bytes else None,
        client_id=text() if reader.remaining_bytes else None,
    )
