"""What keeps a file, by hand and against a ledger made from the files."""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.clock import FakeClock
from journalfs.engine.ledger import Ledger
from journalfs.engine.status import CoreRefused
from journalfs.ids import RecordId, TxId
from journalfs.records.files.opening import read_file
from journalfs.records.files.pool import WriteFile
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.journal.driving import SMALL, Driver
from tests.journal.simulated import SimulatedDisk


def opened(disk: SimulatedDisk | None = None, sizes: WriteSettings = SMALL) -> JournalWriter:
    return JournalWriter.open(disk or SimulatedDisk(), sizes, FakeClock())


def test_a_file_is_free_when_all_in_it_is_cancelled() -> None:
    async def run() -> None:
        writer = opened()
        writer.stage_add(RecordId(1), 45, b"a")
        writer.stage_update(RecordId(1), 32, b"b")
        first = writer.current
        writer.switch()
        writer.stage_delete(RecordId(1))
        await writer.durable(writer.position)
        assert await writer.upkeep.reclaim() == [], "the delete is in the current file, which proves nothing"
        (report, _) = writer.upkeep.explain()
        assert report.live_adds == 0
        writer.switch()
        writer.stage_add(RecordId(2), 45, b"c")
        await writer.durable(writer.position)
        assert await writer.upkeep.reclaim() == [first.name, "data-2.amq"]

    trio.run(run)


def test_a_file_stays_while_its_deletes_are_needed() -> None:
    async def run() -> None:
        writer = opened()
        writer.stage_add(RecordId(1), 45, b"kept")
        writer.stage_add(RecordId(2), 45, b"gone")
        writer.switch()
        writer.stage_delete(RecordId(2))
        writer.switch()
        writer.stage_add(RecordId(3), 45, b"")
        await writer.durable(writer.position)
        assert await writer.upkeep.reclaim() == []
        first, second, _ = writer.upkeep.explain()
        assert first.uncancelled == 1
        assert second.uncancelled == 0
        assert second.cancels_earlier == (first.name,)

    trio.run(run)


@pytest.mark.parametrize(("in_transaction", "others"), [(False, 0), (True, 0), (True, 5000)])
def test_a_delete_outlives_the_updates_of_what_it_deleted(in_transaction: bool, others: int) -> None:
    """Also in a journal that is opened once the file with the record itself is gone: without the delete, an
    acknowledgement in a file that stays would tell of a message that was lost. `others`: also in a long
    transaction, whose end is settled bit by bit.
    """

    async def run() -> None:
        disk, sizes = SimulatedDisk(), replace(SMALL, file_size_bytes=1 << 20) if others else SMALL
        writer = opened(disk, sizes)
        first = writer.current
        writer.stage_add(RecordId(1), 45, b"")
        writer.switch()
        if in_transaction:
            for number in range(others):
                writer.stage_add_in(TxId(9), RecordId(100 + number), 45, b"")
            writer.stage_update_in(TxId(9), RecordId(1), 33, bytes(8))
            writer.stage_commit(TxId(9))
        else:
            writer.stage_update(RecordId(1), 33, bytes(8))
        writer.stage_add(RecordId(2), 45, b"kept")
        writer.switch()
        if in_transaction:
            writer.stage_delete_in(TxId(10), RecordId(1))
            writer.stage_commit(TxId(10))
        else:
            writer.stage_delete(RecordId(1))
        writer.switch()
        await writer.durable(writer.stage_add(RecordId(3), 45, b""))
        kept = [file.name for file in writer.data[1:]]
        assert await writer.upkeep.reclaim() == [first.name]
        await writer.close()
        again = opened(disk, sizes)
        again.switch()
        assert await again.upkeep.reclaim() == []
        assert [file.name for file in again.data[:-1]] == kept
        (_, second, *_) = again.upkeep.explain()
        assert second.cancels_earlier == (kept[0],)
        for one in (2, *range(100, 100 + others)):
            again.stage_delete(RecordId(one))
        again.switch()
        await again.durable(again.stage_add(RecordId(4), 45, b""))
        assert kept[:2] == (await again.upkeep.reclaim())[:2], "nothing keeps them any more"
        await again.close()

    trio.run(run)


