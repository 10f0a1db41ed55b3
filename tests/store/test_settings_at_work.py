"""Each setting of the journal files, written in journalfs.toml, and what it changes on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import locate_store
from journalfs.errors import RecordTooLarge
from journalfs.ids import RecordId
from journalfs.live.virtual import ComputedFile
from journalfs.records.files.writer import JournalWriter
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.journal_setup import make_backend, message_journal

SMALL = 'journal-type = "NIO"\njournal-file-size = 4096\njournal-buffer-size = 4096\n'
BODY = bytes(900)
"""Four such records fill a file of 4096 bytes."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    root.mkdir()
    (root / "journalfs.toml").write_text(SMALL)
    create_store(root, {}, FakeClock(), warn=pytest.fail)
    return root


@contextmanager
def message_writer(store: Path, *settings: str) -> Iterator[JournalWriter]:
    """The message journal, open with these settings besides."""
    names = {line.partition(" =")[0] for line in settings}
    kept = [line for line in SMALL.splitlines() if line.partition(" =")[0] not in names]
    (store / "journalfs.toml").write_text("\n".join([*kept, *settings]))
    layout = locate_store(store)
    chosen = journal_settings(layout.config)
    backend = make_backend(layout, chosen, pytest.fail)
    writer = JournalWriter.open(backend, message_journal(layout, chosen, backend.kind), FakeClock())
    try:
        yield writer
        writer.drain()
    finally:
        writer.release()
        backend.close()


def files(store: Path) -> list[Path]:
    return sorted((store / "journal").glob("*.amq"))


async def fill(writer: JournalWriter, records: int) -> None:
    for number in range(1, records + 1):
        await writer.durable(writer.stage_add(RecordId(number), 45, BODY))


async def empty(writer: JournalWriter, records: int) -> None:
    for number in range(1, records + 1):
        await writer.durable(writer.stage_delete(RecordId(number)))
    # What the current file deletes is freed when another has become the current one.
    writer.switch()
    await writer.durable(writer.stage_add(RecordId(records + 1), 45, BODY))
    await writer.upkeep.tidy()


@pytest.mark.parametrize(("pool_files", "left_max"), [(-1, 100), (3, 4)])
async def test_pool_files(store: Path, pool_files: int, left_max: int) -> None:
    with message_writer(
        store, f"journal-pool-files = {pool_files}", "journal-compact-min-files = 0"
    ) as writer:
        await fill(writer, 40)
        most = len(files(store))
        assert most >= 10
        await empty(writer, 40)
    left = len(files(store))
    assert left <= left_max
    assert (left >= most) == (pool_files == -1)


@pytest.mark.parametrize("min_files", [2, 5])
def test_min_files(tmp_path: Path, min_files: int) -> None:
    (tmp_path / "journalfs.toml").write_text(SMALL + f"journal-min-files = {min_files}\n")
    create_store(tmp_path, {}, FakeClock(), warn=pytest.fail)
    assert len(files(tmp_path)) == min_files


@pytest.mark.parametrize(
    ("min_files", "percentage", "due"), [(2, 50, True), (0, 50, False), (2, 0, False), (60, 50, False)]
)
async def test_compaction_settings(store: Path, min_files: int, percentage: int, due: bool) -> None:
    """One record of four lives in each of ten files."""
    said = f"journal-compact-min-files = {min_files}", f"journal-compact-percentage = {percentage}"
    with message_writer(store, *said) as writer:
        await fill(writer, 40)
        for number in range(1, 41):
            if number % 4:
                await writer.durable(writer.stage_delete(RecordId(number)))
        assert writer.upkeep.compaction_due() == due


@pytest.mark.parametrize(("attic_files", "kept"), [(10, 2), (1, 1), (0, 0)])
async def test_max_attic_files(store: Path, attic_files: int, kept: int) -> None:
    """The two empty files of another size are taken out of the way when the journal is opened."""
    with message_writer(store, "journal-file-size = 8192", f"journal-max-attic-files = {attic_files}"):
        assert {path.stat().st_size for path in files(store)} == {8192}
    attic = store / "journal" / "attic"
    assert len(os.listdir(attic)) == kept


async def test_buffer_size_limits_a_record(store: Path) -> None:
    with message_writer(store, "journal-buffer-size = 2048") as writer:
        writer.stage_add(RecordId(1), 45, bytes(2000))
        with pytest.raises(RecordTooLarge, match="journal-buffer-size"):
            writer.stage_add(RecordId(2), 45, bytes(2048))


@pytest.mark.parametrize("datasync", ["true", "false"])
def test_datasync(store: Path, monkeypatch: pytest.MonkeyPatch, datasync: str) -> None:
    """Without it nothing is synced, neither files nor names, when files are made."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with message_writer(store, f"journal-datasync = {datasync}", "journal-min-files = 4"):
        assert len(files(store)) == 4
    assert bool(synced) == (datasync == "true")


async def test_direct_writes_align_to_the_block_size(store: Path) -> None:
    with message_writer(store, 'journal-type = "ASYNCIO"', "journal-device-block-size = 1024") as writer:
        await writer.durable(writer.stage_add(RecordId(1), 45, b"one"))
        await writer.durable(writer.stage_add(RecordId(2), 45, b"two"))
        content = files(store)[0].read_bytes()
    assert content[1024:1025] == content[2048:2049] == b"\x0b"


def test_what_is_in_force_is_shown(store: Path) -> None:
    opened = open_store(store, clock=FakeClock(), index=False)
    try:
        file = opened.control().child("settings.toml")
        assert isinstance(file, ComputedFile)
        source = file.open()
        lines = bytes(source.read(0, source.size_bytes)).decode().splitlines()
    finally:
        opened.close()
    assert "journal-file-size = 4096  # bytes, journalfs.toml" in lines
    assert "journal-min-files = 2  # files, default" in lines
    assert 'journal-directory = "journal"  # default' in lines  # of a copy, the copy's
    assert "# journal-device-block-size is not set (bytes, default)" in lines
