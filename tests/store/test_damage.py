"""Damage to a journal: listed with its place, nothing intact hidden, the second time from the index too."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Callable
from itertools import islice

import pytest

from journalfs.errors import EXIT_DAMAGED, UnknownVersion
from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.differential.encode_messages import core_message, page_record
from tests.mounting import journalfs
from tests.store.appending import ADD_REF, ADD_TX, MESSAGE, UPDATE_TX, JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import PAGE_TX, small, write_page

ReadLines = Callable[[JournalStore, str], list[bytes]]


def places(store: JournalStore) -> list[tuple[str, int, str]]:
    return [(damage.file, damage.offset, damage.kind) for damage in store.core.damage()]


def overwrite(little: LittleStore, offset: int, content: bytes) -> None:
    with little.journal.path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


JOURNAL = "journal/activemq-data-1.amq"


@pytest.mark.rule("S-49")
@pytest.mark.parametrize(("filler", "kind"), [(b"\0", "zeroed"), (b"\xaa", "garbage")])
def test_hole_in_the_middle_hides_nothing(
    little_store: LittleStore, lines_of: ReadLines, filler: bytes, kind: str
) -> None:
    little_store.journal.send(1000, QUEUE_A, "before")
    hole_at = little_store.journal.at
    little_store.journal.send(1001, QUEUE_A, "x" * 5000)
    hole_end = little_store.journal.at
    little_store.journal.send(1002, QUEUE_A, "after")
    overwrite(little_store, hole_at, filler * (hole_end - hole_at))
    for _ in range(2):
        store = little_store.open()
        assert [line.split(b'"body":')[1] for line in lines_of(store, "work.a")] == [
            b'"before"}',
            b'"after"}',
        ]
        assert places(store) == [(JOURNAL, hole_at, kind)]
        assert store.core.damage()[0].length_bytes == hole_end - hole_at
        assert store.status()["damage"] == 1
        store.close()


@pytest.mark.rule("S-50")
def test_torn_tail_is_listed_and_what_precedes_counts(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "whole")
    torn_at = little_store.journal.at
    little_store.journal.send(1001, QUEUE_A, "torn")
    overwrite(little_store, torn_at + 40, bytes(1000))
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 1
    assert (JOURNAL, torn_at, "torn") in places(store)


@pytest.mark.rule("S-49")
def test_missing_file_is_noticed_by_what_refers_to_it(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A, "in the file that goes")
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A, "in the file that stays")
    second.redeliver(1000, QUEUE_A, 2)
    little_store.journal.path.unlink()
    for _ in range(2):
        store = little_store.open()
        assert len(lines_of(store, "work.a")) == 1
        assert [place[2] for place in places(store)] == ["missing-message"]
        store.close()


@pytest.mark.rule("S-48")
def test_file_without_its_header_is_read_by_what_its_records_say(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send(1000, QUEUE_A, "first")
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A, "second")
    overwrite(little_store, 0, bytes(16))
    store = little_store.open()
    assert [line.split(b'"body":')[1] for line in lines_of(store, "work.a")] == [b'"first"}', b'"second"}']
    assert (JOURNAL, 0, "bad-header") in places(store)


@pytest.mark.rule("S-58")
def test_journal_of_a_later_format_is_refused(little_store: LittleStore) -> None:
    overwrite(little_store, 0, struct.pack(">i", 3))
    with pytest.raises(UnknownVersion, match="format version 3"):
        little_store.open()


@pytest.mark.rule("S-49")
def test_file_shorter_than_a_header_is_listed(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A)
    (little_store.root / "journal/activemq-data-9.amq").write_bytes(b"\0\0\0\2")
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 1
    assert places(store) == [("journal/activemq-data-9.amq", 0, "short-file")]


@pytest.mark.rule("S-49")
def test_incomplete_transaction_is_dropped_and_listed(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send_in_transaction(500, 1000, QUEUE_A)
    little_store.journal.commit(500, 3)
    little_store.journal.send(1001, QUEUE_A, "alone")
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 1
    kinds = [place[2] for place in places(store)]
    assert kinds == ["undecided-transaction", "incomplete-transaction"]


@pytest.mark.rule("S-49")
def test_damaged_bytes_can_be_read(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    hole_at = little_store.journal.at
    little_store.journal.send(1001, QUEUE_A)
    hole_end = little_store.journal.at
    little_store.journal.send(1002, QUEUE_A)
    overwrite(little_store, hole_at, b"\xaa" * (hole_end - hole_at))
    store = little_store.open()
    damaged = store.control().child("damaged")
    assert damaged is not None
    names = list(dict(damaged.children()))  # type: ignore[union-attr]
    assert names == [
        f"journal%2Factivemq-data-1.amq@{hole_at}-garbage{suffix}" for suffix in (".json", ".bin")
    ]
    raw = damaged.child(names[1]).open()  # type: ignore[union-attr]
    assert bytes(raw.read(0, 1 << 20)) == b"\xaa" * (hole_end - hole_at)


@pytest.mark.rule("S-48")
def test_what_is_no_file_is_not_opened(little_store: LittleStore, lines_of: ReadLines) -> None:
    """A pipe would wait for a writer for ever."""
    little_store.journal.send(1000, QUEUE_A)
    for folder, name in (("journal", "x.amq"), ("bindings", "x.bindings")):
        os.mkfifo(little_store.root / folder / name)
        (little_store.root / folder / f"directory-{name}").mkdir()
    os.mkfifo(little_store.root / "large-messages/12.msg")
    for name in ("journal/journal-rename-control.ctr", "journal/serverlock.1"):
        os.mkfifo(little_store.root / name)
    (little_store.root / "journalfs").mkdir()
    os.mkfifo(little_store.root / "journalfs/index")
    (little_store.root / "paging/folder").mkdir()
    os.mkfifo(little_store.root / "paging/folder/000000001.page")
    (little_store.root / "paging/folder/address.txt").write_text("work")
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 1
    kinds = [place[2] for place in places(store)]
    assert sorted(kinds) == ["control-file"] + ["not-a-file"] * 6
    status = store.status()["damage"]
    assert status == 7


def test_more_journal_files_than_descriptors(little_store: LittleStore, lines_of: ReadLines) -> None:
    for number in range(2, 200):
        file = JournalAppender.create(
            little_store.root / f"journal/activemq-data-{number}.amq", number, size_bytes=4096
        )
        file.send(1000 + number, QUEUE_A, "one of many")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in range(soft) if number not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, 90, None)), hard))
    try:
        store = little_store.open()
        assert len(lines_of(store, "work.a")) == 198
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.rule("S-26", "S-48")
@pytest.mark.parametrize("paged", [False, True])
def test_check_reads_what_a_prepared_transaction_sent(little_store: LittleStore, paged: bool) -> None:
    """A message whose text does not decode: nothing of its record is damaged. It is read once, though two
    queues get it.
    """
    both = (QUEUE_A, QUEUE_B)
    undecodable = core_message(1001, b"\1\xff", address="work")
    if paged:
        records = [small(1000, queues=both), page_record(70, 0, undecodable, both), small(1002, tx_id=71)]
        write_page(little_store, 1, records)
        sends = [record(ADD_TX, 1, tx_id=70, record_id=80, user_type=PAGE_TX, body=struct.pack(">qi", 70, 2))]
    else:
        references = [struct.pack(">q", queue) for queue in both]
        sends = [
            record(ADD_TX, 1, tx_id=70, record_id=1001, user_type=MESSAGE, body=undecodable),
            *(
                record(UPDATE_TX, 1, tx_id=70, record_id=1001, user_type=ADD_REF, body=reference)
                for reference in references
            ),
        ]
    little_store.journal.append(*sends, record(17, 1, tx_id=70, count=len(sends)))
    done = journalfs("check", little_store.root)
    assert done.returncode == EXIT_DAMAGED
    assert "\tmessage\tthe text is shorter than it says\n" in done.stdout
    file = "paging/" if paged else "journal/activemq-data-1.amq\t"
    assert done.stdout.startswith(file)
    assert "1 sent by transactions that have not ended" in done.stderr
    assert "1 damaged" in done.stderr
