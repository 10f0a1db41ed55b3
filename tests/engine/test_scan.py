"""The scan of journal files that a real broker wrote."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Gap, GapKind, RecordInfo, scan_journal
from tests.engine.journals import journal_files
from tests.frozen import PristineStores

KINDS = {11: 2, 12: 5, 13: 97, 14: 122, 16: 8, 17: 6, 18: 6, 19: 4}
"""Records of `transactions` by kind, as the broker's own print of that journal has them."""


def forge(kind: int, rid: int, *fields: bytes) -> bytes:
    body = struct.pack(">BiB", kind, rid, 0) + b"".join(fields)
    return body + struct.pack(">i", len(body) + 4)


def test_records_and_gaps_cover_the_file(stores: PristineStores) -> None:
    """Under ASYNCIO every flush is padded to a block: nothing in between is left unsaid."""
    for journal in journal_files(stores["aio"] / "data" / "journal"):
        scan = journal.scan()
        at = 16
        gaps = {gap.offset: gap for gap in scan.gaps()}
        for record in scan:
            if record.offset != at:
                assert gaps.pop(at) == Gap(at, record.offset - at, GapKind.PADDING)
            assert record.body_offset + record.body_bytes <= record.offset + record.length
            at = record.offset + record.length
        assert not gaps
        assert at == scan.end


def test_kinds_of_a_known_store(stores: PristineStores) -> None:
    journal = journal_files(stores["transactions"] / "data" / "journal")[0]
    kinds = Counter(record.kind for record in journal.scan())
    assert kinds == KINDS


def test_a_part_of_a_file(stores: PristineStores) -> None:
    journal = journal_files(stores["killed"] / "data" / "journal")[0]
    whole = list(journal.scan())
    middle = whole[500]
    before = journal.scan(stop=middle.offset)
    after = journal.scan(start=middle.offset)
    assert before.end == middle.offset
    assert list(before) + list(after) == whole


def test_an_index_outside_is_an_error(stores: PristineStores) -> None:
    scan = journal_files(stores["mapped"] / "data" / "journal")[0].scan()
    assert len(scan) == scan.count
    for index in (-1, scan.count):
        with pytest.raises(IndexError):
            scan.record(index)


def test_hand_made_records(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    prepare = forge(17, 7, struct.pack(">qii", 67, 2, 3), b"xid")
    update = forge(12, 7, struct.pack(">qib", 24, 8, 32), struct.pack(">q", 21))
    path.write_bytes(bytes(16) + prepare + update + bytes(64))
    with MappedFile(path) as file:
        scan = scan_journal(file, rid=7, version=2)
        assert list(scan) == [
            RecordInfo(17, 16, 29, 38, 3, 0, 67, 2, 0, 0, False),
            RecordInfo(12, 45, 31, 64, 8, 24, 0, 0, 32, 0, False),
        ]
        assert scan.end == 16 + len(prepare) + len(update)
        assert scan_journal(file, rid=8, version=2).count == 0
        assert scan_journal(file, rid=8, version=2, any_rid=True).count == 2


def test_damage_in_the_middle_is_said_and_skipped(tmp_path: Path, stores: PristineStores) -> None:
    journal = journal_files(stores["orders-basic"] / "data" / "journal")[0]
    whole = list(journal.scan())
    damaged = bytearray(journal.file.copy(0, journal.file.size_bytes))
    hit = whole[100]
    damaged[hit.offset + hit.length - 1] ^= 0xFF
    path = tmp_path / "journal"
    path.write_bytes(damaged)
    with MappedFile(path) as file:
        scan = scan_journal(file, rid=journal.file_id, version=journal.version)
        assert [r for r in scan if not r.in_damage] == [r for r in whole if r is not hit]
        assert scan.gaps()[0].kind is GapKind.GARBAGE
        assert scan.gaps()[0].offset == hit.offset


def test_a_torn_tail_is_told_from_an_older_life(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    record = forge(18, 7, struct.pack(">qi", 1, 0))
    older = forge(18, 6, struct.pack(">qi", 2, 0))
    path.write_bytes(bytes(16) + record + record[:-1] + b"\xee" * 3 + older + bytes(100))
    with MappedFile(path) as file:
        kinds = [gap.kind for gap in scan_journal(file, rid=7, version=2).gaps()]
    assert kinds == [GapKind.TORN, GapKind.STALE]
