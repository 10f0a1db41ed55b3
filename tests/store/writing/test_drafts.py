"""Transactions that are begun here, cut off at every step: a draft with what it held, or all of it done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journalfs.api import Send
from journalfs.broker.limits.admission import FOREVER
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of, queue_of
from tests.store.writing.cuts import Cuts, lay

A, B = ("work", "work.a"), ("work", "work.b")
XID = "Z2xvYmFsBwAAAA=="

Step = Callable[[WritingStore], Awaitable[object]]


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    return Writable(little_store, "NIO")


async def publish(store: WritingStore, queue: str, content: bytes, name: str = "in.txt") -> None:
    await publish_file(store, "work", queue, name, content)


def sends(store: WritingStore) -> list[Send]:
    draft = store.transactions.draft("t")
    assert draft is not None
    files = sorted(draft.staged.iterdir())
    return [Send("work", "work.b", [(file, file.name) for file in files])]


async def begin(store: WritingStore) -> None:
    await store.transactions.begin("t")


async def fill(store: WritingStore) -> None:
    await begin(store)
    draft = store.transactions.draft("t")
    assert draft is not None
    (draft.staged / "in.txt").write_text("new\n")
    (draft.staged / "whole").write_text("large " * 50_000)
    await hold(store)
    await store.transactions.hold("t", A, ids_of(store)[:1], B)


async def hold(store: WritingStore) -> None:
    await store.transactions.hold("t", A, ids_of(store)[:1], None)


async def commit(store: WritingStore) -> None:
    await store.transactions.commit("t", sends(store), FOREVER)


async def prepare(store: WritingStore) -> None:
    await store.transactions.prepare("t", XID, sends(store), FOREVER)


async def roll_back(store: WritingStore) -> None:
    await store.transactions.roll_back("t")


async def decide(store: WritingStore) -> None:
    await store.prepared.decide(XID, committed=True)


State = tuple[list[str], list[str], int, bool, int, int]


def state_of(store: WritingStore) -> State:
    """What is in both queues, what is out of sight in the first, what there is of transactions, and how many
    of them were decided.
    """

    def shown(queue: str) -> list[str]:
        return sorted(body[:10] for body in bodies_of(store, queue))

    draft, aside = store.transactions.draft("t"), queue_of(store, "work.a").delivering()
    prepared = store.status()["preparedTransactions"]
    assert isinstance(prepared, int)
    assert draft is None or not draft.gone
    decided = len(store.prepared.decided(committed=True))
    return shown("work.a"), shown("work.b"), len(aside), draft is not None, prepared, decided


STEPS: dict[str, list[Step]] = {
    "begin": [begin],
    "hold": [begin, hold],
    "commit": [fill, commit],
    "roll back": [fill, roll_back],
    "prepare": [fill, prepare],
    "decide": [fill, prepare, decide],
}


@pytest.mark.rule("S-262")
@pytest.mark.parametrize("step", STEPS)
async def test_cut_off_anywhere_a_step_is_done_or_is_not(
    writable: Writable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    cuts = Cuts(writable.root, "large-messages", without="journalfs/index")
    cuts.watch(monkeypatch)
    async with writable.open() as store:
        await publish(store, "work.a", b"one\ntwo\nthree\n")
        *before, last = STEPS[step]
        for one in before:
            await one(store)
        was = state_of(store)
        cuts.begin()
        await last(store)
        await store.published()
        cuts.end()
        done = state_of(store)
    monkeypatch.undo()
    assert was != done
    seen: list[State] = []
    for number, files in enumerate(cuts.states()):
        cut = Writable(replace(writable.little, root=lay(files, tmp_path / f"cut-{number}")), "NIO")
        for _ in range(2):  # a draft that is found says the same the next time
            async with cut.open() as store:
                seen.append(state_of(store))
                draft = store.transactions.draft("t")
                if draft is not None:
                    await store.transactions.roll_back("t")
                    assert state_of(store)[0] == ["one", "three", "two"]
                    await store.transactions.begin("t")
                    break
    decided = set(map(str, seen))
    undecided_in_between = str((*done[:5], 0))  # the note of a decision is a record of its own
    assert {str(was), str(done)} - {str(was)} <= decided <= {str(was), str(done), undecided_in_between}


@pytest.mark.rule("S-259")
@pytest.mark.parametrize("pages", [False, True])
async def test_messages_in_pages_are_held_and_sent_too(writable: Writable, *, pages: bool) -> None:
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.q")
        for address in ("work", "other") if pages else ():
            await store.set_attribute(address, None, "user.journalfs.max-size-messages", b"1")
        await publish(store, "work.a", b"".join(b"%d\n" % n for n in range(20)))
        await begin(store)
        ids = ids_of(store)
        assert await store.transactions.hold("t", A, ids[3:8], None) == 5
        assert await store.transactions.hold("t", A, ids[8:12], ("other", "other.q")) == 4
        assert await store.transactions.hold("t", A, ids[12:14], B) == 2
        assert await store.transactions.give_back("t", A, [MessageId(ids[4])]) == 1
        rest = [str(n) for n in range(20) if n == 4 or not 3 <= n < 14]
        assert sorted(bodies_of(store)) == sorted(rest)
    async with writable.open() as store:
        assert sorted(bodies_of(store)) == sorted(rest)
        await commit_nothing(store)
        assert sorted(bodies_of(store)) == sorted(rest)
        assert bodies_of(store, "other.q", "other") == ["8", "9", "10", "11"]
        assert bodies_of(store, "work.b") == ["12", "13"]
    async with writable.open() as store:
        assert sorted(bodies_of(store)) == sorted(rest)
        assert len(lines_of(store, "other.q", "other")) == 4
        for queue, name, address in ((A, "work.a", "work"), (("other", "other.q"), "other.q", "other")):
            await store.acknowledge(queue, ids_of(store, name, address))
        assert store.status()["messages"] == 2


async def commit_nothing(store: WritingStore) -> None:
    await store.transactions.commit("t", [], FOREVER)


@pytest.mark.rule("S-259")
async def test_what_is_sent_takes_the_place_of_others_in_a_ring(writable: Writable) -> None:
    async with writable.open() as store:
        await publish(store, "work.a", b"one\ntwo\n")
        await store.set_attribute(*B, "user.journalfs.ring-size", b"2")
        await publish(store, "work.b", b"three\nfour\n")
        await begin(store)
        draft = store.transactions.draft("t")
        assert draft is not None
        (draft.staged / "in.txt").write_text("five\n")
        await store.transactions.hold("t", A, ids_of(store)[:1], B)
        await commit(store)
        assert sorted(bodies_of(store, "work.b")) == ["five", "one"]
        assert bodies_of(store) == ["two"]


@pytest.mark.rule("S-259", "S-262")
async def test_what_is_held_survives_compaction_and_duplicate_ids_count(writable: Writable) -> None:
    line = b'{"type":"text","body":"once","properties":{"_AMQ_DUPL_ID":"d-1"}}\n'
    async with writable.open() as store:
        await publish(store, "work.a", b"one\ntwo\n")
        await begin(store)
        await store.transactions.hold("t", A, ids_of(store)[:1], None)
        await store.journals.messages.upkeep.compact()
        assert bodies_of(store) == ["two"]
        draft = store.transactions.draft("t")
        assert draft is not None
        (draft.staged / "in.jsonl").write_bytes(line)
        await commit(store)
        await publish(store, "work.b", line, "in.jsonl")
        assert (bodies_of(store), bodies_of(store, "work.b")) == (["two"], ["once"])
