"""Texts that go to pages together become the very records that they become one by one, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from journalfs.engine.page_file import PageStore
from journalfs.engine.pages import PageTexts
from journalfs.engine.publish import Stretches
from journalfs.format.page_record import NO_TRANSACTION, page_record
from journalfs.ids import PageNumber, QueueId
from journalfs.message.outgoing import NO_PROPERTIES, Texts, UserIds
from journalfs.pages.folders import OwnPages
from journalfs.pages.writer import PageEnd, PageWriter, Pile
from tests.publish.test_text_batch import EXPIRATION_MS, FIRST_ID, LINES, NOW_MS, begun_batch, stretches


class Sent(NamedTuple):
    """What messages have in common."""

    tx: int
    every: tuple[int, ...]
    in_turn: tuple[int, ...]


SENT = [
    Sent(tx, every, in_turn)
    for tx in (0, 8_000)
    for every, in_turn in (((3,), ()), ((3, 4), (10, 11, 12)), ((), (10, 11)))
]


def page_writer(folder: Path) -> PageWriter:
    end = PageEnd(PageNumber(7), 100, 1)
    pages = PageStore(datasync=False)
    return PageWriter(folder, end, pages=pages, own=OwnPages(), failed=lambda _name, _error: None)


def pages_of(piles: Sequence[Pile], writer: PageWriter) -> list[tuple[int, bytes]]:
    (pile,) = {id(pile): pile for pile in piles}.values()
    assert sum(len(data) for _, data in pile.chunks) == pile.size_bytes == writer.staged_bytes
    return [(number, bytes(data)) for number, data in pile.chunks]


def one_by_one(
    lines: Stretches, writer: PageWriter, sent: Sent, page_bytes_max: int
) -> list[tuple[int, bytes]]:
    piles = []
    for number, message in enumerate(Texts(lines, NO_PROPERTIES)):
        record = message.expiring_at(EXPIRATION_MS).record(FIRST_ID + number, "orders.größe", NOW_MS)
        turn = [sent.in_turn[(5 + number) % len(sent.in_turn)]] if sent.in_turn else []
        queues = [QueueId(queue) for queue in (*sent.every, *turn)]
        piles.append(writer.stage(page_record(sent.tx or NO_TRANSACTION, *record, queues), page_bytes_max)[1])
    return pages_of(piles, writer)


@pytest.mark.parametrize("page_bytes_max", [1, 700, 5_000, 1 << 20])
@pytest.mark.parametrize("piece_bytes", [1, 1_000, 1 << 20])
@pytest.mark.parametrize("sent", SENT)
def test_a_batch_is_the_records_of_its_messages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page_bytes_max: int, piece_bytes: int, sent: Sent
) -> None:
    lines, ids = stretches(LINES * 3), UserIds(b"12345678")
    monkeypatch.setattr("journalfs.message.outgoing.USER_IDS", UserIds(b"12345678"))
    alone, together = page_writer(tmp_path), page_writer(tmp_path)
    expected = one_by_one(lines, alone, sent, page_bytes_max)
    batch = begun_batch(ids, lines, tx=sent.tx, every=sent.every, in_turn=sent.in_turn)
    texts, piles = PageTexts(piece_bytes), []
    while not batch.ended:
        piles.append(together.stage_texts(texts, batch, page_bytes_max)[1])
    assert pages_of(piles, together) == expected
    assert together.end == alone.end


@pytest.mark.parametrize(("chars", "too_long"), [(49_000, False), (50_000, True)])
def test_texts_that_may_be_too_long_are_told(chars: int, too_long: bool) -> None:
    lines = stretches(b"short\n" + b"x" * chars + b"\n")
    assert begun_batch(UserIds(), lines, tx=0, every=(3,), in_turn=()).too_long() is too_long
