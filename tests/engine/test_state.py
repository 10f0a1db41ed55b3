"""The live set of real stores, against what their broker says of them."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from journalfs.engine.lines import SOURCE_CORE_LARGE, LineBatch, measure
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import AnomalyKind, QueueInfo
from journalfs.engine.status import CoreRefused
from tests.engine.journals import journal_files, live_ids, load
from tests.frozen import ExpectedStores, PristineStores

UNPAGED = (
    "orders-basic",
    "amqp-mqtt-stomp-openwire",
    "amqp-exotic",
    "compacted",
    "aio",
    "mapped",
    "retention",
    "killed",
    "thousand-queues",
)
"""Stores none of whose messages are in pages."""


@pytest.mark.parametrize("name", [*UNPAGED, "transactions", "large-and-paged"])
def test_undamaged_stores_have_nothing_unusual(stores: PristineStores, name: str) -> None:
    """A kill leaves unfinished transactions; nothing else is expected of a broker's own files."""
    kinds = {anomaly.kind for anomaly in load(stores[name]).anomalies()}
    assert kinds <= {AnomalyKind.TX_UNFINISHED, AnomalyKind.NO_REFERENCES}
    if name == "transactions":
        assert kinds == {AnomalyKind.TX_UNFINISHED}


def test_large_messages_wait_for_their_measure(stores: PristineStores) -> None:
    state = LiveState()
    files = journal_files(stores["large-and-paged"] / "data" / "journal")
    for slot, journal in enumerate(files):
        state.apply(slot, journal.file, journal.scan())
    state.finish()
    waiting = state.measure()
    bodies = stores["large-and-paged"] / "data" / "large-messages"
    assert {message.message_id for message in waiting} == set(state.large_ids())
    assert all((bodies / f"{message.message_id}.msg").exists() for message in waiting)
    slots = {state.ref(state.message_refs(message.message_id)[0]).queue_slot for message in waiting}
    for slot in slots:
        state.seal(slot, 1000, max_messages=100, max_bytes=1 << 30)
        first = next(ref for ref in map(state.ref, state.refs(slot)) if not ref.measured)
        assert first.part == 0
    measured = load(stores["large-and-paged"])
    assert measured.unmeasured() == []
    assert set(measured.large_ids()) == set(state.large_ids())


def test_a_measure_for_another_message_is_refused(stores: PristineStores) -> None:
    state = load(stores["mapped"])
    ref = state.ref(state.refs(0)[0])
    found = measure(b"")
    for index, message_id in ((ref.message_index, ref.message_id + 1), (2**31, ref.message_id)):
        with pytest.raises(CoreRefused):
            state.set_measure(index, message_id, found.pointer)


