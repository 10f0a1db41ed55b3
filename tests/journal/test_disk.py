"""The backends on real files: same bytes, real errors, nothing left open."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind, Completion
from journalfs.engine.buffers import MappedFile
from journalfs.engine.disk import DiskBackend, open_backend
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import GapKind, scan_journal
from journalfs.engine.stage import STAGED, Stage, record_bytes
from journalfs.engine.status import CoreRefused
from journalfs.engine.tail import Tail
from journalfs.format.record_types import RecordKind
from journalfs.ids import RecordId
from journalfs.records.files.directory import read_directory
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.reference.journal import read_folder, replay

REAL = [BackendKind.NIO, BackendKind.MAPPED, BackendKind.AIO]
KINDS = pytest.mark.parametrize("kind", REAL, ids=lambda kind: kind.value)
SETTINGS = WriteSettings(file_size_bytes=65536, buffer_size_bytes=16384, compact_min_files=3)


def descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return found


def alive(folder: Path) -> dict[int, bytes]:
    records = replay(file.scan.records for file in read_folder(folder)).records
    return {one.record_id: one.body for one in records if not one.update}


async def fill(backend: DiskBackend, first: int, last: int, writers: int) -> JournalWriter:
    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    ids = iter(range(first, last))

    async def write() -> None:
        for record in ids:
            await writer.durable(writer.stage_add(RecordId(record), 45, b"%d:" % record + bytes(700)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        async with trio.open_nursery() as crowd:
            for _ in range(writers):
                crowd.start_soon(write)
        nursery.cancel_scope.cancel()
    return writer


class LateClock(SystemClock):
    """Of who has to wait for the interpreter before each look at it."""

    late_ns: int = 0

    def monotonic_ns(self) -> int:
        self.late_ns += 20 * 10**9
        return super().monotonic_ns() + self.late_ns


@pytest.mark.parametrize("kind", [BackendKind.NIO, BackendKind.MAPPED])
async def test_a_disk_is_as_quick_as_it_is_however_late_that_is_noticed(
    kind: BackendKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all would be left to Python where that has no time."""
    for limit in ("INLINE_FLUSH_NS_MAX", "STALL_NS"):
        monkeypatch.setattr(f"journalfs.engine.committer.{limit}", 15 * 10**9)
    with closing(open_backend(tmp_path, kind)) as backend:
        writer, tail = JournalWriter.open(backend, SETTINGS, LateClock()), Tail()
        for record in range(1, 5):  # in a thread first, then in place
            await writer.durable(writer.stage_add(RecordId(record), 45, b""))
            assert writer.lend(tail)
            writer.take_back(tail)
        await writer.close()


@KINDS
@pytest.mark.parametrize("writers", [1, 8])
@pytest.mark.parametrize("inline_ns", [0, 10**12], ids=["by event", "inline"])
async def test_written_and_read_by_another_reader(
    kind: BackendKind, writers: int, inline_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journalfs.engine.committer.INLINE_FLUSH_NS_MAX", inline_ns)
    backend = open_backend(tmp_path, kind)
    writer = await fill(backend, 1, 201, writers)
    for record in range(1, 101):
        writer.stage_delete(RecordId(record))
    await writer.durable(writer.position)
    await writer.upkeep.compact()
    await writer.close()
    backend.close()
    found = alive(tmp_path)
    assert found == {record: b"%d:" % record + bytes(700) for record in range(101, 201)}
    assert not [name for name in descriptors() if name.startswith(str(tmp_path))]


async def test_every_kind_goes_on_where_another_stopped(tmp_path: Path) -> None:
    expected = 1
    for kind in [*REAL, *reversed(REAL)]:
        backend = open_backend(tmp_path, kind)
        writer = await fill(backend, expected, expected + 40, 4)
        expected += 40
        await writer.close()
        backend.close()
        assert sorted(alive(tmp_path)) == list(range(1, expected)), kind


async def test_plain_and_mapped_write_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for kind in (BackendKind.NIO, BackendKind.MAPPED):
        folder = tmp_path / kind.value
        folder.mkdir()
        backend = open_backend(folder, kind)
        writer = await fill(backend, 1, 50, 1)
        await writer.close()
        backend.close()
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]


async def test_direct_writes_fill_blocks(tmp_path: Path) -> None:
    backend = open_backend(tmp_path, BackendKind.AIO, block_bytes=512)
    assert backend.kind is BackendKind.AIO
    writer = await fill(backend, 1, 4, 1)
    await writer.close()
    backend.close()
    file, *_ = read_folder(tmp_path)
    assert [record.offset for record in file.scan.records] == [512, 1536, 2560]


