"""What a compaction would come to, found by doing it in memory: nothing is written, and no lock is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from journalfs.engine.buffers import MappedFile
from journalfs.engine.ledger import Ledger
from journalfs.engine.links import is_linked
from journalfs.engine.scan import scan_journal
from journalfs.journal.directory import read_directory
from journalfs.journal.pool import WriteFile, as_found
from journalfs.journal.rewrite import Rewriter, Survivors, output_limit, pays_apart
from journalfs.journal.write_settings import WriteSettings


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """Names of all files, of those that compaction would free, and of these again those that nothing needs;
    how long each file is that it would write, and how many files there would be then. Sizes in bytes.
    """

    files: tuple[str, ...]
    size_bytes: int
    frees: tuple[str, ...]
    reclaimable: tuple[str, ...]
    writes: tuple[int, ...]
    files_after: int


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    file: WriteFile
    mapped: MappedFile


def preview_compaction(
    directory: Path, settings: WriteSettings, *, relative_to: Path, shrinks: bool = False
) -> CompactionPreview:
    """Of the journal in `directory` as it is now. Where it `shrinks`, no free files stay.
    Raises OSError, FileTorn and UnknownVersion."""
    listing = read_directory(directory, extension=settings.extension, relative_to=relative_to)
    ledger = Ledger()
    sources: list[_Source] = []
    for found in listing.files:
        if found.header_damaged:
            continue
        file = as_found(found.name, found.file_id, found.stamp.size_bytes, settings, version=found.version)
        mapped = MappedFile(found.path)
        mapped.detach()
        scan = scan_journal(mapped, rid=file.rid, version=file.version)
        if scan.count or scan.marked:
            file.slot = ledger.add_file()
            ledger.apply(file.slot, scan.pointer.records, scan.count)
            sources.append(_Source(found.path, file, mapped))
    reclaimable = set(ledger.reclaimable([source.file.slot for source in sources[:-1]]))
    writes = tuple(_outputs(sources, ledger, settings))
    free_files = len(listing.files) - len(sources)
    return CompactionPreview(
        files=tuple(file.name for file in listing.files),
        size_bytes=sum(file.stamp.size_bytes for file in listing.files),
        frees=tuple(source.file.name for source in sources),
        reclaimable=tuple(source.file.name for source in sources if source.file.slot in reclaimable),
        writes=writes,
        files_after=len(writes) + 1 if shrinks else _files_after(sources, free_files, len(writes), settings),
    )


def _files_after(sources: list[_Source], free_files: int, outputs: int, settings: WriteSettings) -> int:
    """How many there are when the journal was opened, compacted and closed (see `FilePool`)."""
    in_use = len(sources)
    # Opening it makes what `min_files` asks for, goes on in a file, and has another one ready, in which
    # compaction goes on.
    taken = 1 if sources else 2
    free_files = max(free_files, settings.min_files - in_use, 2 - in_use, taken)
    before = in_use + free_files
    free_files = max(free_files - taken, 0)
    free_files -= max(min(outputs, free_files - 1), 0)
    emptied = sum(_is_usable(source, settings) for source in sources) + (not sources)
    if settings.pool_files >= 0:
        emptied = max(min(emptied, settings.pool_files - free_files - outputs - 2), 0)
    free_files += emptied
    if settings.pool_files >= 0:
        too_many = free_files + outputs + 1 - max(settings.pool_files, settings.min_files)
        free_files -= max(min(free_files - 1, too_many), 0)
    return max(min(outputs + 1 + free_files, before), outputs + 1)


def _is_usable(source: _Source, settings: WriteSettings) -> bool:
    return source.file.is_as_made(settings.file_size_bytes) and not is_linked(source.path)


def _outputs(sources: list[_Source], ledger: Ledger, settings: WriteSettings) -> list[int]:
    if not sources:
        return []
    # Whoever opens a journal for writing rolls back what was neither ended nor prepared.
    prepared = frozenset(tx.tx_id for tx in ledger.transactions() if tx.prepared and not tx.broken)
    files = [source.file for source in sources]
    limit = output_limit(files, settings.file_size_bytes)
    rewriter = Rewriter(
        Survivors(sorted(ledger.live_ids()), prepared),
        first_id=sources[0].file.file_id,
        file_size_bytes=limit,
        replaceable_types=settings.replaceable_types,
        checksums=settings.checksums,
        keep_apart=pays_apart(ledger, files, limit),
    )
    for number, source in enumerate(sources):
        rewriter.feed(number, source.mapped, source.file)
    return [len(output) for output in rewriter.finish()]
