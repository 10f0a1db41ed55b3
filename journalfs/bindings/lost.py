"""What stands for queues and addresses whose bindings are lost: their messages still name them by id."""

from __future__ import annotations

from journalfs.bindings.model import Address, Queue
from journalfs.format.bindings import AddressBinding, QueueBinding, RoutingType
from journalfs.ids import QueueId


def lost_queue(queue_id: QueueId, name: str, address: str) -> Queue:
    """A queue of which nothing is known but its id, and where its messages were sent."""
    binding = QueueBinding(
        name=name,
        address=address,
        filter=None,
        metadata=None,
        auto_created=False,
        max_consumers=-1,
        purge_on_no_consumers=False,
        routing_type=RoutingType.MULTICAST,
        exclusive=False,
        last_value=False,
        configuration_managed=False,
        consumers_before_dispatch=0,
        delay_before_dispatch_ms=-1,
        last_value_key=None,
        non_destructive=False,
        group_rebalance=False,
        group_buckets=-1,
        auto_delete=False,
        auto_delete_delay_ms=0,
        auto_delete_message_count=0,
        group_first_key=None,
        ring_size=-1,
        enabled=True,
        group_rebalance_pause_dispatch=False,
        internal=False,
        unknown=b"",
    )
    return Queue(queue_id, name, binding, paused=False, paused_itself=False, lost=True)


def lost_address(name: str) -> Address:
    """The address of lost queues, where no record names it either."""
    binding = AddressBinding(name=name, routing_types=(), auto_created=False, internal=False, unknown=b"")
    return Address(None, binding, paused=False)
