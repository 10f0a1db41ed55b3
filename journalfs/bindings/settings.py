"""A queue's own settings, as its binding stores them, by the names that broker.xml gives them."""

from __future__ import annotations

from journalfs.bindings.model import Queue


def queue_settings(queue: Queue) -> tuple[tuple[str, bool | int | str | None], ...]:
    """(name, value) in a fixed order. None: not set. Delays in milliseconds."""
    binding = queue.binding
    return (
        ("address", binding.address),
        ("routing-type", binding.routing_type.name),
        ("filter", binding.filter),
        ("durable", True),
        ("user", binding.user),
        ("max-consumers", binding.max_consumers),
        ("exclusive", binding.exclusive),
        ("last-value", binding.last_value),
        ("last-value-key", binding.last_value_key),
        ("non-destructive", binding.non_destructive),
        ("ring-size", binding.ring_size),
        ("purge-on-no-consumers", binding.purge_on_no_consumers),
        ("consumers-before-dispatch", binding.consumers_before_dispatch),
        ("delay-before-dispatch", binding.delay_before_dispatch_ms),
        ("group-rebalance", binding.group_rebalance),
        ("group-rebalance-pause-dispatch", binding.group_rebalance_pause_dispatch),
        ("group-buckets", binding.group_buckets),
        ("group-first-key", binding.group_first_key),
        ("enabled", binding.enabled),
        ("internal", binding.internal),
        ("auto-created", binding.auto_created),
        ("auto-delete", binding.auto_delete),
        ("auto-delete-delay", binding.auto_delete_delay_ms),
        ("auto-delete-message-count", binding.auto_delete_message_count),
        ("configuration-managed", binding.configuration_managed),
        ("paused", queue.paused),
    )
