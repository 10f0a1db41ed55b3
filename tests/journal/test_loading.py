"""The reading side reads what the writing side wrote, also while it is being written and compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend, open_backend
from journalfs.engine.state import LiveState
from journalfs.ids import RecordId, TxId
from journalfs.journal.loader import JournalLoader, PollResult
from journalfs.journal.write_settings import WriteSettings
from journalfs.journal.writer import JournalWriter
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
