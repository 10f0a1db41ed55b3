"""Compaction: what is kept, in which files, and the defects that a broker's has."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.clock import FakeClock
from journalfs.ids import RecordId, TxId
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.differential import encode
from tests.journal.driving import SMALL, Driver, read_back, settings_for
from tests.journal.simulated import SimulatedDisk
from tests.reference.journal import ADD, COMMIT, DELETE, PREPARE, UPDATE, UPDATE_TX, Record, scan


def opened(disk: SimulatedDisk, settings_: WriteSettings = SMALL) -> JournalWriter:
    return JournalWriter.open(disk, settings_, FakeClock())


def records_of(disk: SimulatedDisk, name: str) -> list[Record]:
    content = disk.contents()[name]
    return scan(content, int.from_bytes(content[8:16]) & 0x7FFFFFFF).records


def by_hand(disk: SimulatedDisk, name: str, file_id: int, records: list[bytes]) -> None:
    disk.allocate(name, 2048)
    disk.write_at(name, 0, encode.journal_file(file_id, records))


async def test_what_lives_is_kept_in_order_and_counted_up() -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    for record in (1, 2, 3):
        writer.stage_add(RecordId(record), 45, b"%d" % record)
        writer.stage_update(RecordId(record), 32, b"ref")
    writer.stage_delete(RecordId(2))
    done = await writer.upkeep.compact()
    assert done.old == ("data-1.amq",)
    (output,) = done.new
    assert [(r.kind, r.record_id, r.body, r.compact_count) for r in records_of(disk, output)] == [
        (ADD, 1, b"1", 1),
        (UPDATE, 1, b"ref", 1),
        (ADD, 3, b"3", 1),
        (UPDATE, 3, b"ref", 1),
    ]
    assert int.from_bytes(disk.contents()[output][8:16]) == 1, "it takes the oldest file's place"
    assert "journal-rename-control.ctr" not in disk.names()


async def test_of_delivery_counts_the_last_of_each_queue_is_kept() -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"m")
    for queue, count in ((7, 1), (8, 1), (7, 2)):
        writer.stage_update(RecordId(1), 34, queue.to_bytes(8) + count.to_bytes(4))
    (output,) = (await writer.upkeep.compact()).new
    kept = [(int.from_bytes(r.body[:8]), r.body[-1]) for r in records_of(disk, output) if r.user_type == 34]
    assert sorted(kept) == [(7, 2), (8, 1)]


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_delivery_counts_stay_before_what_lets_the_message_go(in_transaction: bool) -> None:
    """Behind it they would count for the message that comes back to its queue: brokers complain of them."""
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"m")
    for user_type, body in ((32, b"q"), (34, b"0000000q2"), (34, b"0000000q3")):
        writer.stage_update(RecordId(1), user_type, body)
    if in_transaction:
        writer.stage_update_in(TxId(9), RecordId(1), 33, b"q")
        writer.stage_commit(TxId(9))
    else:
        writer.stage_update(RecordId(1), 33, b"q")
    writer.stage_update(RecordId(1), 32, b"q")
    (output,) = (await writer.upkeep.compact()).new
    kept = [(r.user_type, r.body) for r in records_of(disk, output) if r.kind in (UPDATE, UPDATE_TX)]
    assert kept == [(32, b"q"), (34, b"0000000q3"), (33, b"q"), (32, b"q")]


async def test_prepared_transactions_stay_whole() -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"old")
    writer.stage_add_in(TxId(9), RecordId(2), 45, b"new")
    writer.stage_delete_in(TxId(9), RecordId(1))
    writer.stage_prepare(TxId(9), b"xid")
    (output,) = (await writer.upkeep.compact()).new
    assert [(r.kind, r.count) for r in records_of(disk, output) if r.kind == PREPARE] == [(PREPARE, 2)]
    (prepared,) = read_back(disk).prepared
    assert (prepared.extra, prepared.deletes) == (b"xid", [(1, b"")])
    await writer.durable(writer.stage_commit(TxId(9)))
    assert [one.body for one in read_back(disk).records] == [b"new"]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("turns", [1, 2, 3, 10])
async def test_a_transaction_that_ends_while_files_are_rewritten(turns: int, ends: str) -> None:
    """Its first records are in the old files, and its end is not."""
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"old")
    writer.stage_add_in(TxId(9), RecordId(2), 45, b"new")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.upkeep.compact)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        writer.stage_add_in(TxId(9), RecordId(3), 45, b"newer")
        await writer.durable((writer.stage_commit if ends == "commit" else writer.stage_rollback)(TxId(9)))
    expected = [b"old", b"new", b"newer"] if ends == "commit" else [b"old"]
    assert [one.body for one in read_back(disk).records] == expected
    assert len(list(writer.ledger.live_ids())) == len(expected)


async def test_output_ids_stay_below_the_current_file() -> None:
    """A broker's outputs can reach the id of the file it appends to, and be read after it."""
    disk = SimulatedDisk()
    writer = opened(disk, WriteSettings(prefix="data", file_size_bytes=1024, compact_min_files=0))
    # Large and small records by turns pack badly: outputs outnumber what could be expected.
    for record in range(1, 41):
        writer.stage_add(RecordId(record), 45, bytes(520 if record % 2 else 400))
    done = await writer.upkeep.compact()
    ids = [file.file_id for file in writer.data]
    assert len(done.new) > 10
    assert ids == sorted(set(ids))
    assert len(read_back(disk).records) == 40


