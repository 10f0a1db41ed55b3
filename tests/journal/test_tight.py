"""Compaction where the disk has no room for another journal file: what it rewrites, and what it keeps."""

from __future__ import annotations

import errno

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.clock import FakeClock
from journalfs.ids import RecordId, TxId
from journalfs.records.files.compaction import Compaction, Rewritable, Room, best_plan, output_size
from journalfs.records.files.directory import missing_bytes
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.journal.driving import SMALL, Driver, read_back, settings_for
from tests.journal.model import live_ids
from tests.journal.simulated import SimulatedDisk
from tests.journal.sweep import compact_in_place

MIB = 1024 * 1024
FILE = 10 * MIB


def files(*live_bytes: int) -> list[Rewritable]:
    return [Rewritable(live, FILE, gives_file=True) for live in live_bytes]


@pytest.mark.parametrize(
    ("live", "free_bytes", "free_files", "expected"),
    [
        ((400, 0, 0, 0), 7 * MIB, 0, 4),
        ((400,), 3 * MIB, 0, 1),
        ((400,), 100_000, 0, None),  # no room for the shortest file
        ((0, 0), 8192, 0, 2),  # nothing to be written but the control file
        ((400, 0), 0, 1, 2),  # the free file gives way, and two take its place
        ((400,), 0, 1, None),  # one would take its place: nothing is won
        ((5 * MIB, 6 * MIB, 0), 7 * MIB, 0, 1),
        ((9 * MIB, 0, 0), 7 * MIB, 0, None),
        ((9 * MIB, 0, 0), 7 * MIB, 1, 3),
        ((), 7 * MIB, 0, None),
    ],
)
def test_what_is_rewritten(
    live: tuple[int, ...], free_bytes: int, free_files: int, expected: int | None
) -> None:
    plan = best_plan(files(*live), Room(free_bytes, free_files, FILE))
    assert (plan.files if plan is not None else None) == expected


def test_files_that_cannot_be_used_again_leave_their_room() -> None:
    """Those with a second name in a snapshot do not even leave that."""
    room = Room(5 * MIB, 0, FILE)
    assert best_plan([Rewritable(9, 6 * MIB, gives_file=False)], room) is not None
    assert best_plan([Rewritable(9, 0, gives_file=False)] * 3, room) is None
    assert best_plan(files(9), room, overhead_bytes=6 * MIB) is None


@pytest.mark.parametrize("file_size", [1024, 65536, 102_400, 131_072, 196_608, MIB, 1_000_000, FILE])
@pytest.mark.parametrize("content", [17, 1000, 70_000, 131_072, 131_073, 900_000, 9_999_999])
def test_no_output_looks_like_another_file(file_size: int, content: int) -> None:
    """Neither cut off, nor longer or shorter than another by what a second name adds."""
    if content > file_size:
        return
    size = output_size(content, file_size)
    assert content <= size <= file_size
    assert file_size - size != 65536
    assert not any(missing_bytes({"a": size, "b": file_size, "c": file_size}).values())


async def closed(writer: JournalWriter) -> None:
    """All that is staged is durable, and behind it another file is begun."""
    await writer.durable(writer.position)
    writer.switch()


def opened(disk: SimulatedDisk) -> JournalWriter:
    return JournalWriter.open(disk, SMALL, FakeClock())


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_a_transaction_that_ended_behind_the_old_files(ends: str) -> None:
    """Of what it holds there the dead goes; its end counts what lies in its own file only."""
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"old")
    writer.stage_add(RecordId(2), 45, b"kept")
    for number in (3, 4):
        writer.stage_add_in(TxId(9), RecordId(number), 45, b"new%d" % number)
    writer.stage_delete_in(TxId(9), RecordId(1))
    writer.stage_update_in(TxId(9), RecordId(2), 33, b"more")
    await closed(writer)
    writer.stage_add_in(TxId(9), RecordId(5), 45, b"new5")
    (writer.stage_commit if ends == "commit" else writer.stage_rollback)(TxId(9))
    if ends == "commit":
        writer.stage_delete(RecordId(3))
    expected = [b"kept", b"new4", b"more", b"new5"] if ends == "commit" else [b"old", b"kept"]
    done = await Compaction(writer, set(), writer.upkeep.room).run_in_place(1)
    assert [one.body for one in read_back(disk).records] == expected
    written = disk.contents()[done.new[0]]
    assert b"new3" not in written
    assert (b"old" in written) == (ends == "rollback")
    again = opened(disk.process_killed())
    assert set(again.ledger.live_ids()) == set(writer.ledger.live_ids())


