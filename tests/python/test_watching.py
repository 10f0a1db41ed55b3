"""What programs that show a store ask: all queues at once, messages by their place, plans."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import journalfs
from journalfs.errors import NoSuchName, WrongCall
from journalfs.python import glimpses
from tests.mounting import journalfs as command
from tests.mounting import mounted_for_writing


@pytest.fixture(params=["own", "mount"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[journalfs.Store]:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    if request.param == "own":
        with journalfs.open(tmp_path / "store", write=True) as found:
            yield found
        return
    with (
        mounted_for_writing(tmp_path / "store", tmp_path / "mnt") as mount,
        journalfs.open(mount.path, write=True) as found,
    ):
        yield found


def counts(store: journalfs.Store) -> dict[str, tuple[int, int]]:
    return {one.name: (one.messages, one.left) for one in store.overview()}


@pytest.mark.rule("S-440")
def test_all_queues_at_once(store: journalfs.Store) -> None:
    queue = store.create("orders::billing")
    store.create("orders::shipping")
    for number in range(3):
        queue.publish(f"text {number}")
    assert counts(store)["orders::billing"] == (3, 0)
    assert counts(store)["orders::shipping"] == (0, 0)
    queue.remove()
    queue.publish("more")
    assert counts(store)["orders::billing"] == (1, 3), "what came and went is known"
    found = {one.name: one for one in store.overview()}
    assert found["DLQ::DLQ"].letters
    assert not found["orders::billing"].letters
    assert found["orders::billing"].oldest_timestamp
    assert store.disk().total > store.disk().free > 0
    assert store.disk().parts["journal"] > 0
    assert isinstance(store.events(), list)


@pytest.mark.rule("S-441")
def test_messages_by_their_place(store: journalfs.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glimpses, "LINE_BYTES_MAX", 3000)
    monkeypatch.setattr(glimpses, "CHUNK_BYTES", 1000)
    queue = store.create("a::q")
    bodies = [f"text {number}" for number in range(20)] + ["long " * 1000] + ["last"]
    for number, body in enumerate(bodies):
        queue.publish(body, properties={"n": number})
    with queue.glimpses() as found:
        assert found.count() == len(bodies)
        for begin, count in ((0, 5), (3, 4), (18, 9), (21, 1), (22, 3), (0, 99)):
            page = found.page(begin, count)
            assert [found.whole(one).body for one in page] == bodies[begin : begin + count]
            assert [one.message is None for one in page] == [
                len(b) > 3000 for b in bodies[begin : begin + count]
            ]
        queue.publish("new")
        assert found.count() == len(bodies) + 1
        assert found.whole(found.page(len(bodies), 1)[0]).body == "new"
    with queue.where("n >= 19").glimpses() as chosen:
        assert chosen.count() == 3
        assert [chosen.whole(one).body for one in chosen.page(0, 9)] == bodies[19:]
    with store["DLQ::DLQ"].glimpses() as none:
        assert (none.count(), list(none.page(0, 5))) == (0, [])


@pytest.mark.rule("S-442")
def test_a_message_is_replaced_as_a_whole(store: journalfs.Store) -> None:
    queue = store.create("a::q")
    queue.publish("wrong", priority=9, properties={"n": 1}, group_id="g")
    queue.publish("other")
    wrong = next(one for one in queue if one.body == "wrong")
    queue.replace(wrong, "right")
    found = {one.body: one for one in queue}
    assert set(found) == {"right", "other"}
    right = found["right"]
    assert (right.priority, right.properties["n"], right.group_id, right.timestamp) == (
        9, 1, "g", wrong.timestamp,
    )  # fmt: skip
    with pytest.raises(journalfs.NoMessage):
        queue.replace(wrong, "again")
    assert len(queue) == 2, "nothing of it happened"


def test_chosen_messages(store: journalfs.Store) -> None:
    queue, other = store.create("a::q"), store.create("b::q2")
    for number in range(5):
        queue.publish(f"text {number}")
    ids = [one.id or 0 for one in queue]
    assert queue.those(ids[:2]).move("b::q2") == 2
    assert queue.those(ids[2:3]).remove() == 1
    assert store.undo(dry_run=True) == {"a::q": 1}
    assert len(queue) == 2, "that was only asked"
    store.undo()
    assert len(queue) == 3
    assert sorted(str(one.body) for one in other) == ["text 0", "text 1"]
    assert queue.those([1]).remove() == 0
    with pytest.raises(WrongCall, match="no part of a transaction"), store.transaction():
        queue.those(ids).remove()


def test_dead_letters_go_back(store: journalfs.Store) -> None:
    queue = store.create("jobs::jobs")
    for number in range(3):
        queue.publish(f"job {number}")
    letters = store["DLQ::DLQ"]
    for one in queue:
        letters.publish(one, properties={"_AMQ_ORIG_ADDRESS": "jobs", "_AMQ_ORIG_QUEUE": "jobs"})
    letters.publish("stranger")
    letters.publish("late", properties={"_AMQ_ORIG_ADDRESS": "gone", "_AMQ_ORIG_QUEUE": "gone"})
    assert letters.reasons() == {"max-deliveries": 4, "sent": 1}
    plan = letters.redrive(dry_run=True)
    assert plan.sent == {"jobs::jobs": 3}
    assert plan.stayed == {"nothing says where they come from": 1, "there is no queue gone::gone any more": 1}
    assert len(letters) == 5
    first = next(iter(letters)).id or 0
    assert letters.those([first]).redrive(dry_run=True).sent == {"jobs::jobs": 1}
    assert letters.those([first]).redrive().sent == {"jobs::jobs": 1}
    assert letters.redrive().sent == {"jobs::jobs": 2}
    assert (len(queue), len(letters)) == (6, 2)


@pytest.mark.rule("S-440")
def test_a_mount_has_the_counts_as_lines(tmp_path: Path) -> None:
    assert command("create", tmp_path / "store").returncode == 0
    with mounted_for_writing(tmp_path / "store", tmp_path / "mnt") as mount:
        (mount.path / "orders").mkdir()
        (mount.path / "orders" / "o r").mkdir()
        (mount.path / "orders" / "o r" / "in.txt").write_text("one\ntwo\n")
        lines = (mount.path / ".journalfs" / "queues.jsonl").read_text().splitlines()
        found = {one["queue"]: one for one in map(json.loads, lines)}
        assert (found["o r"]["messages"], found["o r"]["left"], found["o r"]["paged"]) == (2, 0, 0)
        assert found["ExpiryQueue"]["letters"]


def test_headers_are_named(store: journalfs.Store) -> None:
    with pytest.raises(TypeError, match="colour"):
        store.create("a::q").publish("x", colour="red")  # type: ignore[call-arg]
    with pytest.raises(NoSuchName):
        store["a::nope"].glimpses()


@pytest.mark.rule("S-440")
def test_queues_that_did_not_change_are_not_counted_again(tmp_path: Path) -> None:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    with journalfs.open(tmp_path / "store", write=True) as writer:
        writer.create("a::q").publish("one")
        with journalfs.open(tmp_path / "store") as store:
            before = store.overview()
            assert store.overview() is before
            writer["a::q"].publish("two")
            end = time.monotonic() + 30
            while (after := store.overview()) is before:
                assert time.monotonic() < end, "what the writer publishes is seen"
            assert counts(store)["a::q"] == (2, 0)
            same = [one.name for one, other in zip(before, after, strict=True) if one is other]
            assert same == ["DLQ::DLQ", "ExpiryQueue::ExpiryQueue"]
