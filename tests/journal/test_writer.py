"""Appending: order, durability, shared flushes, refusals, failures, cancellation."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from journalfs.clock import FakeClock
from journalfs.engine.committer import IN_VAIN_MIN, LEFT_OUT_MAX
from journalfs.errors import NoSpace, ReadOnlyStore, RecordRefused, RecordTooLarge, WriteFailed
from journalfs.ids import FileId, Position, RecordId, TxId
from journalfs.limits import INLINE_FLUSH_NS_MAX, JOURNAL_HEADER_BYTES
from journalfs.records.files.pool import FilePool, encode_header
from journalfs.records.files.upkept import JournalReader
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.differential.encode import record
from tests.journal.driving import SMALL, Driver, read_back
from tests.journal.simulated import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def writer(disk: SimulatedDisk) -> JournalWriter:
    return JournalWriter.open(disk, SMALL, FakeClock())


def bodies(disk: SimulatedDisk) -> list[bytes]:
    return [one.body for one in read_back(disk).records]


def test_a_fresh_journal_has_its_files(disk: SimulatedDisk, writer: JournalWriter) -> None:
    assert disk.names() == ["data-1.amq", "data-2.amq"]
    assert {disk.size_bytes(name) for name in disk.names()} == {2048}
    assert writer.current.name == "data-1.amq"


async def test_durable_means_that_a_power_cut_keeps_it(disk: SimulatedDisk, writer: JournalWriter) -> None:
    await writer.durable(writer.stage_add(RecordId(1), 45, b"one"))
    writer.stage_add(RecordId(2), 45, b"two")
    for seed in range(20):
        assert bodies(disk.crash(seed)) == [b"one"]


async def test_a_crowd_shares_a_flush_and_a_lone_writer_has_its_own(writer: JournalWriter) -> None:
    async def write(record: int) -> None:
        await writer.durable(writer.stage_add(RecordId(record), 45, b""))

    async with trio.open_nursery() as nursery:
        for record in range(1, 9):
            nursery.start_soon(write, record)
    assert writer.committer.counts.flushes == 1
    await write(10)
    await write(11)
    assert writer.committer.counts.flushes == 3


async def test_records_nobody_waits_for_are_written_after_the_timeout(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = FakeClock()
    writer = JournalWriter.open(disk, SMALL, clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        writer.stage_add(RecordId(1), 45, b"one")
        await wait_all_tasks_blocked()
        assert bodies(disk) == []
        clock.advance(by_ms=4)
        await trio.sleep(0.005)
        await wait_all_tasks_blocked()
        assert bodies(disk) == [b"one"]
        nursery.cancel_scope.cancel()


async def test_who_flushes_by_himself_wakes_nobody_each_time(
    disk: SimulatedDisk, mock_clock: MockClock
) -> None:
    """The timer is for records that nobody waits for. While others flush it looks now and then, and still
    sees to the last record in time.
    """
    clock = FakeClock()
    writer = JournalWriter.open(disk, WriteSettings(prefix="data", file_size_bytes=1 << 16), clock)
    looks = staged_ns = 0

    def staged_since_ns() -> int | None:
        nonlocal looks
        looks += 1
        return None if writer.is_settled else staged_ns

    async def pass_time() -> None:
        clock.advance(by_ms=4)
        mock_clock.jump(0.004)
        await wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(writer.committer.run, timeout_ns=3_333_333, staged_since_ns=staged_since_ns)
        )
        await wait_all_tasks_blocked()
        assert looks == 1
        for record in range(1, 11):
            await writer.durable(writer.stage_add(RecordId(record), 45, b"waited for"))
        await wait_all_tasks_blocked()
        assert looks <= 3
        await pass_time()
        await writer.durable(writer.stage_add(RecordId(11), 45, b"waited for"))
        writer.stage_add(RecordId(20), 45, b"last")
        staged_ns = clock.monotonic_ns()
        await pass_time()
        await pass_time()
        assert bodies(disk)[-1] == b"last"
        await pass_time()
        await pass_time()
        writer.stage_add(RecordId(21), 45, b"after a pause")
        staged_ns = clock.monotonic_ns()
        await wait_all_tasks_blocked()
        await pass_time()
        assert bodies(disk)[-1] == b"after a pause"
        nursery.cancel_scope.cancel()


async def test_what_must_not_be_broken_off_is_waited_for(disk: SimulatedDisk, writer: JournalWriter) -> None:
    reached: list[int] = []

    async def publish(record: int) -> None:
        await writer.durable_unbroken(writer.stage_add(RecordId(record), 45, b""))
        reached.append(record)

    async with trio.open_nursery() as nursery:
        for record in range(1, 6):
            nursery.start_soon(publish, record)
        nursery.cancel_scope.cancel()
    assert sorted(reached) == [1, 2, 3, 4, 5]
    assert len(bodies(disk)) == 5
    assert writer.committer.counts.flushes == 1


@dataclass
class Crowd:
    alone: bool = True
    gathered: int = 0

    def is_quiet(self) -> bool:
        return self.alone

    async def quiet(self) -> None:
        self.gathered += 1
        await trio.lowlevel.checkpoint()


async def test_a_publisher_who_is_alone_takes_no_turn(disk: SimulatedDisk, writer: JournalWriter) -> None:
    await writer.durable(writer.stage_add(RecordId(1), 45, b""))
    writer.committer.counts.flush_ns = INLINE_FLUSH_NS_MAX  # flushes are quick
    crowd = writer.committer.gathering.crowd = Crowd()
    with assert_no_checkpoints():
        await writer.durable_unbroken(writer.stage_add(RecordId(2), 45, b"alone"))
    assert bodies(disk)[-1] == b"alone"
    assert crowd.gathered == 0
    crowd.alone = False
    await writer.durable_unbroken(writer.stage_add(RecordId(3), 45, b"not alone"))
    assert bodies(disk)[-1] == b"not alone"
    assert crowd.gathered == 1


async def test_who_waited_in_vain_for_others_flushes_at_once(disk: SimulatedDisk) -> None:
    """Somebody always waits to be served, and never brings anything. Once others do, flushes are shared."""
    writer = JournalWriter.open(disk, WriteSettings(prefix="data", file_size_bytes=1 << 16), FakeClock())
    crowd = writer.committer.gathering.crowd = Crowd(alone=False)
    await writer.durable(writer.stage_add(RecordId(1), 45, b""))
    writer.committer.counts.flush_ns = INLINE_FLUSH_NS_MAX  # flushes are quick
    record = 1

    async def publish() -> None:
        nonlocal record
        record += 1
        await writer.durable_unbroken(writer.stage_add(RecordId(record), 45, b""))

    for _ in range(IN_VAIN_MIN - 1 + LEFT_OUT_MAX):
        await publish()
    assert crowd.gathered == IN_VAIN_MIN
    for _ in range(LEFT_OUT_MAX + 1):
        await publish()
    assert crowd.gathered == IN_VAIN_MIN + 1
    for _ in range(2):
        before = writer.committer.counts.flushes
        for _ in range(LEFT_OUT_MAX + 2):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(publish)
    assert writer.committer.counts.flushes - before == LEFT_OUT_MAX + 2


async def test_what_is_flushed_elsewhere_wakes_nobody(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    work = Driver(disk, seed=1)
    writer = work.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for _ in range(2):
            await wait_all_tasks_blocked()
            work.send()
            await writer.durable(writer.position)
        for _ in range(4):
            await trio.sleep(0.9 * writer.settings.buffer_timeout_ns / 1e9)
            work.publish_lent()
        assert work.lent > 1
        assert math.isinf(trio.lowlevel.current_statistics().seconds_to_next_deadline)
        nursery.cancel_scope.cancel()


async def test_a_lone_publisher_is_told_of_a_failure(disk: SimulatedDisk, writer: JournalWriter) -> None:
    writer.committer.gathering.crowd = Crowd()
    await writer.durable(writer.stage_add(RecordId(1), 45, b""))
    writer.committer.counts.flush_ns = 1

    def fail(what: str) -> None:
        raise OSError(errno.EIO, "no")

    disk.before = fail
    with pytest.raises(WriteFailed):
        await writer.durable_unbroken(writer.stage_add(RecordId(2), 45, b""))
    with pytest.raises(ReadOnlyStore):
        writer.stage_add(RecordId(3), 45, b"")


async def test_without_a_buffer_every_record_is_a_write(disk: SimulatedDisk) -> None:
    settings = WriteSettings(prefix="data", file_size_bytes=2048, buffer_timeout_ns=0)
    writer = JournalWriter.open(disk, settings, FakeClock())
    writer.stage_add(RecordId(1), 45, b"one")
    assert bodies(disk) == [b"one"]
    writer.stage_add(RecordId(2), 45, b"two")
    await writer.durable(writer.position)
    assert writer.committer.counts.flushes == 2


@pytest.mark.parametrize("at", [16, 700, 1024])
def test_what_a_file_held_is_no_record_of_its_next_life(disk: SimulatedDisk, at: int) -> None:
    """The id of a message can be, byte by byte, a record of the file's next id."""
    pool = FilePool(disk, SMALL, last_id=20)
    file = pool.create(FileId(20))
    looks_like = record(18, 21, tx_id=4411)
    disk.write_at(file.name, at, b"".join([looks_like, record(18, 22, tx_id=4412)]))
    again = pool.reinitialise(file, pool.new_id())
    assert (again.name, again.file_id) == (file.name, 23)
    assert disk.read(file.name, 0, 16) == encode_header(23, 1)
    assert disk.read(file.name, at, len(looks_like)) == looks_like


