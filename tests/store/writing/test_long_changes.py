"""Changes of many messages: others go on meanwhile, and each is done whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path

import pytest
import trio

from journalfs.errors import BadEnvelope
from journalfs.ids import MessageId
from journalfs.limits import PIECE_RECORDS, PIECES_IN_FLIGHT_MAX
from journalfs.store.write.store import WritingStore
from tests.broker.settings import ONE_IS_QUICK
from tests.reference.store import load
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, lines_of, queue_of

A, B = ("work", "work.a"), ("work", "work.b")
MANY = 20_000
STEP_MAX = 4 * PIECE_RECORDS
"""What is staged between two looks: the order of tasks in a turn of the loop is by chance, so that may be two
turns, and a turn ends with the piece that completes `PIECE_RECORDS`.
"""


def staged_file(folder: Path, name: str = "in.txt", *, lines: int = MANY) -> tuple[Path, str]:
    path = folder / f"_{name}"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(lines)))
    return path, name


async def moments_of(store: WritingStore, change: Awaitable[object]) -> list[int]:
    """How much was staged at each moment at which others could do something while a change was made."""
    moments: list[int] = []

    async def look() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            moments.append(store.journals.messages.position)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await change
        nursery.cancel_scope.cancel()
    return moments


def longest_step(moments: list[int]) -> int:
    return max(after - before for before, after in pairwise(moments))


async def cancelled_half_way(store: WritingStore, change: Callable[[], Awaitable[object]]) -> None:
    """Begin a change, and cancel it once something of it is staged."""
    begin = store.journals.messages.position
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while store.journals.messages.position == begin:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await change()
        pytest.fail("it was not cancelled")


async def test_others_go_on_while_many_messages_come_and_go(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        file = staged_file(tmp_path)
        published = await moments_of(store, store.publish_files("work", "work.a", [file]))
        assert published[-1] - published[0] > 2 * MANY
        assert longest_step(published) <= STEP_MAX < MANY
        assert bodies_of(store, "work.a") == [f"line {number}" for number in range(MANY)]
        moved = await moments_of(store, store.move_part(A, ".all.jsonl", B))
        assert longest_step(moved) <= STEP_MAX
        assert bodies_of(store, "work.b") == [f"line {number}" for number in range(MANY)]
        removed = await moments_of(store, store.acknowledge_part(B, ".all.jsonl"))
        assert longest_step(removed) <= STEP_MAX
        assert not len(queue_of(store, "work.a"))
        assert not len(queue_of(store, "work.b"))
        await store.published()
        assert store.journals.messages.totals().live_records == 0


def counts_of_files(store: WritingStore) -> dict[int, tuple[int, int]]:
    """Of each journal file, by its id: what of it is live, and what nothing cancels."""
    files = store.journals.messages.upkeep.explain()
    return {file.file_id: (file.live_adds, file.uncancelled) for file in files}


@pytest.mark.rule("S-155")
async def test_the_end_of_a_long_change_counts_at_once(writable: Writable, tmp_path: Path) -> None:
    """Though it is settled bit by bit: the records that it made are there for the next one, in the order of
    commits, and as a load counts them.
    """
    async with writable.open() as store:
        messages = store.journals.messages
        many, one = [staged_file(tmp_path)], [staged_file(tmp_path, "one.txt", lines=1)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.publish_files, "work", None, many)
            while not messages.ledger.transactions():
                await trio.lowlevel.checkpoint()
            await store.publish_files("work", "work.a", one)
        wanted = ["line 0", *(f"line {number}" for number in range(MANY))]
        assert bodies_of(store, "work.a") == wanted
        assert bodies_of(store, "work.b") == wanted[1:]
        await cancelled_half_way(store, lambda: store.publish_files("work", None, many))
        assert await store.acknowledge_part(A, ".all.jsonl") == MANY + 1
        assert (messages.totals().live_records, bodies_of(store, "work.b")) == (MANY, wanted[1:])
        counted = counts_of_files(store)
    async with writable.open() as store:
        assert bodies_of(store, "work.b") == wanted[1:]
        found = counts_of_files(store)
        reclaimed = counted.keys() - found.keys()
        assert found.items() >= {name: counted[name] for name in counted.keys() & found.keys()}.items()
        assert {counted[name] for name in reclaimed} <= {(0, 0)}
        assert len(found) > len(reclaimed)


@pytest.mark.parametrize("writable", ONE_IS_QUICK, indirect=True)
async def test_what_is_cancelled_half_way_did_not_happen(writable: Writable, tmp_path: Path) -> None:
    file = staged_file(tmp_path)
    async with writable.open() as store:
        known = store.core.loader.state.counts().messages
        await cancelled_half_way(store, lambda: store.publish_files("work", None, [file]))
        await store.published()
        assert not len(queue_of(store, "work.a"))
        state = store.core.loader.state
        while state.settle(PIECE_RECORDS):
            pass
        assert state.counts().messages == known
        await store.publish_files("work", "work.a", [file])
        changes = (
            lambda: store.acknowledge_part(A, ".all.jsonl"),
            lambda: store.move_part(A, ".all.jsonl", B),
        )
        for change in changes:
            await cancelled_half_way(store, change)
            await store.published()
            assert len(queue_of(store, "work.a")) == MANY
            assert not len(queue_of(store, "work.b"))
        assert await store.move_part(A, ".all.jsonl", B) == MANY, "nothing of it is claimed any more"
    found = {one["name"]: one["messages"] for one in load(writable.root, writable.clock.now_ms())["queues"]}
    assert [one["body"] for one in found["work.b"]] == [f"line {number}" for number in range(MANY)]
    assert found["work.a"] == []


async def test_one_bad_line_at_the_end_refuses_all(writable: Writable, tmp_path: Path) -> None:
    path = tmp_path / "_in.jsonl"
    good = b"".join(b'{"body": "%d"}\n' % number for number in range(3000))
    async with writable.open() as store:
        path.write_bytes(good + b'{"no": "envelope"}\n')
        with pytest.raises(BadEnvelope, match="line 3001"):
            await store.publish_files("work", None, [staged_file(tmp_path, lines=9), (path, "in.jsonl")])
        await store.published()
        assert not len(queue_of(store, "work.a"))
        path.write_bytes(good)
        await store.publish_files("work", None, [staged_file(tmp_path, lines=9), (path, "in.jsonl")])
        assert len(queue_of(store, "work.a")) == len(queue_of(store, "work.b")) == 3009
        assert bodies_of(store, "work.a")[8:10] == ["line 8", "0"]


async def test_duplicate_ids_of_what_is_cancelled_may_come_again(writable: Writable, tmp_path: Path) -> None:
    def line(number: int) -> bytes:
        return b'{"body": "%d", "duplicateId": "id-%d"}\n' % (number, number)

    path = tmp_path / "_in.jsonl"
    path.write_bytes(b"".join(map(line, range(MANY))))
    results: list[str] = []

    async def publish_one(store: WritingStore) -> None:
        publisher = store.publisher("work", "work.a", "one.jsonl")
        await publisher.write(line(5))
        results.append("published")

    async with writable.open() as store:
        async with trio.open_nursery() as nursery:
            begin = store.journals.messages.position
            with trio.CancelScope() as scope:

                async def meanwhile() -> None:
                    while store.journals.messages.position == begin:
                        await trio.lowlevel.checkpoint()
                    nursery.start_soon(publish_one, store)
                    for _ in range(4):
                        await trio.lowlevel.checkpoint()
                    assert not results, "what becomes of the id is not known yet"
                    scope.cancel()

                nursery.start_soon(meanwhile)
                await store.publish_files("work", "work.a", [(path, "in.jsonl")])
        assert bodies_of(store, "work.a") == ["5"]
        await store.publish_files("work", "work.a", [(path, "in.jsonl")])
        assert len(queue_of(store, "work.a")) == MANY


@pytest.mark.parametrize("writable", ONE_IS_QUICK, indirect=True)
async def test_a_journal_compacted_half_way(writable: Writable, tmp_path: Path) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = "1M"\n'
    )
    async with writable.open() as store:
        await store.publish_files("work", "work.b", [staged_file(tmp_path, lines=100)])
        begin, compacted = store.journals.messages.position, 0

        async def compact() -> None:
            nonlocal compacted
            while store.journals.messages.position - begin < MANY:
                await trio.lowlevel.checkpoint()
            await store.journals.messages.upkeep.compact()
            compacted += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact)
            await store.publish_files("work", "work.a", [staged_file(tmp_path)])
        begin = store.journals.messages.position
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact)
            assert await store.move_part(A, ".all.jsonl", B) == MANY
        assert compacted == 2
        expected = [f"line {number}" for number in (*range(100), *range(MANY))]
        assert bodies_of(store, "work.b") == expected
        assert not store.core.damage()
    found = {one["name"]: one["messages"] for one in load(writable.root, writable.clock.now_ms())["queues"]}
    assert [one["body"] for one in found["work.b"]] == expected


async def test_each_message_is_taken_away_once(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        await store.publish_files("work", "work.a", [staged_file(tmp_path)])
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
        counts: list[int] = []

        async def note(change: Awaitable[int]) -> None:
            counts.append(await change)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, store.acknowledge_part(A, ".all.jsonl"))
            for _ in range(30):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(note, store.acknowledge(A, ids[100:200]))
            nursery.start_soon(note, store.move(A, [ids[MANY - 1]], B))
        assert sorted(counts) == [0, 0, MANY]
        assert not len(queue_of(store, "work.b"))


async def test_messages_go_to_queues_in_turn_across_pieces(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        for queue in ("work.a", "work.b"):
            await store.set_attribute("work", queue, "user.journalfs.routing-type", b"ANYCAST")
        await store.publish_files("work", None, [staged_file(tmp_path)])
        assert bodies_of(store, "work.a") == [f"line {number}" for number in range(0, MANY, 2)]
        assert bodies_of(store, "work.b") == [f"line {number}" for number in range(1, MANY, 2)]
        await store.journals.messages.upkeep.tidy()
        assert not store.journals.messages.upkeep.compactions, "all of it lives"


# ---- where something else than plain records becomes of them ----

PAGED = 10_000


@pytest.fixture
def paging(writable: Writable) -> Writable:
    """The address pages as soon as it holds a message."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\nmax-size-messages = 1\npage-size-bytes = "64K"\n')
    return writable


