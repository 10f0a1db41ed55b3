"""Transactions whose end was lost: counted, shown, kept through everything, and never taken for live."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.engine.checksums import checksum_record
from journalfs.live.virtual import ComputedDirectory, ComputedFile, FixedDirectory, SourceFile
from journalfs.store.store import JournalStore
from tests.mounting import journalfs, mounted_for_writing
from tests.store.appending import ACK, PREPARE, UPDATE_TX, JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.writing.conftest import shell

JOURNAL = "journal/activemq-data-1.amq"
TX = 7
MESSAGES = 4_000


def overwrite(little: LittleStore, begin: int, end: int, byte: bytes) -> None:
    with little.journal.path.open("r+b") as file:
        file.seek(begin)
        file.write(byte * (end - begin))


def undecided(store: JournalStore) -> list[str]:
    return [one.reason for one in store.core.damage() if one.kind == "undecided-transaction"]


def sends(little: LittleStore) -> None:
    """Three messages in one transaction, and an acknowledgement."""
    journal = little.journal
    journal.send(999, QUEUE_A, "live before")
    journal.send_in_transaction(TX, 1000, QUEUE_A, "first")
    journal.send_in_transaction(TX, 1001, QUEUE_A, "second")
    journal.send_in_transaction(TX, 1002, QUEUE_B, "third")
    ack = {"tx_id": TX, "record_id": 999, "user_type": ACK, "body": struct.pack(">q", QUEUE_A)}
    journal.append(journal.record(UPDATE_TX, **ack))


@pytest.fixture(
    params=[
        "commit",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("prepare", "some-records", "prepared")),
    ]
)
def lossy(request: pytest.FixtureRequest, little_store: LittleStore) -> LittleStore:
    """A store in which bytes were lost that decided the transaction."""
    journal = little_store.journal
    sends(little_store)
    begin = journal.at
    if request.param == "commit":
        journal.commit(TX, 7)
    elif request.param == "prepare":
        journal.append(journal.record(PREPARE, tx_id=TX, count=7, body=b"\0" * 12))
    else:
        journal.send_in_transaction(TX, 1003, QUEUE_B, "lost")
    end = journal.at
    if request.param == "some-records":
        journal.commit(TX, 9)
    elif request.param == "prepared":
        journal.append(journal.record(PREPARE, tx_id=TX, count=9, body=b"\0" * 12))
    journal.send(1010, QUEUE_A, "live behind")
    overwrite(little_store, begin, end, b"\xaa")
    return little_store


@pytest.mark.rule("S-188")
def test_what_a_lost_end_hides_is_counted_and_shown(lossy: LittleStore) -> None:
    for _ in range(2):  # the second time from the index
        store = lossy.open()
        (told,) = undecided(store)
        assert "3 messages are not shown (2 of work::work.a, 1 of work::work.b)" in told
        assert "1 acknowledgements do not count" in told
        assert store.status()["messages"] == 2
        assert store.status()["messagesNotShown"] == 3
        transactions = store.control().child("transactions")
        assert isinstance(transactions, ComputedDirectory)
        folder = transactions.child(f"transaction-{TX}")
        assert isinstance(folder, FixedDirectory)
        assert json.loads(read(folder, "status.json"))["state"] == "undecided"
        bodies = [json.loads(line)["body"] for line in read(folder, "messages.jsonl").splitlines()]
        assert bodies == ["first", "second", "third"]
        store.close()
    checked = journalfs("check", lossy.root)
    assert checked.returncode == 5
    assert "3 messages are not shown" in checked.stdout
    assert "3 sent by transactions that have not ended" in checked.stderr


def read(folder: FixedDirectory, name: str) -> bytes:
    file = folder.child(name)
    assert isinstance(file, ComputedFile | SourceFile)
    source = file.open()
    try:
        return bytes(source.read(0, source.size_bytes))
    finally:
        source.close()


@pytest.mark.rule("S-188")
def test_nothing_that_keeps_a_store_drops_it(lossy: LittleStore, tmp_path: Path) -> None:
    mnt = tmp_path / "mnt"
    shown = f".journalfs/transactions/transaction-{TX}"
    for compacts in (False, True):
        with mounted_for_writing(lossy.root, mnt) as mount:
            assert shell(f"cat {shown}/messages.jsonl", mount.path).count("\n") == 3
            # What it would have acknowledged is free for others.
            shell("for i in $(seq 40); do echo more; done > work/in.txt; rm work/*/.all.jsonl", mount.path)
            assert shell(f"cat {shown}/messages.jsonl", mount.path).count("\n") == 3
        if compacts:
            done = journalfs("compact", lossy.root)
            assert done.returncode == 0, done.stderr
        store = lossy.open(index=False)
        assert "3 messages are not shown" in undecided(store)[0]
        store.close()
    with mounted_for_writing(lossy.root, mnt) as mount:
        shell(f"cat {shown}/messages.jsonl > work/in.jsonl", mount.path)
        assert shell("cat work/work.a/*.jsonl | grep -c second", mount.path) == "1\n"
    assert journalfs("compact", "--discard-damage", lossy.root).returncode == 0
    with mounted_for_writing(lossy.root, mnt):
        pass
    store = lossy.open(index=False)
    assert not store.core.damage()
    store.close()


@pytest.mark.rule("S-188")
def test_how_a_killed_writer_ends_is_no_damage(little_store: LittleStore, tmp_path: Path) -> None:
    sends(little_store)
    store = little_store.open()
    assert not store.core.damage()
    store.close()
    with mounted_for_writing(little_store.root, tmp_path / "mnt"):
        pass
    # It was rolled back: damage of later says nothing about it.
    second = JournalAppender.last_of(little_store.root / "journal", 16)
    assert second.path.exists()
    store = little_store.open(index=False)
    assert not store.core.loader.state.undecided(lambda *_: True)
    store.close()


@pytest.mark.rule("S-283")
def test_a_long_write_is_not_looked_at_beside_it(little_store: LittleStore) -> None:
    """It is open, and nothing of the journal is lost: asking is cheap, however long it is."""
    journal = JournalAppender.create(little_store.root / JOURNAL, 1, size_bytes=1 << 20)
    for number in range(MESSAGES):
        journal.send_in_transaction(TX, 1000 + number, QUEUE_A, "")
    store = little_store.open(index=False)
    tracemalloc.start()
    try:
        assert store.status()["undecidedTransactions"] == 0
        assert not store.core.damage()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (whole,) = store.core.loader.state.undecided(lambda tx_id, incomplete: not incomplete and tx_id == TX)
    assert len(whole.operations) == 2 * MESSAGES
    assert peak_bytes < len(whole.operations) * 10
    assert whole.operations[-1] == list(whole.operations)[-1]
    assert whole.operations[:2][1].record_id == 1000
    assert whole.operations.file_slots() == {one.file_slot for one in whole.operations}
    store.close()


def contradicted(little: LittleStore) -> None:
    """One bit of the COMMIT is another: it is a record still, and of another transaction."""
    journal = little.journal
    sends(little)
    begin = journal.at
    journal.commit(TX, 7)
    content = bytearray(journal.path.read_bytes()[: journal.at])
    journal.append(checksum_record(content, 16, journal.file_id))
    journal.send(1010, QUEUE_A, "live behind")
    tx_ends = begin + 1 + 4 + 1 + 8
    overwrite(little, tx_ends - 1, tx_ends, bytes([content[tx_ends - 1] ^ 0x40]))


def lost_file(little: LittleStore) -> None:
    """The file is gone in which it was committed, and what another one says shows that it is."""
    journal = little.journal
    sends(little)
    third = JournalAppender.create(journal.path.with_name("activemq-data-3.amq"), 3)
    third.redeliver(1020, QUEUE_A, 1)
    third.send(1010, QUEUE_A, "live behind")


@pytest.mark.rule("S-188")
@pytest.mark.parametrize("lose", [contradicted, lost_file])
def test_any_damage_of_a_journal_may_be_the_end_of_a_transaction(
    little_store: LittleStore, tmp_path: Path, lose: Callable[[LittleStore], None]
) -> None:
    lose(little_store)
    shown = f".journalfs/transactions/transaction-{TX}/messages.jsonl"
    for _ in range(2):
        assert "3 messages are not shown" in journalfs("check", little_store.root).stdout
        with mounted_for_writing(little_store.root, tmp_path / "mnt") as mount:
            assert shell(f"cat {shown}", mount.path).count("\n") == 3
            shell("for i in $(seq 5); do echo more; done > work/in.txt", mount.path)
    store = little_store.open(index=False)
    assert store.status()["messages"] == 2 + 2 * 2 * 5
    assert store.status()["messagesNotShown"] == 3
    store.close()
