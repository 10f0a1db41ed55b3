"""What of a live state lies in one journal file, counted in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.arrays import struct_array, struct_list
from journalfs.engine.state import LiveState


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Messages of one queue whose records lie in the file."""

    queue_id: int
    messages: int
    delivering: int
    """Of these, acknowledged by a prepared transaction."""
    body_bytes: int
    oldest_ms: int
    """Earliest timestamp; 0: none has one."""


@dataclass(frozen=True, slots=True)
class TransactionShare:
    """An open transaction, and how many of its records lie in the file."""

    tx_id: int
    operations: int
    prepared: bool


def queue_shares(state: LiveState, file_slot: int) -> tuple[Iterator[QueueShare], int]:
    """Queues with messages in the file, by slot; and how many messages in it any queue has."""
    referenced, queues = ffi.new("uint32_t *"), 0

    def fill(out: Any, room: int, count: Any) -> int:
        nonlocal queues
        status = int(lib.jfs_state_explain_queues(state.pointer, file_slot, out, room, count, referenced))
        queues = count[0]
        return status

    found = struct_array("jfs_queue_share", fill, "counting the messages of a journal file")
    shares = (
        QueueShare(one.queue_id, one.messages, one.delivering, one.body_bytes, one.oldest_ms)
        for one in (found[number] for number in range(queues))
    )
    return shares, int(referenced[0])


def other_records(state: LiveState, file_slot: int) -> Mapping[int, int]:
    """Live records in the file that are no messages: how many of each user type."""
    by_type = ffi.new("uint32_t[]", lib.JFS_USER_TYPES)
    lib.jfs_state_explain_others(state.pointer, file_slot, by_type)
    return {
        user_type if user_type < 128 else user_type - 256: int(count)
        for user_type, count in enumerate(by_type)
        if count
    }


def transaction_shares(state: LiveState, file_slot: int) -> list[TransactionShare]:
    """Open transactions with records in the file, prepared or not."""

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_state_explain_txs(state.pointer, file_slot, out, room, count))

    return [
        TransactionShare(one.tx_id, one.operations, bool(one.flags & lib.JFS_TX_PREPARED))
        for one in struct_list("jfs_tx_share", fill, "counting the transactions of a journal file")
    ]
