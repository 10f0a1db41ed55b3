"""Finds body files without a message: a crash leaves them between a body and its record, or
behind a delete.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from journalfs.bodies.directory import LargeFile
from journalfs.damage import Damage
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER
from journalfs.errors import DecodeError
from journalfs.format.large_file import LargeFileKind
from journalfs.format.record_types import MessageType
from journalfs.live.missing import missing_directories
from journalfs.live.stored_runs import origin_of_large
from journalfs.live.undecided import adds_message

if TYPE_CHECKING:
    from journalfs.live.core import Core


class _Record(NamedTuple):
    """Where the record of a message is, of which only some are read."""

    file: MappedFile
    offset: int
    size_bytes: int
    source: int

    def origin(self) -> int | None:
        """Return the id of the message that this one was copied from. Raises `DecodeError`."""
        return origin_of_large(self.source, self.file.copy(self.offset, self.size_bytes))


_Named = tuple[int, _Record | None]
"""A message's id, and its record; None: it has none that says whose body it has."""


def orphaned_bodies(core: Core) -> list[LargeFile]:
    """Return the body files that no message refers to. Returns none while a broker is at work, since its
    messages come after their bodies, and none if journal or pages are damaged, set aside or missing, since
    they may have held the messages.

    A broker that died while it copied a message leaves the copy without a body of its own, and the origin's
    body is its only one: that body is no orphan. If it cannot be told whose body that is, none is an orphan.
    """
    files = core.large.files()
    if not files or core.live_broker or any(_where_messages_were_lost(core)) or core.pages_set_aside():
        return []
    there = {file.message_id for file in files if file.kind is LargeFileKind.DURABLE}
    try:
        needed = set(_needed(core, there))
    except DecodeError:
        return []
    return [file for file in files if file.kind is not LargeFileKind.DURABLE or file.message_id not in needed]


def large_records(core: Core) -> Iterator[tuple[int, bytes, int]]:
    """The id, record and source (`engine.lines`) of each message that may have a body in a file of its own:
    live, of a transaction that has not ended, or in a page.
    """
    for message_id, record in chain(_in_journal(core), _in_transactions(core), _in_pages(core)):
        if record is not None:
            yield message_id, record.file.copy(record.offset, record.size_bytes), record.source


def _where_messages_were_lost(core: Core) -> Iterator[Damage]:
    """Or cannot be read now."""
    return chain(core.loader.damage(), missing_directories(core), core.damage_of_pages())


def _needed(core: Core, there: Set[int]) -> Iterator[int]:
    """Whose bodies anything in the store may still need; `there` are those that have one. Raises
    `DecodeError`.
    """
    for message_id, record in chain(_in_journal(core), _in_transactions(core), _in_pages(core)):
        yield message_id
        origin = record.origin() if record is not None and message_id not in there else None
        if origin is not None:
            yield origin


def _in_journal(core: Core) -> Iterator[_Named]:
    """Large messages that queues have."""
    state, files = core.loader.state, core.loader.files
    for message_id in state.large_ids():
        refs = state.message_refs(message_id)
        info = state.ref(refs[0]) if refs else None
        place = _Record(files[info.file_slot], info.offset, info.body_bytes, info.source) if info else None
        yield message_id, place


def _in_transactions(core: Core) -> Iterator[_Named]:
    """Yield the records that prepared or undecided transactions add or change: not only large messages, nor
    only messages.
    """
    files = core.loader.files
    for transaction in chain(core.loader.state.transactions(), core.undecided()):
        for op in transaction.operations:
            source = SOURCE_CORE_LARGE if op.user_type == MessageType.LARGE_MESSAGE else SOURCE_PERSISTER
            place = _Record(files[op.file_slot], op.body_offset, op.body_bytes, source)
            yield op.record_id, place if adds_message(op) else None


def _in_pages(core: Core) -> Iterator[_Named]:
    """Large messages in pages, also those that are consumed: a broker deletes their bodies with the pages."""
    for paged in core.pages.values():
        for number in paged.numbers():
            scan = paged.scan(number)
            for index, message_id in scan.large():
                entry = scan.entry(index)
                place = entry.payload_offset, entry.payload_bytes, entry.source
                yield message_id, _Record(paged.mapped(number), *place)
