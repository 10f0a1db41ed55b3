"""Random lives of a store, in a mount and in a broker by turns: what the one shows when it goes, the other
has when it comes. There is no model: each side is asked, so that they may do what has no simple one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.broker.client import CoreClient
from tests.broker.instance import COMPACTED, Broker
from tests.broker.lives import OF_A_BROKER, Life, Shown, had_by, shown_by, stale
from tests.broker.lives_brokered import BrokersTurn
from tests.broker.lives_mounted import MountsTurn, begin
from tests.broker.polling import eventually
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lay_store, lines_in, take, write_in
from tests.frozen import PristineStores

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

TURNS = 3
AS_ASKED = ("AMQ222059", "AMQ222149")
"""What a broker warns of that leaves out a duplicate, or sends to the dead-letter address."""
OF_ITSELF = ("AMQ224075", "ConcurrentLongHashSet", "AMQ224009", "AMQ222042", "AMQ224120", "AMQ224123")
"""What it misses, or finds too much of, by what it did itself; no message is concerned. A broker that commits
a prepared transaction which paged, and delivers some of it before it is started again, updates the page
transaction without an id, and that stays. Its compaction writes schedules and delivery counts behind all
else, also of what was acknowledged. One of the stores goes beyond its limits of pages.
"""
STORES = (
    "orders-basic",
    "transactions",
    "killed",
    "compacted",
    "large-and-paged",
    "retention",
    "aio",
    "mapped",
)
OTHERS_MESSAGES_MAX = 200


def troubles(broker: Broker) -> list[str]:
    return [line for line in complaints(broker.log) if not any(code in line for code in AS_ASKED + OF_ITSELF)]


def agree(client: CoreClient, life: Life, shown: Shown) -> None:
    """A broker that has just started is still reading pages, and what is due leaves its schedule."""
    try:
        eventually(
            lambda: not life.differences(shown, had_by(client, life)),
            deadline_s=5,
            what="it has what was shown",
        )
    except AssertionError:
        assert life.differences(shown, had_by(client, life)) == {}


def at_rest(client: CoreClient, life: Life) -> Shown:
    """What a broker has, once two looks are alike: it moves what has failed after it has answered."""
    looks = [had_by(client, life)]

    def same() -> bool:
        looks.append(had_by(client, life))
        return looks[-1] == looks[-2]

    eventually(same, deadline_s=30, what="the broker is at rest")
    return looks[-1]


def gives_all(broker: Broker, life: Life, shown: Shown) -> None:
    """Where it reads pages, in whatever order: which of them come first is a matter of priorities."""
    with broker, CoreClient(broker.port) as client:
        agree(client, life, shown)
        for name in shown.keys() - life.kept:
            held = shown[name]
            ids = [one[0] for one in held.due]
            taken = [one["id"] for one in take(client, name, len(ids))]
            assert (name, sorted(taken)) == (name, sorted(ids))
            assert taken == ids or name in life.by_count
            assert client.message_count(name) == held.count - len(ids)
        assert troubles(broker) == []
        broker.stop()


def live(broker: Broker, life: Life, turns: int) -> None:
    had: Shown | None = None

    async def work(store: WritingStore) -> Shown:
        if had is None:
            await begin(store)
        else:
            # Of the deliveries to several queues a compaction keeps those to one, and forgets the others.
            counted = COMPACTED not in broker.log
            assert life.differences(shown_by(store), had, counted=counted) == {}
        life.once(store)
        await MountsTurn(store, life).play()
        assert not store.core.damage()
        return shown_by(store)

    for turn in range(turns):
        left_by_broker = stale(broker.store.journal)
        shown = write_in(broker.root, work)
        assert stale(broker.store.journal) <= left_by_broker
        with broker, CoreClient(broker.port) as client:
            agree(client, life, shown)
            brokers = BrokersTurn(broker.port, client, life)
            brokers.play()
            if turn == turns - 1:
                brokers.decide_all()
            had = at_rest(client, life)
            assert troubles(broker) == []
            if turn % 2:
                broker.stop()
    gives_all(broker, life, write_in(broker.root, work))


@pytest.mark.parametrize("seed", range(12))
def test_a_life(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    life = Life(random.Random(seed))
    try:
        live(new_instance(tmp_path / "broker", "NIO", file_size="100K"), life, TURNS)
    finally:
        print("\n".join(life.log))


NOT_PLAIN = ("last-value", "last-value-key", "ring-size", "non-destructive")
NOT_BROWSED = "overdue"
"""A queue whose messages would expire by that."""


async def know(store: WritingStore, life: Life) -> None:
    """Of the queues that are there already: those that are to lose messages, and those that have others than
    core messages, or pages.
    """
    others, by_count, kept = [], {NOT_BROWSED}, set()
    for queue in (queue for address in store.addresses() for queue in address.queues()):
        assert isinstance(queue, StoreQueue)
        of_core = all(line["protocol"] == "CORE" for line in lines_in(store, queue.name))
        if queue.status()["pagedCount"] or not of_core:
            by_count.add(queue.name)
        settings = queue.attributes()
        plain = not any(f"user.journalfs.{name}" in settings for name in NOT_PLAIN)
        if b"true" in (settings.get("user.journalfs.non-destructive"), settings.get("user.journalfs.paused")):
            plain = False
            kept.add(queue.name)
        if plain and len(queue) <= OTHERS_MESSAGES_MAX and queue.name not in OF_A_BROKER | {NOT_BROWSED}:
            others.append((queue.model.address, queue.name))
    life.others, life.by_count, life.kept = others, life.by_count | by_count, frozenset(kept)


@pytest.mark.parametrize("name", STORES)
def test_a_life_that_goes_on(artemis_home: Path, stores: PristineStores, tmp_path: Path, name: str) -> None:
    life = Life(random.Random(name))
    broker = lay_store(stores[name], tmp_path / "broker", None)
    try:
        write_in(broker.root, lambda store: know(store, life))
        live(broker, life, TURNS)
    finally:
        print("\n".join(life.log))
