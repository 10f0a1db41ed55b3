"""A store of the current format, read as older ones are: what is intact of it becomes another store."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from journalfs import door
from journalfs.bindings.interpret import Emitted
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageScan, scan_page
from journalfs.errors import DecodeError
from journalfs.format.bindings import decode_address_binding, decode_queue_binding
from journalfs.format.core_message import CoreHeader, encode_message
from journalfs.format.page_record import NO_TRANSACTION, page_record
from journalfs.format.primitives import NULL, Reader
from journalfs.format.record_types import BindingType, MessageType
from journalfs.ids import QueueId
from journalfs.records.older.bindings import OldQueue
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import Source
from journalfs.records.older.hornetq import FirstSeen, JournalReading

_NOTHING = page_record(
    NO_TRANSACTION,
    MessageType.MESSAGE,
    encode_message(0, NULL, b"", CoreHeader(None, 0, False, 0, 0, 4, NULL)),
    (),
)
"""Keeps the place of a record that nobody can read."""


def fill_current(source: Source, out: DerivedStore) -> None:
    """The adapter."""
    reading = _Current(source, out)
    reading.bindings()
    reading.journal()
    reading.pages()
    reading.rest()
    reading.tell_counts()


class _Current(JournalReading):
    def bindings(self) -> None:
        self.tell_without_bindings()
        records, highest = self.live("bindings")
        self.out.ids_from(highest + 1)
        queues: set[int] = set()
        for record in records:
            if record.user_type == BindingType.ID_COUNTER:
                try:
                    self.out.ids_from(Reader(record.body).i64())
                except DecodeError as error:
                    self.out.damage(record.file, record.offset, 0, "undecodable", f"the id counter: {error}")
                continue
            if not self._note_names(record):
                continue
            if record.user_type == BindingType.QUEUE_BINDING:
                queues.add(record.record_id)
            self.out.binding(record.record_id, record.user_type, record.body)
        self.first_seen = FirstSeen(queues | self.source.also_bound)

    def _note_names(self, record: Emitted) -> bool:
        """Have the new store know what is bound: queues that lost their bindings join it. Return False for a
        binding that cannot be read: a broker may not start on it, and its queue is a lost one.
        """
        try:
            if record.user_type == BindingType.ADDRESS_BINDING:
                self.out.addresses[decode_address_binding(record.body).name] = record.record_id
            elif record.user_type == BindingType.QUEUE_BINDING:
                self.out.queues[decode_queue_binding(record.body).name] = QueueId(record.record_id)
        except (DecodeError, ValueError):
            return False
        return True

    def page(self, path: Path, to: Path, bound: Sequence[OldQueue]) -> None:
        try:
            with MappedFile(path) as mapped:
                scan = scan_page(mapped)
                whole = scan.damaged_at is None and not scan.undecoded()
                if whole:
                    door.copy(path, to)
                else:
                    door.write(to, self._intact(path, mapped, scan))
                self.out.progress(mapped.size_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise  # it is what is made that has no room
            self.out.refused(path, self.source.root, error)

    def _intact(self, path: Path, mapped: MappedFile, scan: PageScan) -> bytes:
        kept = []
        for entry in scan:
            if entry.undecoded:
                reason = "no record can be read here"
                self.out.damage(self.name(path), entry.offset, entry.record_bytes, "garbage", reason)
                kept.append(_NOTHING)
            else:
                kept.append(mapped.copy(entry.offset, entry.record_bytes))
        if scan.damaged_at is not None:
            length = mapped.size_bytes - scan.damaged_at
            reason = scan.reason or "no record begins here"
            self.out.damage(self.name(path), scan.damaged_at, length, "garbage", reason)
        return b"".join(kept)
