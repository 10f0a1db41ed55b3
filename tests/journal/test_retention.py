"""The history: every record that was ever durable is in the journal or in it, whatever happens."""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.clock import FakeClock
from journalfs.format.journal_file import parse_history_name
from journalfs.ids import RecordId, TxId
from journalfs.records.files.retention import Retention, RetentionLimits
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.journal.simulated import SimulatedDisk
from tests.journal.sweep import KilledError, killer
from tests.reference.journal import ADD, ADD_TX, COMMIT, scan

SMALL = WriteSettings(
    prefix="data", file_size_bytes=2048, buffer_size_bytes=700, compact_min_files=3, compact_percentage=60
)
NO_LIMITS = RetentionLimits(None, None)
DAY_MS = 86_400_000


@dataclass
class Kept:
    """A journal with a history, on two disks."""

    journal: SimulatedDisk = field(default_factory=SimulatedDisk)
    history: SimulatedDisk = field(default_factory=SimulatedDisk)
    limits: RetentionLimits = NO_LIMITS
    clock: FakeClock = field(default_factory=lambda: FakeClock(wall_ms=1_800_000_000_000))
    settings: WriteSettings = SMALL

    def open_without(self) -> JournalWriter:
        """As before there was a history."""
        return JournalWriter.open(self.journal, self.settings, self.clock)

    def open(self) -> JournalWriter:
        def retention(settings: WriteSettings) -> Retention:
            return Retention(self.journal, self.history, settings, self.clock, self.limits)

        return JournalWriter.open(self.journal, self.settings, self.clock, retention=retention)

    def copies(self) -> list[int]:
        """Ids of the files in the history."""
        parsed = [parse_history_name(name, extension="amq") for name in self.history.contents()]
        return sorted(one.file_id for one in parsed if one is not None)


def adds(disk: SimulatedDisk) -> Counter[int]:
    """Ids of all that was added in the files there, deleted or not, and in how many places."""
    return Counter(
        record.record_id
        for name, content in disk.contents().items()
        if name.endswith(".amq")
        for record in scan(content, int.from_bytes(content[8:16]) & 0x7FFFFFFF).records
        if record.kind in (ADD, ADD_TX)
    )


def added(disk: SimulatedDisk) -> set[int]:
    return set(adds(disk))


async def churn(writer: JournalWriter, first: int, count: int, *, keep_every: int = 0) -> set[int]:
    """Add and delete; returns the ids that are durable."""
    durable = set()
    for record in range(first, first + count):
        writer.stage_add(RecordId(record), 45, bytes(300))
        if not keep_every or record % keep_every:
            writer.stage_delete(RecordId(record))
        await writer.durable(writer.position)
        durable.add(record)
        if record % 5 == 0:
            await writer.upkeep.tidy()
    return durable


@pytest.mark.rule("S-94")
async def test_files_are_copied_before_they_are_used_again() -> None:
    kept = Kept()
    writer = kept.open()
    durable = await churn(writer, 1, 100)
    assert writer.upkeep.files_freed > 10
    assert added(kept.journal) != durable
    assert added(kept.journal) | added(kept.history) == durable
    copied_at = time.strftime("%Y%m%d%H%M%S", time.localtime(1_800_000_000))
    assert all(name.startswith(f"data-{copied_at}-") for name in kept.history.contents())
    assert {len(content) for content in kept.history.contents().values()} == {2048}


async def test_before_they_are_compacted_too() -> None:
    kept = Kept()
    writer = kept.open()
    durable = await churn(writer, 1, 100, keep_every=7)
    done = await writer.upkeep.compact()
    assert added(kept.journal) | added(kept.history) == durable
    assert writer.upkeep.compactions > 1
    copies = len(kept.copies())
    await writer.upkeep.tidy()
    assert len(kept.copies()) == copies, f"what compaction wrote ({done.new}) is not copied"


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), rounds=st.integers(1, 4), keep_every=st.sampled_from([0, 4, 9]))
def test_no_crash_loses_a_record(seed: int, rounds: int, keep_every: int) -> None:
    kept = Kept()
    durable: set[int] = set()

    async def work(first: int) -> None:
        durable.update(await churn(kept.open(), first, 23, keep_every=keep_every))

    for number in range(rounds):
        trio.run(work, number * 1000 + 1)
        kept.journal, kept.history = kept.journal.crash(seed + number), kept.history.crash(seed * 3 + number)
        assert durable <= added(kept.journal) | added(kept.history)
    kept.open()
    assert durable <= added(kept.journal) | added(kept.history)


