"""What is known of pages is kept up with the journal: the same as if all of it had been looked at anew."""

from __future__ import annotations

import struct
from random import Random

import pytest

from journalfs.format.record_types import MessageType
from journalfs.ids import PageNumber, QueueId
from journalfs.live.core import Core
from journalfs.pages.cursors import Cursors
from tests.differential.encode import record
from tests.store.appending import ADD, DELETE, UPDATE
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import small, write_page

PAGES, PER_PAGE, STEPS = 4, 6, 60
TRANSACTIONS = tuple(range(500, 500 + PAGES))


class Journal:
    """Draws records about pages and appends them."""

    def __init__(self, store: LittleStore, seed: int) -> None:
        self._store = store
        self._chance = Random(seed)
        self._next = 3_000
        self._live: list[int] = []
        self._transactions: dict[int, int] = {}

    def step(self) -> None:
        choose = self._chance.random()
        if choose < 0.2 and self._live:
            gone = self._live.pop(self._chance.randrange(len(self._live)))
            self._transactions.pop(gone, None)
            self._append(DELETE, gone, 0, b"")
        elif choose < 0.4 and self._transactions:
            one = self._chance.choice(list(self._transactions))
            self._append(UPDATE, one, 35, struct.pack(">qi", self._transactions[one], 1))
        elif choose < 0.5:
            tx = self._chance.choice(TRANSACTIONS)
            if tx not in self._transactions.values():
                self._transactions[self._next] = tx
                self._add(35, struct.pack(">qi", tx, self._chance.randrange(1, 4)))
        else:
            queue = self._chance.choice((QUEUE_A, QUEUE_B))
            page = self._chance.randrange(1, PAGES + 1)
            number = self._chance.randrange(PER_PAGE)
            self._add(42 if choose > 0.9 else 39, struct.pack(">qqi", queue, page, number))

    def _add(self, user_type: int, body: bytes) -> None:
        self._live.append(self._next)
        self._append(ADD, self._next, user_type, body)
        self._next += 1

    def _append(self, kind: int, record_id: int, user_type: int, body: bytes) -> None:
        if kind == DELETE:
            content = record(kind, 1, record_id=record_id)
        else:
            content = record(kind, 1, record_id=record_id, user_type=user_type, body=body)
        self._store.journal.append(content)


def anew(core: Core) -> Cursors:
    numbers = core.loader.state.side_numbers
    return Cursors.from_records(
        numbers(MessageType.ACKNOWLEDGE_CURSOR),
        numbers(MessageType.PAGE_COMPLETE),
        numbers(MessageType.PAGE_TRANSACTION),
    )


@pytest.mark.parametrize("seed", range(6))
async def test_it_is_what_a_new_look_finds(little_store: LittleStore, seed: int) -> None:
    for page in range(1, PAGES + 1):
        records = [
            small(
                2_000 + 10 * page + n,
                queues=(QUEUE_A, QUEUE_B),
                tx_id=TRANSACTIONS[page - 1] if n % 2 else -1,
            )
            for n in range(PER_PAGE)
        ]
        write_page(little_store, page, records)
    journal, store = Journal(little_store, seed), little_store.open()
    core = store.core
    for _ in range(STEPS):
        for _ in range(1 + seed):
            journal.step()
        await store.look()
        expected = anew(core)
        assert core.cursors.consumed == expected.consumed
        assert core.cursors.complete == expected.complete
        assert core.cursors.transactions == expected.transactions
        (paged,) = core.pages.values()
        for number in map(PageNumber, range(1, PAGES + 1)):
            for queue in (QueueId(QUEUE_A), QueueId(QUEUE_B)):
                live = paged.live(number, queue)
                tx_ids = paged.scan(number).tx_ids()
                place = (int(queue), int(number))
                assert list(live) == [
                    index
                    for index in range(PER_PAGE)
                    if place not in expected.complete
                    and index not in expected.consumed.get(place, ())
                    and expected.counts(tx_ids[index])
                ]
                assert paged.count(number, queue) == len(live)
                assert paged.is_consumed(number, queue) is (not live)
    store.close()
