"""The crash tests find what they are for: each deliberate mistake here must fail them."""

from __future__ import annotations

import pytest

from journalfs.engine.backend import Backend
from journalfs.engine.committer import Committer
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import Scan
from journalfs.errors import JournalfsError
from journalfs.format.journal_file import CONTROL_FILE_NAME, decode_control_file
from journalfs.ids import FileId
from journalfs.records.files import opening
from journalfs.records.files.pool import FilePool, WriteFile, encode_header
from journalfs.records.files.upkeep import Upkeep
from tests.journal.simulated import SimulatedDisk
from tests.journal.sweep import sweep, sweep_of_a_transaction_over_files
from tests.kinds import first_is_quick
from tests.reference.primitives import MalformedError


def no_sync_of_flushes(patch: pytest.MonkeyPatch) -> None:
    submit = SimulatedDisk.submit

    def careless(self: SimulatedDisk, *arguments: object, durable: bool, tag: int) -> None:
        submit(self, *arguments, durable=False, tag=tag)  # type: ignore[arg-type]

    patch.setattr(SimulatedDisk, "submit", careless)


def durable_when_submitted(patch: pytest.MonkeyPatch) -> None:
    submit = Committer._submit

    def hasty(self: Committer, flush: object) -> None:
        submit(self, flush)  # type: ignore[arg-type]
        self.reached_position = flush.position  # type: ignore[attr-defined]

    patch.setattr(Committer, "_submit", hasty)


def no_directory_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync_directory", lambda self: self._call("sync_directory"))


def no_sync_of_headers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync", lambda self, name: self._call("sync"))


def no_barrier_between_files(patch: pytest.MonkeyPatch) -> None:
    def eager(self: Committer) -> None:
        while self._queue and len(self._under_way) < self._backend.depth and self.failure is None:
            self._submit(self._queue.popleft())

    patch.setattr(Committer, "_submit_queued", eager)


def newest_files_freed_first(patch: pytest.MonkeyPatch) -> None:
    async def backwards(self: Upkeep) -> list[str]:
        writer = self._writer
        closed = [
            file for file in writer.data[:-1] if file.last_position <= writer.committer.reached_position
        ]
        slots = writer.ledger.reclaimable([file.slot for file in closed])
        going = [file for file in closed if file.slot in slots]
        for file in reversed(going):
            await self._retire(file)
            writer.data.remove(file)
            writer.ledger.drop_file(file.slot)
        return [file.name for file in going]

    patch.setattr(Upkeep, "_reclaim", backwards)


def old_files_emptied_before_the_control_file(patch: pytest.MonkeyPatch) -> None:
    write = SimulatedDisk.write_at

    def early(self: SimulatedDisk, name: str, offset: int, content: bytes) -> None:
        if name == CONTROL_FILE_NAME:
            for old in decode_control_file(content).delete:
                write(self, old, 0, encode_header(FileId(1 << 20), 1))
                self.sync(old)
        write(self, name, offset, content)

    patch.setattr(SimulatedDisk, "write_at", early)


def control_file_removed_first(patch: pytest.MonkeyPatch) -> None:
    rename, remove = SimulatedDisk.rename, SimulatedDisk.remove

    def settled(self: SimulatedDisk, name: str, new: str) -> None:
        rename(self, name, new)
        if name.endswith(".cmp") and not any(other.endswith(".cmp") for other in self.names()):
            remove(self, CONTROL_FILE_NAME)
            self.sync_directory()

    def remove_if_there(self: SimulatedDisk, name: str) -> None:
        if name in self.names():
            remove(self, name)

    patch.setattr(SimulatedDisk, "rename", settled)
    patch.setattr(SimulatedDisk, "remove", remove_if_there)


def ids_go_down(patch: pytest.MonkeyPatch) -> None:
    def same(self: FilePool, file: WriteFile, file_id: int) -> WriteFile:
        return WriteFile(file.name, file.file_id, file.size_bytes, end=self.first_record)

    patch.setattr(FilePool, "reinitialise", same)


def appended_before_the_end(patch: pytest.MonkeyPatch) -> None:
    read = opening.read_file

    def short(backend: Backend, ledger: Ledger, file: WriteFile) -> Scan:
        scan = read(backend, ledger, file)
        file.end -= backend.alignment_bytes if scan.count else 0
        return scan

    patch.setattr(opening, "read_file", short)


MISTAKES = [
    no_sync_of_flushes,
    durable_when_submitted,
    no_directory_sync,
    no_sync_of_headers,
    newest_files_freed_first,
    old_files_emptied_before_the_control_file,
    control_file_removed_first,
    ids_go_down,
    appended_before_the_end,
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_the_sweep_finds(mistake: object, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)  # type: ignore[operator]
    with pytest.raises((AssertionError, MalformedError, JournalfsError)):
        sweep(seeds=range(40))


def test_a_transaction_over_files_needs_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_of_a_transaction_over_files(crashes=5)
    no_barrier_between_files(monkeypatch)
    with pytest.raises(AssertionError, match="in part"):
        sweep_of_a_transaction_over_files(crashes=50)


@pytest.mark.parametrize("seeds", first_is_quick(range(2), range(2, 12)), ids=len)
def test_the_sweep_finds_nothing_else(seeds: range) -> None:
    sweep(seeds=seeds)