@pytest.mark.parametrize("block_bytes", [4096, 8192, 65536])
@pytest.mark.parametrize("buffer_bytes", [1000, 4096, 20_000, 501_760])
@pytest.mark.parametrize("file_bytes", [4096, 1_048_576])
async def test_blocks_are_filled_up_within_the_buffer(
    tmp_path: Path, block_bytes: int, buffer_bytes: int, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large they are, beside a buffer or a file: whatever lies behind the buffer stays as it is."""
    settings = WriteSettings(file_size_bytes=file_bytes, buffer_size_bytes=buffer_bytes, checksums=True)
    backend = open_backend(tmp_path, BackendKind.AIO, block_bytes=block_bytes)
    assert backend.alignment_bytes == block_bytes
    writer = JournalWriter.open(backend, settings, SystemClock())
    take, taken = writer.committer.take_stage, list[Stage]()

    def noted(size: int) -> Stage:
        taken.append(take(size))
        return taken[-1]

    monkeypatch.setattr(writer.committer, "take_stage", noted)
    longest = writer.record_bytes_max - record_bytes(RecordKind.ADD, 0)
    assert longest > 0
    wanted = {number: bytes([number]) * (1 if number % 2 else longest) for number in range(1, 9)}
    for number, body in wanted.items():
        await writer.durable(writer.stage_add(RecordId(number), 45, body))
    assert taken
    assert {stage.pointer.buffer_bytes % block_bytes for stage in taken} == {0}
    await writer.close()
    backend.close()
    assert alive(tmp_path) == wanted
    for found in read_directory(tmp_path, extension="amq", relative_to=tmp_path).files:
        scan = scan_journal(MappedFile(found.path), rid=found.rid, version=found.version)
        assert {gap.kind for gap in scan.gaps()} <= {GapKind.PADDING}


@pytest.mark.parametrize("before", [1, 512, 4096, 8192, 65536])
@pytest.mark.parametrize("after", [1, 512, 4096, 8192, 65536])
async def test_blocks_may_be_others_the_next_time(tmp_path: Path, before: int, after: int) -> None:
    """What one size fills up is not taken for lost records for the sake of the other."""
    settings = WriteSettings(file_size_bytes=1_048_576, buffer_size_bytes=4096)
    for run, block_bytes in enumerate((before, after)):
        kind = BackendKind.NIO if block_bytes == 1 else BackendKind.AIO
        backend = open_backend(tmp_path, kind, block_bytes=None if block_bytes == 1 else block_bytes)
        assert backend.alignment_bytes == block_bytes
        writer = JournalWriter.open(backend, settings, SystemClock())
        for number in range(1, 4):
            await writer.durable(writer.stage_add(RecordId(10 * run + number), 45, b"body"))
        await writer.close()
        backend.close()
    assert alive(tmp_path).keys() == {1, 2, 3, 11, 12, 13}
    for found in read_directory(tmp_path, extension="amq", relative_to=tmp_path).files:
        scan = scan_journal(MappedFile(found.path), rid=found.rid, version=found.version)
        assert {gap.kind for gap in scan.gaps()} <= {GapKind.PADDING}


def test_a_buffer_without_room_for_whole_blocks_is_refused() -> None:
    stage, ledger = Stage(4096), Ledger()
    stage.begin(slot=ledger.add_file(), rid=1, file_offset=8192, room_bytes=4096)
    assert stage.put(ledger, RecordKind.ADD, 1, 0, 45, b"one") == STAGED
    with pytest.raises(CoreRefused, match="whole blocks of 8192 bytes"):
        stage.seal(8192)
    assert stage.seal(4096) == 4096


def test_refused_direct_writes_become_plain_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: DiskBackend, name: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)

    monkeypatch.setattr(DiskBackend, "open", refuse)
    with caplog.at_level(logging.WARNING):
        backend = open_backend(tmp_path, BackendKind.AIO)
    assert (backend.kind, backend.alignment_bytes, backend.depth) == (BackendKind.NIO, 1, 1)
    assert "asynchronous I/O is refused (Invalid argument)" in caplog.text
    assert list(tmp_path.iterdir()) == []
    backend.close()


@KINDS
def test_a_write_beyond_what_may_be_written_is_an_error(kind: BackendKind, tmp_path: Path) -> None:
    """A file that was cut off under the journal: plain writes would make it longer, mapped ones fail."""
    backend = open_backend(tmp_path, kind)
    backend.allocate("one.amq", 8192)
    file = backend.open("one.amq")
    os.close(file.fd)
    file.fd = os.open(tmp_path / "one.amq", os.O_RDONLY)
    os.truncate(tmp_path / "one.amq", 0)
    stage = Stage(4096)
    stage.begin(slot=0, rid=1, file_offset=4096, room_bytes=4096)
    stage.zero(4096)
    error = 0
    try:
        backend.submit(file, stage, 4096, durable=True, tag=1)
        done: list[Completion] = []
        while not done:
            done = backend.completed(1_000_000_000)
        error = done[0].error
    except OSError as refused:
        error = refused.errno or 0
    assert error == (errno.EIO if kind is BackendKind.MAPPED else errno.EBADF)
    backend.close_file(file)
    backend.close()