async def begin_paging(store: WritingStore) -> None:
    publisher = store.publisher("work", "work.b", "in.txt")
    for _ in range(2):
        await publisher.write(b"before\n")
    await publisher.finish()


def on_disk(writable: Writable) -> dict[str, list[str]]:
    found = load(writable.root, writable.clock.now_ms())["queues"]
    return {queue["name"]: [one["body"] for one in queue["messages"]] for queue in found}


async def test_many_messages_come_to_pages_and_go(paging: Writable, tmp_path: Path) -> None:
    texts = [f"line {number}" for number in range(PAGED)]
    async with paging.open() as store:
        await begin_paging(store)
        records = store.core.loader.state.counts().messages
        file = staged_file(tmp_path, lines=PAGED)
        published = await moments_of(store, store.publish_files("work", "work.a", [file]))
        assert len(set(published)) < PAGED // 64, "the journal says no more than that they count"
        assert len(published) > PAGED // 64
        assert store.core.loader.state.counts().messages == records, "all are in pages"
        assert bodies_of(store, "work.a") == texts
        moved = await moments_of(store, store.move_part(A, ".all.jsonl", B))
        assert len(moved) > PAGED // 64
        assert bodies_of(store, "work.b") == ["before", "before", *texts]
        assert not len(queue_of(store, "work.a"))
    assert on_disk(paging) == {"work.a": [], "work.b": ["before", "before", *texts]}
    async with paging.open() as store:
        removed = await moments_of(store, store.acknowledge_part(B, ".all.jsonl"))
        assert longest_step(removed) <= PAGED
        assert not len(queue_of(store, "work.b"))
        with trio.fail_after(60):
            while [one for one in (paging.root / "paging").rglob("*.page") if one.stat().st_size]:
                await trio.lowlevel.checkpoint()


