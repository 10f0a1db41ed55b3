"""A journal that is opened for writing is read from where its last writer left off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore


def opened(root: Path, *, index: bool = True) -> WritingStore:
    return open_for_writing(root, clock=FakeClock(), index=index)


@pytest.fixture
def left(little_store: LittleStore) -> LittleStore:
    """Two files with records, and the free ones that its writer made."""
    journal = little_store.journal
    for number in range(20):
        journal.send(1000 + number, (QUEUE_A, QUEUE_B)[number % 2], "x" * 1450)
    journal.acknowledge(1001, QUEUE_B, tx_id=600)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(2000, QUEUE_B, "last")
    second.acknowledge(1000, QUEUE_A, tx_id=601)
    opened(little_store.root).close()
    little_store.journal = second
    return little_store


def records_bytes(store: WritingStore) -> int:
    return sum(read.position for read in store.core.loader.files.read_files() if read.records)


def told(store: WritingStore) -> object:
    writer = store.journals.messages
    counters = [writer.ledger.counters(file.slot) for file in writer.data if file.records_end > 16]
    return counters, sorted(writer.ledger.live_ids()), [(file.name, file.records_end) for file in writer.data]


def grown(left: LittleStore) -> None:
    """As a broker does that wrote on."""
    left.journal.send(2001, QUEUE_A, "new")
    left.journal.acknowledge(1002, QUEUE_A, tx_id=602)


def read_only(left: LittleStore) -> None:
    left.open().close()


def moved(left: LittleStore) -> None:
    """With the bytes that it had, as a restored copy."""
    path = left.root / "journal/activemq-data-1.amq"
    path.write_bytes(path.read_bytes())


@pytest.mark.rule("S-281")
@pytest.mark.parametrize("between", [lambda _: None, read_only, moved, grown])
def test_what_was_read_before_is_not_read_again(
    left: LittleStore, between: Callable[[LittleStore], object]
) -> None:
    was = left.journal.at
    between(left)
    store = opened(left.root)
    files = store.core.loader.files.read_files()
    free_bytes = sum(read.file.stamp.size_bytes for read in files) - records_bytes(store)
    new_bytes = left.journal.at - was
    assert store.journals.messages.bytes_read <= free_bytes + new_bytes
    assert store.core.loader.bytes_scanned <= (new_bytes and left.journal.path.stat().st_size - was)
    first = told(store)
    store.close()
    whole = opened(left.root, index=False)
    # Without an index the ledger and what is shown are read one after the other.
    assert whole.journals.messages.bytes_read > records_bytes(whole) < whole.core.loader.bytes_scanned
    assert told(whole) == first
    whole.close()


def cut(left: LittleStore) -> None:
    with (left.root / "journal/activemq-data-2.amq").open("r+b") as file:
        file.seek(20)
        file.write(bytes(200))


def taken(left: LittleStore) -> None:
    (left.root / "journal/activemq-data-1.amq").unlink()


@pytest.mark.rule("S-281")
@pytest.mark.parametrize("change", [cut, taken])
def test_of_what_is_not_as_it_was_nothing_is_believed(
    left: LittleStore, change: Callable[[LittleStore], None]
) -> None:
    change(left)
    store = opened(left.root)
    first = told(store)
    store.close()
    whole = opened(left.root, index=False)
    assert told(whole) == first
    whole.close()
