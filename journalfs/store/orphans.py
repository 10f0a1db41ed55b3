"""Body files that no message has: what a crash leaves between a body and its record, or behind a delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from journalfs.errors import DecodeError
from journalfs.format.large_file import LargeFileKind
from journalfs.ids import MessageId
from journalfs.large.directory import LargeFile
from journalfs.store.absent import missing_directories
from journalfs.store.stored_runs import origin_of_large

if TYPE_CHECKING:
    from journalfs.store.core import Core


def orphaned_bodies(core: Core) -> list[LargeFile]:
    """Those of the bodies that nothing in the store refers to, as it is now. There are none while a broker is
    at work, whose messages come after their bodies, or where the journal is damaged or a part of the store is
    not there, which may have had the messages.

    A broker that died while it copied a message leaves the copy without a body of its own, and the origin's
    body is its only one: that is no orphan. Where it cannot be told whose body that is, nothing is one.
    """
    files = core.large.files()
    if not files or core.live_broker or core.loader.damage() or any(missing_directories(core)):
        return []
    in_journal = set(core.loader.state.large_ids())
    elsewhere = _ids_elsewhere(core)
    there = {file.message_id for file in files if file.kind is LargeFileKind.DURABLE}
    if elsewhere - in_journal - there:
        return []
    try:
        origins = _origins(core, in_journal - there)
    except DecodeError:
        return []
    known = in_journal | elsewhere | origins
    return [file for file in files if file.kind is not LargeFileKind.DURABLE or file.message_id not in known]


def _ids_elsewhere(core: Core) -> set[int]:
    """Of messages that a prepared transaction adds, or that lie in pages."""
    known: set[int] = set()
    for transaction in core.loader.state.transactions():
        known.update(operation.record_id for operation in transaction.operations)
    for paged in core.pages.values():
        for number in paged.numbers():
            scan = paged.scan(number)
            ids = scan.message_ids()
            known.update(ids[index] for index, _ in scan.large())
    return known


def _origins(core: Core, message_ids: Iterable[int]) -> set[int]:
    """What messages of the journal were copied from. Raises `DecodeError`."""
    state = core.loader.state
    found: set[int] = set()
    for message_id in message_ids:
        refs = state.message_refs(message_id)
        if refs:
            info = state.ref(refs[0])
            payload = core.loader.files[info.file_slot].copy(info.offset, info.body_bytes)
            origin = origin_of_large(info.source, payload)
            if origin is not None:
                found.add(MessageId(origin))
    return found