def test_an_open_transaction_keeps_the_files_it_wrote_to() -> None:
    async def run() -> None:
        writer = opened()
        writer.stage_add_in(TxId(9), RecordId(1), 45, b"")
        writer.switch()
        await writer.durable(writer.stage_add(RecordId(2), 45, b""))
        assert await writer.upkeep.reclaim() == []
        writer.stage_rollback(TxId(9))
        writer.switch()
        await writer.durable(writer.stage_add(RecordId(3), 45, b""))
        assert await writer.upkeep.reclaim() == ["data-1.amq"]

    trio.run(run)


@pytest.mark.parametrize("committed", [True, False])
def test_what_an_open_transaction_holds_is_not_dead(committed: bool) -> None:
    """Or a long one was written anew again and again before it ended."""

    async def run() -> None:
        writer = opened()
        for number in range(12):
            for record_id in (2 * number + 1, 2 * number + 2):
                writer.stage_add_in(TxId(99), RecordId(record_id), 45, bytes(650))
            writer.switch()
        await writer.durable(writer.position)
        assert len(writer.data) > writer.settings.compact_min_files + 1
        assert all(writer.ledger.counters(file.slot).open_bytes > 1300 for file in writer.data[:-1])
        assert not writer.upkeep.compaction_due()
        if committed:
            writer.stage_commit(TxId(99))
        else:
            writer.stage_rollback(TxId(99))
        assert all(not writer.ledger.counters(file.slot).open_bytes for file in writer.data)
        alive = [writer.ledger.counters(file.slot).live_bytes > 1300 for file in writer.data[:-1]]
        assert alive == [committed] * 12
        assert writer.upkeep.compaction_due() is not committed

    trio.run(run)


@pytest.mark.parametrize("buffer_timeout_ns", [0, SMALL.buffer_timeout_ns])
def test_a_message_that_a_queue_has_is_not_deleted_as_one_that_none_has(buffer_timeout_ns: int) -> None:
    """Whoever asks for it may have been shown less than there is."""

    async def run() -> None:
        disk = SimulatedDisk()
        settings_ = replace(SMALL, buffer_timeout_ns=buffer_timeout_ns)
        writer = JournalWriter.open(disk, settings_, FakeClock())
        writer.stage_add(RecordId(1), 45, b"in two queues, one of them by a move")
        writer.stage_update(RecordId(1), 32, b"a")
        writer.stage_update(RecordId(1), 32, b"b")
        writer.stage_update_in(TxId(9), RecordId(1), 32, b"c")
        writer.stage_update_in(TxId(9), RecordId(1), 33, b"b")
        writer.stage_commit(TxId(9))
        writer.stage_add_in(TxId(10), RecordId(2), 45, b"taken back from where it was going")
        writer.stage_update_in(TxId(10), RecordId(2), 32, b"a")
        writer.stage_commit(TxId(10))
        writer.stage_update_in(TxId(11), RecordId(2), 32, b"b")
        writer.stage_rollback(TxId(11))
        assert [writer.ledger.references(one) for one in (1, 2, 3)] == [2, 1, 0]
        assert writer.stage_deletes(array("q", [1, 2, 3])) == bytes(3)
        writer.stage_update(RecordId(2), 33, b"a")
        writer.stage_update(RecordId(1), 33, b"a")
        await writer.upkeep.compact()
        assert writer.stage_deletes(array("q", [1, 2, 3])) == bytes([0, 1, 0])
        await writer.close()
        again = JournalWriter.open(disk, settings_, FakeClock())
        assert list(again.ledger.live_ids()) == [1]
        again.stage_update(RecordId(1), 33, b"c")
        assert again.stage_deletes(array("q", [1])) == bytes([1])
        await again.close()

    trio.run(run)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 150))
