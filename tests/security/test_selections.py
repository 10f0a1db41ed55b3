"""Who asks for selections that are dear does not hold up others, nor take more memory than all may have."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.store import open_store
from journalfs.views.views import SELECTION_BYTES, SELECTIONS, QueueView
from tests.mounting import MountedStore, mounted_for_writing
from tests.security.adversary import asking_for, look, p99, publish, timed, write
from tests.writing.conftest import new_store

HUNDRED_ORS = " OR ".join(f"n={n}" for n in range(100))
SELECTORS = ("JMSTimestamp > 0", HUNDRED_ORS, "n LIKE '%25_a' OR AMQAddress = 'big'")


def filled(mount: MountedStore, messages: int) -> Path:
    """The directory of a queue with as many lines; beside it there is a small one."""
    for name in ("big", "small"):
        (mount.path / name / name).mkdir(parents=True)
    lines = mount.path.parent / "lines.txt"
    lines.write_text("".join(f"message {n}\n" for n in range(messages)))
    publish(lines, mount.path / "big/in.txt")
    (mount.path / "small/in.txt").write_text("one\ntwo\n")
    return mount.path / "big/big"


def waits(mount: MountedStore) -> tuple[list[float], list[float]]:
    """Of an honest reader, and of one who publishes."""
    small = mount.path / "small"
    return timed(lambda: look(small / "small"), 200), timed(lambda: write(small), 40)


@pytest.mark.mount
@pytest.mark.rule("S-150")
def test_new_selections_hold_nobody_up(attacked: MountedStore) -> None:
    queue = filled(attacked, 30_000)
    alone = waits(attacked)
    with asking_for(queue, SELECTORS):
        beside = waits(attacked)
    for before, meanwhile in zip(alone, beside, strict=True):
        assert statistics.median(meanwhile) < 10 * statistics.median(before) + 0.05
    assert attacked.control("status.json")["loopLagMs"]["p99"] < 50


@pytest.mark.mount
@pytest.mark.long
@pytest.mark.rule("S-150")
def test_new_selections_over_many_messages_hold_nobody_up(attacked: MountedStore) -> None:
    queue = filled(attacked, 250_000)
    alone = waits(attacked)
    with asking_for(queue, SELECTORS):
        beside = waits(attacked)
    for before, meanwhile in zip(alone, beside, strict=True):
        # On a machine that has nothing else to do the first counts.
        assert p99(meanwhile) < max(0.05, 4 * p99(before))


@pytest.mark.mount
@pytest.mark.rule("S-150")
def test_a_selection_has_all_that_it_chose_and_what_comes(attacked: MountedStore) -> None:
    queue = filled(attacked, 2_000)
    chosen = queue / ".where" / "AMQAddress = 'big' AND JMSPriority = 4"
    assert len((chosen / ".all.jsonl").read_bytes().splitlines()) == 2_000
    assert len(os.listdir(chosen / ".messages")) == 2_000
    (attacked.path / "big/in.txt").write_text("one more\n")
    assert len((chosen / ".all.jsonl").read_bytes().splitlines()) == 2_001
    (chosen / ".all.jsonl").unlink()
    assert not os.listdir(queue / ".messages")


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueView]:
    """Of a store that was written by a mount."""
    folder = tmp_path_factory.mktemp("queue")
    store = new_store(folder / "store")
    with mounted_for_writing(store, folder / "mnt") as mount:
        filled(mount, 20_000)
    with closing(open_store(store)) as opened:
        address = opened.address("big")
        assert address is not None
        found = address.queue("big")
        assert found is not None
        yield found


def ids(view: QueueView) -> Sequence[int]:
    return view.message_ids(".all.jsonl")


@pytest.mark.mount
@pytest.mark.rule("S-151")
def test_selections_share_one_budget_and_are_found_again(
    queue: QueueView, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 2 * SELECTION_BYTES + 64 * 1024
    monkeypatch.setattr(type(queue.content.core), "selection_bytes_max", most)
    first = queue.where("JMSPriority = 4 AND n IS NULL")
    assert len(ids(first)) == 20_000
    for n in range(20):
        assert not ids(queue.where(f"n = {n}"))
        queue.where(f"n = {n}")
        assert SELECTIONS.size_bytes <= most
    again = queue.where("JMSPriority = 4 AND n IS NULL")
    assert again is not first
    assert ids(again) == ids(first), "who has the one that went finds it all again"


@pytest.mark.mount
@pytest.mark.rule("S-151")
def test_a_selection_takes_bits_for_a_message(queue: QueueView) -> None:
    chosen = queue.where("JMSTimestamp > 0")
    assert len(ids(chosen)) == 20_000
    assert chosen.selected is not None
    assert chosen.selected.size_bytes < 20_000
    assert chosen.kept_bytes < 2 * SELECTION_BYTES + 20_000


@pytest.mark.mount
@pytest.mark.rule("S-150")
async def test_a_selection_that_nobody_waits_for_is_given_up(queue: QueueView) -> None:
    chosen = queue.where("JMSTimestamp > 1")
    with trio.move_on_after(0) as scope:
        await chosen.find()
    assert scope.cancelled_caught
    assert not chosen.is_found()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(chosen.find)
    assert chosen.is_found()
    assert len(ids(chosen)) == 20_000
