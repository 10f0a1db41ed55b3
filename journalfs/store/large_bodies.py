"""Joins large messages with their body files: measuring them, handing them to the renderer, missing ones."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from journalfs.damage import Damage
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import LineBatch
from journalfs.errors import Damaged
from journalfs.format.large_file import format_large_name
from journalfs.ids import MessageId
from journalfs.store.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.store.core import Core


@dataclass(slots=True)
class LargeBodies:
    core: Core
    _damage: dict[MessageId, Damage] = field(default_factory=dict)

    def damage(self) -> list[Damage]:
        return list(self._damage.values())

    def resume(self, damage: Sequence[tuple[MessageId, Damage]]) -> None:
        self._damage.update(damage)

    def known_damage(self) -> list[tuple[MessageId, Damage]]:
        return sorted(self._damage.items())

    def attach(self, batch: LineBatch, ids: array[int]) -> None:
        """Give each large message of the batch its body."""
        for index in batch.large_indexes():
            self._attach_one(batch, index, MessageId(ids[index]))

    def _attach_one(self, batch: LineBatch, index: int, message_id: MessageId) -> None:
        body, missing = self._body(batch, index, message_id)
        batch.set_large(index, body, missing=missing)

    def _body(self, batch: LineBatch, index: int, message_id: MessageId) -> tuple[MappedFile | None, bool]:
        """The body file, and whether it is missing or shorter than its message says."""
        directory = self.core.large
        compressed = batch.compressed(index)
        try:
            body = directory.body(message_id, compressed=compressed)
            expected = None
            if body is None or not batch.is_amqp(index):
                properties = self._properties(batch, index)
                expected = properties.get("_AMQ_LARGE_SIZE")
                origin = properties.get("_AMQ_ORIG_MESSAGE_ID")
                if body is None and isinstance(origin, int):
                    body = directory.body(MessageId(origin), compressed=compressed)
        except Damaged as error:
            self._report(message_id, error.offset, error.reason)
            return None, True
        if body is None:
            self._report(message_id, 0, "the large message's body file is missing")
            return None, True
        body.detach()
        if isinstance(expected, int) and body.size_bytes < expected:
            reason = f"the body ends after {body.size_bytes} of {expected} bytes"
            self._report(message_id, body.size_bytes, reason)
            return body, True
        self._damage.pop(message_id, None)
        return body, False

    def _properties(self, batch: LineBatch, index: int) -> dict[str, object]:
        """The message's properties, which its record has without the body."""
        envelope = decode_envelope(batch.line(index))
        return cast("dict[str, object]", envelope.get("properties") or {})

    def _report(self, message_id: MessageId, offset: int, reason: str) -> None:
        name = f"{self.core.large.path.name}/{format_large_name(message_id)}"
        self._damage[message_id] = Damage(name, offset, 0, "large-message", reason)
