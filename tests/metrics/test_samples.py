"""Samples: the many queues of a store joined, and what came and left a queue between two looks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from journalfs.engine.state_types import QueueInfo
from journalfs.engine.waiting import Slices
from journalfs.live.virtual import made_at_once
from journalfs.metrics.flows import Flow, Flows
from journalfs.metrics.samples import OTHERS, Samples

INFO = QueueInfo(
    slot=0, queue_id=7, live_count=0, delivering_count=0, live_bytes=0, owned=0, owned_large=0, owned_bytes=0,
    left=0, version=0, next_part=1,
)  # fmt: skip


def look(flows: Flows, *, live: int, left: int, paged: int = 0, told: int = 0, epoch: int = 0) -> Flow:
    return flows.look(replace(INFO, live_count=live, left=left), paged, told, epoch)


def test_queues_beyond_the_deepest_are_one() -> None:
    found = Samples()
    for number, (depth, age_s) in enumerate([(5, 1), (9, 2), (7, 30), (0, 0), (7, 4)]):
        labels = f"a{number}", "q"
        found.add("journalfs_queue_messages", depth, *labels)
        found.add("journalfs_queue_oldest_age_seconds", age_s, *labels)
        found.add("journalfs_address_page_files", 2, labels[0])
    found.add("journalfs_up", 1)
    top = made_at_once(found.top(2, Slices.none())).values
    assert top["journalfs_queue_messages"] == {("a1", "q"): 9, ("a2", "q"): 7, (OTHERS, OTHERS): 12}
    ages = top["journalfs_queue_oldest_age_seconds"]
    assert ages == {("a1", "q"): 2, ("a2", "q"): 30, (OTHERS, OTHERS): 4}, "the oldest of the others"
    assert top["journalfs_address_page_files"] == {("a1",): 2, ("a2",): 2, (OTHERS,): 6}
    assert top["journalfs_up"] == {(): 1}
    assert made_at_once(found.top(5, Slices.none())) is found
    assert made_at_once(found.top(0, Slices.none())).values["journalfs_queue_messages"] == {
        (OTHERS, OTHERS): 28
    }


@pytest.mark.rule("S-422")
def test_what_came_and_left_is_counted_between_looks() -> None:
    flows = Flows()
    assert look(flows, live=10, left=400) == Flow(0, 0), "what was before is not counted"
    assert look(flows, live=12, left=403) == Flow(5, 3)
    assert look(flows, live=12, left=403) == Flow(5, 3)
    assert look(flows, live=2, left=413) == Flow(5, 13)


def test_messages_in_pages_count_by_the_difference() -> None:
    flows = Flows()
    look(flows, live=1, left=0, paged=100)
    assert look(flows, live=1, left=0, paged=130) == Flow(30, 0)
    assert look(flows, live=1, left=0, paged=90) == Flow(30, 40)


def test_a_journal_read_anew_makes_no_jump() -> None:
    flows = Flows()
    look(flows, live=10, left=5)
    assert look(flows, live=11, left=90_000, epoch=1) == Flow(1, 0)
    assert look(flows, live=11, left=90_002, epoch=1) == Flow(3, 2)


def test_what_expired_was_not_acknowledged() -> None:
    flows = Flows()
    look(flows, live=10, left=0, told=3)
    assert look(flows, live=10, left=0, told=5) == Flow(0, 0), "told of before the journal said so"
    assert look(flows, live=7, left=3, told=5) == Flow(0, 1)
