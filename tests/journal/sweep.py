"""Work on a simulated disk that is stopped at any storage call, and what must be left then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from journalfs.clock import FakeClock
from journalfs.errors import JournalfsError, NoSpace
from journalfs.ids import RecordId, TxId
from journalfs.records.files.compaction import Compaction
from journalfs.records.files.writer import JournalWriter
from tests.journal.driving import Driver, read_back, settings_for
from tests.journal.model import live_ids
from tests.journal.simulated import SimulatedDisk
from tests.reference.journal import Replay

ANOTHER = 10**12


class KilledError(BaseException):
    """The process ends here."""


def check_after(driver: Driver, after: SimulatedDisk) -> None:
    """The disk as it is, and as opening it for writing leaves it, hold what they must."""
    driver.model.check(read_back(after), driver.durable)
    writer = JournalWriter.open(after, settings_for(after), FakeClock())
    found = read_back(after)
    driver.model.check(found, driver.durable)
    check_appending(after, writer, found)
    live = set(writer.ledger.live_ids()) - {ANOTHER}
    assert live == live_ids(found.records)
    assert {tx.tx_id for tx in writer.ledger.transactions()} == {tx.tx_id for tx in found.prepared}


def check_appending(disk: SimulatedDisk, writer: JournalWriter, before: Replay) -> None:
    """What is appended now adds to what there is."""
    trio.run(writer.durable, writer.stage_add(RecordId(ANOTHER), 45, b"another"))
    after = read_back(disk)
    assert [one.body for one in after.records] == [*(one.body for one in before.records), b"another"]
    assert [one.tx_id for one in after.prepared] == [one.tx_id for one in before.prepared]


def count_calls(alignment: int, seed: int = 7) -> int:
    """Of the scenario."""
    calls = 0

    def count(_: str) -> None:
        nonlocal calls
        calls += 1

    run_scenario(alignment, count, seed)
    return calls


def killer(fatal: int) -> Callable[[str], None]:
    """What ends it at storage call number `fatal`, from 0."""
    left = fatal

    def kill(_: str) -> None:
        nonlocal left
        if left <= 0:
            raise KilledError
        left -= 1

    return kill


async def consume_in_the_last_file(driver: Driver, writer: JournalWriter) -> None:
    """As where the disk has no room for another file, until somebody makes some."""
    room_bytes, driver.disk.room_bytes = driver.disk.room_bytes, 0
    while not writer.short_of_space:
        writer.switch()
    for _ in range(10):
        driver.delete()
    await writer.durable(writer.position)
    driver.note_durable()
    driver.disk.room_bytes = room_bytes
    await writer.upkeep.tidy()


def run_scenario(
    alignment: int, before: Callable[[str], None], seed: int = 7
) -> tuple[Driver, BaseException | None]:
    """Fixed work that creates, switches, reclaims and compacts; ends early if `before` says so."""
    driver = Driver(SimulatedDisk(alignment, depth=1 if alignment == 1 else 4), seed)
    driver.disk.before = before
    stopped: BaseException | None = None

    async def run() -> None:
        nonlocal stopped
        try:
            writer = driver.start()
            stopped = await driver.work_until_refused(60)
            if stopped is None:
                await writer.upkeep.compact()
                stopped = await driver.work_until_refused(20)
            if stopped is None:
                await consume_in_the_last_file(driver, writer)
                await driver.consume()
        except (KilledError, OSError, JournalfsError) as error:
            stopped = error
        if driver.writer is not None:
            driver.note_durable()

    trio.run(run)
    driver.disk.before = None
    return driver, stopped


def killed_at(alignment: int, fatal: int, seed: int = 7) -> Driver:
    """The scenario, ended at storage call number `fatal`, from 0."""
    driver, stopped = run_scenario(alignment, killer(fatal), seed)
    assert isinstance(stopped, KilledError), fatal
    return driver


def sweep_of_compactions(alignment: int, *, every: int, crashes: int) -> int:
    """Compactions whose outputs take the place of free files, each followed by work that uses old ones again;
    the power cut as in `power_cuts`. Returns how many calls there were.
    """

    async def compact(driver: Driver, writer: JournalWriter) -> int:
        for _ in range(3):
            await driver.work(8)
            files = len(driver.disk.names())
            done = await writer.upkeep.compact()
            assert done.new
            assert len(driver.disk.names()) == files
        return 3

    calls, _ = power_cuts(alignment, compact, seed=5, free_files=9, every=every, crashes=crashes)
    return calls


def power_cuts(
    alignment: int,
    act: Callable[[Driver, JournalWriter], Awaitable[int]],
    *,
    seed: int,
    free_files: int,
    every: int,
    crashes: int,
) -> tuple[int, int]:
    """Do something after some work, and cut the power at one of `every` so many storage calls of it. Returns
    how many calls there were, to the next of these, and what it returned when it was done.
    """
    fatal = 0
    while True:
        driver = Driver(SimulatedDisk(alignment, depth=1 if alignment == 1 else 4), seed)

        async def run(driver: Driver = driver, fatal: int = fatal) -> int | None:
            writer = driver.start()
            await driver.work(60)
            writer.pool.reserve(free_files)
            driver.disk.before = killer(fatal)
            try:
                return await act(driver, writer)
            except KilledError:
                return None
            finally:
                driver.disk.before = None
                driver.note_durable()

        done = trio.run(run)
        if done is not None:
            return fatal, done
        for crash in range(crashes):
            check_after(driver, driver.disk.crash(fatal * 31 + crash))
        check_after(driver, driver.disk.process_killed())
        fatal += every


async def compact_in_place(driver: Driver, writer: JournalWriter, turn: int) -> bool:
    """A few of the first files, or all but the current one. Every other time free files have to give way.
    Whether there were ids for what it writes.
    """
    while len(writer.data) < 4:
        driver.step()
    writer.pool.reserve(4)
    for _ in range(2):
        # As where a compaction stopped short: there are free files with earlier ids.
        writer.pool.last_id += 10
        writer.switch(above=writer.pool.last_id)
        driver.send()
    room_bytes, driver.disk.room_bytes = driver.disk.room_bytes, driver.disk.room_bytes * (turn % 2)
    try:
        await Compaction(writer, set(), writer.upkeep.room).run_in_place(len(writer.data) - 1 - turn % 3)
    except NoSpace:
        return False
    finally:
        driver.disk.room_bytes = room_bytes
    # With an earlier one among them, recovery would take old files for used again.
    assert all(file.file_id > writer.current.file_id for file in writer.pool.free)
    return True


def sweep_in_place(alignment: int, *, seed: int, every: int, crashes: int) -> tuple[int, int]:
    """Compactions that go on in the current file, each followed by work that uses old ones again; the power
    cut as in `power_cuts`. Returns how many calls and how many compactions there were.
    """

    async def compact(driver: Driver, writer: JournalWriter) -> int:
        done = 0
        for turn in range(4):
            done += await compact_in_place(driver, writer, turn)
            await driver.work(6)
        return done

    return power_cuts(alignment, compact, seed=seed, free_files=0, every=every, crashes=crashes)


def sweep(*, seeds: Iterable[int]) -> None:
    """Other work for each seed, killed at every 5th call, the power cut at the same moment."""
    for seed in seeds:
        alignment = 1 if seed % 2 else 512
        for fatal in range(seed % 5, count_calls(alignment, seed), 5):
            driver = killed_at(alignment, fatal, seed)
            check_after(driver, driver.disk.crash(seed * 1000 + fatal))
            check_after(driver, driver.disk.process_killed())


def sweep_of_a_transaction_over_files(*, crashes: int) -> None:
    """A transaction that fills several files without anybody waiting; the power cut at every storage call."""
    fatal = 0
    while True:
        driver = Driver(SimulatedDisk(512, depth=32), 1)

        def run(driver: Driver = driver, fatal: int = fatal) -> None:
            writer = driver.start()
            driver.disk.before = killer(fatal)
            driver.begin()
            while len(writer.data) < 3:
                driver.extend()
            driver.model.transactions[1].committed = True
            driver.model.transactions[1].ended_at = writer.position + 1
            writer.stage_commit(TxId(1))
            # Enough for the commit's own buffer to be full, and written beside the earlier ones.
            while len(writer.data) < 4:
                driver.send()
            trio.run(writer.durable, writer.position)
            driver.note_durable()

        try:
            run()
            return
        except KilledError:
            driver.disk.before = None
            for crash in range(crashes):
                driver.model.check(read_back(driver.disk.crash(crash)), driver.durable)
        fatal += 1
