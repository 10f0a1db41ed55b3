"""No part's name comes again with other content: whoever shows the store, however it ends, whatever is
lost.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.ids import QueueId
from journalfs.limits import PART_NUMBERS_TAKEN, TAIL_IDLE_MS
from journalfs.live.events import Events
from journalfs.live.index_file import index_path
from journalfs.live.part_names import PartNames, SealedPart, parts_path
from journalfs.store.store import JournalStore
from tests.kinds import first_is_quick
from tests.store.conftest import QUEUE_A, QUEUE_B, START_MS, LittleStore

Name = tuple[str, str]
"""Queue and part."""


@dataclass
class Seen:
    """What every part held when its name was first seen. It may lose lines and gets no others."""

    content: dict[Name, set[bytes]] = field(default_factory=dict)

    def add(self, name: Name, lines: list[bytes]) -> None:
        first = self.content.setdefault(name, set(lines))
        assert set(lines) <= first, f"{name} came again with other messages"

    def look_at(self, store: JournalStore) -> None:
        for queue in store.queues():
            numbers = []
            for part in queue.parts():
                source = queue.open_part(part)
                self.add((queue.name, part.name), bytes(source.read(0, source.size_bytes)).splitlines())
                numbers.append(part.number)
            assert numbers == sorted(set(numbers))


async def sealed(store: JournalStore, little: LittleStore) -> None:
    """Let the store give everything in its tails parts."""
    await store.look()
    little.clock.advance(by_ms=TAIL_IDLE_MS)
    await store.look()
    assert not any(queue.tail().messages for queue in store.queues())


@pytest.mark.rule("S-10")
async def test_names_given_by_a_mount_that_was_killed(little_store: LittleStore) -> None:
    """It wrote its index when it began; what it gave names to afterwards, only it knew."""
    seen = Seen()
    little_store.journal.send(1000, QUEUE_A, "known to the index")
    killed = little_store.open()
    killed.save_index()
    seen.look_at(killed)
    little_store.journal.send(1001, QUEUE_A, "consumed before the next mount")
    await sealed(killed, little_store)
    seen.look_at(killed)
    little_store.journal.acknowledge(1001, QUEUE_A, tx_id=3000)
    little_store.journal.send(1002, QUEUE_A, "new to the next mount")
    following = little_store.open()
    seen.look_at(following)
    assert len({name for _, name in seen.content}) == 3
    (first, _) = [part.name for queue in following.queues() for part in queue.parts()]
    assert ("work.a", first) == next(iter(seen.content)), "what the index knows keeps its name"


@pytest.mark.rule("S-10", "S-54")
@pytest.mark.parametrize("seed", range(4))
async def test_names_under_everything_that_may_happen(little_store: LittleStore, seed: int) -> None:
    """Several processes at once, ended in order or not, with their files lost or damaged."""
    dice = random.Random(seed)
    seen = Seen()
    stores: list[JournalStore] = []
    live: list[tuple[int, int]] = []
    index = index_path(little_store.root)
    for step in range(150):
        little_store.clock.advance(by_ms=1)
        action = dice.choice(("open", "send", "send", "acknowledge", "look", "look", "close", "kill", "lose"))
        if action == "open" and len(stores) < 3:
            stores.append(little_store.open())
        elif action == "send":
            live.append((10_000 + step, dice.choice((QUEUE_A, QUEUE_B))))
            little_store.journal.send(*live[-1], f"text {step}")
        elif action == "acknowledge" and live:
            little_store.journal.acknowledge(*live.pop(dice.randrange(len(live))), tx_id=50_000 + step)
        elif action == "look" and stores:
            await sealed(dice.choice(stores), little_store)
        elif action == "close" and stores:
            stores.pop(dice.randrange(len(stores))).close()
        elif action == "kill" and stores:
            del stores[dice.randrange(len(stores))]
        elif action == "lose" and dice.random() < 0.5:
            lost = dice.choice((index, parts_path(index)))
            if lost.exists() and dice.random() < 0.5:
                lost.unlink()
            elif lost.exists():
                lost.write_bytes(lost.read_bytes()[:-3])
        for store in stores:
            seen.look_at(store)
    assert len(seen.content) > 20


@pytest.mark.rule("S-10")
async def test_a_queue_made_anew_goes_on_from_where_its_numbers_were(little_store: LittleStore) -> None:
    """Its parts stand in the same directory as those of the queue that had its name."""
    little_store.journal.send(1000, QUEUE_A, "first")
    store = little_store.open()
    seen = Seen()
    seen.look_at(store)
    core = store.core
    (model,) = [model for model in core.bindings.queues.values() if model.name == "work.a"]
    little_store.rebind("work.a", old_id=QUEUE_A, new_id=77)
    little_store.journal.send(1001, 77, "of the new queue")
    await sealed(store, little_store)
    assert core.bindings.queues.get(model.queue_id) is None
    seen.look_at(store)
    assert len([name for name in seen.content if name[0] == "work.a"]) == 2


@pytest.mark.rule("S-10")
async def test_more_parts_than_numbers_were_taken(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journalfs.store.store.PART_MESSAGES_MAX", 1)
    messages = PART_NUMBERS_TAKEN + 10
    for number in range(messages):
        little_store.journal.send(1000 + number, QUEUE_A)
    store = little_store.open()
    seen = Seen()
    seen.look_at(store)
    assert len(seen.content) == messages
    little_store.journal.send(5000, QUEUE_A)
    other = little_store.open()
    seen.look_at(other)
    assert len({name for _, name in seen.content}) == messages + 1


@pytest.mark.rule("S-10")
async def test_numbers_that_cannot_be_kept(little_store: LittleStore) -> None:
    """Then names are of a generation that nobody goes on from."""
    seen = Seen()
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    numbers = parts_path(index_path(little_store.root))
    numbers.unlink()
    numbers.mkdir()
    for number in range(1001, 1004):
        little_store.clock.advance(by_ms=1)
        little_store.journal.send(number, QUEUE_A)
        store = little_store.open()
        assert [event["event"] for event in store.core.events] == ["part-numbers-not-kept"]
        seen.look_at(store)
        store.close()
    assert len(seen.content) == 2 + 3 + 4


@pytest.mark.rule("S-10")
async def test_a_disk_that_is_full_for_a_moment(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()

    def full(descriptor: int, content: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    little_store.clock.advance(by_ms=1)
    little_store.journal.send(1001, QUEUE_A)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        seen.look_at(little_store.open())
    little_store.journal.acknowledge(1001, QUEUE_A, tx_id=3000)
    little_store.journal.send(1002, QUEUE_A)
    seen.look_at(little_store.open())
    assert len(seen.content) == 4


@pytest.mark.rule("S-10", "S-53")
async def test_a_mount_that_ended_in_order_loses_no_numbers(little_store: LittleStore) -> None:
    for number in range(3):
        little_store.journal.send(1000 + number, QUEUE_A)
        store = little_store.open()
        store.close()
    (queue,) = [queue for queue in little_store.open().queues() if queue.name == "work.a"]
    assert [part.number for part in queue.parts()] == [1, 2, 3]


SHOW = """
import sys, time
from pathlib import Path
import trio
from journalfs.store import open_store

