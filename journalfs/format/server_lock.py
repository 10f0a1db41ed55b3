"""`server.lock`: the node id and the state the broker was in (docs/format/journal-file.md, "Lock files")."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum
from typing import Final

from journalfs.errors import DecodeError
from journalfs.format.primitives import broker_uuid

SERVER_LOCK_NAME: Final = "server.lock"
PRIMARY_LOCK_NAME: Final = "serverlock.1"
"""Held with a POSIX record lock (whole file) by the active broker for as long as it lives."""
BACKUP_LOCK_NAME: Final = "serverlock.2"

_NODE_ID_OFFSET: Final = 3
_NODE_ID_BYTES: Final = 16
_FILLER: Final = b"00"


class NodeState(Enum):
    """The state byte. A killed broker leaves `ACTIVE`, a clean stop leaves `STOPPED`."""

    NEVER_STARTED = ord("0")
    STARTING = ord("F")
    ACTIVE = ord("L")
    STOPPED = ord("P")
    UNKNOWN = ord("N")


@dataclass(frozen=True, slots=True)
class ServerLock:
    state: NodeState
    state_byte: int
    node_id: uuid.UUID | None
    """None while the broker has not given itself one."""


def decode_server_lock(data: bytes) -> ServerLock:
    """Decode the file's content (19 bytes, fewer before the first start; what follows is ignored).

    Raises `DecodeError` when a node id is there but incomplete.
    """
    state_byte = data[0] if data else NodeState.UNKNOWN.value
    known = {state.value: state for state in NodeState}
    node_id = data[_NODE_ID_OFFSET : _NODE_ID_OFFSET + _NODE_ID_BYTES]
    if 0 < len(node_id) < _NODE_ID_BYTES:
        raise DecodeError(_NODE_ID_OFFSET, f"the node id has {len(node_id)} of {_NODE_ID_BYTES} bytes")
    return ServerLock(
        state=known.get(state_byte, NodeState.UNKNOWN),
        state_byte=state_byte,
        node_id=broker_uuid(node_id) if node_id else None,
    )


def encode_server_lock(state: NodeState, node_id: uuid.UUID) -> bytes:
    """The whole file."""
    return bytes((state.value,)) + _FILLER + node_id.bytes
