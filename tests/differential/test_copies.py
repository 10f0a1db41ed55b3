"""Copies of messages for another address as the C core makes them of records, against those that are made of
one decoded message after the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.broker.consume.copies import restored
from journalfs.engine.ledger import Ledger
from journalfs.engine.lines import SOURCE_PERSISTER, LineBatch
from journalfs.engine.message_batch import NOTES_MADE, NOTES_TAKEN, CopyBatch, CopyFields
from journalfs.engine.stage import NO_ROOM, STAGED, Stage
from journalfs.engine.status import CoreRefused, check
from journalfs.errors import DecodeError
from journalfs.format import core_message, primitives, record_bodies
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import QueueId
from journalfs.live.stored_runs import message_of_record
from journalfs.message.outgoing import Outgoing, address_field
from tests.differential.encode_messages import text_message
from tests.differential.test_lines import real_payloads
from tests.differential.values import amqp_payloads, core_payloads, damaged
from tests.frozen import FILE_STORES, PristineStores

FROM, TO = "errors.größe", "orders.größe"
QUEUE, TX, FIRST_ID, ID = 7, 3, 1000, 55
ROOM_BYTES = 1 << 22
NOTES = tuple(core_message.origin(0, "", ""))


def batch_of(
    payloads: Sequence[bytes], *, body_bytes_max: int = ROOM_BYTES, notes: int = NOTES_MADE
) -> CopyBatch:
    lines = LineBatch.of_payloads(payloads, queue=None, sources=[SOURCE_PERSISTER] * len(payloads))
    fields = CopyFields(
        address=address_field(TO),
        queue_name=primitives.simple_string(FROM),
        queue=QUEUE,
        tx_id=TX,
        body_bytes_max=body_bytes_max,
        message_bytes_max=ROOM_BYTES,
        notes=notes,
    )
    return CopyBatch(fields, array("q", range(ID, ID + len(payloads))), lines.lines, [lines])


def begun(room_bytes: int = ROOM_BYTES) -> tuple[Stage, Ledger]:
    ledger, stage = Ledger(), Stage(ROOM_BYTES)
    stage.begin(slot=ledger.add_file(), rid=9, file_offset=512, room_bytes=room_bytes)
    return stage, ledger


def noted(message: Outgoing, message_id: int) -> Outgoing:
    return message.with_properties(core_message.origin(message_id, FROM, message.sent_to or ""))


def sent_back(message: Outgoing, message_id: int) -> Outgoing:
    return restored(message).expiring_at(0)


def one_by_one(payloads: Sequence[bytes], make: Callable[[Outgoing, int], Outgoing] = noted) -> bytes:
    stage, ledger = begun()
    for number, payload in enumerate(payloads):
        message = message_of_record(MessageType.MESSAGE, payload, None)
        user_type, body = make(message, ID + number).record(FIRST_ID + number, TO, 0)
        assert stage.put(ledger, RecordKind.ADD_TX, FIRST_ID + number, TX, user_type, body) == STAGED
        reference = record_bodies.reference(QueueId(QUEUE))
        kind = MessageType.ADD_REFERENCE
        assert stage.put(ledger, RecordKind.UPDATE_TX, FIRST_ID + number, TX, kind, reference) == STAGED
    return stage.content(stage.used_bytes)


def together(payloads: Sequence[bytes], *, notes: int = NOTES_MADE) -> bytes:
    batch = batch_of(payloads, notes=notes)
    batch.take(len(payloads), first_id=FIRST_ID)
    stage, ledger = begun()
    check(batch.stage(stage, ledger), "staging copies")
    assert batch.staged_records == 2 * len(payloads)
    return stage.content(stage.used_bytes)


def is_plain(payload: bytes) -> bool:
    """What has to be copied in one go: a core message that is durable and does not say when it is due."""
    if payload[0] != core_message.PERSISTER:
        return False
    message = message_of_record(MessageType.MESSAGE, payload, None)
    return bool(message.durable and message.sent_to and message.integer(core_message.SCHEDULED) is None)


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_messages(name: str, stores: PristineStores) -> None:
    found = [payload for core_large, payload in real_payloads(stores[name]) if not core_large]
    for payload in found:
        possible, alike = batch_of([payload]).alike()
        assert (possible, alike) == (is_plain(payload), 1)
        if possible:
            assert together([payload]) == one_by_one([payload])


@given(payload=core_payloads() | amqp_payloads())
def test_random_messages(payload: bytes) -> None:
    possible, _ = batch_of([payload]).alike()
    if possible:
        assert is_plain(payload)
        assert together([payload]) == one_by_one([payload])


@given(payload=damaged(core_payloads()))
def test_damaged_messages(payload: bytes) -> None:
    """Copied is only what can be taken apart, and what is staged all the same is refused or a message."""
    possible, _ = batch_of([payload]).alike()
    if possible:
        assert together([payload]) == one_by_one([payload])
        return
    try:
        together([payload])
        one_by_one([payload])
    except (CoreRefused, DecodeError):
        pass


@given(names=st.lists(st.sampled_from((*NOTES, "n", "m", "_AMQ_ORIG")), unique=True))
def test_notes_take_the_place_of_earlier_ones(names: list[str]) -> None:
    payload = text_message(ID, properties=dict.fromkeys(names, ("int", 8)))
    assert batch_of([payload]).alike() == (True, 1)
    assert together([payload]) == one_by_one([payload])


@given(
    kinds=st.dictionaries(
        st.sampled_from((*core_message.NOTES, core_message.ROUTING_TYPE, "n", "m", "_AMQ_ORIG")),
        st.sampled_from([("byte", 0), ("byte", 1), ("byte", 5), ("int", 1), ("string", "x")]),
    )
)
def test_notes_are_taken_away_from_what_goes_back(kinds: dict[str, tuple[str, object]]) -> None:
    payload = text_message(ID, properties=kinds)
    possible, _ = batch_of([payload], notes=NOTES_TAKEN).alike()
    stated = kinds.get(core_message.ORIGINAL_ROUTING_TYPE)
    assert possible == (stated in (None, ("byte", 0), ("byte", 1)))
    if possible:
        assert together([payload], notes=NOTES_TAKEN) == one_by_one([payload], sent_back)


@given(payload=core_payloads())
def test_random_messages_go_back(payload: bytes) -> None:
    possible, _ = batch_of([payload], notes=NOTES_TAKEN).alike()
    if possible:
        assert together([payload], notes=NOTES_TAKEN) == one_by_one([payload], sent_back)


def test_what_says_when_it_is_due_and_large_bodies_are_left_to_others() -> None:
    plain = text_message(ID, "x" * 100)
    due = text_message(ID, properties={core_message.SCHEDULED: ("long", 8)})
    assert batch_of([plain, plain, due, due, due, plain]).alike() == (True, 2)
    assert batch_of([due, due, due, plain]).alike() == (False, 3)
    body_bytes = 5 + 200
    assert batch_of([plain], body_bytes_max=body_bytes).alike() == (True, 1)
    assert batch_of([plain], body_bytes_max=body_bytes - 1).alike() == (False, 1)


def test_copies_go_on_in_the_next_buffer() -> None:
    payloads = [text_message(ID + number, "x" * (number % 97)) for number in range(200)]
    whole, batch = one_by_one(payloads), batch_of(payloads)
    batch.take(len(payloads), first_id=FIRST_ID)
    stage, ledger = begun(3000)
    found = b""
    while (status := batch.stage(stage, ledger)) == NO_ROOM:
        assert batch.needed_bytes > 3000 - stage.used_bytes
        found += stage.content(stage.used_bytes)
        stage.begin(slot=0, rid=9, file_offset=512, room_bytes=3000)
    assert status == STAGED
    assert found + stage.content(stage.used_bytes) == whole
