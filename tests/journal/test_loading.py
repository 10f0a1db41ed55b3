"""The reading side reads what the writing side wrote, also while it is being written and compacted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend, open_backend
from journalfs.engine.state import LiveState
from journalfs.ids import RecordId, TxId
from journalfs.records.files.heads import Head, Heads
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.differential import encode
from tests.tools import store_bytes

SETTINGS = WriteSettings(file_size_bytes=64 * 1024, compact_min_files=0)
QUEUE = 7
KINDS = pytest.mark.parametrize("kind", ["NIO", "MAPPED", "ASYNCIO"])


def send(writer: JournalWriter, message: int, tx: int | None = None) -> None:
    """One message to one queue, as a broker records it; nothing here decodes the body."""
    body, reference = b"\x01" + bytes(500), store_bytes.i64(QUEUE)
    if tx is None:
        writer.stage_add(RecordId(message), store_bytes.MESSAGE, body)
        writer.stage_update(RecordId(message), store_bytes.ADD_REF, reference)
    else:
        writer.stage_add_in(TxId(tx), RecordId(message), store_bytes.MESSAGE, body)
        writer.stage_update_in(TxId(tx), RecordId(message), store_bytes.ADD_REF, reference)


def acknowledge(writer: JournalWriter, message: int, tx: int) -> None:
    writer.stage_update_in(TxId(tx), RecordId(message), store_bytes.ACKNOWLEDGE_REF, store_bytes.i64(QUEUE))
    writer.stage_commit(TxId(tx))
    writer.stage_delete(RecordId(message))


def loaded(folder: Path) -> JournalLoader:
    loader = JournalLoader(folder, "amq", folder, SystemClock(), LiveState())
    loader.load()
    return loader


def live(loader: JournalLoader) -> list[int]:
    slot = loader.state.register_queue(QUEUE)
    return [loader.state.ref(ref).message_id for ref in loader.state.refs(slot)]


def opened(folder: Path, kind: str) -> tuple[DiskBackend, JournalWriter]:
    backend = open_backend(folder, BackendKind(kind))
    return backend, JournalWriter.open(backend, SETTINGS, SystemClock())


@KINDS
async def test_followed_while_it_is_written(kind: str, tmp_path: Path) -> None:
    backend, writer = opened(tmp_path, kind)
    send(writer, 1)
    await writer.durable(writer.position)
    loader = loaded(tmp_path)
    assert live(loader) == [1]
    for message in range(2, 400):
        send(writer, message)
    acknowledge(writer, 1, tx=10_001)
    for message in (501, 502):
        send(writer, message, tx=10_002)
    await writer.durable(writer.position)
    assert loader.poll() is PollResult.APPENDED
    assert live(loader) == list(range(2, 400))
    await writer.durable(writer.stage_commit(TxId(10_002)))
    loader.poll()
    assert live(loader) == [*range(2, 400), 501, 502]
    assert loader.damage() == []
    await writer.close()
    backend.close()


@KINDS
async def test_the_same_after_compaction(kind: str, tmp_path: Path) -> None:
    backend, writer = opened(tmp_path, kind)
    for message in range(1, 400):
        send(writer, message)
    for message in range(1, 350):
        acknowledge(writer, message, tx=10_000 + message)
    await writer.durable(writer.position)
    loader = loaded(tmp_path)
    assert live(loader) == list(range(350, 400))
    await writer.upkeep.compact()
    assert loader.poll() is PollResult.REWRITTEN
    again = loaded(tmp_path)
    assert live(again) == list(range(350, 400))
    assert again.damage() == []
    await writer.close()
    backend.close()


def file_of(folder: Path, name: str, file_id: int, *records: bytes) -> None:
    (folder / name).write_bytes(encode.journal_file(file_id, list(records)).ljust(4096, b"\0"))


def in_transaction(file_id: int, message: int) -> list[bytes]:
    add = encode.record(13, file_id, tx_id=99, record_id=message, user_type=45, body=b"\x01" + bytes(50))
    reference = store_bytes.i64(QUEUE)
    return [
        add,
        encode.record(14, file_id, tx_id=99, record_id=message, user_type=32, body=reference),
    ]


def test_files_are_read_in_the_order_of_their_ids_whichever_was_seen_first(tmp_path: Path) -> None:
    """Or a transaction would be ended before all of it was read."""
    send_one = [
        encode.record(11, 3, record_id=1, user_type=45, body=b"\x01" + bytes(50)),
        encode.record(12, 3, record_id=1, user_type=32, body=store_bytes.i64(QUEUE)),
    ]
    file_of(tmp_path, "a-3.amq", 3, *send_one)
    file_of(tmp_path, "a-5.amq", 5)
    loader = loaded(tmp_path)
    file_of(tmp_path, "a-4.amq", 4)
    loader.poll()
    file_of(tmp_path, "a-4.amq", 4, *in_transaction(4, 10))
    file_of(tmp_path, "a-5.amq", 5, *in_transaction(5, 11), encode.record(18, 5, tx_id=99, count=2))
    assert loader.poll() is PollResult.APPENDED
    assert live(loader) == [1, 10, 11]
    assert loader.damage() == []


@pytest.mark.parametrize("when", ["loading", "following"])
def test_ids_that_change_during_a_look_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A later one of two would be known without the earlier one, and read before it."""
    for number in (1, 2, 3):
        file_of(tmp_path, f"a-{number}.amq", number)
    loader = JournalLoader(tmp_path, "amq", tmp_path, SystemClock(), LiveState(), following=True)
    if when == "following":
        loader.load()
    looks, again = Heads.looks, [("a-1.amq", 4), ("a-2.amq", 5)]

    def changing(heads: Heads, names: Iterable[str]) -> list[Head | Exception]:
        seen = looks(heads, [name for name in names if name < "a-2"])
        while again:
            file_of(tmp_path, *again.pop(0))
        return [*seen, *looks(heads, [name for name in names if name >= "a-2"])]

    monkeypatch.setattr(Heads, "looks", changing)
    if when == "following":
        loader.poll()
    else:
        loader.load()
    assert [read.file.file_id for read in loader.files.read_files()] == [3, 4, 5]
