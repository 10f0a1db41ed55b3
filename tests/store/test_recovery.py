"""A journal found half-way through a compaction, or with files waiting to be retained: read as the broker's
own recovery would leave it, with nothing changed on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.store.store import JournalStore
from tests.differential.encode import header, record
from tests.differential.encode_messages import text_message, utf
from tests.store.appending import ADD, JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]
CONTROL = "journal-rename-control.ctr"


def control_file(old: list[str], new: list[str]) -> bytes:
    body = struct.pack(">i", len(old)) + b"".join(map(utf, old))
    body += struct.pack(">i", len(new)) + b"".join(map(utf, new)) + struct.pack(">i", 0)
    return header(0) + record(ADD, 0, record_id=1, body=body)


def bodies(lines: list[bytes]) -> list[bytes]:
    return [line.split(b'"body":')[1][1:-2] for line in lines]


class HalfDone:
    """Old files 1 and 2, the compacted output of both, and the file that was current meanwhile."""

    def __init__(self, little: LittleStore) -> None:
        self.directory: Path = little.root / "journal"
        little.journal.send(1000, QUEUE_A, "kept")
        little.journal.send(1001, QUEUE_A, "acknowledged")
        second = JournalAppender.create(self.directory / "activemq-data-2.amq", 2)
        second.acknowledge(1001, QUEUE_A, tx_id=3000)
        self.second = second
        self.output = JournalAppender.create(self.directory / "activemq-data-7.amq.cmp", 1)
        self.output.send(1000, QUEUE_A, "kept")
        self.current = JournalAppender.create(self.directory / "activemq-data-3.amq", 3)
        self.current.send(1002, QUEUE_A, "since")
        self.old = ["activemq-data-1.amq", "activemq-data-2.amq"]

    def commit(self) -> None:
        (self.directory / CONTROL).write_bytes(control_file(self.old, [self.output.path.name]))


@pytest.fixture
def half_done(little_store: LittleStore) -> HalfDone:
    return HalfDone(little_store)


EXPECTED = [b"kept", b"since"]


@pytest.mark.rule("S-45")
def test_output_without_control_file_does_not_count(
    half_done: HalfDone, little_store: LittleStore, lines_of: ReadLines
) -> None:
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == EXPECTED
    assert len(store.core.loader.files) == 3


@pytest.mark.rule("S-45")
@pytest.mark.parametrize("done", ["nothing", "one deleted", "all deleted", "renamed"])
def test_control_file_decides(
    half_done: HalfDone, little_store: LittleStore, lines_of: ReadLines, done: str
) -> None:
    half_done.commit()
    gone = {"nothing": 0, "one deleted": 1}.get(done, 2)
    for name in half_done.old[:gone]:
        (half_done.directory / name).unlink()
    if done == "renamed":
        half_done.output.path.rename(half_done.output.path.with_suffix(""))
    before = sorted(path.name for path in half_done.directory.iterdir())
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == EXPECTED
    assert [read.file.name for read in store.core.loader.files.read_files()] == [
        "activemq-data-7.amq",
        "activemq-data-3.amq",
    ]
    assert sorted(path.name for path in half_done.directory.iterdir()) == before
    assert store.core.damage() == []


@pytest.mark.rule("S-49")
def test_damaged_control_file_means_the_old_files(
    half_done: HalfDone, little_store: LittleStore, lines_of: ReadLines
) -> None:
    half_done.commit()
    content = (half_done.directory / CONTROL).read_bytes()
    (half_done.directory / CONTROL).write_bytes(content[:-5])
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == EXPECTED
    assert [damage.kind for damage in store.core.damage()] == ["control-file"]


@pytest.mark.rule("S-49")
def test_old_file_that_was_used_again_is_kept(
    half_done: HalfDone, little_store: LittleStore, lines_of: ReadLines
) -> None:
    """The broker frees old files before it deletes the control file. What was written to one since is no old
    record, and the broker's own recovery loses it.
    """
    half_done.commit()
    little_store.journal.path.write_bytes(header(9) + bytes(65520))
    reused = JournalAppender(little_store.journal.path, 9, 16)
    reused.send(1003, QUEUE_A, "in a file used again")
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == [*EXPECTED, b"in a file used again"]


@pytest.mark.rule("S-49")
def test_file_waiting_to_be_retained_counts(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "waits")
    path = little_store.journal.path
    path.rename(path.with_name(path.name + ".bkp"))
    JournalAppender.create(path.with_name("activemq-data-2.amq"), 2).send(1001, QUEUE_A, "follows")
    (path.parent / "activemq-data-3.amq.tmp").write_bytes(bytes(100))
    assert bodies(lines_of(little_store.open(), "work.a")) == [b"waits", b"follows"]


@pytest.mark.rule("S-49")
def test_of_two_files_with_one_id_the_compacted_one_comes_first(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    """A defect of the broker gives the last output the id of the file then current: reading that one first
    would bring an acknowledged message back.
    """
    little_store.journal.acknowledge(1000, QUEUE_A, tx_id=3000)
    compacted = JournalAppender.create(little_store.journal.path.with_name("activemq-data-9.amq"), 1)
    compacted.append(
        record(
            ADD,
            1,
            compact_count=1,
            record_id=1000,
            user_type=45,
            body=text_message(1000, "acknowledged already"),
        ),
        record(12, 1, compact_count=1, record_id=1000, user_type=32, body=struct.pack(">q", QUEUE_A)),
    )
    assert lines_of(little_store.open(), "work.a") == []
