"""Defects of the real journal classes, each shown with them, and that the journal here has none of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from journalfs.clock import FakeClock, SystemClock
from journalfs.damage import Damage
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend
from journalfs.engine.state import LiveState
from journalfs.errors import RecordRefused
from journalfs.ids import RecordId, TxId
from journalfs.records.files.compaction import encode_control_file
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.retention import Retention, RetentionLimits
from journalfs.records.files.writer import JournalWriter
from tests.differential import encode
from tests.journal.real_classes import SETTINGS, real_classes, run_real_classes
from tests.reference.journal import ADD, COMMIT, DELETE, PREPARE, ROLLBACK, UPDATE_TX
from tests.reference.journal import scan as reference_scan

pytestmark = pytest.mark.broker

PLAIN = replace(SETTINGS, checksums=False)


def write(folder: Path, number: int, records: list[bytes], *, file_id: int | None = None) -> Path:
    """A journal file, as a broker could have left it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"activemq-data-{number}.amq"
    content = encode.journal_file(file_id or number, records, size=SETTINGS.file_size_bytes)
    path.write_bytes(content)
    return path


def add(file_id: int, record_id: int, length: int = 8, *, compact_count: int = 0) -> bytes:
    body = b"%d:" % record_id + bytes(length)
    return encode.record(
        ADD, file_id, record_id=record_id, user_type=45, body=body, compact_count=compact_count
    )


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def found_by_them(folder: Path, *commands: str) -> set[int]:
    """Ids of the records that the real classes load."""
    lines = real_classes(folder, "NIO", *commands)
    return {int(line.split()[1]) for line in lines if line.startswith("record ")}


def opened(folder: Path) -> JournalWriter:
    return JournalWriter.open(open_backend(folder, BackendKind.NIO), PLAIN, SystemClock())


def found_by_us(folder: Path) -> set[int]:
    writer = opened(folder)
    live = set(writer.ledger.live_ids())
    writer.release()
    return live


def damage(folder: Path) -> list[Damage]:
    loader = JournalLoader(folder, "amq", folder, FakeClock(), LiveState())
    loader.load()
    return [one for one in loader.damage() if one.kind != "missing-message"]


def file_ids(folder: Path) -> list[int]:
    files = [file.read_bytes() for file in folder.glob("*.amq")]
    return sorted(int.from_bytes(content[8:16]) for content in files)


def test_synced_records_at_the_end_of_a_compaction(tmp_path: Path) -> None:
    """Killed after an old file was used again and before the control file went: that file is deleted by
    name.
    """
    folder = tmp_path / "j"
    write(folder, 7, [add(1, 1, compact_count=1)], file_id=1)
    write(folder, 6, [add(6, 2)])
    write(folder, 1, [add(9, 3)], file_id=9)
    control = encode_control_file(["activemq-data-1.amq"], ["activemq-data-7.amq.cmp"])
    (folder / "journal-rename-control.ctr").write_bytes(control)
    assert found_by_them(copied(folder, tmp_path / "theirs")) == {1, 2}
    assert damage(folder) == []
    assert found_by_us(folder) == {1, 2, 3}


async def test_file_ids_after_a_compaction_that_packs_worse(tmp_path: Path) -> None:
    """Old and young records are parted, which takes a file more than there were: the last output gets the id
    of the file that is being written.
    """
    folder = tmp_path / "j"
    write(folder, 1, [add(1, 1, 30_000, compact_count=2), add(1, 2, 30_000)])
    write(folder, 2, [add(2, 3, 60_000)])
    write(folder, 3, [add(3, 4, 60_000)])
    theirs = copied(folder, tmp_path / "theirs")
    await trio.to_thread.run_sync(real_classes, theirs, "NIO", "compact", "update 4 33 00")
    ids = [one for one in file_ids(theirs) if one]
    assert len(ids) != len(set(ids)), ids
    # The file that they go on in is not the one to go on in: its id is that of another.
    writer = opened(theirs)
    assert [file.file_id for file in writer.data].count(writer.current.file_id) == 1
    writer.release()
    writer = opened(folder)
    done = await writer.upkeep.compact()
    assert len(done.new) == 4
    await writer.close()
    ids = file_ids(folder)
    assert len(ids) == len(set(ids))
    assert found_by_us(folder) == {1, 2, 3, 4}


def test_files_that_wait_to_be_copied(tmp_path: Path) -> None:
    """Without retention the real classes do not see them, and what is in them is lost."""
    folder = tmp_path / "j"
    write(folder, 1, [add(1, 1)]).rename(folder / "activemq-data-1.amq.bkp")
    write(folder, 2, [add(2, 2)])
    assert found_by_them(copied(folder, tmp_path / "theirs")) == {2}
    assert found_by_us(folder) == {1, 2}


