"""What batches of messages on their way into write buffers have in common."""

from __future__ import annotations

from typing import Any

from journalfs.engine._native import ffi


class MessageBatch:
    """`_fields` is the C struct of what its messages have in common, with a `tx_id`."""

    __slots__ = ("_fields", "_progress")

    def __init__(self, fields: Any) -> None:
        self._fields = fields
        self._progress: Any = ffi.new("jfs_batch_progress *")

    @property
    def tx_id(self) -> int:
        return int(self._fields.tx_id)

    @property
    def staged_records(self) -> int:
        """Staged or made by the last call."""
        return int(self._progress.records)

    @property
    def needed_bytes(self) -> int:
        """After NO_ROOM: what the next record may need."""
        return int(self._progress.needed_bytes)
