"""Checksums in the journal: what they find, what they leave alone, and what happens to them."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from journalfs.clock import FakeClock
from journalfs.damage import Damage
from journalfs.engine.checksums import crc32c
from journalfs.engine.state import LiveState
from journalfs.errors import Damaged
from journalfs.ids import RecordId, TxId
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.journal import driving, test_crash
from tests.journal.driving import Driver, read_back, settings_for
from tests.journal.simulated import SimulatedDisk
from tests.kinds import first_is_quick
from tests.reference.journal import EVENT, Record, Replay, replay, scan

CHECKED = WriteSettings(
    prefix="data", file_size_bytes=2048, buffer_size_bytes=700, compact_min_files=0, checksums=True
)
BOTH = pytest.mark.parametrize("alignment", [1, 512], ids=["packed", "blocks"])


def opened(disk: SimulatedDisk) -> JournalWriter:
    return JournalWriter.open(disk, CHECKED, FakeClock())


async def fill(writer: JournalWriter, count: int = 12) -> None:
    """One flush for each two records; several files."""
    for record in range(1, count + 1):
        writer.stage_add(RecordId(record), 45, b"%d:" % record + bytes([record]) * 300)
        await writer.durable(writer.stage_update(RecordId(record), 32, record.to_bytes(8)))


def records_of(content: bytes) -> list[Record]:
    return scan(content, int.from_bytes(content[8:16]) & 0x7FFFFFFF).records


def events_of(content: bytes) -> list[Record]:
    return [one for one in records_of(content) if one.kind == EVENT]


def damage_of(contents: dict[str, bytes], folder: Path) -> list[Damage]:
    """What reading these files finds."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    loader = JournalLoader(folder, "amq", folder, FakeClock(), LiveState())
    loader.load()
    return [one for one in loader.damage() if one.kind != "missing-message"]


def emitted(contents: dict[str, bytes]) -> Replay:
    ordered = sorted(contents.values(), key=lambda content: content[8:16])
    return replay(records_of(content) for content in ordered)


@BOTH
async def test_every_flush_ends_with_one(alignment: int, tmp_path: Path) -> None:
    disk = SimulatedDisk(alignment)
    writer = opened(disk)
    await fill(writer, 20)
    assert len(writer.data) > 3
    flushes = 0
    for content in disk.contents().values():
        file_id = int.from_bytes(content[8:16])
        for event in events_of(content):
            magic, offset, length, previous, end, crc = struct.unpack(">4sIIqII", event.body)
            covered = content[offset : offset + length]
            assert magic == b"JFS1"
            assert offset + length == event.offset
            assert previous in (0, file_id - 1)
            assert bool(previous) == bool(end)
            assert crc == crc32c(struct.pack(">q", file_id) + event.body[:24] + covered)
            flushes += 1
    assert flushes == writer.committer.counts.flushes
    assert damage_of(disk.contents(), tmp_path) == []


@BOTH
async def test_any_flipped_bit_is_found(alignment: int, tmp_path: Path) -> None:
    disk = SimulatedDisk(alignment)
    await fill(opened(disk), 5)
    contents = disk.contents()
    name = min(contents)
    events = events_of(contents[name])
    covered = [(int.from_bytes(event.body[4:8]), event.offset) for event in events]
    # Of the checksums what they say; the rest of their records covers nothing.
    covered += [(event.body_offset + 4, event.body_offset + 28) for event in events]
    for begin, end in covered:
        for offset in range(begin, end, 7):
            changed = bytearray(contents[name])
            changed[offset] ^= 1 << offset % 8
            found = damage_of({**contents, name: bytes(changed)}, tmp_path)
            assert any(
                one.file == name and one.offset <= offset < one.offset + one.length_bytes for one in found
            ), f"nothing is said of a change at {offset}"
            whole = {(one.record_id, one.body) for one in emitted(contents).records}
            left = {(one.record_id, one.body) for one in emitted({**contents, name: bytes(changed)}).records}
            assert len(whole - left) <= 1, "only what was changed is lost"


@BOTH
async def test_what_compaction_writes_is_covered(alignment: int, tmp_path: Path) -> None:
    disk = SimulatedDisk(alignment)
    writer = opened(disk)
    await fill(writer)
    for record in range(1, 9):
        writer.stage_delete(RecordId(record))
    done = await writer.upkeep.compact()
    for name in done.new:
        content = disk.contents()[name]
        (event,) = events_of(content)
        assert int.from_bytes(event.body[4:8]) == 16
        assert int.from_bytes(event.body[12:20], signed=True) == -1
        assert records_of(content)[-1] == event
    assert damage_of(disk.contents(), tmp_path) == []
    changed = bytearray(disk.contents()[done.new[0]])
    changed[100] ^= 1
    (found,) = damage_of({**disk.contents(), done.new[0]: bytes(changed)}, tmp_path)
    assert (found.kind, found.offset) == ("checksum", 16)


async def test_long_outputs_have_one_for_each_quarter_of_a_megabyte() -> None:
    disk = SimulatedDisk()
    large = dataclasses.replace(CHECKED, file_size_bytes=4_000_000, buffer_size_bytes=100_000)
    writer = JournalWriter.open(disk, large, FakeClock())
    for record in range(1, 101):
        writer.stage_add(RecordId(record), 45, bytes(20_000))
    (output,) = (await writer.upkeep.compact()).new
    lengths = [int.from_bytes(event.body[8:12]) for event in events_of(disk.contents()[output])]
    assert len(lengths) == 8
    assert all(length < 300_000 for length in lengths)


