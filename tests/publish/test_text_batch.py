"""Texts that are staged together become the very records that they become one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from journalfs.engine.ledger import Ledger
from journalfs.engine.message_batch import TOO_LONG, TextBatch, TextFields
from journalfs.engine.publish import LineSplitter, Stretches
from journalfs.engine.stage import NO_ROOM, STAGED, Stage
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import QueueId
from journalfs.message.outgoing import NO_PROPERTIES, Texts, UserIds, address_field

NOW_MS = 1_750_000_000_123
EXPIRATION_MS = NOW_MS + 60_000
FIRST_ID = 7_001
LINES = b"plain\n\n" + "grüße 🚀 末\n".encode() + b"\xff no UTF-8\n" + b"x" * 3000 + b"\n" + b"last\n"


def stretches(data: bytes) -> Stretches:
    (found,) = LineSplitter().feed(data)
    return found


def begun_batch(
    ids: UserIds, lines: Stretches, *, tx: int, every: Sequence[int], in_turn: Sequence[int]
) -> TextBatch:
    fields = TextFields(
        address=address_field("orders.größe"),
        properties=NO_PROPERTIES.encoded,
        every=every,
        in_turn=in_turn,
        user_id_node=ids.node,
        body_bytes_max=100_000,
        record_bytes_max=200_000,
    )
    batch = TextBatch(fields)
    batch.begin(
        lines,
        turn=5,
        first_id=FIRST_ID,
        tx_id=tx,
        timestamp_ms=NOW_MS,
        expiration_ms=EXPIRATION_MS,
        user_id_step=ids.draw_steps(NOW_MS, len(lines)),
    )
    return batch


def begun(room_bytes: int = 1 << 20) -> tuple[Stage, Ledger]:
    ledger, stage = Ledger(), Stage(1 << 20)
    stage.begin(slot=ledger.add_file(), rid=9, file_offset=512, room_bytes=room_bytes)
    return stage, ledger


def one_by_one(
    texts: Texts, monkeypatch: pytest.MonkeyPatch, *, tx: int, every: Sequence[int], in_turn: Sequence[int]
) -> bytes:
    stage, ledger = begun()
    monkeypatch.setattr("journalfs.message.outgoing.USER_IDS", UserIds(b"12345678"))
    add, update = (RecordKind.ADD_TX, RecordKind.UPDATE_TX) if tx else (RecordKind.ADD, RecordKind.UPDATE)
    for number, message in enumerate(texts):
        record_id = FIRST_ID + number
        expiring = message.expiring_at(EXPIRATION_MS)
        user_type, body = expiring.record(record_id, "orders.größe", NOW_MS)
        assert stage.put(ledger, add, record_id, tx, user_type, body) == STAGED
        turn = [in_turn[(5 + number) % len(in_turn)]] if in_turn else []
        for queue in [*every, *turn]:
            body = record_bodies.reference(QueueId(queue))
            assert stage.put(ledger, update, record_id, tx, MessageType.ADD_REFERENCE, body) == STAGED
    return stage.content(stage.used_bytes)


@pytest.mark.parametrize("tx", [0, 8_000])
@pytest.mark.parametrize(("every", "in_turn"), [((3,), ()), ((3, 4), (10, 11, 12)), ((), (10, 11))])
def test_a_batch_is_the_records_of_its_messages(
    monkeypatch: pytest.MonkeyPatch, tx: int, every: tuple[int, ...], in_turn: tuple[int, ...]
) -> None:
    lines = stretches(LINES)
    expected = one_by_one(Texts(lines, NO_PROPERTIES), monkeypatch, tx=tx, every=every, in_turn=in_turn)
    stage, ledger = begun()
    batch = begun_batch(UserIds(b"12345678"), lines, tx=tx, every=every, in_turn=in_turn)
    assert batch.stage(stage, ledger) == STAGED
    assert stage.content(stage.used_bytes) == expected
    assert batch.staged_records == len(lines) * (1 + len(every) + bool(in_turn)) == stage.record_count


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_goes_on_in_the_next_buffer(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    lines = stretches(LINES * 3)
    every, in_turn = (3, 4), (10, 11)
    expected = one_by_one(Texts(lines, NO_PROPERTIES), monkeypatch, tx=8_000, every=every, in_turn=in_turn)
    stage, ledger = begun(room_bytes=chance.randrange(600))
    batch = begun_batch(UserIds(b"12345678"), lines, tx=8_000, every=every, in_turn=in_turn)
    content, records = b"", 0
    while (status := batch.stage(stage, ledger)) == NO_ROOM:
        content += stage.content(stage.used_bytes)
        records += batch.staged_records
        room = batch.needed_bytes + chance.randrange(2_000)
        stage.begin(slot=0, rid=9, file_offset=512, room_bytes=room)
    assert status == STAGED
    assert content + stage.content(stage.used_bytes) == expected
    assert records + batch.staged_records == len(lines) * 4


def test_a_text_that_may_be_too_long_stages_nothing() -> None:
    lines = stretches(b"short\n" + b"x" * 50_000 + b"\n")
    stage, ledger = begun()
    batch = begun_batch(UserIds(), lines, tx=0, every=(3,), in_turn=())
    assert batch.stage(stage, ledger) == TOO_LONG
    assert (stage.record_count, batch.begun, ledger.totals().live_records) == (0, False, 0)


def test_an_id_that_is_in_use_is_refused() -> None:
    stage, ledger = begun()
    lines = stretches(b"a\n")
    first = begun_batch(UserIds(), lines, tx=0, every=(3,), in_turn=())
    assert first.stage(stage, ledger) == STAGED
    again = begun_batch(UserIds(), lines, tx=0, every=(3,), in_turn=())
    assert again.stage(stage, ledger) not in (STAGED, NO_ROOM, TOO_LONG)
    assert not again.begun