@pytest.mark.parametrize("name", ["orders-basic", "compacted", "killed", "transactions", "large-and-paged"])
def test_following_gives_what_loading_gives(stores: PristineStores, name: str) -> None:
    """Cut the history anywhere: load what is before, apply the rest as a running broker would write it."""
    files = journal_files(stores[name] / "data" / "journal")
    whole = load(stores[name])
    records = [(slot, record) for slot, journal in enumerate(files) for record in journal.scan()]
    for cut in range(0, len(records), max(1, len(records) // 7)):
        at_slot, at_record = records[cut]
        state = LiveState()
        for slot in range(at_slot):
            state.apply(slot, files[slot].file, files[slot].scan())
        state.apply(at_slot, files[at_slot].file, files[at_slot].scan(stop=at_record.offset))
        state.finish(following=True)
        state.measure()
        follow(state, files, at_slot, at_record.offset)
        assert live_ids(state, "arrival") == live_ids(whole, "arrival")
        assert [(op.record_id, op.a, op.b, op.c) for op in state.side()] == [
            (op.record_id, op.a, op.b, op.c) for op in whole.side()
        ]
        assert state.open_transactions() == whole.open_transactions()


def follow(state: LiveState, files: list[Any], slot: int, offset: int) -> None:
    """Apply everything from a place on, 50 records at a time."""
    for later in range(slot, len(files)):
        start = offset if later == slot else 16
        offsets = [record.offset for record in files[later].scan(start=start)]
        stops = [*offsets[50::50], files[later].file.size_bytes]
        for begin, end in pairwise([start, *stops]):
            state.apply(later, files[later].file, files[later].scan(start=begin, stop=end))
            state.measure()


@pytest.mark.parametrize("name", [*UNPAGED, "transactions", "large-and-paged"])
def test_a_checkpoint_is_the_whole_state(stores: PristineStores, name: str) -> None:
    state = load(stores[name])
    for queue in state.queues():
        state.seal(queue.slot, 1000, max_messages=7, max_bytes=1 << 20)
    saved = state.save()
    again = LiveState.load(saved)
    assert again.save() == saved
    assert [unowned(queue) for queue in again.queues()] == [unowned(queue) for queue in state.queues()]
    # In which of its queues a message counts is decided anew.
    assert owned(again) == owned(state)
    assert live_ids(again) == live_ids(state)
    assert again.open_transactions() == state.open_transactions()
    assert list(again.side()) == list(state.side())
    assert again.anomalies() == state.anomalies()
    for queue in state.queues():
        assert again.parts(queue.slot) == state.parts(queue.slot)


def unowned(queue: QueueInfo) -> QueueInfo:
    # How many left is counted from when a state was made.
    return msgspec.structs.replace(queue, owned=0, owned_large=0, owned_bytes=0, left=0)


def owned(state: LiveState) -> tuple[int, int, int]:
    queues = state.queues()
    return (
        sum(queue.owned for queue in queues),
        sum(queue.owned_large for queue in queues),
        sum(queue.owned_bytes for queue in queues),
    )


@pytest.mark.parametrize("name", [*UNPAGED, "transactions", "large-and-paged"])
def test_each_message_counts_in_one_queue(stores: PristineStores, name: str) -> None:
    state = load(stores[name])
    refs = {
        ref.message_id: ref
        for queue in state.queues()
        for ref in map(state.ref, state.refs(queue.slot, "arrival", "all"))
    }
    large = [ref for ref in refs.values() if ref.source & SOURCE_CORE_LARGE]
    expected = sum(ref.body_bytes for ref in (*refs.values(), *large))
    assert owned(state) == (len(refs), len(large), expected)


def test_a_checkpoint_of_something_else_is_refused(stores: PristineStores) -> None:
    saved = load(stores["mapped"]).save()
    for wrong in (b"", b"x" * 200, saved[:-1], saved + b"\0", b"X" + saved[1:]):
        with pytest.raises(CoreRefused):
            LiveState.load(wrong)


@pytest.mark.parametrize("name", ["orders-basic", "amqp-exotic", "thousand-queues"])
def test_parts_and_tail_hold_everything_once(stores: PristineStores, name: str) -> None:
    state = load(stores[name])
    for queue in state.queues():
        arrival = state.refs(queue.slot)
        assert state.tail_refs(queue.slot) == arrival
        made = state.seal(queue.slot, 1000, max_messages=4, max_bytes=1 << 30).parts
        assert made == state.parts(queue.slot)
        assert [part.number for part in made] == list(range(1, len(made) + 1))
        assert state.tail_refs(queue.slot) == array("I")
        joined = array("I")
        for part in made:
            refs = state.part_refs(queue.slot, part.number)
            assert len(refs) == part.live_count <= 4
            assert state.line_starts(refs, 0, sealed=True)[-1] == part.live_bytes
            joined += refs
        assert joined == arrival


@pytest.mark.parametrize("name", ["orders-basic", "amqp-mqtt-stomp-openwire", "killed"])
def test_line_lengths_are_those_of_the_rendered_lines(stores: PristineStores, name: str) -> None:
    state = load(stores[name])
    for queue in state.queues():
        refs = state.refs(queue.slot)
        batch = state.line_batch(refs, f"queue {queue.queue_id} ü", sealed=False, now_ms=0)
        assert isinstance(batch, LineBatch)
        rendered = bytes(batch.read(0, batch.size_bytes))
        lengths = [len(line) for line in rendered.splitlines(keepends=True)]
        assert len(lengths) == len(refs)
        starts = batch.starts
        assert [end - start for start, end in pairwise(starts)] == lengths


def test_batches_keep_their_bytes_when_files_are_let_go(stores: PristineStores) -> None:
    state = load(stores["killed"])
    slot = max(state.queues(), key=lambda queue: queue.live_count).slot
    batch = state.line_batch(state.refs(slot), "q", sealed=False)
    before = bytes(batch.read(0, batch.size_bytes))
    for file_slot in state.used_files(8):
        state.forget_file(file_slot)
    assert bytes(batch.read(0, batch.size_bytes)) == before
    with pytest.raises(CoreRefused):
        state.line_batch(state.refs(slot), "q", sealed=False)


def test_slots_are_given_in_order(stores: PristineStores) -> None:
    state = LiveState()
    assert [state.register_queue(queue_id) for queue_id in (70, -3, 70, 2**40)] == [0, 1, 0, 2]
    assert [queue.queue_id for queue in state.queues()] == [70, -3, 2**40]
    assert state.refs(2) == array("I")
    assert state.oldest_ms(2) == 0
    for nowhere in (3, 2**32 - 1):
        with pytest.raises(CoreRefused):
            state.refs(nowhere)
        with pytest.raises(CoreRefused):
            state.parts(nowhere)
        with pytest.raises(CoreRefused):
            state.find(nowhere, 1)


def test_a_live_message_costs_less_than_100_bytes(stores: PristineStores) -> None:
    """Message, reference, order of arrival and index together, with 1,000 queues of 20 messages."""
    counts = load(stores["thousand-queues"]).counts()
    assert counts.messages == 20_000
    assert counts.memory_bytes < 100 * counts.messages


def test_oldest_message(stores: PristineStores, expected: ExpectedStores) -> None:
    state = load(stores["orders-basic"])
    for queue in expected["orders-basic"]["queues"]:
        stamps = [message["timestamp"] for message in queue["messages"] if message["timestamp"] != 0]
        assert state.oldest_ms(state.register_queue(queue["id"])) == min(stamps, default=0)
