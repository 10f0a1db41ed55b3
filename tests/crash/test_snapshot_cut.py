"""The power is cut while snapshots are made and removed under load: each is whole or not there, and one that
had been made is there.
"""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.damage import Damage
from journalfs.store import open_store
from tests.crash.disks import Disk
from tests.crash.history import Change, Place
from tests.crash.plug import Plug
from tests.crash.snapshot_history import Making, SnapshotHistory
from tests.crash.test_shutdown import cut, disk, plug
from tests.crash.worker import QUEUES, text_of
from tests.kinds import BACKENDS
from tests.store.conftest import LittleStore

__all__ = ["disk"]

CYCLES_QUICK, CYCLES_LONG = 3, 50


def held(root: Path, torn: set[Damage]) -> dict[str, list[Place]]:
    """What each snapshot of a store holds. Nothing in one is damaged, but for what was `torn` already by an
    earlier cut when the snapshot was made: records at the end of a page that nobody was told of, which stay.
    """
    found: dict[str, list[Place]] = {}
    with closing(open_store(root, index=False)) as store:
        for snapshot in store.snapshots.all():
            then = trio.run(snapshot.opened)
            assert torn.issuperset(then.core.damage()), snapshot.name
            address = then.address("work")
            assert address is not None
            found[snapshot.name] = []
            for name in QUEUES:
                queue = address.queue(name)
                assert queue is not None
                listing = queue.listing()
                ids = [listing.message_id(index) for index in range(len(listing))]
                found[snapshot.name] += [(name, text_of(queue, one)) for one in ids]
        torn.update(store.core.damage())
    return found


def cut_again(cut_off: Plug, disk: Disk, cycles: int) -> SnapshotHistory:
    cut_off.worker = "tests.crash.snapshot_load"
    cut_off.history = history = SnapshotHistory()
    torn: set[Damage] = set()
    for cycle in range(cycles):
        wrong = cut(cut_off, disk)
        wrong += history.settle_snapshots(held(cut_off.root, torn))
        # What is mapped of a store keeps a disk from being unmounted.
        gc.collect()
        assert not wrong, f"cycle {cycle}: {wrong[:5]}"
    return history


@pytest.mark.long
@pytest.mark.rule("S-126", "S-132")
@pytest.mark.parametrize("backend", BACKENDS[:1])
def test_cut_off_while_snapshots_are_made(little_store: LittleStore, disk: Disk, backend: str) -> None:
    history = cut_again(plug(little_store, disk, backend, pages=backend == "NIO"), disk, CYCLES_QUICK)
    assert history.done > 0
    assert history.snapshots > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_cut_off_while_snapshots_are_made_again_and_again(
    little_store: LittleStore, disk: Disk, backend: str
) -> None:
    history = cut_again(plug(little_store, disk, backend, pages=backend == "NIO"), disk, CYCLES_LONG)
    print(f"{backend}: {CYCLES_LONG} power cuts, {history.snapshots} snapshots made")


def test_what_a_snapshot_should_not_hold_is_noticed() -> None:
    """The tests above can fail."""
    a, b, c, d = (("q", text) for text in "abcd")
    making = Making(frozenset({a, b}), [Change(1, frozenset({c, d}), frozenset({b}))])
    assert not making.wrong({a, b})
    assert not making.wrong({a, c, d})
    assert making.wrong({b}) == ["lost: ('q', 'a')"]
    assert making.wrong({a, b, ("q", "e")}) == ["came from nowhere: ('q', 'e')"]
    assert "half done" in making.wrong({a, c})[0]
    history = SnapshotHistory(there={a})
    history.take('["making", "x", [], []]')
    history.take('["made", "x", [], []]')
    assert history.settle_snapshots({}) == ["snapshot x is gone"]
    history.take('["making", "y", [], []]')
    assert not history.settle_snapshots({"y": [a]})
    assert history.settle_snapshots({"y": []}) == ["snapshot y changed"]
    assert history.settle_snapshots({"y": [], "z": []}) == ["snapshot z came from nowhere"]