async def test_what_is_cancelled_half_way_into_pages_did_not_happen(paging: Writable, tmp_path: Path) -> None:
    def pages(store: WritingStore) -> int:
        total_bytes = 0
        for path in (store.core.root / "paging").rglob("*.page"):
            with suppress(FileNotFoundError):  # Those that are no longer needed are being deleted.
                total_bytes += path.stat().st_size
        return total_bytes

    async with paging.open() as store:
        await begin_paging(store)
        file = staged_file(tmp_path, lines=PAGED)

        async def cancelled(change: Awaitable[object]) -> None:
            before = pages(store)
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    while pages(store) == before:
                        await trio.lowlevel.checkpoint()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(watch)
                await change
                pytest.fail("it was not cancelled")

        await cancelled(store.publish_files("work", "work.a", [file]))
        await store.published()
        assert not len(queue_of(store, "work.a"))
        await store.publish_files("work", "work.a", [file])
        await cancelled(store.move_part(A, ".all.jsonl", B))
        await store.published()
        assert len(queue_of(store, "work.a")) == PAGED
        assert len(queue_of(store, "work.b")) == 2
        assert await store.move_part(A, ".all.jsonl", B) == PAGED
    assert len(on_disk(paging)["work.b"]) == PAGED + 2


async def test_duplicate_ids_of_many_messages_in_pages(paging: Writable, tmp_path: Path) -> None:
    path = tmp_path / "_in.jsonl"
    path.write_bytes(b"".join(b'{"body": "%d", "duplicateId": "id-%d"}\n' % (n, n) for n in range(1000)))
    async with paging.open() as store:
        await begin_paging(store)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(store.publish_files, "work", "work.a", [(path, "in.jsonl")])
        assert bodies_of(store, "work.a") == [str(number) for number in range(1000)], "each came once"
    assert on_disk(paging)["work.a"] == [str(number) for number in range(1000)]


