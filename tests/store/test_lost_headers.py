"""Journal files that were used again, and lost what said so: their header."""

from __future__ import annotations

import struct

import pytest

from tests.damage.cases import changed
from tests.differential.encode import record
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore
from tests.tools import store_bytes


@pytest.mark.rule("S-48", "S-49")
def test_a_file_used_again_whose_header_is_lost(little_store: LittleStore) -> None:
    """Behind the few records of its present life lie many of an earlier one: those are over."""
    for number in range(10):
        little_store.journal.send(1000 + number, QUEUE_A)
    JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2).send(1050, QUEUE_A)
    with changed(little_store.journal.path, 0, struct.pack(">iiq", 2, 0, 3)):
        JournalAppender(little_store.journal.path, 3, 16).send(1100, QUEUE_A)
        with changed(little_store.journal.path, 0, bytes(16)):
            store = little_store.open(index=False)
    (queue,) = [queue for queue in store.queues() if queue.name == "work.a"]
    listing = queue.listing()
    assert [listing.message_id(place) for place in range(len(listing))] == [1050, 1100]
    damage = [(one.file, one.offset, one.kind) for one in store.core.damage()]
    assert damage == [("journal/activemq-data-1.amq", 0, "bad-header")]


@pytest.mark.rule("S-48", "S-49")
def test_a_bindings_file_used_again_whose_header_is_lost(little_store: LittleStore) -> None:
    """What an earlier life bound was deleted in files that are long gone."""
    path = little_store.root / "bindings/activemq-bindings-1.bindings"
    second = JournalAppender.create(path.with_name("activemq-bindings-2.bindings"), 2)
    kept = record(11, 2, record_id=60, user_type=44, body=store_bytes.address_binding("kept", 0))
    second.append(kept)
    with changed(path, 0, struct.pack(">iiq", 2, 0, 3)):
        again = JournalAppender(path, 3, 16)
        again.append(record(11, 3, record_id=61, user_type=44, body=store_bytes.address_binding("new", 0)))
        with changed(path, 0, b"\xff" * 16):
            store = little_store.open(index=False)
    assert [address.name for address in store.addresses()] == ["kept", "new"]
    assert [(one.file, one.kind) for one in store.core.damage()] == [
        ("bindings/activemq-bindings-1.bindings", "bad-header")
    ]


@pytest.mark.parametrize("gone", ["acknowledged", "deleted"])
def test_a_file_that_was_used_again_hides_nothing(gone: str, little_store: LittleStore) -> None:
    """A later file says that its message is gone, or did before it was deleted."""
    little_store.journal.send(1000, QUEUE_A)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.acknowledge(1000, QUEUE_A, tx_id=3000)
    if gone == "deleted":
        third = JournalAppender.create(little_store.root / "journal/activemq-data-3.amq", 3)
        third.send(1001, QUEUE_A)
        second.path.unlink()
    with changed(little_store.journal.path, 8, (4).to_bytes(8)):
        store = little_store.open(index=False)
        assert store.core.damage() == []
        assert sum(len(queue) for queue in store.queues()) == (1 if gone == "deleted" else 0)
