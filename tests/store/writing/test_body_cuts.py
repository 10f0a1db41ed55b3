"""Large bodies in every path: cut off anywhere, none is left behind, and none that is needed is gone."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from journalfs.clock import FakeClock
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, ids_of, lines_of
from tests.store.writing.cuts import Cuts, Files, lay

A, B = ("work", "work.a"), ("work", "work.b")
QUEUES = {"work.a": "work", "work.b": "work", "dead": "dead"}
LARGE = "large-messages"
OWN = "journalfs"
WAIT_S_MAX = 20

Content = dict[str, list[str]]
"""Bodies by queue."""
Step = Callable[[WritingStore, FakeClock], Awaitable[object]]


def line(name: str, **more: object) -> bytes:
    return json.dumps({"body": name * 50, "largeMessage": True, **more}).encode() + b"\n"


async def publish(store: WritingStore, *lines: bytes, queue: str | None = "work.a") -> None:
    await publish_file(store, "work", queue, "in.jsonl", b"".join(lines))


def content_of(store: WritingStore) -> Content:
    """Raises where a body is not what it was."""
    found: Content = {}
    for queue, address in QUEUES.items():
        lines = [json.loads(one) for one in lines_of(store, queue, address)]
        assert all("damage" not in one for one in lines), lines
        bodies = [one["body"] if "body" in one else b64decode(one["body_base64"]).decode() for one in lines]
        found[queue] = [body[:1] for body in bodies]
        assert all(body == body[:1] * 50 for body in bodies)
    return found


# ---- what is done ----


async def publish_one(store: WritingStore, clock: FakeClock) -> None:
    await publish(store, line("n"))


async def publish_some_to_all(store: WritingStore, clock: FakeClock) -> None:
    await publish(store, line("n"), line("m"), queue=None)


async def move(store: WritingStore, clock: FakeClock) -> None:
    await store.move(A, ids_of(store)[:1], B)


async def move_copies(store: WritingStore, clock: FakeClock) -> None:
    """One that the other queue has already."""
    await store.move(A, ids_of(store)[-1:], B)


async def publish_a_file(store: WritingStore, clock: FakeClock) -> None:
    """Its body gets a second name, and loses the first."""
    publisher = store.publisher("work", "work.a", "in.bin")
    await publisher.write(b"f" * 50)
    await publisher.flush()
    await publisher.finish()


async def acknowledge(store: WritingStore, clock: FakeClock) -> None:
    await store.acknowledge(A, ids_of(store)[:2])


async def expire(store: WritingStore, clock: FakeClock) -> None:
    clock.advance(by_ms=1000)
    await store.expire_due()


async def send_to_dead_letters(store: WritingStore, clock: FakeClock) -> None:
    await store.send_to_dead_letters(A, ids_of(store)[:2])


async def take(store: WritingStore, clock: FakeClock) -> None:
    consumer = store.consumer(A)
    delivery = consumer.take()
    assert delivery is not None
    await delivery.acknowledge()
    await consumer.close()


async def take_in_vain(store: WritingStore, clock: FakeClock) -> None:
    consumer = store.consumer(A)
    for _ in range(2):
        delivery = consumer.take()
        assert delivery is not None
        await delivery.give_back(failed=True)
    await consumer.close()


async def replace(store: WritingStore, clock: FakeClock) -> None:
    await publish(store, line("n"), queue="work.b")


async def acknowledge_all(store: WritingStore, clock: FakeClock) -> None:
    await store.acknowledge_part(A, ".all.jsonl")


async def bodies_become_right(store: WritingStore) -> None:
    """Bodies of what is gone go when there is time for it, those of what is in pages when their page goes."""
    with trio.move_on_after(WAIT_S_MAX):
        while bodies(store) - bodies_in_pages(store) > live_bodies(store):
            await store.published()  # they go once the deletes of their messages are durable
            await trio.lowlevel.checkpoint()
    assert live_bodies(store) <= bodies(store) <= live_bodies(store) | bodies_in_pages(store)


def bodies(store: WritingStore) -> set[str]:
    return {path.name for path in (store.core.root / LARGE).iterdir()}


def bodies_in_pages(store: WritingStore) -> set[str]:
    store.look_now()  # a listing of pages alone would keep the change from what is shown
    scans = [paged.scan(number) for paged in store.core.pages.values() for number in paged.numbers()]
    return {f"{scan.message_ids()[index]}.msg" for scan in scans for index, _ in scan.large()}


def live_bodies(store: WritingStore) -> set[str]:
    """Each message once, however many queues have it."""
    return {
        f"{json.loads(one)['id']}.msg"
        for queue, address in QUEUES.items()
        for one in lines_of(store, queue, address)
    }


STEPS = (
    publish_one,
    publish_some_to_all,
    publish_a_file,
    move,
    move_copies,
    acknowledge,
    acknowledge_all,
    expire,
    send_to_dead_letters,
    take,
    take_in_vain,
    replace,  # what lets go of older messages never pages (S-107)
)

QUICK = (
    (publish_one, False),
    (publish_a_file, False),
    (move_copies, False),
    (move, True),
    (expire, False),
    (take_in_vain, True),
    (acknowledge_all, True),
    (replace, False),
)

# ---- cutting ----

SETTINGS = """
journal-file-size = 16384
min-large-message-size = 40
[address-settings."work"]
dead-letter-address = "dead"
expiry-address = "dead"
max-delivery-attempts = 2
"""


@pytest.fixture
def large_store(writable: Writable) -> Writable:
    with (writable.root / "journalfs.toml").open("a") as file:
        file.write(SETTINGS)
    return writable


async def reopened(root: Path, clock: FakeClock) -> Content:
    """Of a store that was cut off, once it was opened. What is there is right then."""
    reader = open_store(root, clock=clock, index=False)
    orphans = set(reader.orphaned_bodies())
    reader.close()
    store = open_for_writing(root, clock=clock, index=False)
    try:
        content = content_of(store)
        aside = root / OWN / "orphans"
        set_aside = {path.name for path in aside.iterdir()} if aside.exists() else set()
        assert set_aside == orphans, "what `check` finds is what is set aside"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            await store.published()
            await bodies_become_right(store)
            for queue, address in QUEUES.items():
                await store.acknowledge_part((address, queue), ".all.jsonl")
            await bodies_become_right(store)
            assert not live_bodies(store)
            assert not bodies_in_pages(store)
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    return content


@pytest.mark.rule("S-109")
@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
@pytest.mark.parametrize(
    ("step", "pages"),
    [
        pytest.param(
            step,
            pages,
            id=f"{step.__name__}-{'pages' if pages else 'journal'}",
            marks=[] if (step, pages) in QUICK else [pytest.mark.long],
        )
        for step in STEPS
        for pages in ((False,) if step is replace else (False, True))
    ],
)
async def test_nothing_is_left_and_nothing_is_lost(
    large_store: Writable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, pages: bool
) -> None:
    before, after, cuts = await played(large_store, monkeypatch, step, pages=pages)
    assert before != after
    seen: list[Content] = []
    for number, files in enumerate(cuts.states()):
        seen.append(await cut(files, tmp_path / f"cut-{number}", large_store.clock))
    assert all(content in (before, after) for content in seen), (before, after, seen)
    assert before in seen
    assert after in seen


@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
async def test_bodies_that_are_not_synced_are_missed(
    large_store: Writable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above would notice."""
    toml = large_store.root / "journalfs.toml"
    toml.write_text("large-message-sync = false\n" + toml.read_text())
    _, _, cuts = await played(large_store, monkeypatch, publish_one, pages=False)
    damaged = 0
    for number, files in enumerate(cuts.states()):
        store = open_store(lay(files, tmp_path / f"cut-{number}"), clock=large_store.clock, index=False)
        damaged += bool(store.core.damage())
        store.close()
    assert damaged


async def played(
    large_store: Writable, monkeypatch: pytest.MonkeyPatch, step: Step, *, pages: bool
) -> tuple[Content, Content, Cuts]:
    """What was there before a step and after it, and what may be on the disk while it is done."""
    cuts = Cuts(large_store.root, LARGE, without=OWN)
    cuts.watch(monkeypatch)
    async with large_store.open() as store:
        await store.create_address("dead")
        await store.create_queue("dead", "dead")
        if pages:
            await store.set_attribute("work", None, "user.journalfs.max-size-messages", b"0")
        if step is replace:
            await store.set_attribute(*B, "user.journalfs.ring-size", b"1")
        await publish(store, line("a", expiration=START_MS + 1000), line("b"))
        await publish(store, line("c"), queue=None)
        before = content_of(store)
        cuts.begin()
        await step(store, large_store.clock)
        await bodies_become_right(store)
        await store.published()
        cuts.end()
        after = content_of(store)
    monkeypatch.undo()
    return before, after, cuts


async def cut(files: Files, root: Path, clock: FakeClock) -> Content:
    content = await reopened(lay(files, root), clock)
    shutil.rmtree(root)
    return content