async def test_many_messages_for_a_ring(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.ring-size", b"5")
        await store.publish_files("work", "work.b", [staged_file(tmp_path, lines=3000)])
        assert await store.move_part(B, ".all.jsonl", A) == 3000
        assert bodies_of(store, "work.a") == [f"line {number}" for number in range(2995, 3000)]
        await store.publish_files("work", None, [staged_file(tmp_path, lines=4000)])
        assert bodies_of(store, "work.a") == [f"line {number}" for number in range(3995, 4000)]
        assert bodies_of(store, "work.b") == [f"line {number}" for number in range(4000)]
    assert on_disk(writable)["work.a"] == [f"line {number}" for number in range(3995, 4000)]


async def test_a_queue_becomes_a_ring_while_many_messages_come(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        begin = store.journals.messages.position

        async def become_a_ring() -> None:
            while store.journals.messages.position == begin:
                await trio.lowlevel.checkpoint()
            await store.set_attribute("work", "work.a", "user.journalfs.ring-size", b"5")
            await publish_line(store, b"during\n")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(become_a_ring)
            await store.publish_files("work", "work.a", [staged_file(tmp_path)])
        await publish_line(store, b"after\n")
        assert len(bodies_of(store, "work.a")) == 5
        assert bodies_of(store, "work.a")[-1] == "after"


async def publish_line(store: WritingStore, line: bytes) -> None:
    await publish_file(store, "work", "work.a", "in.txt", line)


@pytest.mark.parametrize("writable", ONE_IS_QUICK, indirect=True)
async def test_little_of_a_long_change_waits_for_the_disk(writable: Writable, tmp_path: Path) -> None:
    async with writable.open() as store:
        writer, waiting_max = store.journals.messages, 0

        async def look() -> None:
            nonlocal waiting_max
            while True:
                await trio.lowlevel.checkpoint()
                waiting_max = max(waiting_max, writer.position - writer.committer.reached_position)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            before = writer.position
            await store.publish_files("work", "work.a", [staged_file(tmp_path, lines=12 * MANY)])
            assert writer.position - before > 4 * PIECES_IN_FLIGHT_MAX * PIECE_RECORDS
            nursery.cancel_scope.cancel()
        # A message is two records, and a piece is as many messages.
        assert 0 < waiting_max <= 2 * PIECE_RECORDS * (PIECES_IN_FLIGHT_MAX + 2)


class Until(list[tuple[Path, str]]):
    """Files of which those that come after a moment are left out: how fast a disk is does not matter then."""

    def __init__(self, done: Callable[[], bool], files: Sequence[tuple[Path, str]]) -> None:
        super().__init__(files)
        self._done = done

    def __iter__(self) -> Iterator[tuple[Path, str]]:
        return takewhile(lambda _: not self._done(), super().__iter__())


async def test_others_publish_and_take_while_many_messages_come(writable: Writable, tmp_path: Path) -> None:
    """They are served, and not only looked at: their own changes are done before the long one is."""
    async with writable.open() as store:
        done: list[str] = []

        async def others() -> None:
            begin = store.journals.messages.position
            while store.journals.messages.position == begin:
                await trio.lowlevel.checkpoint()
            for number in range(3):
                await publish_line(store, b"%d\n" % number)
            ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
            assert await store.acknowledge(A, ids[:2]) == 2
            short = staged_file(tmp_path, "short.txt", lines=1)
            await store.publish_files("work", "work.a", [short])
            done.append("others")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            file = staged_file(tmp_path)
            await store.publish_files("work", "work.b", Until(lambda: bool(done), [file] * 60))
            done.append("long")
        assert done == ["others", "long"]
        assert bodies_of(store, "work.a") == ["2", "line 0"]