def test_partial_copies_in_the_history(tmp_path: Path) -> None:
    """The copy of file 2 was cut off. To remove it the real classes remove all whose names end alike."""
    for side in ("theirs", "ours"):
        folder, history = tmp_path / side / "j", tmp_path / side / "history"
        history.mkdir(parents=True)
        write(folder, 2, [add(2, 2)])
        for file_id in (12, 22):
            whole = encode.journal_file(file_id, [add(file_id, file_id)], size=SETTINGS.file_size_bytes)
            (history / f"activemq-data-20260101000000-{file_id}.amq").write_bytes(whole)
        (history / "activemq-data-20260101000000-2.amq").write_bytes(bytes(4096))
    waiting = tmp_path / "theirs" / "j" / "activemq-data-2.amq"
    waiting.rename(waiting.with_suffix(".amq.bkp"))
    real_classes(waiting.parent, "NIO", history=tmp_path / "theirs" / "history")
    left = {path.name[-6:] for path in (tmp_path / "theirs" / "history").iterdir()}
    assert left == {"-2.amq"}, "files 12 and 22 are gone"

    journal = open_backend(tmp_path / "ours" / "j", BackendKind.NIO)
    history_backend = open_backend(tmp_path / "ours" / "history", BackendKind.NIO)
    write(tmp_path / "ours" / "j", 3, [add(3, 3)])
    retention = Retention(journal, history_backend, PLAIN, SystemClock(), RetentionLimits(None, None))
    writer = JournalWriter.open(journal, PLAIN, SystemClock(), retention=lambda _: retention)
    trio.run(writer.upkeep.tidy)
    writer.release()
    copies = {path.name.rpartition("-")[2]: path for path in (tmp_path / "ours" / "history").iterdir()}
    assert set(copies) == {"2.amq", "12.amq", "22.amq"}
    assert copies["2.amq"].read_bytes() == (tmp_path / "ours" / "j" / "activemq-data-2.amq").read_bytes()


async def test_a_transaction_that_lost_a_part_in_an_earlier_file(tmp_path: Path) -> None:
    """What is left of it is applied. Here too, but the loss is told: a checksum says how far the file before
    had been written.
    """
    folder = tmp_path / "j"
    folder.mkdir()
    writer = JournalWriter.open(open_backend(folder, BackendKind.NIO), SETTINGS, SystemClock())
    for record in (1, 2):
        await writer.durable(writer.stage_add_in(TxId(9), RecordId(record), 45, b"part"))
    writer.switch()
    writer.stage_add_in(TxId(9), RecordId(3), 45, b"part")
    await writer.durable(writer.stage_commit(TxId(9)))
    await writer.close()
    assert damage(folder) == []
    first = folder / "activemq-data-1.amq"
    second = reference_scan(first.read_bytes(), 1).records[2]
    assert second.record_id == 2
    with first.open("r+b") as file:
        file.seek(second.offset)
        file.write(bytes(first.stat().st_size - second.offset))
    lines = await trio.to_thread.run_sync(real_classes, copied(folder, tmp_path / "theirs"), "NIO")
    assert [line.split()[:2] for line in lines] == [["record", "1"], ["record", "3"]]
    (told,) = damage(folder)
    assert (told.file, told.offset, told.kind) == (first.name, second.offset, "missing-records")


