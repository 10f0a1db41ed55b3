"""Positions of streams: exactly what was taken, whatever order messages become live in."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.columns import Array
from journalfs.errors import WrongCall
from journalfs.spark import stream as offsets
from journalfs.spark.stream import Identity, Position


def ids(*numbers: int) -> Array:
    return np.array(numbers, "i8")


def test_nothing_is_taken_at_the_beginning() -> None:
    assert not Position().has(ids(0, 1, 2**62)).any()


def test_what_was_taken_is_and_nothing_else() -> None:
    position = Position().with_ids(ids(3, 9, 1000), ())
    assert position.has(ids(3, 9, 1000)).all()
    assert not position.has(ids(0, 4, 10, 999, 1001)).any()


def test_what_is_awaited_is_not_taken_however_far_it_lies_back() -> None:
    far = 10 * offsets.WINDOW_IDS
    position = Position().with_ids(ids(1, far), [7])
    assert position.has(ids(1, 8)).all(), "an old id that nobody holds never comes"
    assert not position.has(ids(7)).any()
    later = position.with_ids(ids(7), ())
    assert later.has(ids(7)).all()
    assert not later.awaited


def test_a_position_survives_being_written_down_and_is_small() -> None:
    generator = random.Random(1)
    taken = np.array(sorted(generator.sample(range(10**6, 10**6 + 100_000), 50_000)), "i8")
    position = Position().with_ids(taken, [5, 6])
    text = json.dumps(position.as_json())
    assert Position.of_json(json.loads(text)) == position
    assert len(text) < 12_000


@pytest.mark.parametrize(
    "said", [{}, {"highest": 1}, {"highest": 1, "taken": "?", "awaited": [], "skipped": 0}]
)
def test_other_checkpoints_are_refused(said: dict[str, object]) -> None:
    with pytest.raises(WrongCall, match="no stream of format journalfs"):
        Position.of_json(said)


def test_a_store_is_known_by_its_node_or_without_one_by_its_path() -> None:
    of = Identity("n", "p").as_json()
    for same in (Identity("n", "elsewhere"), Identity(None, "p"), Identity("n", "p")):
        same.check({"store": of})
    Identity("n", "p").check({"highest": 1})
    for other in (Identity("m", "p"), Identity(None, "elsewhere")):
        with pytest.raises(WrongCall, match="of another store"):
            other.check({"store": of})


@given(st.lists(st.integers(0, 400), unique=True, max_size=120), st.data())
def test_every_message_is_taken_once(arriving: list[int], data: st.DataObject) -> None:
    """Messages become live in any order, and are taken in batches of any size, while it is known which are
    not decided yet.
    """
    window, offsets.WINDOW_IDS = offsets.WINDOW_IDS, 64  # type: ignore[misc]
    try:
        position, live, got = Position(), [], []
        for number in [*arriving, None, None, None]:
            if number is not None:
                live.append(number)
            new = [one for one in live if not position.has(ids(one))[0]]
            size = len(new) if number is None else data.draw(st.integers(0, len(new)))
            chosen = sorted(new)[:size]
            if chosen:
                coming = set(arriving) - set(live) | set(new[:]) - set(chosen)
                position = Position.of_json(position.with_ids(np.array(chosen, "i8"), coming).as_json())
                got += chosen
        assert sorted(got) == sorted(arriving)
    finally:
        offsets.WINDOW_IDS = window  # type: ignore[misc]
