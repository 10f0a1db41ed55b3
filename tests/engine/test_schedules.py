"""When messages are due that say it themselves, in queues of which no record says when."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from journalfs.engine.state import LiveState
from tests.differential.encode import journal_file, record
from tests.differential.encode_messages import text_message
from tests.engine.journals import journal_files
from tests.reference.journal import ADD, DELETE, UPDATE

FILE_ID, MESSAGE = 1, 7
ADD_MESSAGE, ADD_REF, ACKNOWLEDGE, COUNT, SCHEDULE = 45, 32, 33, 34, 36
QUEUES = ONE, OTHER, THIRD = 21, 22, 23
OWN_MS, SAID_MS, NOW_MS = 5_000, 9_000, 1_000

SAYS_IT = record(
    ADD,
    FILE_ID,
    record_id=MESSAGE,
    user_type=ADD_MESSAGE,
    body=text_message(MESSAGE, properties={"_AMQ_SCHED_DELIVERY": ("long", OWN_MS)}),
)


def update(user_type: int, body: bytes) -> bytes:
    return record(UPDATE, FILE_ID, record_id=MESSAGE, user_type=user_type, body=body)


def in_queue(queue: int) -> bytes:
    return update(ADD_REF, struct.pack(">q", queue))


def due(queue: int, time_ms: int) -> bytes:
    return update(SCHEDULE, struct.pack(">qq", queue, time_ms))


class Journal:
    """A journal of one file that grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "activemq-data-1.amq"
        self._records: list[bytes] = []
        self.state = LiveState()

    def write(self, *records: bytes) -> None:
        """And apply it, as one who follows it."""
        start = 16 + sum(map(len, self._records))
        self._records += records
        self._path.write_bytes(journal_file(FILE_ID, self._records))
        (journal,) = journal_files(self._folder)
        self.state.apply(0, journal.file, journal.scan(start=start))

    def due(self) -> dict[int, int]:
        """Queue -> when the message is due in it, for those that have it."""
        state = self.state
        refs = map(state.ref, state.message_refs(MESSAGE))
        return {state.queue(ref.queue_slot).queue_id: ref.scheduled_ms for ref in refs}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.write()
    journal.state.finish(following=True)
    return journal


def test_it_counts_where_no_record_says_when(journal: Journal) -> None:
    journal.write(SAYS_IT, *map(in_queue, QUEUES), due(OTHER, SAID_MS), due(THIRD, 1))
    journal.state.measure()
    assert journal.due() == {ONE: OWN_MS, OTHER: SAID_MS, THIRD: 1}
    slots = [journal.state.register_queue(queue) for queue in QUEUES]
    assert [len(journal.state.scheduled(slot, NOW_MS)) for slot in slots] == [1, 1, 0]


def test_it_counts_in_queues_that_get_the_message_later(journal: Journal) -> None:
    journal.write(SAYS_IT, in_queue(ONE))
    journal.state.measure()
    journal.write(in_queue(OTHER), in_queue(THIRD), due(THIRD, SAID_MS))
    assert journal.due() == {ONE: OWN_MS, OTHER: OWN_MS, THIRD: SAID_MS}


def test_no_time_is_no_record(journal: Journal) -> None:
    journal.write(SAYS_IT, in_queue(ONE), due(ONE, SAID_MS))
    journal.state.measure()
    journal.write(due(ONE, 0))
    assert journal.due() == {ONE: OWN_MS}


def test_a_checkpoint_knows_it(journal: Journal) -> None:
    journal.write(SAYS_IT, in_queue(ONE), in_queue(OTHER), due(OTHER, SAID_MS))
    journal.state.measure()
    saved = journal.state.save()
    journal.state = LiveState.load(saved)
    assert journal.state.save() == saved
    journal.write(in_queue(THIRD), due(OTHER, 0))
    assert journal.due() == dict.fromkeys(QUEUES, OWN_MS)


def test_it_goes_with_the_message(journal: Journal) -> None:
    """Another one of the same id says nothing."""
    journal.write(SAYS_IT, in_queue(ONE))
    journal.state.measure()
    journal.write(record(DELETE, FILE_ID, record_id=MESSAGE))
    silent = text_message(MESSAGE)
    journal.write(record(ADD, FILE_ID, record_id=MESSAGE, user_type=ADD_MESSAGE, body=silent), in_queue(ONE))
    journal.state.measure()
    assert journal.due() == {ONE: 0}
    assert journal.state.ref(journal.state.message_refs(MESSAGE)[0]).own_scheduled_ms == 0
