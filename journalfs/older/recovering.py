"""What counts when acknowledged messages are brought back: the first record of each message and reference."""

from __future__ import annotations

from collections.abc import Collection

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import QueueId

_ADDED = frozenset({RecordKind.ADD, RecordKind.ADD_TX})
_UPDATED = frozenset({RecordKind.UPDATE, RecordKind.UPDATE_TX})
_MESSAGES = frozenset({MessageType.MESSAGE, MessageType.LEGACY_MESSAGE, MessageType.LARGE_MESSAGE})


class FirstSeen:
    """Compaction, and a file that is used again, leave a message on the disk more than once."""

    def __init__(self, queues: Collection[QueueId]) -> None:
        self._queues = queues
        self._messages: set[int] = set()
        self._references: set[tuple[int, int]] = set()
        self.unbound = 0
        """References to queues that are gone."""

    def keep_first(self, mapped: MappedFile, scan: Scan) -> None:
        """Pass over records of the scan that say something again, or are about a queue that is gone."""
        records = scan.pointer.records
        for index in range(scan.count):
            record = records[index]
            if record.kind in _ADDED and record.user_type in _MESSAGES:
                known = record.record_id in self._messages
                self._messages.add(record.record_id)
            elif record.kind in _UPDATED and record.user_type == MessageType.ADD_REFERENCE:
                known = self._knows(record.record_id, mapped.copy(record.body_offset, record.body_bytes))
            else:
                continue
            if known:
                record.kind = RecordKind.EVENT

    def _knows(self, message_id: int, body: bytes) -> bool:
        queue = int.from_bytes(body[:8], "big", signed=True)
        if queue not in self._queues:
            self.unbound += 1
            return True
        reference = (message_id, queue)
        known = reference in self._references
        self._references.add(reference)
        return known
