"""The values that batches of messages share, and the batches that C stages into write buffers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.ledger import Ledger
from journalfs.engine.publish import Stretches
from journalfs.engine.stage import ABSENT, EXISTS, HELD, NO_ROOM, STAGED, Stage
from journalfs.engine.status import check


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
        """After NO_ROOM: the bytes that the next record may need."""
        return int(self._progress.needed_bytes)


# Copies of core messages, many at once, from the records they are in to those of a write buffer (in C).

NOTES_MADE, NOTES_TAKEN, NOTES_KEPT = lib.JFS_NOTES_MADE, lib.JFS_NOTES_TAKEN, lib.JFS_NOTES_KEPT


@dataclass(frozen=True, slots=True)
class CopyFields:
    """The values that all copies of one queue's messages for another share. Encoded fields are as a record
    has them.
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
    """What happens to the notes of where a message comes from (`JFS_NOTES_...`)."""


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
        """Stage the rest of the copies as far as it fits. Returns STAGED if that was all, NO_ROOM if the rest
        needs another buffer, else a status with the reason. `staged_records` counts the staged records in
        every case.
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


# Text messages, many at once, from the UTF-8 that was written to the records of a write buffer (in C).

TOO_LONG: Final[int] = lib.JFS_RANGE
"""A text may be too long for a record; nothing was staged."""


@dataclass(slots=True)
class TextFields:
    """The values that all texts for the same queues share. Encoded fields are as a record has them."""

    address: bytes
    """A nullable SimpleString."""
    properties: bytes
    """With the mark of presence."""
    every: Sequence[int]
    """Queues that get each message."""
    in_turn: Sequence[int]
    """Queues of which each message gets one."""
    user_id_node: bytes
    body_bytes_max: int
    record_bytes_max: int


class TextBatch(MessageBatch):
    """Texts on their way into write buffers: `begin`, and `stage` into one buffer after the other until all
    of them are. May be used again and again.
    """

    __slots__ = ("_keep", "_texts")

    def __init__(self, fields: TextFields) -> None:
        address, properties = ffi.from_buffer(fields.address), ffi.from_buffer(fields.properties)
        every, in_turn = ffi.new("int64_t[]", fields.every), ffi.new("int64_t[]", fields.in_turn)
        self._texts: Stretches | None = None
        self._keep = address, properties, every, in_turn
        pointer = ffi.new(
            "jfs_text_batch *",
            {
                "address": ffi.cast("const uint8_t *", address),
                "properties": ffi.cast("const uint8_t *", properties),
                "every": every,
                "in_turn": in_turn,
                "address_bytes": len(fields.address),
                "properties_bytes": len(fields.properties),
                "every_count": len(fields.every),
                "in_turn_count": len(fields.in_turn),
                "body_bytes_max": fields.body_bytes_max,
                "record_bytes_max": fields.record_bytes_max,
                "user_id_node": fields.user_id_node,
            },
        )
        super().__init__(pointer)

    def begin(
        self,
        texts: Stretches,
        *,
        turn: int,
        first_id: int,
        tx_id: int,
        timestamp_ms: int,
        expiration_ms: int,
        user_id_step: int,
    ) -> None:
        """`turn`: which of the queues in turn gets the first message; ids and steps
        count up from those given; `tx_id` 0: records of their own; `expiration_ms` 0: never.
        """
        self._texts = texts
        fields, progress = self._fields, self._progress
        fields.turn, fields.first_id, fields.tx_id = turn, first_id, tx_id
        fields.timestamp_ms, fields.expiration_ms = timestamp_ms, expiration_ms
        fields.user_id_step = user_id_step
        progress.message = progress.step = 0

    def stage(self, stage: Stage, ledger: Ledger) -> int:
        """Stage what is left as far as it fits: STAGED when that was all, NO_ROOM when it goes on elsewhere,
        TOO_LONG, or ABSENT, EXISTS, HELD. `staged_records` says how many it were.
        """
        texts = self._texts
        assert texts is not None, "nothing was begun"
        status = int(
            lib.jfs_stage_texts(
                stage.pointer,
                ledger.pointer,
                self._fields,
                texts.source,
                texts.pointer,
                texts.count,
                self._progress,
            )
        )
        if status not in (STAGED, NO_ROOM, TOO_LONG, ABSENT, EXISTS, HELD):
            check(status, "staging texts")
        return status

    def end(self) -> None:
        """Drop the texts that were begun: a long text must not be held until the next ones come."""
        self._texts = None

    def page(self, room: Any, used: Any) -> int:
        """Make records of a page of what is left, as far as there is room (`PageTexts`): a status."""
        texts = self._texts
        assert texts is not None, "nothing was begun"
        return int(
            lib.jfs_page_texts(
                room, self._fields, texts.source, texts.pointer, texts.count, self._progress, used
            )
        )

    def too_long(self) -> bool:
        """Whether one of the texts may be too long for a record."""
        texts = self._texts
        assert texts is not None, "nothing was begun"
        return bool(lib.jfs_texts_too_long(self._fields, texts.pointer, texts.count))

    @property
    def fields(self) -> Any:
        """A `jfs_text_batch`."""
        return self._fields

    @property
    def messages(self) -> int:
        """How many texts there are."""
        return 0 if self._texts is None else self._texts.count

    @property
    def ended(self) -> bool:
        """Whether all of it was staged or made."""
        return int(self._progress.message) == self.messages

    @property
    def begun(self) -> bool:
        """Whether anything of it was staged."""
        return bool(self._progress.message or self._progress.step)
