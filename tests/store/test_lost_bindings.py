"""Messages whose queues no binding names: reachable and damage where bindings are lost, remains otherwise."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.format.record_types import BindingType
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.damage.cases import changed, look
from tests.differential.encode import record
from tests.mounting import journalfs
from tests.reference import journal as reference
from tests.store.appending import DELETE
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import small, write_page
from tests.truth.from_store import content_of

Copy = Callable[[str], Path]
EXIT_DAMAGED = 5
UNKNOWN_QUEUE = 999


def bodies(store: JournalStore) -> dict[str, list[str]]:
    return {
        f"{queue.model.address}::{queue.name}": [
            json.loads(line)["body"] for line in content_of(queue.open_all()).splitlines()
        ]
        for queue in store.queues()
    }


def kinds(store: JournalStore) -> list[str]:
    return [damage.kind for damage in store.core.damage()]


@pytest.mark.rule("S-59")
def test_without_bindings_queues_are_named_by_their_ids(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    write_page(little_store, 1, [small(2000)])
    whole = little_store.open(index=False)
    sent_to = json.loads(content_of(whole.queues()[1].open_all()))["address"]
    assert bodies(whole) == {"work::work.a": ["one", "paged 2000"], "work::work.b": ["two"]}
    shutil.rmtree(little_store.root / "bindings")
    for _ in range(2):
        store = little_store.open()
        assert bodies(store) == {"work::queue-21": ["one", "paged 2000"], f"{sent_to}::queue-22": ["two"]}
        assert kinds(store) == ["lost-binding"] * 2
        assert "queue 21, to which 2 messages refer" in str(store.core.damage())
        assert store.status()["orphanedReferences"] == 0
        for queue in store.queues():
            status = queue.status()
            assert (status["binding"], status["routingType"]) == ("lost", None)
            assert "routing-type" not in queue.settings_toml()
        store.close()
    checked = journalfs("check", little_store.root)
    assert checked.returncode == EXIT_DAMAGED
    assert checked.stdout.count("lost-binding") == 2
    assert "3 messages" in checked.stderr


@pytest.mark.rule("S-59")
@pytest.mark.parametrize(
    ("how", "writing"),
    [
        *((how, False) for how in ("gone", "empty", "unreadable", "damaged")),
        *((how, True) for how in ("gone", "empty", "damaged")),
    ],
)
def test_the_first_event_says_where_the_queues_are(
    little_store: LittleStore, how: str, writing: bool
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    folder = little_store.root / "bindings"
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.unlink()
    if how == "gone":
        folder.rmdir()
    elif how == "unreadable":
        path.mkdir()
    elif how == "damaged":
        path.write_bytes(content[:16] + b"\xff" * (len(content) - 16))
    open_it = open_for_writing if writing else open_store
    store = open_it(little_store.root, clock=little_store.clock, index=False)
    try:
        (said,) = [str(one["message"]) for one in store.core.events if one["event"] == "bindings-lost"]
        assert said.startswith(
            f"{folder}: the bindings of 2 queues with 2 messages are lost; they are shown as "
        )
        for queue in store.queues():
            assert f"{queue.model.address}/{queue.name}" in said
        assert "fails with ENOENT; put the bindings back" in said
    finally:
        store.close()


def test_no_event_where_no_message_waits(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    assert not [one for one in little_store.open(index=False).core.events if one["event"] == "bindings-lost"]


@pytest.mark.rule("S-59")
def test_journal_directory_alone(little_store: LittleStore, tmp_path: Path) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    alone = tmp_path / "alone"
    shutil.copytree(little_store.root / "journal", alone)
    store = open_store(alone, clock=little_store.clock, index=False)
    assert [found for name, found in bodies(store).items() if name.endswith("::queue-21")] == [["one"]]
    assert kinds(store) == ["lost-binding"]
    assert journalfs("check", alone).returncode == EXIT_DAMAGED


@pytest.mark.rule("S-59")
def test_remains_of_deleted_queues_are_counted_and_not_shown(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, UNKNOWN_QUEUE, "of a deleted queue")
    little_store.bindings.append(record(DELETE, 1, record_id=UNKNOWN_QUEUE))
    store = little_store.open()
    assert bodies(store) == {"work::work.a": ["one"], "work::work.b": []}
    assert (store.status()["orphanedReferences"], store.status()["damage"]) == (1, 0)
    assert journalfs("check", little_store.root).returncode == 0


NEVER_MADE = QUEUE_A | 0xFF << 32
"""What a reference names of which one byte is another."""


@pytest.mark.rule("S-59")
def test_a_queue_that_never_was_is_damage(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, NEVER_MADE, "two")
    for open_it in (open_store, open_for_writing):
        store = open_it(little_store.root, clock=little_store.clock, index=False)
        assert sorted(texts for texts in bodies(store).values() if texts) == [["one"], ["two"]]
        assert kinds(store) == ["lost-binding"]
        store.close()


@pytest.mark.rule("S-59")
@pytest.mark.usefixtures("held_by_a_broker")
def test_a_queue_that_a_broker_has_just_made_is_no_damage(little_store: LittleStore) -> None:
    """Its binding was written after the bindings had been read."""
    little_store.journal.send(1000, QUEUE_A, "one")
    store = little_store.open(index=False)
    little_store.journal.send(1001, NEVER_MADE, "two")
    store.look_now()
    assert [texts for texts in bodies(store).values() if texts] == [["one"]]
    assert kinds(store) == []


@pytest.mark.rule("S-59")
def test_damaged_bindings_lose_no_queue(little_store: LittleStore) -> None:
    """The record of one queue is gone: it is shown by its id, the other by its name."""
    path = little_store.root / "bindings/activemq-bindings-1.bindings"
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    content = path.read_bytes()
    at = content.index(struct.pack(">q", QUEUE_B + 100))
    path.write_bytes(content[: at - 6] + b"\xff" * 14 + content[at + 8 :])
    found = bodies(little_store.open(index=False))
    assert found.pop("work::work.a") == ["one"]
    assert [(name.split("::")[1], texts) for name, texts in found.items()] == [("queue-22", ["two"])]


@pytest.mark.rule("S-59")
def test_a_binding_of_which_four_bytes_are_zero(store_copy: Copy) -> None:
    """Anywhere in the records that bind a queue: all messages are shown, below whatever name."""
    data = store_copy("killed") / "data"
    path = data / "bindings/activemq-bindings-1.bindings"
    content = path.read_bytes()
    scan = reference.scan(content, 1)
    bound = next(at for at, one in enumerate(scan.records) if one.user_type == BindingType.QUEUE_BINDING)
    first, last = scan.records[bound], scan.records[bound + 1]
    assert last.tx_id == first.tx_id
    messages = sum(len(ids) for ids in look(data).queues.values())
    for offset in range(first.offset, last.offset + last.length - 3, 3):
        with changed(path, offset, bytes(4)):
            store = open_store(data, index=False)
            shown = sum(len(queue.listing()) + len(queue.delivering().listing()) for queue in store.queues())
            assert (shown, store.status()["orphanedReferences"]) == (messages, 0), offset


@pytest.mark.rule("S-59")
def test_messages_of_a_queue_that_nothing_deleted(little_store: LittleStore) -> None:
    """Its binding names another id now, with which it looks whole."""
    little_store.journal.send(1000, QUEUE_A, "one")
    path = little_store.bindings.path
    content = path.read_bytes()
    at = content.index(struct.pack(">q", QUEUE_A), 16)
    path.write_bytes(content[: at + 7] + b"\x0c" + content[at + 8 :])
    store = little_store.open(index=False)
    assert [texts for texts in bodies(store).values() if texts] == [["one"]]
    assert kinds(store) == ["lost-binding"]
    little_store.bindings.append(record(DELETE, 1, record_id=QUEUE_A))
    store = little_store.open(index=False)
    assert not any(bodies(store).values())
    assert kinds(store) == []
    assert store.status()["orphanedReferences"] == 1


@pytest.mark.rule("S-59")
async def test_bindings_that_come_back_are_taken(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    path = little_store.root / "bindings/activemq-bindings-1.bindings"
    away = path.rename(path.with_suffix(".away"))
    store = little_store.open()
    [queue] = store.queues()
    assert queue.name == "queue-21"
    little_store.journal.send(1001, QUEUE_B, "two")
    await store.look()
    assert [queue.name for queue in store.queues()] == ["queue-21", "queue-22"]
    away.rename(path)
    await store.look()
    assert bodies(store) == {"work::work.a": ["one"], "work::work.b": ["two"]}
    assert kinds(store) == []


@pytest.mark.rule("S-59")
@pytest.mark.parametrize("name", ["aio", "transactions", "amqp-exotic", "large-and-paged", "compacted"])
def test_every_message_of_a_real_store_is_reachable(name: str, store_copy: Copy) -> None:
    data = store_copy(name) / "data"
    before = {queue: ids for queue, ids in look(data).queues.items() if ids}
    shutil.rmtree(data / "bindings")
    seen = look(data)
    assert seen.wrong == []
    assert {queue: ids for queue, ids in seen.queues.items() if ids} == before
    assert len(seen.places) == len(before)
