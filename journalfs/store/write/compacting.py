"""Compaction on demand: of a store that is open for writing, and what it would come to for any other."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from journalfs.change.journals import Journals
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import locate_store
from journalfs.engine.backend import BackendKind
from journalfs.errors import NoSpace, StoreNotKept, failing
from journalfs.limits import JOURNAL_BLOCK_BYTES_DEFAULT
from journalfs.records.files.compaction import CompactionDone, preview_compaction
from journalfs.records.files.writer import JournalWriter
from journalfs.store.journal_setup import as_found, bindings_journal, message_journal
from journalfs.store.write.store import WritingStore

Journal = Literal["messages", "bindings"]


class Compacted(msgspec.Struct, frozen=True, rename="camel"):
    """One journal before and after. Files with records are counted apart from all that are there."""

    journal: Journal
    files_before: int
    bytes_before: int
    with_records_before: int
    files_after: int
    bytes_after: int
    with_records_after: int
    written_bytes: int


class Preview(msgspec.Struct, frozen=True, rename="camel"):
    """One journal, and what compaction would do to it."""

    journal: Journal
    files: int
    bytes: int
    frees: tuple[str, ...]
    reclaimable: tuple[str, ...]
    """Those of `frees` that no live record needs even now."""
    writes_files: int
    writes_bytes: int


async def compact_store(store: WritingStore, *, shrinks: bool = False) -> list[Compacted]:
    """Compact both journals, the messages' first, of a store that is closed next. No more files are left than
    there were; where it `shrinks`, no free ones. Raises StoreNotKept, SystemFailure and WriteFailed.
    """
    if store.core.layout.not_kept_by is not None:
        raise StoreNotKept(store.core.layout.not_kept_by)
    await store.admission.scan_disk()
    with failing("compact", store.core.root, found=True):
        return [
            await _compact("messages", store.journals.messages, store.journals, shrinks),
            await _compact("bindings", store.journals.bindings, store.journals, shrinks),
        ]


async def _compact(journal: Journal, writer: JournalWriter, journals: Journals, shrinks: bool) -> Compacted:
    files_before, bytes_before = _on_disk(writer)
    try:
        done = await writer.upkeep.compact()
    except (OSError, NoSpace) as error:
        if not _is_full(error) or journals.failure is not None:
            raise
        tight = await _compact_in_what_is_left(writer, journals)
        if tight is None and (journal == "messages" or len(writer.data) > 1):
            raise
        # Bindings in one file have nothing to give, and the messages' journal is done.
        alone = (writer.current.name,)
        done = tight if tight is not None else CompactionDone(alone, alone, 0, 0)
    await writer.upkeep.shrink(0 if shrinks else files_before)
    files_after, bytes_after = _on_disk(writer)
    return Compacted(
        journal,
        files_before,
        bytes_before,
        len(done.old),
        files_after,
        bytes_after,
        len(done.new),
        done.written_bytes,
    )


async def _compact_in_what_is_left(writer: JournalWriter, journals: Journals) -> CompactionDone | None:
    """Compact a full disk's journals with the room that free files leave. If that is not enough for another
    file, the current one stays. Returns None if there is no room even for that.
    """
    freed = await writer.upkeep.reclaim()
    if await journals.shed() or freed:
        try:
            return await writer.upkeep.compact()
        except (OSError, NoSpace) as error:
            if not _is_full(error) or journals.failure is not None:
                raise
    return await writer.upkeep.squeeze()


def _is_full(error: OSError | NoSpace) -> bool:
    return isinstance(error, NoSpace) or error.errno in (errno.ENOSPC, errno.EDQUOT)


def _on_disk(writer: JournalWriter) -> tuple[int, int]:
    ending = f".{writer.settings.extension}"
    sizes = [writer.backend.size_bytes(name) for name in writer.backend.names() if name.endswith(ending)]
    return len(sizes), sum(sizes)


def preview_store(path: Path) -> list[Preview]:
    """Return what `compact_store` would do. Raises what `open_store` raises."""
    layout = locate_store(path)
    settings = journal_settings(layout.config)
    kind = BackendKind(settings.journal_type)
    block_bytes = settings.device_block_size_bytes or JOURNAL_BLOCK_BYTES_DEFAULT
    messages = as_found(layout, message_journal(layout, settings, kind))
    messages = messages.aligned(block_bytes if kind is BackendKind.AIO else 1)

    def previews() -> Iterator[Preview]:
        journals: tuple[Journal, Journal] = ("messages", "bindings")
        folders = (layout.journal_dir, layout.bindings_dir)
        for journal, folder, wanted in zip(
            journals, folders, (messages, bindings_journal(layout, settings)), strict=True
        ):
            found = preview_compaction(folder, wanted, relative_to=layout.root)
            yield Preview(
                journal,
                len(found.files),
                found.size_bytes,
                found.frees,
                found.reclaimable,
                len(found.writes),
                sum(found.writes),
            )

    with failing("read the store", path, found=True):
        return list(previews())