async def test_a_prepared_transaction_stays_whole() -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"old")
    writer.stage_add_in(TxId(9), RecordId(2), 45, b"new")
    await closed(writer)
    writer.stage_delete_in(TxId(9), RecordId(1))
    writer.stage_prepare(TxId(9), b"xid")
    await Compaction(writer, set(), writer.upkeep.room).run_in_place(1)
    (prepared,) = read_back(disk).prepared
    assert (prepared.extra, prepared.deletes) == (b"xid", [(1, b"")])
    await writer.durable(writer.stage_commit(TxId(9)))
    assert [one.body for one in read_back(disk).records] == [b"new"]


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), alignment=st.sampled_from([1, 512]))
def test_it_changes_nothing_that_counts(seed: int, alignment: int) -> None:
    driver = Driver(SimulatedDisk(alignment), seed)

    async def run() -> None:
        writer = driver.start()
        for turn in range(3):
            await driver.work(40)
            await compact_in_place(driver, writer, turn)
            found = read_back(driver.disk)
            assert set(writer.ledger.live_ids()) == live_ids(found.records)
            assert {tx.tx_id for tx in found.prepared} <= {tx.tx_id for tx in writer.ledger.transactions()}
            ids = [file.file_id for file in writer.data]
            assert ids == sorted(set(ids))
            driver.note_durable()
            driver.model.check(found, driver.durable)
        await driver.work(20)
        await driver.consume()

    trio.run(run)
    driver.model.check(read_back(driver.disk), driver.durable)


ROOMY = WriteSettings(prefix="data", file_size_bytes=262_144, buffer_size_bytes=16_384, compact_min_files=0)


class SmallDisk(SimulatedDisk):
    """Files take the room that it has."""

    def allocate(self, name: str, size_bytes: int) -> None:
        if size_bytes > self.room_bytes:
            raise OSError(errno.ENOSPC, "full")
        super().allocate(name, size_bytes)
        self.room_bytes -= size_bytes

    def remove(self, name: str) -> None:
        self.room_bytes += self.size_bytes(name)
        super().remove(name)


async def held_by_the_first(disk: SmallDisk) -> JournalWriter:
    """A record in the first file is needed, and of all others only the deletes. There is no other file."""
    disk.room_bytes = 5 * ROOMY.file_size_bytes + 200_000
    writer = JournalWriter.open(disk, ROOMY, FakeClock())
    await writer.durable(writer.stage_add(RecordId(1), 45, b"needed"))
    number = 1
    while len(writer.data) < 4:
        number += 1
        writer.stage_add(RecordId(number), 45, bytes(15_000))
        if number > 2:
            writer.stage_delete(RecordId(number - 1))
    writer.stage_delete(RecordId(number))
    writer.switch()
    await writer.durable(writer.stage_update(RecordId(1), 33, b"more"))
    assert writer.ready_file is None
    assert not writer.pool.free
    assert 0 < disk.room_bytes < ROOMY.file_size_bytes
    return writer


async def test_it_is_done_when_nothing_else_makes_room() -> None:
    disk = SmallDisk()
    writer = await held_by_the_first(disk)
    current = writer.current
    before = len(writer.data)
    await writer.upkeep.tidy()
    assert writer.upkeep.compactions == 1
    assert len(writer.data) < before
    assert writer.current is current
    assert writer.pool.free
    assert not writer.short_of_space
    assert disk.size_bytes(writer.data[0].name) < ROOMY.file_size_bytes
    found = read_back(disk)
    assert live_ids(found.records) == {1}
    again = JournalWriter.open(disk.process_killed(), ROOMY, FakeClock())
    assert set(again.ledger.live_ids()) == {1}


async def test_what_it_made_is_deleted_when_nothing_needs_it() -> None:
    """The attic would keep its room."""
    disk = SmallDisk()
    writer = await held_by_the_first(disk)
    done = await writer.upkeep.squeeze()
    assert done is not None
    await writer.durable(writer.stage_delete(RecordId(1)))
    writer.switch()
    await writer.durable(writer.stage_add(RecordId(60), 45, b"more"))
    await writer.upkeep.tidy()
    assert not set(done.new) & set(disk.contents())
    assert not any(name.startswith("attic/") for name in disk.contents())


async def test_one_that_fails_is_not_tried_again_at_once() -> None:
    disk = SmallDisk()
    writer = await held_by_the_first(disk)
    tries = 0

    def full(what: str) -> None:
        nonlocal tries
        if what == "allocate":
            tries += 1
            raise OSError(errno.ENOSPC, "full")

    disk.before = full
    files_before = [file.name for file in writer.data]
    for _ in range(5):
        assert await writer.upkeep.squeeze() is None
    assert tries == 1
    disk.before = None
    assert await writer.upkeep.squeeze() is None
    assert [file.name for file in writer.data] == files_before
    assert isinstance(writer.clock, FakeClock)
    writer.clock.advance(by_ms=60_000)
    assert await writer.upkeep.squeeze() is not None
    assert live_ids(read_back(disk).records) == {1}


async def test_what_is_contradicted_is_not_rewritten() -> None:
    disk = SimulatedDisk(512)
    writer = JournalWriter.open(disk, settings_for(disk), FakeClock())
    for number in range(1, 5):
        await writer.durable(writer.stage_add(RecordId(number), 45, b"x" * 200))
        writer.switch()
    writer.pool.reserve(3)
    disk.write_at(writer.data[0].name, 700, b"!")
    disk.room_bytes = 0
    for _ in range(2):
        assert await writer.upkeep.squeeze() is None
    assert writer.upkeep.contradicted == {writer.data[0].file_id}
    assert live_ids(read_back(disk).records) == {1, 2, 3, 4}