def test_sync_settings_say_who_waits(disk: SimulatedDisk) -> None:
    settings = WriteSettings(prefix="data", file_size_bytes=2048, sync_transactional=False)
    writer = JournalWriter.open(disk, settings, FakeClock())
    assert not writer.waits(transactional=True)
    assert writer.waits(transactional=False)


async def test_closing_writes_what_is_staged(disk: SimulatedDisk, writer: JournalWriter) -> None:
    writer.stage_add(RecordId(1), 45, b"one")
    await writer.close()
    assert bodies(disk) == [b"one"]
    with pytest.raises(ReadOnlyStore):
        writer.stage_add(RecordId(2), 45, b"two")


class TestRefusals:
    def refused(self, writer: JournalWriter) -> pytest.RaisesExc[RecordRefused]:
        return pytest.raises(RecordRefused)

    def test_plain_records(self, writer: JournalWriter) -> None:
        writer.stage_add(RecordId(1), 45, b"")
        before = writer.position
        attempts: list[Callable[[], Position]] = [
            lambda: writer.stage_add(RecordId(1), 45, b""),
            lambda: writer.stage_update(RecordId(2), 32, b""),
            lambda: writer.stage_delete(RecordId(2)),
            lambda: writer.stage_commit(TxId(5)),
            lambda: writer.stage_prepare(TxId(5), b""),
            lambda: writer.stage_update_in(TxId(5), RecordId(2), 33, b""),
        ]
        for attempt in attempts:
            with self.refused(writer):
                attempt()
        assert writer.position == before

    def test_no_delete_of_what_an_open_transaction_changes(self, writer: JournalWriter) -> None:
        """A broker would lose the delete when it compacts."""
        writer.stage_add(RecordId(1), 45, b"")
        writer.stage_update_in(TxId(5), RecordId(1), 33, b"")
        with self.refused(writer):
            writer.stage_delete(RecordId(1))
        with self.refused(writer):
            writer.stage_delete_in(TxId(6), RecordId(1))
        writer.stage_commit(TxId(5))
        writer.stage_delete(RecordId(1))

    def test_no_change_of_what_an_open_transaction_deletes(self, writer: JournalWriter) -> None:
        writer.stage_add(RecordId(1), 45, b"")
        writer.stage_delete_in(TxId(5), RecordId(1))
        with self.refused(writer):
            writer.stage_update(RecordId(1), 32, b"")
        with self.refused(writer):
            writer.stage_delete(RecordId(1))
        writer.stage_rollback(TxId(5))
        writer.stage_delete(RecordId(1))

    def test_adds_of_an_open_transaction_are_its_own(self, writer: JournalWriter) -> None:
        writer.stage_add_in(TxId(5), RecordId(1), 45, b"")
        writer.stage_update_in(TxId(5), RecordId(1), 32, b"")
        with self.refused(writer):
            writer.stage_update(RecordId(1), 32, b"")
        with self.refused(writer):
            writer.stage_add(RecordId(1), 45, b"")
        with self.refused(writer):
            writer.stage_update_in(TxId(6), RecordId(1), 32, b"")

    def test_nothing_more_in_a_prepared_transaction(self, writer: JournalWriter) -> None:
        writer.stage_add_in(TxId(5), RecordId(1), 45, b"")
        writer.stage_prepare(TxId(5), b"xid")
        with self.refused(writer):
            writer.stage_add_in(TxId(5), RecordId(2), 45, b"")
        with self.refused(writer):
            writer.stage_prepare(TxId(5), b"xid")
        writer.stage_commit(TxId(5))
        assert writer.is_live(1)

    def test_too_large(self, writer: JournalWriter) -> None:
        writer.stage_add(RecordId(1), 45, bytes(700 - 23))
        with pytest.raises(RecordTooLarge) as caught:
            writer.stage_add(RecordId(2), 45, bytes(701 - 23))
        assert (caught.value.record_bytes, caught.value.limit_bytes) == (701, 700)
        assert not writer.is_live(2)


