"""The broker's own journal classes load what we wrote, and we what they wrote, by turns."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend
from journalfs.ids import RecordId, TxId
from journalfs.records.files.writer import JournalWriter
from tests.journal.real_classes import SETTINGS, real_classes
from tests.reference.journal import Emitted, Replay, read_folder, replay

pytestmark = pytest.mark.broker

KINDS = pytest.mark.parametrize("kind", ["NIO", "MAPPED", "ASYNCIO"])


def text(record: Emitted) -> str:
    update = "true" if record.update else "false"
    return f"{record.record_id} {record.user_type} {update} [{record.body.hex()}]"


def lines_of(found: Replay) -> list[str]:
    """What the real classes should print of it."""
    lines = [f"record {text(record)}" for record in found.records]
    for tx in found.prepared:
        assert tx.extra is not None
        lines.append(f"prepared {tx.tx_id} {tx.extra.hex()}")
        lines += [f"in {tx.tx_id} {text(record)}" for record in tx.operations]
        lines += [f"deletes {tx.tx_id} {record_id}" for record_id, _ in tx.deletes]
    return lines


def read(folder: Path) -> Replay:
    return replay(file.scan.records for file in read_folder(folder))


async def write_everything(writer: JournalWriter) -> None:
    """Every kind of record, over several files."""
    for record in range(1, 301):
        writer.stage_add(RecordId(record), 45, b"message %d " % record + bytes(600))
        writer.stage_update(RecordId(record), 32, (7).to_bytes(8))
    for record in range(1, 101):
        writer.stage_delete(RecordId(record))
    writer.stage_update(RecordId(200), 34, (7).to_bytes(8) + (2).to_bytes(4))
    writer.stage_event(RecordId(10**10), 99, b"private")
    for tx in (1000, 1001, 1002, 1003):
        for record in range(tx * 10, tx * 10 + 5):
            writer.stage_add_in(TxId(tx), RecordId(record), 45, b"in %d" % tx + bytes(300))
        writer.stage_update_in(TxId(tx), RecordId(tx - 850), 33, (7).to_bytes(8))
        writer.stage_delete_in(TxId(tx), RecordId(tx - 800), b"why")
    writer.switch()
    writer.stage_add_in(TxId(1000), RecordId(10005), 45, b"in another file")
    writer.stage_commit(TxId(1000))
    writer.stage_rollback(TxId(1001))
    writer.stage_prepare(TxId(1002), b"xid of 1002")
    writer.stage_prepare(TxId(1003), b"xid of 1003")
    await writer.durable(writer.position)


@KINDS
async def test_the_real_classes_find_what_we_wrote(kind: str, tmp_path: Path) -> None:
    backend = open_backend(tmp_path, BackendKind(kind))
    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    await write_everything(writer)
    await writer.upkeep.tidy()
    await writer.close()
    backend.close()
    expected = lines_of(read(tmp_path))
    assert sum(line.startswith("record") for line in expected) > 400
    assert sum(line.startswith("prepared") for line in expected) == 2
    assert await trio.to_thread.run_sync(real_classes, tmp_path, kind) == expected


@KINDS
async def test_they_find_the_same_after_we_compacted(kind: str, tmp_path: Path) -> None:
    backend = open_backend(tmp_path, BackendKind(kind))
    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    await write_everything(writer)
    done = await writer.upkeep.compact()
    assert len(done.new) < len(done.old)
    await writer.close()
    backend.close()
    assert await trio.to_thread.run_sync(real_classes, tmp_path, kind) == lines_of(read(tmp_path))


@KINDS
async def test_by_turns(kind: str, tmp_path: Path) -> None:
    """We write, they load and write, we load and compact, they end what we prepared and compact, we load."""
    backend = open_backend(tmp_path, BackendKind(kind))
    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    await write_everything(writer)
    await writer.close()
    turn = ["add 20001 45 0a0b", "update 20001 32 0000000000000007", "delete 150", "commit 1002"]
    await trio.to_thread.run_sync(real_classes, tmp_path, kind, *turn)

    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    assert writer.is_live(20001)
    assert not writer.is_live(150)
    assert writer.is_live(10020)
    assert [tx.tx_id for tx in writer.ledger.transactions()] == [1003]
    writer.stage_delete(RecordId(151))
    await writer.durable(writer.stage_add(RecordId(20002), 45, b"ours"))
    await writer.upkeep.compact()
    await writer.close()
    expected = lines_of(read(tmp_path))
    turn = ["rollback 1003", "delete 20002", "compact"]
    assert await trio.to_thread.run_sync(real_classes, tmp_path, kind, *turn) == expected

    writer = JournalWriter.open(backend, SETTINGS, SystemClock())
    assert not writer.is_live(20002)
    assert not writer.is_live(151)
    assert writer.totals().open_transactions == 0
    live = {one.record_id for one in read(tmp_path).records if not one.update}
    assert live == set(writer.ledger.live_ids())
    await writer.close()
    backend.close()