async def test_a_deleted_record_does_not_come_back() -> None:
    """Add, update in an open transaction, delete, compaction, commit: in a store of a broker."""
    disk = SimulatedDisk()
    head = {"record_id": 1, "user_type": 45}
    by_hand(
        disk,
        "data-1.amq",
        1,
        [
            encode.record(ADD, 1, body=b"x", **head),
            encode.record(UPDATE_TX, 1, tx_id=9, record_id=1, user_type=33, body=b"y"),
            encode.record(PREPARE, 1, tx_id=9, count=1, body=b"xid"),
            encode.record(DELETE, 1, record_id=1),
            encode.record(ADD, 1, record_id=2, user_type=45, body=b"other"),
        ],
    )
    writer = opened(disk)
    await writer.upkeep.compact()
    await writer.durable(writer.stage_commit(TxId(9)))
    await writer.upkeep.compact()
    assert [one.body for one in read_back(disk).records] == [b"other"]
    assert not opened(disk.process_killed()).is_live(1)


async def test_what_a_broken_commit_dropped_stays_dropped() -> None:
    """Recounting the records of a commit that a load refuses would make it valid."""
    disk = SimulatedDisk()
    by_hand(
        disk,
        "data-1.amq",
        1,
        [
            encode.record(ADD, 1, record_id=1, user_type=45, body=b"x"),
            encode.record(UPDATE_TX, 1, tx_id=9, record_id=1, user_type=33, body=b"y"),
            encode.record(COMMIT, 1, tx_id=9, count=2),
        ],
    )
    writer = opened(disk)
    await writer.upkeep.compact()
    assert [one.body for one in read_back(disk).records] == [b"x"]


async def test_files_are_not_used_again_before_the_control_file_is_gone() -> None:
    """A broker reuses them while the control file still says that they may be deleted."""
    disk = SimulatedDisk()
    writer = opened(disk)
    writer.stage_add(RecordId(1), 45, b"x")
    seen: list[tuple[str, int]] = []

    def look(what: str) -> None:
        if "journal-rename-control.ctr" in disk.names():
            seen.append((what, len(writer.pool.free)))

    disk.before = look
    await writer.upkeep.compact()
    assert {"write_at", "sync_directory", "remove"} <= {what for what, _ in seen}
    assert {free for _, free in seen} == {0}
    assert [file.name for file in writer.pool.free] == ["data-1.amq"]