async def test_counts_say_what_of_a_transaction_is_in_the_same_file(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    writer.stage_add_in(TxId(5), RecordId(1), 45, b"one")
    writer.switch()
    writer.stage_add_in(TxId(5), RecordId(2), 45, b"two")
    writer.stage_add_in(TxId(5), RecordId(3), 45, b"three")
    writer.stage_prepare(TxId(5), b"xid")
    writer.switch()
    await writer.durable(writer.stage_commit(TxId(5)))
    assert bodies(disk) == [b"one", b"two", b"three"]


async def test_a_failed_write_is_final(disk: SimulatedDisk, writer: JournalWriter) -> None:
    position = writer.stage_add(RecordId(1), 45, b"one")

    def fail(what: str) -> None:
        if what == "complete":
            raise OSError(errno.EIO, "no")

    disk.before = fail
    with pytest.raises(WriteFailed) as caught:
        await writer.durable(position)
    assert caught.value.system_errno == errno.EIO
    disk.before = None
    with pytest.raises(WriteFailed):
        await writer.durable(position)
    with pytest.raises(ReadOnlyStore, match="writing failed"):
        writer.stage_add(RecordId(2), 45, b"two")
    with pytest.raises(WriteFailed):
        await writer.close()


async def test_everyone_who_waits_is_told_of_a_failure(disk: SimulatedDisk, writer: JournalWriter) -> None:
    failures = 0

    def fail(what: str) -> None:
        if what == "submit":
            raise OSError(errno.EIO, "no")

    async def write(record: int) -> None:
        nonlocal failures
        with pytest.raises(WriteFailed):
            await writer.durable(writer.stage_add(RecordId(record), 45, b""))
        failures += 1

    disk.before = fail
    async with trio.open_nursery() as nursery:
        for record in range(1, 6):
            nursery.start_soon(write, record)
    assert failures == 5


async def test_who_leads_a_flush_is_told_where_another_found_that_it_failed(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    """A compaction drains the journal while somebody waits for the flush that it drains."""

    def refuse(call: str) -> None:
        if call == "complete":
            raise OSError(errno.EIO, "refused")

    class Draining(JournalReader):
        def while_waiting(self) -> None:
            with pytest.raises(WriteFailed):
                writer.drain()

    disk.before, writer.reader = refuse, Draining()
    position = writer.stage_add(RecordId(1), 45, b"one")
    with pytest.raises(WriteFailed):
        await writer.durable(position)
    assert writer.committer.reached_position < position
    assert writer.durable_end() == (writer.current.file_id, writer.pool.first_record)


async def test_cancelled_while_waiting_the_record_is_durable(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    """Cancellation is delivered when the outcome is known, for the one who leads and for those who follow."""
    scopes = [trio.CancelScope() for _ in range(3)]

    def cancel_all(what: str) -> None:
        if what == "complete":
            for scope in scopes:
                scope.cancel()

    async def write(record: int, scope: trio.CancelScope) -> None:
        position = writer.stage_add(RecordId(record), 45, b"%d" % record)
        with scope:
            await writer.durable(position)
        assert scope.cancelled_caught
        assert writer.committer.reached_position >= position

    disk.before = cancel_all
    async with trio.open_nursery() as nursery:
        for record, scope in enumerate(scopes, 1):
            nursery.start_soon(write, record, scope)
    assert sorted(bodies(disk.crash(1))) == [b"1", b"2", b"3"]


async def test_cancelled_before_waiting_the_record_is_only_staged(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.durable(writer.stage_add(RecordId(1), 45, b"one"))
    assert scope.cancelled_caught
    assert bodies(disk) == []
    await writer.close()
    assert bodies(disk) == [b"one"]


async def test_a_full_disk_refuses_messages_and_takes_acknowledgements(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    def full(what: str) -> None:
        if what == "allocate":
            raise OSError(errno.ENOSPC, "full")

    disk.before = full
    record = 0

    async def send_for_ever() -> None:
        nonlocal record
        while True:
            record += 1
            await writer.durable(writer.stage_add(RecordId(record), 45, bytes(500)))
            if writer.ready_file is None:
                with pytest.raises(OSError, match="full"):
                    await writer.upkeep.tidy()

    with pytest.raises(NoSpace):
        await send_for_ever()
    for acknowledged in range(1, record):
        writer.stage_delete(RecordId(acknowledged))
    await writer.durable(writer.position)
    assert bodies(disk) == []


async def test_a_rollback_that_finds_no_room_is_made_up_for(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    def full(what: str) -> None:
        if what == "allocate":
            raise OSError(errno.ENOSPC, "full")

    transactions = range(1, 100)
    for number in transactions:
        writer.stage_add(RecordId(number), 45, b"stays")
        writer.stage_delete_in(TxId(number), RecordId(number))
    writer.stage_add(RecordId(100), 45, b"")
    disk.before = full

    def update_for_ever() -> None:
        while True:
            writer.stage_update(RecordId(100), 46, b"")

    with pytest.raises(NoSpace):
        update_for_ever()
    for number in transactions:
        writer.roll_back(TxId(number))
    assert any(writer.has_open(TxId(number)) for number in transactions)
    with pytest.raises(NoSpace):
        writer.stage_delete(RecordId(100))
    disk.before = lambda what: None
    writer.stage_delete(RecordId(100))
    assert not any(writer.has_open(TxId(number)) for number in transactions)
    await writer.close()
    assert bodies(disk) == [b"stays"] * len(transactions)


async def test_whoever_needs_the_file_that_is_being_made_gets_it(
    disk: SimulatedDisk, writer: JournalWriter
) -> None:
    """There was room for this one only: another could not be made."""
    made = 0

    def room_for_one(what: str) -> None:
        nonlocal made
        if what == "allocate":
            made += 1
            if made > 1:
                raise OSError(errno.ENOSPC, "full")

    writer.stage_add(RecordId(1), 45, b"goes")
    writer.pool.free.clear()
    writer.ready_file = None
    disk.before = room_for_one
    writer.pool.prepare(above=writer.current.file_id)
    writer.switch()
    assert made == 1
    writer.stage_delete(RecordId(1))
    await writer.close()
    assert bodies(disk) == []


@pytest.mark.parametrize("gone", ["compacted", "emptied"])
async def test_what_is_durable_ends_where_it_did_when_its_file_goes(writer: JournalWriter, gone: str) -> None:
    """Whoever reads along takes files before that place for complete."""
    writer.stage_add(RecordId(1), 45, b"one")
    if gone == "emptied":
        writer.stage_delete(RecordId(1))
    await writer.durable(writer.position)
    if gone == "compacted":
        await writer.upkeep.compact()
    else:
        writer.switch()
        assert await writer.upkeep.reclaim() == ["data-1.amq"]
    following = writer.current
    assert writer.durable_end() == (following.file_id, JOURNAL_HEADER_BYTES)
    record = 1
    while writer.current is following:
        record += 1
        writer.stage_add(RecordId(record), 45, bytes(500))
    assert writer.durable_end() == (following.file_id, JOURNAL_HEADER_BYTES), "none of it was reached"
    await writer.durable(writer.position)
    assert writer.durable_end() == (writer.current.file_id, writer.current.end)