@pytest.mark.rule("S-93")
async def test_damage_is_not_compacted_away(tmp_path: Path) -> None:
    """A copy would get a checksum that agrees with it, and nobody would know any more."""
    disk = SimulatedDisk()
    writer = opened(disk)
    await fill(writer)
    name = writer.data[0].name
    disk.write_at(name, 100, b"\xff")
    before = disk.contents()[name]
    with pytest.raises(Damaged, match="damaged at offset 16: a checksum contradicts"):
        await writer.upkeep.compact()
    assert disk.contents()[name] == before
    assert not any(".cmp" in name or ".ctr" in name for name in disk.names())
    eager = dataclasses.replace(CHECKED, compact_min_files=2, compact_percentage=100)
    writer.settings = eager
    assert not writer.upkeep.compaction_due(), "it is not tried again and again"
    await writer.upkeep.tidy()
    # Once nothing of it is needed the file goes, and the damage with it.
    for record in range(1, 13):
        writer.stage_delete(RecordId(record))
    writer.stage_add(RecordId(100), 45, bytes(600))
    writer.switch()
    await writer.durable(writer.stage_add(RecordId(101), 45, bytes(600)))
    await writer.upkeep.tidy()
    await writer.upkeep.compact()
    assert damage_of(disk.contents(), tmp_path) == []


@BOTH
async def test_files_used_again_contradict_nothing(alignment: int, tmp_path: Path) -> None:
    disk = SimulatedDisk(alignment)
    writer = opened(disk)
    for turn in range(10):
        for record in range(turn * 12 + 1, turn * 12 + 13):
            writer.stage_add(RecordId(record), 45, bytes(300))
            await writer.durable(writer.position)
            writer.stage_delete(RecordId(record))
        await writer.upkeep.tidy()
        assert damage_of(disk.contents(), tmp_path) == []
    assert writer.upkeep.files_freed > 10


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
@BOTH
def test_random_work_contradicts_nothing(
    alignment: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    driver = Driver(SimulatedDisk(alignment), seed)

    async def run() -> None:
        checked = dataclasses.replace(settings_for(driver.disk), checksums=True)
        writer = driver.writer = JournalWriter.open(driver.disk, checked, FakeClock())
        for _ in range(4):
            await driver.work(25)
            await writer.upkeep.tidy()
            await writer.committer.flush_all()
            found = damage_of(driver.disk.contents(), folder)
            assert [one for one in found if one.kind in ("checksum", "missing-records")] == []

    trio.run(run)


async def test_a_journal_that_lost_the_end_of_a_file_says_so(tmp_path: Path) -> None:
    """A transaction over two files, of which the first one loses its end: a broker applies the rest."""
    disk = SimulatedDisk()
    writer = opened(disk)
    for record in (1, 2):
        await writer.durable(writer.stage_add_in(TxId(9), RecordId(record), 45, bytes(300)))
    writer.switch()
    writer.stage_add_in(TxId(9), RecordId(3), 45, b"three")
    await writer.durable(writer.stage_commit(TxId(9)))
    contents = disk.contents()
    first = contents["data-1.amq"]
    second_record = records_of(first)[2]
    contents["data-1.amq"] = first[: second_record.offset] + bytes(2048 - second_record.offset)
    assert [one.record_id for one in emitted(contents).records] == [1, 3]
    (found,) = damage_of(contents, tmp_path)
    assert (found.file, found.offset, found.kind) == ("data-1.amq", second_record.offset, "missing-records")
    assert found.offset + found.length_bytes == writer.data[0].records_end


async def test_what_follows_a_compacted_file_misses_nothing(tmp_path: Path) -> None:
    """Outputs take the ids of old files, and are shorter: the current file was begun behind longer ones."""
    disk = SimulatedDisk()
    writer = opened(disk)
    await fill(writer)
    for record in range(1, 12):
        writer.stage_delete(RecordId(record))
    writer.switch()
    await writer.durable(writer.stage_add(RecordId(50), 45, b"before"))
    await writer.upkeep.compact()
    await writer.durable(writer.stage_add(RecordId(51), 45, b"after"))
    assert damage_of(disk.contents(), tmp_path) == []
    assert {one.record_id for one in read_back(disk).records} == {12, 50, 51}


async def test_none_are_written_where_they_are_not_wanted() -> None:
    disk = SimulatedDisk()
    writer = JournalWriter.open(disk, dataclasses.replace(CHECKED, checksums=False), FakeClock())
    await fill(writer)
    await writer.upkeep.compact()
    assert not any(events_of(content) for content in disk.contents().values())


@BOTH
async def test_a_file_can_be_filled_to_the_last_byte(alignment: int) -> None:
    disk = SimulatedDisk(alignment)
    writer = opened(disk)
    longest = writer.record_bytes_max - 23
    for record in range(1, 30):
        length = longest - 20 + record
        if record < 21:
            await writer.durable(writer.stage_add(RecordId(record), 45, bytes(length)))
    assert {one.record_id for one in read_back(disk).records} == set(range(1, 21))


@pytest.mark.parametrize("every", first_is_quick(test_crash.SOME, 1))
def test_crashes_with_checksums(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """The same sweep as without, over files without blocks."""
    monkeypatch.setattr(driving, "SMALL", dataclasses.replace(driving.SMALL, checksums=True))
    test_crash.test_killed_at_every_storage_call(1, every)
