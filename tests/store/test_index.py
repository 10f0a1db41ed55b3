"""The index: what it saves, when it is believed, and that nothing depends on it."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from journalfs import door
from journalfs.errors import IndexUnusable
from journalfs.live.index_file import MAGIC, index_path, read_index, write_index
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.store.appending import ACK, DELETE, UPDATE, JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]


def part_names(store: JournalStore, queue: str) -> list[str]:
    address = store.address("work")
    assert address is not None
    found = address.queue(queue)
    assert found is not None
    return [part.name for part in found.parts()]


@pytest.mark.rule("S-53")
def test_second_opening_of_an_unchanged_store_reads_no_journal(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    for number in range(100):
        little_store.journal.send(1000 + number, QUEUE_A, f"text {number}")
    first = little_store.open()
    assert first.core.loader.bytes_scanned > 0
    lines = lines_of(first, "work.a")
    names = part_names(first, "work.a")
    first.close()
    second = little_store.open()
    assert second.core.loader.bytes_scanned == 0
    assert lines_of(second, "work.a") == lines
    assert len(lines) == 100
    assert part_names(second, "work.a") == names


@pytest.mark.rule("S-53")
def test_what_was_appended_is_all_that_is_read(little_store: LittleStore, lines_of: ReadLines) -> None:
    for number in range(100):
        little_store.journal.send(1000 + number, QUEUE_A)
    first = little_store.open()
    before = part_names(first, "work.a")
    first.close()
    read_to = little_store.journal.at
    little_store.journal.send(2000, QUEUE_A, "new")
    little_store.journal.acknowledge(1000, QUEUE_A, tx_id=3000)
    second = little_store.open()
    size_bytes = little_store.journal.path.stat().st_size
    assert 0 < second.core.loader.bytes_scanned <= 2 * (size_bytes - read_to)
    lines = lines_of(second, "work.a")
    assert len(lines) == 100
    assert b'"body":"new"' in lines[-1]
    assert part_names(second, "work.a")[: len(before)] == before, "a part keeps its name"
    assert len(part_names(second, "work.a")) == len(before) + 1


@pytest.mark.rule("S-54")
@pytest.mark.parametrize("where", [0, 9, 40, -1], ids=["magic", "length", "description", "checksum"])
def test_damaged_index_is_detected_and_rebuilt(
    little_store: LittleStore, lines_of: ReadLines, where: int
) -> None:
    little_store.journal.send(1000, QUEUE_A, "kept")
    little_store.open().close()
    path = index_path(little_store.root)
    content = bytearray(path.read_bytes())
    content[where] ^= 0x40
    path.write_bytes(content)
    store = little_store.open()
    assert store.core.loader.bytes_scanned > 0
    assert [event["event"] for event in store.core.events] == ["index-unusable"]
    assert len(lines_of(store, "work.a")) == 1
    store.close()
    again = little_store.open()
    assert again.core.loader.bytes_scanned == 0


@pytest.mark.rule("S-54")
def test_every_truncation_of_the_index_is_survived(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "kept")
    little_store.open().close()
    path = index_path(little_store.root)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        assert len(lines_of(little_store.open(), "work.a")) == 1


@pytest.mark.rule("S-54")
def test_deleting_the_index_loses_nothing_and_repeats_no_part_name(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send(1000, QUEUE_A)
    first = little_store.open()
    names = part_names(first, "work.a")
    first.close()
    index_path(little_store.root).unlink()
    little_store.clock.advance(by_ms=5000)
    second = little_store.open()
    assert len(lines_of(second, "work.a")) == 1
    assert not set(part_names(second, "work.a")) & set(names)


@pytest.mark.rule("S-53")
def test_bytes_changed_under_the_index_are_noticed(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "first")
    little_store.journal.send(1001, QUEUE_A, "other")
    little_store.open().close()
    content = little_store.journal.path.read_bytes()
    little_store.journal.path.write_bytes(
        content.replace("first".encode("utf-16-le"), "FIRST".encode("utf-16-le"))
    )
    store = little_store.open()
    assert [event["event"] for event in store.core.events] == ["index-outdated"]
    assert b'"body":"FIRST"' in lines_of(store, "work.a")[0]


@pytest.mark.rule("S-50")
@pytest.mark.parametrize("how", ["resumed", "followed"])
def test_a_file_that_was_filled_consumed_and_freed_meanwhile_is_no_damage(
    little_store: LittleStore, lines_of: ReadLines, how: str
) -> None:
    """What consumed its messages is in the next file, and nothing of the messages is known."""
    first = little_store.journal
    first.send(1000, QUEUE_A)
    first.acknowledge(1000, QUEUE_A, tx_id=2000)
    before = little_store.open(index=how == "resumed")
    first.send(1001, QUEUE_A)
    first.send(1002, QUEUE_A, "its record is lost")
    second = JournalAppender.create(first.path.with_name("activemq-data-2.amq"), 2)
    second.acknowledge(1001, QUEUE_A, tx_id=2001)
    second.send(1003, QUEUE_A, "here")
    if how == "resumed":
        before.close()
    first.path.unlink()
    if how == "resumed":
        store = little_store.open()
        assert store.core.loader.bytes_scanned <= second.path.stat().st_size
    else:
        store = before
        store.look_now()
    assert store.core.damage() == []
    assert len(lines_of(store, "work.a")) == 1
    acknowledgement = struct.pack(">q", QUEUE_A)
    second.append(record(UPDATE, 2, record_id=1002, user_type=ACK, body=acknowledgement))
    store.look_now()
    assert [one.kind for one in store.core.damage()] == ["missing-message"]
    second.append(record(DELETE, 2, record_id=1002))
    store.look_now()
    assert store.core.damage() == []
    assert store.core.loader.state.counts().anomalies == 0


@pytest.mark.rule("S-49", "S-54")
@pytest.mark.parametrize("how", ["resumed", "followed"])
def test_what_was_deleted_may_be_acknowledged_again(
    little_store: LittleStore, lines_of: ReadLines, how: str
) -> None:
    """As brokers do for each AMQP client that browses what they cannot convert. Nothing is lost by that, and
    nobody who goes on from what he knew says so.
    """
    journal = little_store.journal
    journal.send(1000, QUEUE_A)
    journal.send(1001, QUEUE_A, "here")
    journal.acknowledge(1000, QUEUE_A, tx_id=2000)
    store = little_store.open()
    if how == "resumed":
        store.close()
    again = record(UPDATE, 1, record_id=1000, user_type=ACK, body=struct.pack(">q", QUEUE_A))
    journal.append(again)
    if how == "resumed":
        store = little_store.open()
    store.look_now()
    assert store.core.damage() == []
    assert len(lines_of(store, "work.a")) == 1
    journal.append(again)
    store.look_now()
    assert store.core.damage() == []


@pytest.mark.rule("S-53")
def test_copied_store_keeps_its_index(little_store: LittleStore, lines_of: ReadLines, tmp_path: Path) -> None:
    """A copy has other inodes and times, but the same bytes: they are checked, and not replayed."""
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    copied = tmp_path / "copied"
    shutil.copytree(little_store.root, copied, copy_function=shutil.copyfile)
    store = open_store(copied, clock=little_store.clock)
    assert not list(store.core.events)
    assert len(lines_of(store, "work.a")) == 1


@pytest.mark.rule("S-53")
def test_compaction_between_two_openings_keeps_part_names(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    """The journal is rewritten as compaction does it: other files, the same live messages."""
    for number in range(50):
        little_store.journal.send(1000 + number, QUEUE_A, f"text {number}")
    first = little_store.open()
    names = part_names(first, "work.a")
    lines = lines_of(first, "work.a")
    first.close()
    little_store.journal.path.unlink()
    compacted = JournalAppender.create(little_store.root / "journal/activemq-data-7.amq", 1)
    for number in range(1, 50):
        compacted.send(1000 + number, QUEUE_A, f"text {number}")
    current = JournalAppender.create(little_store.root / "journal/activemq-data-8.amq", 8)
    current.send(5000, QUEUE_A, "later")
    second = little_store.open()
    assert lines_of(second, "work.a")[:-1] == lines[1:]
    assert part_names(second, "work.a")[: len(names)] == names


@pytest.mark.rule("S-53")
def test_reclaimed_file_is_no_reason_to_scan(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "soon gone")
    second_file = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second_file.acknowledge(1000, QUEUE_A, tx_id=3000)
    second_file.send(1001, QUEUE_B, "stays")
    little_store.open().close()
    little_store.journal.path.unlink()
    store = little_store.open()
    assert [event["event"] for event in store.core.events] == ["damage"]  # of an id that no file has
    assert store.core.loader.bytes_scanned == 0
    assert len(lines_of(store, "work.b")) == 1
    assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-54")
def test_index_of_a_store_that_cannot_be_written_is_in_the_cache(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Root may write anywhere, so permission bits cannot say no here.
    monkeypatch.setattr(door, "may_change", lambda path: False)
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    assert not (little_store.root / "journalfs").exists()
    assert list((tmp_path / "cache/journalfs").rglob("index"))
    assert little_store.open().core.loader.bytes_scanned == 0


def test_index_can_be_left_out(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open(index=False)
    assert len(lines_of(store, "work.a")) == 1
    store.close()
    assert not (little_store.root / "journalfs").exists()


def leftovers(little: LittleStore) -> list[str]:
    return sorted(path.name for path in (little.root / "journalfs").iterdir() if path.name != "index.parts")


@pytest.mark.rule("S-39")
@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_index_that_could_not_be_written_leaves_nothing(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open()

    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, full)
        store.close()
    assert [event["event"] for event in store.core.events] == ["index-not-written"]
    assert leftovers(little_store) == []


@pytest.mark.rule("S-39")
def test_what_a_killed_process_left_of_its_index_is_swept(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open()
    with subprocess.Popen(["true"]) as ended:
        pass
    running = os.getppid()
    names = [f"index.{ended.pid}.tmp", f"index.{running}.tmp", "index.of-somebody.tmp", f"index.{10**30}.tmp"]
    for name in names:
        (little_store.root / "journalfs" / name).write_bytes(b"half")
    store.close()
    assert leftovers(little_store) == ["index", names[1], names[2]]


@pytest.mark.rule("S-54")
@pytest.mark.parametrize("kept_bytes", [0, 4, None], ids=["nothing", "magic", "all"])
def test_index_that_is_longer_than_any_memory(
    little_store: LittleStore, lines_of: ReadLines, kept_bytes: int | None
) -> None:
    """A sparse file takes no room on the disk, and would take all of it here."""
    little_store.journal.send(1000, QUEUE_A, "text")
    little_store.open().close()
    index = little_store.root / "journalfs/index"
    if kept_bytes is not None:
        os.truncate(index, kept_bytes)
    os.truncate(index, 1 << 40)
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 1
    assert [event["event"] for event in store.core.events] == ["index-unusable"]
    store.close()
    assert index.stat().st_size < 100_000
    assert little_store.open().core.loader.bytes_scanned == 0


@pytest.mark.rule("S-54")
def test_index_of_another_version_is_told_as_that(tmp_path: Path) -> None:
    class Earlier(msgspec.Struct):
        format: int

    class Later(Earlier):
        window_crc: int

    write_index(tmp_path / "index", Earlier(1), [b"section"])
    assert read_index(tmp_path / "index", Earlier) is not None
    with pytest.raises(IndexUnusable, match=r"written by another version of journalfs; the index is rebuilt"):
        read_index(tmp_path / "index", Later)


@pytest.mark.rule("S-54")
@pytest.mark.parametrize(
    "sizes", [[1 << 39], [(1 << 40), -(1 << 39)], []], ids=["fitting", "negative", "none"]
)
def test_index_whose_sections_are_said_to_be_that_long(tmp_path: Path, sizes: list[int]) -> None:
    head = msgspec.json.encode({"description": {}, "section_bytes": sizes})
    path = tmp_path / "index"
    path.write_bytes(MAGIC + struct.pack("<Q", len(head)) + head)
    os.truncate(path, path.stat().st_size + (sum(sizes) or 1 << 39) + 4)
    with pytest.raises(IndexUnusable):
        read_index(path, dict)
