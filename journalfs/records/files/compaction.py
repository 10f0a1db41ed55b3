"""Rewrites the live records of old files into few new files. A power cut at any moment loses nothing.

1. Go on in a new file, whose id leaves room below it for those of all outputs. 2. Delete as many free files
as there will be outputs, write these beside the old files and make them durable. 3. Write the control file:
from here on the outputs count. 4. Give the outputs their names. 5. Take them into use, and the old files out
of it. 6. Empty the old files. 7. Remove the control file; only then may the old files be used again.

If the disk has no room for the first step, the current file stays and is not rewritten, and only as many of
the first files are rewritten as there is room for. The ids of all outputs are below the id of the file that
follows them.

A broker reuses old files before the last step; what it wrote there is deleted by name after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs.engine.backend import Backend, scan_view
from journalfs.engine.buffers import MappedFile
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import scan_journal
from journalfs.engine.stage import NewRecord, encode
from journalfs.engine.waiting import offload
from journalfs.errors import Damaged, NoSpace
from journalfs.format.journal_file import CONTROL_FILE_NAME, JournalFileState
from journalfs.format.record_types import RecordKind
from journalfs.ids import FileId
from journalfs.limits import JOURNAL_HEADER_BYTES, LENGTHENED_BYTES
from journalfs.records.files.directory import SHORT_STEP_BYTES, read_directory
from journalfs.records.files.opening import read_file
from journalfs.records.files.pool import WriteFile, as_found, encode_header
from journalfs.records.files.rewrite import (
    Rewriter,
    Survivors,
    contradicted,
    output_limit,
    pays_apart,
    rewrite,
)
from journalfs.records.files.write_settings import WriteSettings, round_up

if TYPE_CHECKING:
    from journalfs.records.files.upkept import UpkeptJournal


# Compaction where the disk has no room for another journal file: how many of the first files it can rewrite,
# and what that brings.
#
# The last file that may be begun is for what makes room, and once that is the current one there is none to
# go on in. So the current one stays, and of the files before it those are rewritten whose living records fit
# into what is left. Files are kept by the deletes in later ones, so it has to begin with the first.

_BLOCK_BYTES: Final = 4096
_ENDS: Final = frozenset({int(RecordKind.COMMIT), int(RecordKind.ROLLBACK)})


@dataclass(frozen=True, slots=True)
class Room:
    """Room for outputs in bytes: on the disk, and in free files that can be deleted."""

    free_bytes: int
    free_files: int
    file_size_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.free_bytes + self.free_files * self.file_size_bytes


@dataclass(frozen=True, slots=True)
class Rewritable:
    """One of the first files of the journal. `gives_file`: it can be used again; else the disk gets its bytes
    back.
    """

    live_bytes: int
    size_bytes: int
    gives_file: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How many of the first files to rewrite, how many bytes that is expected to write, and for how many more
    files there is room then.
    """

    files: int
    written_bytes: int
    gained_files: int


def best_plan(files: Sequence[Rewritable], room: Room, *, overhead_bytes: int = 0) -> Plan | None:
    """Return the plan after which most files can be begun, and of equal ones the one that writes least; None
    if no plan leaves more room than now. `overhead_bytes`: bytes to write beside the live records.
    """
    size = room.file_size_bytes
    best, now = None, room.free_bytes // size + room.free_files
    most = now
    live_bytes, free_files, given_bytes = overhead_bytes, 0, 0
    for count, file in enumerate(files, 1):
        live_bytes += file.live_bytes
        free_files += file.gives_file
        given_bytes += 0 if file.gives_file else file.size_bytes
        written = sum(expected_sizes(live_bytes, size)) + control_bytes(count)
        if written > room.size_bytes:
            break
        after = free_files + (room.size_bytes - written + given_bytes) // size
        if after > most:
            best, most = Plan(count, written, after - now), after
    return best


def expected_sizes(live_bytes: int, file_size_bytes: int) -> list[int]:
    """Sizes of outputs that hold so many bytes of records, if these leave no gaps."""
    whole, rest = divmod(live_bytes, file_size_bytes - JOURNAL_HEADER_BYTES)
    sizes = [file_size_bytes] * whole
    if rest:
        sizes.append(output_size(JOURNAL_HEADER_BYTES + rest, file_size_bytes))
    return sizes


