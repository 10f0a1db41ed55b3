"""What is kept up with each change is what a replay of all of it says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from journalfs.bindings.model import CHANGES_KEPT_MAX, BindingsState, Changed, ChangeLog
from journalfs.bindings.replay import BindingsReplay
from journalfs.format.record_types import BindingType, RecordKind
from journalfs.ids import QueueId
from tests.bindings.test_replay import Record, add, address, queue
from tests.format.encode import i16, i64

BINDINGS = (BindingType.QUEUE_BINDING, BindingType.ADDRESS_BINDING)
NAMES = ("a", "b", "a-0", "c")


def status(target: int, *, paused: bool) -> bytes:
    return i64(target) + i16(0 if paused else 1)


def records(chance: random.Random, count: int) -> list[Record]:
    """Few names and ids, so that there are doubles, statuses of what is gone, and queues without address."""
    found: list[Record] = []
    for record_id in range(1, count):
        earlier = chance.randrange(max(1, record_id - 8), record_id + 1)
        match chance.choice(("queue", "queue", "address", "again", "pause", "pause", "delete", "bad")):
            case "queue":
                body = queue(chance.choice(NAMES), NAMES[record_id % 4], routing=chance.randrange(2))
                found.append(add(record_id, BindingType.QUEUE_BINDING, body))
            case "address":
                body = address(chance.choice(NAMES), chance.randrange(2))
                found.append(add(record_id, BindingType.ADDRESS_BINDING, body))
            case "again":
                body = queue(chance.choice(NAMES), NAMES[earlier % 4])
                found.append(
                    Record(RecordKind.UPDATE, earlier, user_type=BindingType.QUEUE_BINDING, body=body)
                )
            case "pause":
                kind = chance.choice((BindingType.QUEUE_STATUS, BindingType.ADDRESS_STATUS))
                of = chance.choice([one.record_id for one in found if one.user_type in BINDINGS] or [10_000])
                found.append(add(record_id, kind, status(of, paused=chance.random() < 0.7)))
            case "delete":
                found.append(Record(RecordKind.DELETE, earlier))
            case "bad":
                found.append(add(record_id, BindingType.QUEUE_BINDING, b"\xff"))
    return [replace(record, offset=16 + n) for n, record in enumerate(found)]


def replayed(given: list[Record]) -> BindingsState:
    replay = BindingsReplay()
    replay.begin_file("one")
    for record in given:
        replay.apply(record, record.body)
    return replay.finish()


@pytest.mark.rule("S-147")
@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_all_records_say(seed: int) -> None:
    given = records(random.Random(seed), 40)
    replay = BindingsReplay()
    replay.begin_file("one")
    before: BindingsState | None = None
    shown: dict[QueueId, object] = {}
    for n, record in enumerate(given, 1):
        replay.apply(record, record.body)
        state, whole = replay.finish(), replayed(given[:n])
        anomalies = sorted(one.offset for one in whole.anomalies)
        assert sorted(one.offset for one in state.anomalies) == anomalies
        assert replace(state, anomalies=()) == replace(whole, anomalies=())
        changed = state.changed_since(before)
        for queue_id in state.queues.keys() | shown.keys() if changed is None else changed.queues:
            shown.pop(queue_id, None)
            shown |= {one: state.queues[one] for one in (queue_id,) if one in state.queues}
        assert shown == state.queues, "who looks at what changed sees all"
        before = state


def test_what_changed_long_ago_is_not_known() -> None:
    log = ChangeLog()
    for n in range(CHANGES_KEPT_MAX + 1):
        log.add(Changed(frozenset((QueueId(n),))))
    assert log.since(0) is None
    assert log.since(CHANGES_KEPT_MAX - 1) == Changed(
        frozenset((QueueId(CHANGES_KEPT_MAX - 1), QueueId(CHANGES_KEPT_MAX)))
    )
    assert log.since(log.count) == Changed()
