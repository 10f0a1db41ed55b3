"""The index, and transactions that were open when it was written and end afterwards."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import pytest

from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.reference.journal import ROLLBACK
from tests.store.appending import ACK, COMMIT, DELETE, PREPARE, UPDATE, UPDATE_TX, JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]

TX = 5_000
XID = b"".join([struct.pack(">i", 1), struct.pack(">i", 1), b"b", struct.pack(">i", 1), b"g"])
OF_QUEUE_A = struct.pack(">q", QUEUE_A)

both_ways = pytest.mark.parametrize("how", ["resumed", "followed"])


def in_another_file(store: LittleStore) -> JournalAppender:
    return JournalAppender.create(store.journal.path.with_name("activemq-data-2.amq"), 2)


def again(store: LittleStore, before: JournalStore, how: str) -> JournalStore:
    """The store after what was written since: opened with the index that was left, or looked at anew."""
    if how == "resumed":
        before.close()
        return store.open()
    before.look_now()
    return before


@pytest.mark.rule("S-54")
@both_ways
def test_what_was_prepared_is_shown_once_it_is_committed_in_a_later_file(
    little_store: LittleStore, lines_of: ReadLines, how: str
) -> None:
    """What it brings lies in a file of which nothing is read any more."""
    little_store.journal.send_in_transaction(TX, 1000, QUEUE_A, "prepared")
    little_store.journal.append(record(PREPARE, 1, tx_id=TX, count=2, body=XID))
    later = in_another_file(little_store)
    later.send(1001, QUEUE_A, "published")
    little_store.open().close()
    before = little_store.open()
    assert before.core.loader.bytes_scanned == 0
    later.append(record(COMMIT, 2, tx_id=TX, count=0))
    store = again(little_store, before, how)
    assert [b'"body":"prepared"' in line for line in lines_of(store, "work.a")] == [False, True]
    assert store.core.damage() == []


@pytest.mark.rule("S-54")
@both_ways
def test_what_left_before_the_transaction_that_takes_it_is_committed_is_no_damage(
    little_store: LittleStore, lines_of: ReadLines, how: str
) -> None:
    """A broker makes room in a ring by messages that a prepared transaction has acknowledged."""
    journal = little_store.journal
    for message_id in (1000, 1001, 1002):
        journal.send(message_id, QUEUE_A)
    taken = [
        record(UPDATE_TX, 1, tx_id=TX, record_id=message_id, user_type=ACK, body=OF_QUEUE_A)
        for message_id in (1000, 1001)
    ]
    journal.append(*taken, record(PREPARE, 1, tx_id=TX, count=2, body=XID))
    before = little_store.open()
    journal.append(
        record(UPDATE, 1, record_id=1000, user_type=ACK, body=OF_QUEUE_A), record(DELETE, 1, record_id=1000)
    )
    before = again(little_store, before, how)
    journal.append(record(UPDATE, 1, record_id=1001, user_type=ACK, body=OF_QUEUE_A))
    journal.append(record(COMMIT, 1, tx_id=TX, count=2))
    store = again(little_store, before, how)
    assert store.core.damage() == []
    assert len(lines_of(store, "work.a")) == 1


@both_ways
def test_what_was_not_there_when_it_was_prepared_is_damage(little_store: LittleStore, how: str) -> None:
    journal = little_store.journal
    journal.send(1000, QUEUE_A)
    journal.append(
        record(UPDATE_TX, 1, tx_id=TX, record_id=999, user_type=ACK, body=OF_QUEUE_A),
        record(PREPARE, 1, tx_id=TX, count=1, body=XID),
    )
    before = little_store.open()
    journal.append(record(COMMIT, 1, tx_id=TX, count=1))
    store = again(little_store, before, how)
    assert [one.kind for one in store.core.damage()] == ["missing-message"]


@pytest.mark.rule("S-13", "S-20")
@pytest.mark.parametrize("index", [True, False])
def test_what_a_transaction_that_is_rolled_back_had_taken_comes_in_a_later_part(
    little_store: LittleStore, lines_of: ReadLines, *, index: bool
) -> None:
    journal = little_store.journal
    for message_id in (1000, 1001, 1002):
        journal.send(message_id, QUEUE_A)
    took = record(UPDATE_TX, 1, tx_id=TX, record_id=1001, user_type=ACK, body=OF_QUEUE_A)
    journal.append(took, record(PREPARE, 1, tx_id=TX, count=1, body=XID))
    little_store.open().close()
    journal.append(record(ROLLBACK, 1, tx_id=TX))
    store = little_store.open(index=index)
    ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
    assert ids == ([1000, 1002, 1001] if index else [1000, 1001, 1002])
    address = store.address("work")
    assert address is not None
    queue = address.queue("work.a")
    assert queue is not None
    listing = queue.listing()
    assert [listing.message_id(place) for place in range(3)] == [1000, 1001, 1002]
    store.close()
