"""Text messages, many at once, from the UTF-8 that was written to the records of a write buffer (in C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.ledger import Ledger
from journalfs.engine.message_batch import MessageBatch
from journalfs.engine.publish import Stretches
from journalfs.engine.stage import ABSENT, EXISTS, HELD, NO_ROOM, STAGED, Stage
from journalfs.engine.status import check

TOO_LONG: Final[int] = lib.JFS_RANGE
"""A text may be too long for a record; nothing was staged."""


@dataclass(slots=True)
class TextFields:
    """What all texts for the same queues have in common. Encoded fields are as a record has them."""

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
        """What was begun is done with: a long text is not to be held until others come."""
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