def test_kept_while_appending_as_a_load_counts_it(seed: int, steps: int) -> None:
    driver = Driver(SimulatedDisk(), seed)

    async def run() -> None:
        writer = driver.start()
        await driver.work(steps)
        await writer.durable(writer.position)
        fresh = Ledger()
        files = []
        for file in writer.data:
            again = WriteFile(file.name, file.file_id, file.size_bytes)
            read_file(driver.disk, fresh, again)
            files.append(again)
        for kept, counted in zip(writer.data, files, strict=True):
            old, new = writer.ledger.counters(kept.slot), fresh.counters(counted.slot)
            # What earlier files that are gone cancelled counts on neither side of the reckoning any more.
            assert (old.live_bytes, old.live_adds) == (new.live_bytes, new.live_adds)
            assert old.open_bytes == new.open_bytes >= 0
            assert sorted(fresh.live_ids()) == sorted(writer.ledger.live_ids())
        kept_names = {writer.data[i].name for i in _free(writer.ledger, writer.data)}
        counted_names = {files[i].name for i in _free(fresh, files)}
        assert kept_names == counted_names
        for transaction in writer.ledger.transactions():
            assert writer.ledger.save([file.slot for file in writer.data]) is None
            writer.ledger.abandon(transaction.tx_id)
        _saved_and_loaded(writer.ledger, [file.slot for file in writer.data], driver.chance)

    trio.run(run)


def _saved_and_loaded(ledger: Ledger, slots: list[int], chance: Random) -> None:
    saved = ledger.save(slots)
    assert saved is not None
    again = Ledger.load(saved, len(slots))
    numbers = {slot: number for number, slot in enumerate(slots)}
    for slot, number in numbers.items():
        assert again.counters(number) == ledger.counters(slot)
        cancels = {numbers[of]: count for of, count in ledger.cancels(slot).items() if of in numbers}
        assert again.cancels(number) == cancels
    assert again.live_ids() == ledger.live_ids()
    assert again.doubtful() == ledger.doubtful()
    assert again.doubts == ledger.doubts
    told, first = again.totals(), ledger.totals()
    assert (told.live_records, told.id_max, told.tx_id_max) == (
        first.live_records,
        first.id_max,
        first.tx_id_max,
    )
    assert [again.references(one) for one in again.live_ids()] == [
        ledger.references(one) for one in ledger.live_ids()
    ]
    assert again.save(list(numbers.values())) == saved
    for hostile in (saved[:-1], saved + b"\0", b"", saved.replace(saved[:1], b"\2", 1)):
        with pytest.raises(CoreRefused):
            Ledger.load(hostile, len(slots))
    for _ in range(20):
        changed = bytearray(saved)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        _use_if_accepted(bytes(changed), slots)


def _use_if_accepted(saved: bytes, slots: list[int]) -> None:
    try:
        ledger = Ledger.load(saved, len(slots))
    except CoreRefused:
        return
    ledger.reclaimable(range(len(slots)))
    for record_id in ledger.live_ids():
        assert ledger.is_live(record_id)
    for slot in range(len(slots)):
        ledger.drop_file(slot)


def _free(ledger: Ledger, files: list[WriteFile]) -> list[int]:
    slots = [file.slot for file in files[:-1]]
    free = set(ledger.reclaimable(slots))
    assert free == _free_by_pairs(ledger, slots)
    added = [ledger.counters(slot) for slot in slots]
    together = ledger.counters(*slots)
    assert together.live_bytes == sum(one.live_bytes for one in added)
    assert together.positives == sum(one.positives for one in added)
    return [index for index, slot in enumerate(slots) if slot in free]


def _free_by_pairs(ledger: Ledger, slots: list[int]) -> set[int]:
    """By a look at each pair of files. One goes when it cancels nothing in an earlier one that stays, and all
    that it holds is cancelled from it or later.
    """
    cancels = {slot: ledger.cancels(slot) for slot in slots}
    free: set[int] = set()
    for at, slot in enumerate(slots):
        if any(cancels[slot].get(earlier, 0) for earlier in slots[:at] if earlier not in free):
            continue
        cancelled = sum(cancels[later].get(slot, 0) for later in slots[at:])
        if cancelled >= ledger.counters(slot).positives:
            free.add(slot)
    return free
