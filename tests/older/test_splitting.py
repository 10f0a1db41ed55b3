"""Journals whose files become files of another size: transactions are in them what they were."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from journalfs.config.older import forced
from journalfs.engine.state_types import AnomalyKind
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import adapter_for, source_of
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.frozen import PristineStores
from tests.older.truth import envelopes
from tests.reference.journal import read_folder

FILE_BYTES = 16 << 10
ADD_TX, COMMIT = 13, 18


def split(source: Path, kind: str, to: Path, file_bytes: int) -> JournalStore:
    """The store `to`, of files so long."""
    found = forced(kind, source)
    of = source_of(found)
    to.mkdir()
    with DerivedStore(to, file_bytes=file_bytes) as out:
        adapter_for(of)(of, out)
    return open_store(to, index=False)


def account(store: JournalStore) -> tuple[object, ...]:
    """What is live, in doubt and amiss."""
    state = store.core.loader.state
    return (
        {queue.name: envelopes(queue) for one in store.addresses() for queue in one.queues()},
        sorted((one.tx_id, one.prepared, len(one.operations)) for one in state.open_transactions()),
        sorted((one.kind, one.a, one.b) for one in state.anomalies() if one.kind in (5, 6, 7)),
    )


@pytest.mark.parametrize("name", ["hq-2.4-main", "hq-2.4-killed", "hq-2.1-core"])
def test_a_journal_is_the_same_in_shorter_files(name: str, stores: PristineStores, tmp_path: Path) -> None:
    store: JournalStore = open_store(stores[name], index=False)
    wanted = account(store)
    before = len(store.core.loader.files)
    store.close()
    store = split(stores[name], "hornetq", tmp_path / "new", FILE_BYTES)
    try:
        assert account(store) == wanted
        assert len(store.core.loader.files) > before
        sizes = {path.stat().st_size for path in (tmp_path / "new" / "journal").glob("*.amq")}
        assert all(size == FILE_BYTES or size % (64 << 10) == 0 for size in sizes)
    finally:
        store.close()


def journal_of(counts: list[int], held: int) -> bytes:
    """Transactions of `held` messages each, whose COMMIT says `counts`."""
    made = bytearray(struct.pack(">iiq", 2, 0, 1))
    for tx, count in enumerate(counts):
        for number in range(held):
            header = struct.pack(">q", 100 * tx + number) + b"\0\0\3\xff" + bytes(16) + b"\4\0"
            body = struct.pack(">i", 217) + bytes(200) + struct.pack(">i", 221 + len(header)) + header
            front = struct.pack(">BiBqqiB", ADD_TX, 1, 0, 1000 + tx, 100 * tx + number, len(body), 31)
            made += front + body + struct.pack(">i", len(front) + len(body) + 4)
        made += struct.pack(">BiBqii", COMMIT, 1, 0, 1000 + tx, count, 22)
    return bytes(made)


@pytest.mark.parametrize("file_bytes", [1024, 2000, 1 << 20])
def test_a_wrong_count_stays_wrong(file_bytes: int, tmp_path: Path) -> None:
    """Each transaction lies in several files; of some a record is missing."""
    source = tmp_path / "data"
    (source / "journal").mkdir(parents=True)
    (source / "bindings").mkdir()
    counts = [20, 21, 20, 19, 20, 20]
    (source / "journal" / "hornetq-data-1.hq").write_bytes(journal_of(counts, held=20))
    store = split(source, "hornetq", tmp_path / "new", file_bytes)
    try:
        incomplete = {
            one.a for one in store.core.loader.state.anomalies() if one.kind == AnomalyKind.COMMIT_INCOMPLETE
        }
        assert incomplete == {1001, 1003}
    finally:
        store.close()
    journal = read_folder(tmp_path / "new" / "journal")
    assert sum(len(file.scan.records) for file in journal) == 6 * 21