async def show():
    store = open_store(Path(sys.argv[1]))
    store.save_index()
    while True:
        for queue in store.queues():
            for part in queue.parts():
                source = queue.open_part(part)
                print(queue.name, part.name, bytes(source.read(0, source.size_bytes)).hex(), flush=True)
        print("LOOKED", sum(queue.tail().messages for queue in store.queues()), flush=True)
        await store.look()
        await trio.sleep(0.01)

import journalfs.views.tails as module
module.TAIL_IDLE_MS = 20
trio.run(show)
"""


@pytest.mark.rule("S-10")
@pytest.mark.parametrize("processes", first_is_quick(8, 20))
def test_names_over_many_killed_processes(little_store: LittleStore, processes: int) -> None:
    """The same with real processes and SIGKILL, while messages come and go."""
    seen = Seen()
    dice = random.Random(3)
    live: list[int] = []
    names: dict[bytes, Name] = {}
    for number in range(processes):
        with subprocess.Popen(
            [sys.executable, "-c", SHOW, str(little_store.root)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            looks, looks_max = 0, dice.randrange(2, 12)
            for line in process.stdout:
                first, second, *rest = line.split()
                if first != "LOOKED":
                    content = bytes.fromhex(rest[0]) if rest else b""
                    seen.add((first, second), content.splitlines())
                    for one in content.splitlines():
                        assert names.setdefault(one, (first, second)) == (first, second), "it came twice"
                    continue
                looks += 1
                if looks >= looks_max and (second == "0" or dice.random() < 0.5):
                    break
                live.append(10_000 + number * 100 + looks)
                little_store.journal.send(live[-1], QUEUE_A, f"text {live[-1]}")
                if len(live) > 3:
                    gone = live.pop(dice.randrange(len(live)))
                    little_store.journal.acknowledge(gone, QUEUE_A, tx_id=100_000 + gone)
            os.kill(process.pid, signal.SIGKILL)
    assert len(seen.content) > processes
    assert Path(index_path(little_store.root)).exists()


@pytest.mark.protects("P-5")
@pytest.mark.rule("S-10")
@pytest.mark.parametrize("keeps_inode", [False, True])
async def test_a_store_that_was_put_back_from_a_copy(little_store: LittleStore, *, keeps_inode: bool) -> None:
    """The copy holds what was used when it was made; the store went on, and so did the names of its parts."""
    seen = Seen()
    little_store.journal.send(1000, QUEUE_A, "in the copy")
    little_store.open().close()
    numbers = parts_path(index_path(little_store.root))
    kept, at = numbers.read_bytes(), numbers.stat()
    index = index_path(little_store.root).read_bytes()
    journal = little_store.journal.path.read_bytes()
    began_at = little_store.journal.at
    little_store.journal.send(1001, QUEUE_A, "since then")
    store = little_store.open()
    seen.look_at(store)
    store.close()
    # As `cp -a` and `rsync --inplace` put files back, a day later.
    little_store.journal.path.write_bytes(journal)
    little_store.journal.at = began_at
    index_path(little_store.root).write_bytes(index)
    if not keeps_inode:
        numbers.rename(numbers.with_name("away"))
    numbers.write_bytes(kept)
    day_ns = 86_400 * 10**9
    os.utime(
        numbers, ns=(at.st_atime_ns - day_ns, at.st_mtime_ns - day_ns if keeps_inode else at.st_mtime_ns)
    )
    little_store.journal.send(1002, QUEUE_A, "another one")
    seen.look_at(little_store.open())


def numbers_of(path: Path, generation: int | None = None) -> PartNames:
    """The numbers of a process that goes on with a generation, or begins one."""
    clock = FakeClock(wall_ms=START_MS)
    names = PartNames(path, clock, Events(clock))
    names.start(generation)
    return names


@pytest.mark.rule("S-10")
@pytest.mark.parametrize("becomes", ["linked", "removed"])
def test_parts_noted_anew_leave_others_their_numbers(tmp_path: Path, becomes: str) -> None:
    """Also where the file cannot tell any more what others took."""
    index = tmp_path / "index"
    first = numbers_of(index)
    first.claim(make_folder=True)
    taken = [first.next_from(1)]
    other = numbers_of(index)
    assert other.generation == first.generation
    taken.append(other.next_from(1))
    if becomes == "removed":
        parts_path(index).unlink()
    else:
        os.utime(parts_path(index), (1, 1))  # its times are not of one write, as of a file that got a link
    part = SealedPart(QueueId(1), None, 1, START_MS, bytes(8))
    first.note([part], lambda: [part])
    following = numbers_of(index)
    number = following.next_from(1)
    assert following.generation != first.generation or number not in taken
    assert following.generation == first.generation or becomes == "removed"


@pytest.mark.protects("P-5")
@pytest.mark.rule("S-10")
@pytest.mark.parametrize(("above", "begins"), [(0, 11 + PART_NUMBERS_TAKEN), (5000, 5001)])
def test_numbers_begin_above_those_taken_and_those_in_use(tmp_path: Path, above: int, begins: int) -> None:
    """What another process took is not seen in the store; what is seen may be of another file of numbers."""
    first = numbers_of(tmp_path / "index")
    assert first.take(10)
    second = numbers_of(tmp_path / "index", first.generation)
    assert second.generation == first.generation
    assert second.take(above)
    assert second.begin == begins
    third = numbers_of(tmp_path / "index", first.generation)
    assert third.take(0)
    assert third.begin == second.end


@pytest.mark.rule("S-10")
async def test_numbers_are_kept_once_for_many_parts(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time waits for the disk."""
    monkeypatch.setattr("journalfs.store.store.PART_MESSAGES_MAX", 1)
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for number in range(100):
        little_store.journal.send(3000 + number, QUEUE_A)
    await sealed(store, little_store)
    (queue,) = [queue for queue in store.queues() if queue.name == "work.a"]
    assert len(queue.parts()) == 101
    assert len(synced) <= 1