def test_killed_at_every_storage_call_of_the_history() -> None:
    class KilledError(BaseException):
        pass

    fatal, finished = 0, False
    while not finished:
        kept = Kept()
        left, durable = fatal, set[int]()

        def kill(_: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise KilledError

        kept.history.before = kill

        async def run(kept: Kept = kept, durable: set[int] = durable) -> None:
            writer = kept.open()
            for part in range(6):
                durable |= await churn(writer, part * 5 + 1, 5)

        try:
            trio.run(run)
            finished = True
        except BaseException as error:
            if "KilledError" not in repr(error):
                raise
        kept.history.before = None
        kept.journal, kept.history = kept.journal.crash(fatal), kept.history.crash(fatal)
        assert durable <= added(kept.journal) | added(kept.history)
        fatal += 1
    assert fatal > 20


@dataclass
class Lives:
    """Work that switches, sets free and compacts, and goes on after the process was killed in it."""

    kept: Kept = field(default_factory=Kept)
    durable: set[int] = field(default_factory=set)

    async def work(self, first: int) -> None:
        writer = self.kept.open()
        for part in range(3):
            self.durable |= await churn(writer, first + part * 10, 7, keep_every=3)
        await writer.upkeep.compact()
        self.durable |= await churn(writer, first + 50, 2)
        await writer.close()

    def killed(self, at_call: int) -> bool:
        """Whether it had not come to its end by that storage call, of the journal or of the history."""
        self.kept.journal.before = self.kept.history.before = killer(at_call)
        try:
            trio.run(self.work, 1)
        except KilledError:
            return True
        finally:
            self.kept.journal.before = self.kept.history.before = None
        return False

    def after(self, left: Callable[[SimulatedDisk], SimulatedDisk]) -> Lives:
        return Lives(Kept(left(self.kept.journal), left(self.kept.history)), set(self.durable))

    def check(self) -> None:
        """Nothing is missing, and what went on has copied nothing a second time."""
        assert self.durable <= added(self.kept.journal) | added(self.kept.history)
        trio.run(self.work, 1000)
        assert self.durable <= added(self.kept.journal) | added(self.kept.history)
        twice = [record for record, copies in adds(self.kept.history).items() if copies > 1]
        assert not twice, sorted(self.kept.history.contents())


@pytest.mark.rule("S-94")
def test_each_life_is_in_the_history_once_whenever_it_was_killed() -> None:
    fatal = 0
    while True:
        lives = Lives()
        if not lives.killed(fatal):
            break
        lives.after(SimulatedDisk.process_killed).check()
        lives.after(lambda disk, seed=fatal: disk.crash(seed)).check()  # type: ignore[misc]
        fatal += 1
    assert fatal > 100


async def test_what_was_not_copied_before_the_end_is_copied_later() -> None:
    kept = Kept()
    writer = kept.open()
    durable = set()
    for record in range(1, 20):
        durable.add(record)
        await writer.durable(writer.stage_add(RecordId(record), 45, bytes(300)))
    await writer.close()
    assert kept.copies() == []
    writer = kept.open()
    await writer.upkeep.tidy()
    closed = [file.file_id for file in writer.data[:-1]]
    assert kept.copies() == closed
    await writer.close()
    writer = kept.open()
    await writer.upkeep.tidy()
    assert kept.copies() == closed, "nothing is copied twice"


async def test_a_copy_of_another_journal_is_no_copy() -> None:
    """The folder may have been used before, by a store with the same file ids."""
    kept = Kept()
    kept.history.allocate("data-20260101000000-1.amq", 2048)
    writer = kept.open()
    durable = await churn(writer, 1, 20)
    assert 1 in [file_id for file_id in kept.copies() if kept.copies().count(file_id) == 2]
    assert added(kept.journal) | added(kept.history) == durable


async def test_a_copy_does_not_take_the_place_of_another_of_the_same_second() -> None:
    kept = Kept()
    copied_at = time.strftime("%Y%m%d%H%M%S", time.localtime(1_800_000_000))
    another = f"data-{copied_at}-1.amq"
    kept.history.allocate(another, 2048)
    kept.history.write_at(another, 16, b"another journal's")
    before = kept.history.contents()[another]
    durable = await churn(kept.open(), 1, 20)
    assert kept.history.contents()[another] == before
    assert kept.copies().count(1) == 2
    assert added(kept.journal) | added(kept.history) == durable


async def test_what_was_written_behind_what_compaction_wrote_is_copied() -> None:
    """Without a history, and by a broker, the last file with records is written on, whoever began it."""
    kept = Kept()
    writer = kept.open_without()
    await churn(writer, 1, 20, keep_every=7)
    await writer.upkeep.compact()
    kept.journal = kept.journal.process_killed()
    writer = kept.open_without()
    written = {file.name for file in writer.data}
    await writer.durable(writer.stage_add(RecordId(100), 45, bytes(300)))
    assert writer.current.name in written, "behind compacted ones"
    writer.switch()
    await writer.durable(writer.stage_add(RecordId(101), 45, bytes(300)))
    await writer.close()
    writer = kept.open()
    await writer.upkeep.tidy()
    assert 100 in added(kept.history)


@pytest.mark.parametrize(("checksums", "body_bytes"), [(False, 475), (True, 460)])
async def test_what_compaction_wrote_is_known_whatever_it_begins_with(
    *, checksums: bool, body_bytes: int
) -> None:
    """A COMMIT does not say how often it was compacted, nor does the checksum that it ends with."""
    kept = Kept(settings=replace(SMALL, checksums=checksums))
    writer = kept.open()
    for record in range(1, 5):
        writer.stage_add_in(TxId(1), RecordId(record), 45, bytes(body_bytes))
    await writer.durable(writer.stage_commit(TxId(1)))
    await writer.durable(writer.stage_add(RecordId(5), 45, bytes(300)))
    done = await writer.upkeep.compact()
    contents = [kept.journal.contents()[name] for name in done.new]
    assert COMMIT in [content[16] for content in contents]
    copies = kept.copies()
    await writer.durable(writer.stage_add(RecordId(6), 45, bytes(300)))
    await writer.close()
    writer = kept.open()
    assert writer.current.name not in done.new
    await writer.upkeep.tidy()
    assert kept.copies() == copies


def test_the_history_is_let_go_of_where_the_journal_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, closed = Kept(), 0

    def close(self: Retention) -> None:
        nonlocal closed
        closed += 1

    def broken(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Retention, "close", close)
    kept.journal.before = broken
    with pytest.raises(OSError, match="Input/output"):
        kept.open()
    assert closed == 1


async def test_a_full_disk_has_a_copied_file_written_on() -> None:
    """Better twice in the history than not in it at all."""
    kept = Kept()
    writer = kept.open()
    await churn(writer, 1, 4, keep_every=1)
    writer.switch()
    await writer.upkeep.tidy()
    assert kept.copies() == [writer.data[0].file_id]
    for name in kept.journal.names():
        if name != writer.data[0].name:
            kept.journal.remove(name)

    def full(call: str) -> None:
        if call == "allocate":
            raise OSError(errno.ENOSPC, "No space left on device")

    kept.journal.before, kept.journal.room_bytes = full, 0
    again = kept.open()
    assert again.current.name == writer.data[0].name
    await again.durable(again.stage_delete(RecordId(1)))
    kept.journal.before, kept.journal.room_bytes = None, 1 << 40
    await again.upkeep.tidy()
    durable = await churn(again, 11, 20)
    assert {1, 2, 3, 4} | durable <= added(kept.journal) | added(kept.history)
    assert kept.copies().count(again.data[0].file_id) == 2


async def test_partial_copies_go_by_their_whole_id() -> None:
    kept = Kept()
    for file_id, size in ((1, 100), (11, 100), (21, 2048)):
        kept.history.allocate(f"data-20260101000000-{file_id}.amq", size)
    kept.history.allocate("data-20260101000000-5.amq.tmp", 2048)
    writer = kept.open()
    await churn(writer, 1, 12)
    names = set(kept.history.contents())
    assert "data-20260101000000-1.amq" not in names
    assert {"data-20260101000000-11.amq", "data-20260101000000-21.amq"} <= names
    assert not any(name.endswith(".tmp") for name in names)


async def test_old_copies_go() -> None:
    kept = Kept(limits=RetentionLimits(7 * DAY_MS, None))
    writer = kept.open()
    await churn(writer, 1, 30)
    first = kept.copies()
    kept.clock.wall_ms += 6 * DAY_MS
    await churn(writer, 31, 30)
    assert set(first) < set(kept.copies())
    kept.clock.wall_ms += 2 * DAY_MS
    await churn(writer, 61, 30)
    assert not set(first) & set(kept.copies())
    kept.clock.wall_ms += 100 * DAY_MS
    newest = max(kept.copies())
    await writer.close()
    kept.open()
    assert kept.copies() == [newest]


async def test_the_oldest_of_too_much_go() -> None:
    kept = Kept(limits=RetentionLimits(None, 5 * 2048))
    writer = kept.open()
    for part in range(10):
        kept.clock.wall_ms += 1000
        await churn(writer, part * 20 + 1, 20)
        assert len(kept.copies()) <= 5
    copies = kept.copies()
    assert len(copies) == 5
    assert min(copies) > 20


@pytest.mark.rule("S-94")
async def test_nothing_is_freed_while_the_history_takes_nothing() -> None:
    kept = Kept()
    writer = kept.open()

    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kept.history.before = full
    durable = await churn(writer, 1, 50)
    assert writer.upkeep.files_freed == 0
    with pytest.raises(OSError, match="No space"):
        await writer.upkeep.compact()
    assert added(kept.journal) == durable
    kept.history.before = None
    await writer.upkeep.tidy()
    assert writer.upkeep.files_freed > 5
    assert added(kept.journal) | added(kept.history) == durable