def journal_files(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith(".amq")]


@pytest.mark.parametrize("alignment", [1, 512])
@pytest.mark.parametrize("live", [0, 1, 20, 60])
async def test_with_so_much_alive_there_are_not_more_and_more_files(alignment: int, live: int) -> None:
    disk = SimulatedDisk(alignment)
    writer = opened(disk, settings_for(disk))
    for record in range(live):
        writer.stage_add(RecordId(record + 1), 45, bytes(100))
    counts: list[int] = []
    next_id = live
    for _ in range(30):
        for _ in range(60):
            next_id += 1
            writer.stage_add(RecordId(next_id), 45, bytes(100))
            writer.stage_delete(RecordId(next_id))
        await writer.durable(writer.position)
        used = len(writer.data)
        done = await writer.upkeep.compact()
        await writer.upkeep.tidy()
        counts.append(len(journal_files(disk)))
        assert counts[-1] <= used + len(done.new) + 3
    assert max(counts) == max(counts[:3])
    assert len(read_back(disk).records) == live


async def test_one_free_file_stays_for_what_makes_room() -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    await writer.upkeep.tidy()
    (spare,) = writer.pool.free
    writer.stage_add(RecordId(1), 45, b"x")
    await writer.upkeep.compact()
    assert writer.pool.free[0].name == spare.name


async def test_free_files_beyond_the_pool_go_while_others_are_written() -> None:
    disk = SimulatedDisk()
    limited = WriteSettings(
        prefix="data", file_size_bytes=2048, buffer_size_bytes=700, compact_min_files=0, pool_files=6
    )
    writer = opened(disk, limited)
    for turn in range(10):
        for record in range(turn * 60 + 1, turn * 60 + 61):
            writer.stage_add(RecordId(record), 45, bytes(100))
            if record % 30:
                writer.stage_delete(RecordId(record))
        await writer.durable(writer.position)
        await writer.upkeep.compact()
        await writer.upkeep.tidy()
        assert len(journal_files(disk)) <= 6 + 1


async def test_work_goes_on_while_files_are_rewritten() -> None:
    """What is appended, deleted and committed during a compaction counts after it."""
    disk = SimulatedDisk()
    driver = Driver(disk, 3)
    writer = driver.start()
    await driver.work(40)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.upkeep.compact)
        for _ in range(150):
            driver.step()
            await writer.durable(writer.position)
    driver.note_durable()
    found = read_back(disk)
    driver.model.check(found, driver.durable)
    assert set(writer.ledger.live_ids()) == {one.record_id for one in found.records if not one.update}


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_twice_compacted_is_the_same_journal(seed: int) -> None:
    driver = Driver(SimulatedDisk(), seed)

    async def run() -> None:
        writer = driver.start()
        await driver.work(60)
        await writer.durable(writer.position)
        before = read_back(driver.disk)
        for _ in range(2):
            await writer.upkeep.compact()
            after = read_back(driver.disk)
            assert {(one.record_id, one.body) for one in after.records} == {
                (one.record_id, one.body) for one in before.records
            }
            assert [one.tx_id for one in after.prepared] == [one.tx_id for one in before.prepared]

    trio.run(run)


@pytest.mark.parametrize("damage", ["torn", "gone"])
async def test_a_control_file_that_is_not_whole_means_nothing_happened(damage: str) -> None:
    disk = SimulatedDisk()
    writer = opened(disk)
    await writer.durable(writer.stage_add(RecordId(1), 45, b"x"))
    await writer.close()
    disk.allocate("data-9.amq.cmp", 2048)
    if damage == "torn":
        disk.allocate("journal-rename-control.ctr", 100)
    again = opened(disk)
    assert again.is_live(1)
    assert not {"data-9.amq.cmp", "journal-rename-control.ctr"} & set(disk.names())