async def test_a_flipped_bit_in_a_body(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir()
    writer = JournalWriter.open(open_backend(folder, BackendKind.NIO), SETTINGS, SystemClock())
    await writer.durable(writer.stage_add(RecordId(1), 45, b"one hundred"))
    await writer.close()
    first = folder / "activemq-data-1.amq"
    first.write_bytes(first.read_bytes().replace(b"one hundred", b"own hundred"))
    lines = await trio.to_thread.run_sync(real_classes, copied(folder, tmp_path / "theirs"), "NIO")
    assert lines == [f"record 1 45 false [{b'own hundred'.hex()}]"]
    (told,) = damage(folder)
    assert (told.file, told.offset, told.kind) == (first.name, 16, "checksum")


def test_a_record_inside_a_damaged_one(tmp_path: Path) -> None:
    """Whoever sends a message could have written it: it is taken for a record. Here it is told apart."""
    folder = tmp_path / "j"
    outer = bytearray(encode.record(ADD, 1, record_id=1, user_type=45, body=b"...." + add(1, 666) + b"...."))
    outer[-1] ^= 1
    write(folder, 1, [bytes(outer), add(1, 2)])
    assert 666 in found_by_them(copied(folder, tmp_path / "theirs"))
    doubtful = [one for one in damage(folder) if one.kind == "doubtful-record"]
    assert [one.offset for one in doubtful] == [16 + 19 + 4]
    assert "record 666 lies within what a damaged record claims" in doubtful[0].reason


async def test_a_deleted_record_after_a_compaction(tmp_path: Path) -> None:
    """Added, updated in a transaction, deleted, and then the transaction is committed."""
    folder = tmp_path / "j"
    update = encode.record(UPDATE_TX, 1, tx_id=9, record_id=1, user_type=33, body=b"y")
    records = [add(1, 1), update, encode.record(DELETE, 1, record_id=1)]
    write(folder, 1, [*records, encode.record(COMMIT, 1, tx_id=9, count=1), add(1, 2)])
    theirs = copied(folder, tmp_path / "theirs")
    assert await trio.to_thread.run_sync(found_by_them, theirs, "compact") == {2}
    assert await trio.to_thread.run_sync(found_by_them, theirs) == {1, 2}
    writer = opened(folder)
    await writer.upkeep.compact()
    # And such a journal is not written here in the first place.
    writer.stage_update_in(TxId(10), RecordId(2), 33, b"z")
    with pytest.raises(RecordRefused, match="an open transaction claims it"):
        writer.stage_delete(RecordId(2))
    writer.stage_rollback(TxId(10))
    await writer.close()
    assert found_by_us(folder) == {2}


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK], ids=["commit", "rollback"])
def test_a_prepared_transaction_whose_records_are_lost(tmp_path: Path, end: int) -> None:
    """The real classes fail to load, so the broker does not start."""
    folder = tmp_path / "j"
    prepare = encode.record(PREPARE, 1, tx_id=9, count=1, body=b"xid")
    write(folder, 1, [add(1, 1), prepare, encode.record(end, 1, tx_id=9), add(1, 2)])
    done = run_real_classes(copied(folder, tmp_path / "theirs"), "NIO")
    assert done.returncode != 0
    assert "NullPointerException" in done.stderr
    assert found_by_us(folder) == {1, 2}


def test_a_file_that_never_got_a_header(tmp_path: Path) -> None:
    """The real classes fail to load beside it. Here it becomes a free file, and then they load too."""
    folder = tmp_path / "j"
    write(folder, 1, [add(1, 1)])
    (folder / "activemq-data-2.amq").write_bytes(bytes(SETTINGS.file_size_bytes))
    done = run_real_classes(copied(folder, tmp_path / "theirs"), "NIO")
    assert done.returncode != 0
    assert "AMQ149002" in done.stderr
    assert found_by_us(folder) == {1}
    assert file_ids(folder) == [1, 3]
    assert found_by_them(folder) == {1}


# -- what reaches the disk -----------------------------------------------------------------------------------

OURS = """
import sys, trio
from pathlib import Path
from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend
from journalfs.ids import RecordId
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter

async def main(folder, *flag):
    backend = open_backend(Path(folder), BackendKind.NIO)
    writer = JournalWriter.open(backend, WriteSettings(file_size_bytes=65536), SystemClock())
    for path in flag:
        Path(path).touch()
    await writer.durable(writer.stage_add(RecordId(1), 45, b"x"))
    await writer.close()

trio.run(main, *sys.argv[1:])
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that watches what a process syncs."""
    library = tmp_path_factory.mktemp("watched") / "count_syncs.so"
    source = Path(__file__).parent / "c" / "count_syncs.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def ours(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", OURS, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_names_of_new_files_reach_the_disk(tmp_path: Path, watched: Path) -> None:
    """A power cut can take away files that the real classes filled: their names were never synced."""
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
    log = tmp_path / "theirs.log"
    environment = {"LD_PRELOAD": str(watched), "SYNCS_LOG": str(log)}
    real_classes(tmp_path / "theirs", "NIO", "add 1 45 00", environment=environment)
    assert set(log.read_text().split()) == {"file"}
    log = tmp_path / "ours.log"
    done = ours({"LD_PRELOAD": str(watched), "SYNCS_LOG": str(log)}, str(tmp_path / "ours"))
    assert done.returncode == 0, done.stderr
    assert set(log.read_text().split()) == {"file", "directory"}


def test_a_sync_that_failed_is_told(tmp_path: Path, watched: Path) -> None:
    """With ASYNCIO the real classes take the record for durable."""
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
    flag = tmp_path / "now"
    environment = {"LD_PRELOAD": str(watched), "SYNCS_FAIL_IF": str(flag), "SYNCS_LOG": str(tmp_path / "log")}
    real_classes(tmp_path / "theirs", "ASYNCIO", f"touch {flag}", "add 1 45 00", environment=environment)
    assert "refused" in (tmp_path / "log").read_text()
    flag.unlink()
    done = ours(environment, str(tmp_path / "ours"), str(flag))
    assert done.returncode != 0
    assert "WriteFailed" in done.stderr
