"""Joins large messages with their body files: measuring them, handing them to the renderer, missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import LineBatch, Measure
from journalfs.engine.pages import PageScan
from journalfs.engine.state_types import Operation, Unmeasured
from journalfs.engine.status import FileTorn
from journalfs.errors import Damaged
from journalfs.format.large_file import format_large_name
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.large.directory import BodyUnreadable
from journalfs.store.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.store.core import Core

UNDECODABLE = "the large message cannot be decoded with its body file"


@dataclass(slots=True)
class LargeBodies:
    core: Core
    _damage: dict[MessageId, Damage] = field(default_factory=dict)
    _refused: set[MessageId] = field(default_factory=set)
    """Messages whose bodies could not be opened: their lines were measured without."""
    _torn: set[MessageId] = field(default_factory=set)
    """Messages whose bodies could not be read everywhere: their lines were measured with zeros there."""

    @property
    def unreadable(self) -> bool:
        """Something could not be read, which may be otherwise without any file changing."""
        return bool(self._refused or self._torn)

    def damage(self) -> list[Damage]:
        return list(self._damage.values())

    def resume(self, damage: Sequence[tuple[MessageId, Damage]]) -> None:
        self._damage.update(damage)

    def known_damage(self) -> list[tuple[MessageId, Damage]]:
        return sorted(self._damage.items())

    def measure_record(self, unmeasured: Unmeasured) -> Measure:
        """Measure a message of the journal together with its body file."""
        file = self.core.loader.files[unmeasured.file_slot]
        payload = file.copy(unmeasured.offset, unmeasured.body_bytes)
        batch = LineBatch.of_payloads([payload], queue=None, sources=[unmeasured.source])
        self.attach(batch, [0])
        return self._measured(batch)

    def measure_page(self, scan: PageScan) -> None:
        """Measure the large messages of a page that was just scanned."""
        undecoded = set(scan.undecoded())
        for index, _ in scan.large():
            if index in undecoded:
                continue
            batch = scan.fill_lines([index], queue=None, now_ms=0)
            self.attach(batch, [0])
            scan.set_measure(index, self._measured(batch))

    def _measured(self, batch: LineBatch) -> Measure:
        """Measure a message with its body, and list a body that is there but cannot be decoded to its end."""
        try:
            found = batch.measure(0)
        except FileTorn:
            # The record is a copy or was just scanned, so it is the body.
            batch.set_large(0, None)
            self._torn.add(MessageId(batch.measure(0).message_id))
            self.attach(batch, [0])
            found = batch.measure(0)
        message_id = MessageId(found.message_id)
        if not found.damaged:
            self._damage.pop(message_id, None)
        elif message_id not in self._damage:
            self._report(message_id, 0, UNDECODABLE)
        return found

    def batch_of(self, operation: Operation) -> LineBatch:
        """The line of a message that a transaction adds; it is in no queue yet."""
        file = self.core.loader.files[operation.file_slot]
        payload = file.copy(operation.body_offset, operation.body_bytes)
        source = 1 if operation.user_type == MessageType.LARGE_MESSAGE else 0
        batch = LineBatch.of_payloads([payload], queue=None, sources=[source])
        if batch.measure(0).large:
            self.attach(batch, [0])
        return batch

    def attach(self, batch: LineBatch, large: Iterable[int]) -> None:
        """Give the large messages of a batch, those at the positions in `large`, their bodies."""
        for index in large:
            body, missing = self._body(batch, index)
            batch.set_large(index, body)
            if missing and body is not None:
                batch.lines[index].large_missing = 1

    def _body(self, batch: LineBatch, index: int) -> tuple[MappedFile | None, bool]:
        """The body file, and whether it is missing or shorter than its message says."""
        measure = batch.measure(index)
        message_id = MessageId(measure.message_id)
        directory = self.core.large
        if message_id in self._refused:
            return None, True
        try:
            properties = {} if measure.amqp else _properties(batch, index)
            large_size = properties.get("_AMQ_LARGE_SIZE")
            expected = large_size if isinstance(large_size, int) else None
            body = directory.body(message_id, compressed=measure.compressed, declared_bytes=expected)
            if body is None:
                origin = (properties or _properties(batch, index)).get("_AMQ_ORIG_MESSAGE_ID")
                if isinstance(origin, int):
                    body = directory.body(
                        MessageId(origin), compressed=measure.compressed, declared_bytes=expected
                    )
        except Damaged as error:
            if isinstance(error, BodyUnreadable):
                self._refused.add(message_id)
            self._report(message_id, error.offset, error.reason)
            return None, True
        if body is None:
            self._report(message_id, 0, "the large message's body file is missing")
            return None, True
        body.detach()
        if message_id in self._torn and body.mend():
            hole = body.unreadable[0]
            self._report(message_id, hole.offset, f"cannot be read: {hole.reason}")
            return body, True
        if expected is not None and body.size_bytes < expected:
            self._report(
                message_id, body.size_bytes, f"the body ends after {body.size_bytes} of {expected} bytes"
            )
            return body, True
        known = self._damage.get(message_id)
        if known is not None and known.reason != UNDECODABLE:
            del self._damage[message_id]
        return body, False

    def _report(self, message_id: MessageId, offset: int, reason: str) -> None:
        name = name_of(self.core.large.path / format_large_name(message_id), self.core.root)
        self._damage[message_id] = Damage(name, offset, 0, "large-message", reason)


def _properties(batch: LineBatch, index: int) -> dict[str, object]:
    """The message's properties, which its record holds without the body."""
    return cast(
        "dict[str, object]",
        decode_envelope(LineBatch(batch.lines + index, 1, queue=None).line(0)).get("properties") or {},
    )
