"""Copies of core messages, many at once, from the records they are in to those of a write buffer (in C)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.ledger import Ledger
from journalfs.engine.message_batch import MessageBatch
from journalfs.engine.stage import Stage
from journalfs.engine.status import check

NOTES_MADE, NOTES_TAKEN, NOTES_KEPT = lib.JFS_NOTES_MADE, lib.JFS_NOTES_TAKEN, lib.JFS_NOTES_KEPT


@dataclass(frozen=True, slots=True)
class CopyFields:
    """What all copies of one queue's messages for another have in common. Encoded fields are as a record has
    them.
    """

    address: bytes
    """A nullable SimpleString: where the copies are sent to."""
    queue_name: bytes
    """A SimpleString: the queue that they are copied from."""
    queue: int
    """Id of the one that gets them."""
    tx_id: int
    body_bytes_max: int
    message_bytes_max: int
    notes: int = NOTES_MADE
    """What becomes of what they say of where they come from (`JFS_NOTES_...`)."""


class CopyBatch(MessageBatch):
    """Messages on their way into write buffers: `take`, and `stage` into one buffer after the other until
    all that were taken are.
    """

    __slots__ = ("_count", "_first_id", "_ids", "_keep", "_lines")

    def __init__(self, fields: CopyFields, ids: array[int], lines: Any, keep: Sequence[Any]) -> None:
        """`lines` is a `jfs_line[]` of these messages, and `keep` what it points into."""
        address, name = ffi.from_buffer(fields.address), ffi.from_buffer(fields.queue_name)
        self._ids: Any = ffi.from_buffer("int64_t[]", ids)
        self._lines = lines
        self._keep = address, name, keep
        self._count = len(ids)
        self._first_id = 0
        pointer = ffi.new(
            "jfs_copies *",
            {
                "address": ffi.cast("const uint8_t *", address),
                "queue_name": ffi.cast("const uint8_t *", name),
                "queue": fields.queue,
                "tx_id": fields.tx_id,
                "address_bytes": len(fields.address),
                "queue_name_bytes": len(fields.queue_name),
                "body_bytes_max": fields.body_bytes_max,
                "message_bytes_max": fields.message_bytes_max,
                "notes": fields.notes,
            },
        )
        super().__init__(pointer)

    def alike(self) -> tuple[bool, int]:
        """Whether the first message can be copied here, and how many there are from it on of which the same
        is true. Raises FileTorn.
        """
        possible, alike = ffi.new("int *"), ffi.new("uint32_t *")
        status = lib.jfs_copies_alike(self._fields, self._lines, self._count, possible, alike)
        check(status, "looking at messages to be copied")
        return bool(possible[0]), int(alike[0])

    def take(self, count: int, *, first_id: int) -> None:
        """The first `count` are to be staged, with ids that count up from `first_id`."""
        self._count, self._first_id = count, first_id

    def stage(self, stage: Stage, ledger: Ledger) -> int:
        """Stage what is left as far as it fits: STAGED when that was all, NO_ROOM when it goes on elsewhere,
        else a status that says why not. `staged_records` says how many it were, whatever came then.
        """
        return int(
            lib.jfs_stage_copies(
                stage.pointer,
                ledger.pointer,
                self._fields,
                self._lines,
                self._ids,
                self._count,
                self._first_id,
                self._progress,
            )
        )