def output_size(content_bytes: int, file_size_bytes: int) -> int:
    """How large an output is made: not larger than it has to be, since there may be no room for more."""
    size = round_up(content_bytes, SHORT_STEP_BYTES)
    return size if size + LENGTHENED_BYTES < file_size_bytes else max(content_bytes, file_size_bytes)


def control_bytes(files: int) -> int:
    """Room for a control file that names so many files, and for as many names in the directory."""
    return round_up(512 + 128 * files, _BLOCK_BYTES)


def ended_in(backend: Backend, files: Iterable[WriteFile]) -> frozenset[int]:
    """Transactions that end in these files."""
    found: set[int] = set()
    for file in files:
        view = backend.view(file.name)
        scan = scan_view(view, rid=file.rid, version=file.version, doing=f"compacting {file.name}")
        records = scan.pointer.records
        found.update(records[i].tx_id for i in range(scan.count) if records[i].kind in _ENDS)
    return frozenset(found)


_COMPACTED = JournalFileState.COMPACTED.value


@dataclass(frozen=True, slots=True)
class CompactionDone:
    """Names of the files before and after. Sizes in bytes."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    live_bytes: int
    written_bytes: int


def encode_control_file(old: Sequence[str], new: Sequence[str]) -> bytes:
    """`journal-rename-control.ctr`: docs/format/journal-file.md. `new` are names with `.cmp`."""

    def names(some: Sequence[str]) -> bytes:
        encoded = [name.encode() for name in some]
        return struct.pack(">i", len(encoded)) + b"".join(
            struct.pack(">H", len(name)) + name for name in encoded
        )

    body = names(old) + names(new) + names(())
    return encode_header(0, 1) + encode([NewRecord(int(RecordKind.ADD), record_id=1, body=body)], rid=0)


class Compaction:
    """One run. All that touches the disk is in threads, except for the moment of exchange."""

    def __init__(self, writer: UpkeptJournal, contradicted: set[int], room: Callable[[], Room]) -> None:
        """`contradicted` takes the ids of files that a checksum contradicts; `room` is asked in a thread."""
        self._writer = writer
        self._contradicted = contradicted
        self._room_now = room
        self._backend = writer.backend
        self._tight = False
        """The disk has no room for another journal file."""

    async def run(self) -> CompactionDone:
        """Rewrite all files but the one that is begun for this. Raises NoSpace, with nothing changed."""
        writer = self._writer
        # There would be no room for what it writes, and consuming would have lost what is held back for it.
        writer.refuse_last_file()
        first_id = writer.data[0].file_id
        # Packing can get worse: next fit needs at most twice the files, and one for the split of young and
        # old. Checksums take a share of each file, less than half of even the smallest.
        above = first_id + 4 * len(writer.data) + 1
        writer.pool.last_id = max(writer.pool.last_id, above)
        writer.switch(above=above)
        # What is open now may end while this waits, with its COMMIT behind the old files.
        old = writer.data[:-1]
        survivors = self._survivors()
        # Recovery takes an old file for used again if its id is above the smallest of those that are not to
        # be replaced, which has to be the current one's.
        current_id = writer.current.file_id
        await offload(lambda: writer.pool.renew(above=current_id))
        await writer.committer.flush_all()
        await writer.reader.before_emptying()
        return await self._replace(old, survivors, current_id)

    async def run_in_place(self, count: int) -> CompactionDone:
        """Rewrite the first `count` files, which the current one is not among, and begin no other. Free files
        give way, all of them if need be. Raises NoSpace, with nothing changed but for these.
        """
        writer = self._writer
        self._tight = True
        kept = writer.data[count:]
        old = writer.data[:count]
        assert old
        assert kept
        survivors = self._survivors()
        current_id = writer.current.file_id
        await offload(lambda: writer.pool.renew(above=current_id))
        # What is dead counts as dead only once nothing can bring it back.
        await writer.committer.flush_all()
        ended = await offload(lambda: ended_in(self._backend, kept))
        survivors = replace(survivors, ended_later=ended - survivors.open_transactions)
        return await self._replace(old, survivors, kept[0].file_id)

    def _survivors(self) -> Survivors:
        """Return the records that survive if compaction starts now. An open transaction survives, too: its
        COMMIT may follow in a newer file.
        """
        ledger = self._writer.ledger
        in_doubt = frozenset(ledger.doubtful())
        undecided = in_doubt.union(tx.tx_id for tx in ledger.transactions())
        return Survivors(sorted(ledger.live_ids()), undecided, in_doubt=in_doubt)

    async def _replace(self, old: list[WriteFile], survivors: Survivors, below_id: int) -> CompactionDone:
        """Steps 2 to 7. All that was staged before is durable."""
        writer = self._writer
        writer.release_handles()
        await offload(lambda: self._check_sources(old))
        if writer.retention is not None:
            await offload(lambda: self._retain(old))
        contents = await offload(lambda: self._contents(old, survivors))
        if old[0].file_id + len(contents) > below_id:
            raise NoSpace(old[0].name, "the live records would take more files than now")
        sizes = self._sizes(contents, old)
        try:
            await self._give_way(sizes, len(old))
            outputs = await offload(lambda: self._write_outputs(contents, sizes, old[0].file_id))
            await offload(lambda: self._write_control_file(old, outputs))
        except OSError:
            await offload(self._take_back)
            raise
        try:
            await offload(lambda: self._commit(outputs))
            await self._exchange(old, outputs)
            await writer.reader.before_emptying()
            free = await offload(lambda: self._empty(old))
            await offload(self._settle)
        except OSError as error:
            # The disk says that the outputs count and the writer still counts on the old files: whatever
            # would be set free now could be missed in the outputs. Opening the journal again sorts it out.
            writer.committer.give_up(CONTROL_FILE_NAME, error)
            raise
        writer.pool.free.extend(free)
        return CompactionDone(
            tuple(file.name for file in old),
            tuple(file.name for file in outputs),
            writer.ledger.counters(*(file.slot for file in outputs)).live_bytes,
            sum(file.end for file in outputs),
        )

    def _retain(self, old: list[WriteFile]) -> None:
        retention = self._writer.retention
        assert retention is not None
        retention.keep([file for file in old if not file.retained])

    def _check_sources(self, old: list[WriteFile]) -> None:
        """Raise Damaged for a file that a checksum contradicts, since a rewrite would give it a checksum that
        agrees, and preserve unreadable bytes. Raises OSError.
        """
        for file in old:
            self._writer.pool.keep_unreadable(file)
            found = contradicted(self._backend, file)
            if found is not None:
                self._contradicted.add(file.file_id)
                reason = "a checksum contradicts these bytes, so the journal is not compacted"
                raise Damaged(file.name, found.offset, reason)

    def _contents(self, old: list[WriteFile], survivors: Survivors) -> list[bytearray]:
        """Return the contents of the outputs, one after the other, without their headers."""
        settings = self._writer.settings
        limit = output_limit(old, settings.file_size_bytes)
        rewriter = Rewriter(
            survivors,
            first_id=old[0].file_id,
            file_size_bytes=limit,
            replaceable_types=settings.replaceable_types,
            checksums=settings.checksums,
            keep_apart=not self._tight and pays_apart(self._writer.ledger, old, limit),
        )
        return rewrite(self._backend, old, rewriter)

    def _sizes(self, contents: list[bytearray], old: list[WriteFile]) -> list[int]:
        size = self._writer.settings.file_size_bytes
        usual = [output_size(len(content), size) if self._tight else size for content in contents]
        larger = output_limit(old, size)
        return [
            larger if len(content) > size else made for content, made in zip(contents, usual, strict=True)
        ]

    async def _give_way(self, sizes: list[int], count: int) -> None:
        """Have free files make room for the outputs that take the place of so many old files."""
        writer, pool, backend = self._writer, self._writer.pool, self._backend
        if not self._tight:
            await offload(lambda: pool.give_way(len(sizes)))
            return
        needed = sum(sizes) + control_bytes(count)
        if backend.free_bytes() >= needed:
            return
        room = await offload(self._room_now)
        if room.size_bytes < needed:
            reason = f"{needed} bytes are needed for what lives, and {room.size_bytes} are left"
            raise NoSpace(writer.current.name, reason)
        if writer.ready_file is not None:
            pool.free.appendleft(writer.ready_file)
            writer.ready_file = None
        await offload(lambda: pool.make_way(needed))
        # Whoever reads the journal beside its writer has them mapped: until then they take room.
        await writer.reader.before_emptying()

    def _write_outputs(self, contents: list[bytearray], sizes: list[int], first_id: int) -> list[WriteFile]:
        writer, backend = self._writer, self._backend
        files: list[WriteFile] = []
        for content, size_bytes in zip(contents, sizes, strict=True):
            file_id = FileId(first_id + len(files))
            name = f"{writer.settings.prefix}-{writer.pool.new_id()}.{writer.settings.extension}"
            content[:16] = encode_header(file_id, 1)
            backend.allocate(name + _COMPACTED, size_bytes)
            backend.write_at(name + _COMPACTED, 0, bytes(content))
            backend.sync(name + _COMPACTED)
            files.append(WriteFile(name, file_id, size_bytes, retained=True))
        backend.sync_directory()
        return files

    def _write_control_file(self, old: list[WriteFile], outputs: list[WriteFile]) -> None:
        """Until its name is durable it counts for nothing that has happened yet."""
        backend = self._backend
        control = encode_control_file(
            [file.name for file in old], [file.name + _COMPACTED for file in outputs]
        )
        backend.allocate(CONTROL_FILE_NAME, len(control))
        backend.write_at(CONTROL_FILE_NAME, 0, control)
        backend.sync(CONTROL_FILE_NAME)

    def _take_back(self) -> None:
        """Leave the old files as the only ones; a control file that may be durable must be gone for good."""
        backend = self._backend
        names = backend.names()
        try:
            if CONTROL_FILE_NAME in names:
                backend.remove(CONTROL_FILE_NAME)
                backend.sync_directory()
            for name in names:
                if name.endswith(f".{self._writer.settings.extension}{_COMPACTED}"):
                    backend.remove(name)
        except OSError as error:
            self._writer.committer.give_up(CONTROL_FILE_NAME, error)

    def _commit(self, outputs: list[WriteFile]) -> None:
        backend = self._backend
        backend.sync_directory()
        for file in outputs:
            backend.rename(file.name + _COMPACTED, file.name)
        backend.sync_directory()

    async def _exchange(self, old: list[WriteFile], outputs: list[WriteFile]) -> None:
        """Build the ledger of the journal as it is now, and put it in place of the old one.

        All but the current file is read in threads; of that one what was appended until this very moment.
        """
        writer, backend = self._writer, self._backend
        ledger = Ledger()
        # P-3: the doubt outlives a compaction, or the next one drops a transaction whose COMMIT is only
        # missing.
        if writer.ledger.doubts:
            ledger.doubt()
        data: list[WriteFile] = []

        def read(files: list[WriteFile]) -> None:
            for file in files:
                end = file.end
                read_file(backend, ledger, file)
                file.end = max(end, file.end)

        replaced = {file.name for file in old}
        await offload(lambda: read(outputs))
        data += outputs
        while closed := [file for file in writer.data[:-1] if file.name not in replaced and file not in data]:
            await writer.committer.flush_all()
            await offload(lambda batch=closed: read(batch))  # type: ignore[misc]
            data += closed
        writer.drain()
        read([writer.current])
        in_doubt = set(writer.ledger.doubtful())
        for transaction in ledger.transactions():
            if transaction.tx_id in in_doubt:
                ledger.abandon(transaction.tx_id)
        writer.replace_files(ledger, [*data, writer.current])

    def _empty(self, old: list[WriteFile]) -> list[WriteFile]:
        """End the old files' lives; the control file still says that they may be deleted."""
        pool, writer = self._writer.pool, self._writer
        free: list[WriteFile] = []
        for file in old:
            held, in_use = writer.reader.holds(file.name), len(writer.data) + len(free) + 1
            ready = pool.retire(file, files_in_use=in_use, held=held)
            if ready is not None:
                free.append(ready)
        self._backend.sync_directory()
        return free

    def _settle(self) -> None:
        self._backend.remove(CONTROL_FILE_NAME)
        self._backend.sync_directory()


# What a compaction would come to, found by doing it in memory: nothing is written, and no lock is needed.


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """Names of all files, of those that compaction would free, and of these again those that nothing needs;
    how long each file is that it would write. Sizes in bytes.
    """

    files: tuple[str, ...]
    size_bytes: int
    frees: tuple[str, ...]
    reclaimable: tuple[str, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    file: WriteFile
    mapped: MappedFile


def preview_compaction(directory: Path, settings: WriteSettings, *, relative_to: Path) -> CompactionPreview:
    """Of the journal in `directory` as it is now. Raises OSError, FileTorn and UnknownVersion."""
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
    return CompactionPreview(
        files=tuple(file.name for file in listing.files),
        size_bytes=sum(file.stamp.size_bytes for file in listing.files),
        frees=tuple(source.file.name for source in sources),
        reclaimable=tuple(source.file.name for source in sources if source.file.slot in reclaimable),
        writes=tuple(_outputs(sources, ledger, settings)),
    )


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
