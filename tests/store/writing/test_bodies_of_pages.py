"""Bodies of large messages in pages: one that is missing is damage only of what a queue still needs."""

from __future__ import annotations

import json
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from journalfs.change.change import Change
from journalfs.ids import MessageId, Position
from tests.differential.encode import record
from tests.differential.encode_messages import core_header, nullable, page_record
from tests.mounting import journalfs
from tests.store.appending import ADD
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import CURSOR_ACK, PAGE_COMPLETE, PAGE_TX, small, write_page
from tests.store.writing.conftest import Writable, lines_of

MESSAGE, COMMITTED, PREPARED, BROKEN_OFF = 2001, 70, 71, 72
BOTH = (QUEUE_A, QUEUE_B)
XID = struct.pack(">i", 1) + struct.pack(">i", 1) + b"b" + struct.pack(">i", 1) + b"g"
EXIT_DAMAGED = 5


def large(tx_id: int = -1) -> bytes:
    """The page record of a large message; its body has no file."""
    body = ("long", len(nullable("a long text")))
    header = core_header(MESSAGE, address="work", kind=3, properties={"_AMQ_LARGE_SIZE": body})
    return page_record(tx_id, 1, header, BOTH)


def consume(little: LittleStore, queue: int, *, record_id: int) -> None:
    """As a broker writes it down: it is the second record of page 1."""
    body = struct.pack(">qqi", queue, 1, 1)
    little.journal.append(record(ADD, 1, record_id=record_id, user_type=CURSOR_ACK, body=body))


def reported(little: LittleStore) -> list[str]:
    """What is damaged, and in agreement with what the command says."""
    store = little.open(index=False)
    found = [f"{damage.file}: {damage.reason}" for damage in store.core.damage()]
    assert store.status()["damage"] == len(found)
    store.close()
    assert journalfs("check", little.root).returncode == (EXIT_DAMAGED if found else 0)
    return found


MISSING = [f"large-messages/{MESSAGE}.msg: the large message's body file is missing"]


@pytest.mark.rule("S-51")
def test_a_body_is_needed_until_all_queues_have_consumed_its_message(little_store: LittleStore) -> None:
    """A broker deletes it then; the page stays as long as something else in it is needed."""
    write_page(little_store, 1, [small(2000, queues=BOTH), large()])
    assert reported(little_store) == MISSING
    consume(little_store, QUEUE_A, record_id=80)
    assert reported(little_store) == MISSING
    consume(little_store, QUEUE_B, record_id=81)
    assert reported(little_store) == []


@pytest.mark.rule("S-51")
def test_a_page_that_a_queue_is_done_with(little_store: LittleStore) -> None:
    write_page(little_store, 1, [small(2000, queues=BOTH), large()])
    consume(little_store, QUEUE_A, record_id=80)
    complete = struct.pack(">qqi", QUEUE_B, 1, 2)
    little_store.journal.append(record(ADD, 1, record_id=82, user_type=PAGE_COMPLETE, body=complete))
    assert reported(little_store) == []


@pytest.mark.rule("S-51")
@pytest.mark.parametrize(
    ("tx_id", "found"), [(COMMITTED, MISSING), (PREPARED, MISSING), (BROKEN_OFF, [])], ids=str
)
def test_what_a_transaction_wrote_counts_if_that_ended_well_or_may(
    little_store: LittleStore, tx_id: int, found: list[str]
) -> None:
    write_page(little_store, 1, [small(2000, queues=BOTH), large(tx_id)])
    little_store.journal.append(
        record(ADD, 1, record_id=82, user_type=PAGE_TX, body=struct.pack(">qi", COMMITTED, 2)),
        record(13, 1, tx_id=PREPARED, record_id=83, user_type=PAGE_TX, body=struct.pack(">qi", PREPARED, 2)),
        record(17, 1, tx_id=PREPARED, count=1, body=XID),
    )
    assert reported(little_store) == found


@pytest.mark.rule("S-51")
async def test_what_is_consumed_while_the_store_is_open(little_store: LittleStore) -> None:
    write_page(little_store, 1, [small(2000, queues=BOTH), large()])
    store = little_store.open(index=False)
    for queue, left in ((QUEUE_A, 1), (QUEUE_B, 0)):
        consume(little_store, queue, record_id=80 + queue)
        store.look_now()
        assert len(store.core.damage()) == left
    store.close()


@pytest.mark.rule("S-51")
@pytest.mark.parametrize("consumed", [False, True])
async def test_a_lost_body_is_forgotten_with_its_message(writable: Writable, consumed: bool) -> None:
    """Consumed before its page goes, or with it."""
    little = writable.little
    write_page(little, 1, [small(2000, queues=BOTH), large()])
    for queue in BOTH if consumed else ():
        consume(little, queue, record_id=80 + queue)
    async with writable.open(index=True) as store:
        assert len(store.core.damage()) == (0 if consumed else 1)
        for name in ("work.a", "work.b"):
            left = [MessageId(json.loads(line)["id"]) for line in lines_of(store, name)]
            assert await store.acknowledge(("work", name), left) == len(left) == (1 if consumed else 2)
        await store.look()
        assert not store.core.damage()
    async with writable.open(index=True) as store:
        assert not store.core.damage()
    assert reported(little) == []


@pytest.mark.rule("S-51", "S-70", "S-111")
async def test_killed_between_the_page_and_the_commit(
    writable: Writable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was flushed is published anew then, with a body that has another name."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    write_page(writable.little, 1, [small(2000, queues=BOTH)])
    killed = Writable(replace(writable.little, root=tmp_path / "killed"), writable.backend)
    commit = Change.commit

    def copied(*arguments: Any, **keywords: Any) -> Position:
        # As SIGKILL leaves it at this moment; files that have two names keep both.
        subprocess.run(["cp", "-a", writable.root, killed.root], check=True)
        return commit(*arguments, **keywords)

    async with writable.open() as store:
        publisher = store.publisher("work", None, "in.bin")
        await publisher.write(b"x" * 300_000)
        await publisher.flush()
        monkeypatch.setattr(Change, "commit", copied)
        await publisher.finish()
    monkeypatch.undo()
    bodies = killed.root / "large-messages"
    (dead,) = bodies.iterdir()
    async with killed.open() as store:
        assert store.core.damage() == []
        await store.publish_left()
        assert len(lines_of(store, "work.a")) == 2
        (body,) = bodies.iterdir()
        assert body != dead
        assert store.core.damage() == []
    assert reported(killed.little) == []
    body.unlink()
    (reason,) = reported(killed.little)
    assert body.name in reason
