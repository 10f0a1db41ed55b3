"""Nothing that was durable is lost, nothing is there in part: after power cuts, kills and errors anywhere."""

from __future__ import annotations

import errno

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.errors import JournalfsError, ReadOnlyStore
from journalfs.ids import RecordId
from tests.journal.driving import Driver, read_back
from tests.journal.simulated import SimulatedDisk
from tests.journal.sweep import (
    check_after,
    count_calls,
    killed_at,
    run_scenario,
    sweep_in_place,
    sweep_of_compactions,
)
from tests.kinds import first_is_quick

ALIGNMENTS = pytest.mark.parametrize("alignment", [1, 512], ids=["packed", "blocks"])
SOME = 5
"""The quick suite looks at one of so many storage calls."""
SWEPT = pytest.mark.parametrize(
    ("alignment", "every"),
    [(512, SOME), *(pytest.param(one, 1, marks=pytest.mark.long) for one in (512, 1))],
    ids=["some", "blocks", "packed"],
)
STEPS = 60


@ALIGNMENTS
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 120), crash=st.integers(0, 2**32))
def test_power_cut_at_any_moment(alignment: int, seed: int, steps: int, crash: int) -> None:
    driver = Driver(SimulatedDisk(alignment, depth=1 if alignment == 1 else 4), seed)

    async def run() -> None:
        driver.start()
        await driver.work(steps)
        driver.note_durable()

    trio.run(run)
    check_after(driver, driver.disk.crash(crash))
    check_after(driver, driver.disk.process_killed())


@ALIGNMENTS
@settings(deadline=None, max_examples=25)
@given(seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=5))
def test_a_journal_survives_one_crash_after_another(alignment: int, seeds: list[int]) -> None:
    """After each crash work goes on with what the journal says is there."""
    disk = SimulatedDisk(alignment)
    first_id = 0
    for seed in seeds:
        driver = Driver(disk, seed)
        driver.next_id = first_id
        before = {(one.record_id, one.body) for one in read_back(disk).records}

        async def run(driver: Driver = driver) -> None:
            driver.start()
            await driver.work(STEPS)
            driver.note_durable()

        trio.run(run)
        first_id = driver.next_id
        disk = disk.crash(seed)
        after = {(one.record_id, one.body) for one in read_back(disk).records}
        assert before <= after, "what the last life held is lost"


@ALIGNMENTS
def test_the_scenario_does_everything(alignment: int) -> None:
    kinds: set[str] = set()
    driver, stopped = run_scenario(alignment, kinds.add)
    assert stopped is None
    assert kinds == {
        "allocate",
        "write_at",
        "sync",
        "rename",
        "remove",
        "sync_directory",
        "submit",
        "complete",
    }
    assert driver.writer is not None
    assert driver.writer.upkeep.compactions > 0
    assert driver.writer.upkeep.files_freed > 0
    assert driver.lent > 0


@SWEPT
def test_killed_at_every_storage_call(alignment: int, every: int) -> None:
    for fatal in range(0, count_calls(alignment), every):
        driver = killed_at(alignment, fatal)
        for crash in range(3):
            check_after(driver, driver.disk.crash(fatal * 31 + crash))
        check_after(driver, driver.disk.process_killed())


@SWEPT
def test_killed_while_outputs_take_the_place_of_free_files(alignment: int, every: int) -> None:
    assert sweep_of_compactions(alignment, every=every, crashes=3) > 50


@SWEPT
def test_killed_while_files_before_the_current_one_are_rewritten(alignment: int, every: int) -> None:
    calls, compactions = sweep_in_place(alignment, seed=3, every=every, crashes=4)
    assert calls > 100
    assert compactions > 1


@SWEPT
def test_cancelled_at_every_storage_call_of_a_compaction(alignment: int, every: int) -> None:
    """Whoever cancels, what was begun is done, and work that goes on afterwards loses nothing."""

    async def run(driver: Driver, cancel_at: int) -> bool:
        writer = driver.start()
        await driver.work(50)
        token = trio.lowlevel.current_trio_token()
        left = cancel_at
        with trio.CancelScope() as scope:

            def cancel(_: str) -> None:
                nonlocal left
                left -= 1
                if left == -1:
                    token.run_sync_soon(scope.cancel)

            driver.disk.before = cancel
            await writer.upkeep.compact()
            await writer.upkeep.tidy()
        driver.disk.before = None
        await driver.work(30)
        await driver.consume()
        return left < 0

    cancel_at = 0
    cancelled = True
    while cancelled:
        driver = Driver(SimulatedDisk(alignment), seed=11)
        cancelled = trio.run(run, driver, cancel_at)
        check_after(driver, driver.disk.process_killed())
        cancel_at += every
    assert cancel_at > 10


@SWEPT
@pytest.mark.parametrize("number", first_is_quick(errno.ENOSPC, errno.EIO), ids=["ENOSPC", "EIO"])
def test_every_error_at_every_storage_call(alignment: int, every: int, number: int) -> None:
    """The caller is told, or the success is real; a failed write ends writing for good."""
    for faulty in range(0, count_calls(alignment), every):
        left = faulty
        failed = ""

        def fail(what: str) -> None:
            nonlocal left, failed
            left -= 1
            if left == -1:
                failed = what
                raise OSError(number, "injected")

        driver, stopped = run_scenario(alignment, fail)
        assert failed
        writer = driver.writer
        assert stopped is None or isinstance(stopped, (OSError, JournalfsError))
        if writer is not None and failed in ("submit", "complete"):
            assert writer.committer.failure is not None
        if writer is not None and writer.committer.failure is not None:
            with pytest.raises(ReadOnlyStore):
                writer.stage_add(RecordId(10**9), 45, b"")
        elif writer is not None:
            assert trio.run(driver.work_until_refused, 40) is None
            check_after(driver, driver.disk.process_killed())
            trio.run(driver.consume)
        check_after(driver, driver.disk.process_killed())
        check_after(driver, driver.disk.crash(faulty))
