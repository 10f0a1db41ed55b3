"""Records as bytes: the examples of real brokers, and every kind against an independent encoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.backend import scan_view
from journalfs.engine.copying import RecordCopier
from journalfs.engine.stage import NewRecord, encode, record_bytes
from journalfs.format.record_types import RecordKind
from journalfs.records.files.compaction import encode_control_file
from journalfs.records.files.pool import encode_header
from tests.differential import encode as independent
from tests.journal.simulated import MemoryView

REAL = [
    (
        NewRecord(12, 0x18, 0, 0x20, bytes.fromhex("0000000000000015")),
        "0c00000001000000000000000018000000082000000000000000150000001f",
    ),
    (
        NewRecord(14, 0x18, 0x26, 0x21, bytes.fromhex("0000000000000015")),
        "0e0000000100000000000000002600000000000000180000000821000000000000001500000027",
    ),
    (NewRecord(18, tx_id=0x2C), "120000000100000000000000002c0000000600000016"),
    (NewRecord(19, tx_id=0x31), "130000000100000000000000003100000012"),
    (
        NewRecord(17, tx_id=0x43, body=bytes.fromhex("00000007000000026271000000056774782d31")),
        "1100000001000000000000000043000000020000001300000007000000026271000000056774782d310000002d",
    ),
    (NewRecord(16, 0x18), "100000000100000000000000001800000012"),
    (
        NewRecord(15, 3, 0x64, body=b"del-extra"),
        "0f0000000100000000000000006400000000000000030000000964656c2d657874726100000027",
    ),
    (
        NewRecord(10, 0x4D, 0, 0x31, b"event-body"),
        "0a0000000100000000000000004d0000000a316576656e742d626f647900000021",
    ),
]
COUNTS = {18: 6, 17: 2}


@pytest.mark.parametrize(("record", "expected"), REAL, ids=lambda value: getattr(value, "kind", None))
def test_records_that_brokers_wrote(record: NewRecord, expected: str) -> None:
    counts = [COUNTS[record.kind]] if record.kind in COUNTS else []
    assert encode([record], rid=1, counts=counts).hex() == expected


def test_header_and_control_file_that_brokers_wrote() -> None:
    assert encode_header(1, 1).hex() == "00000002000000000000000000000001"
    assert encode_header(7, 512) == encode_header(7, 1) + bytes(496)
    written = encode_control_file(["jrn-1.dat", "jrn-2.dat", "jrn-3.dat"], ["jrn-6.dat.cmp"])
    # The broker's has four bytes more of unused room at the end of the body.
    assert written.hex() == (
        "00000002000000000000000000000000"
        "0b00000000000000000000000001"
        "0000003c"
        "00"
        "00000003"
        "00096a726e2d312e646174"
        "00096a726e2d322e646174"
        "00096a726e2d332e646174"
        "00000001"
        "000d6a726e2d362e6461742e636d70"
        "00000000"
        "00000053"
    )


KINDS = [int(kind) for kind in RecordKind]
I64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(
    NewRecord, st.sampled_from(KINDS), I64, I64, st.integers(-128, 127), st.binary(max_size=300)
)


@given(st.lists(RECORDS, max_size=20), st.integers(0, 2**31 - 1), st.data())
def test_any_records_as_another_encoder_writes_them(
    records: list[NewRecord], rid: int, data: st.DataObject
) -> None:
    counts = [data.draw(st.integers(0, 2**31 - 1)) for record in records if record.kind in (17, 18)]
    left = iter(counts)
    expected = b""
    for record in records:
        encoded = independent.record(
            record.kind,
            rid,
            tx_id=record.tx_id,
            record_id=record.record_id,
            user_type=record.user_type,
            count=next(left) if record.kind in (17, 18) else 0,
            body=record.body,
        )
        assert record_bytes(record.kind, len(record.body)) == len(encoded)
        expected += encoded
    assert encode(records, rid=rid, counts=counts) == expected


@pytest.mark.parametrize("version", [1, 2])
@given(records=st.lists(RECORDS, min_size=1, max_size=10), count=st.integers(0, 1000))
def test_copies_differ_in_file_and_compact_count_only(
    version: int, records: list[NewRecord], count: int
) -> None:
    def written(rid: int, version: int, compact_count: int, record_count: int) -> list[bytes]:
        return [
            independent.record(
                record.kind,
                rid,
                version=version,
                compact_count=compact_count,
                tx_id=record.tx_id,
                record_id=record.record_id,
                user_type=record.user_type,
                count=record_count,
                body=record.body,
            )
            for record in records
        ]

    source = MemoryView(independent.journal_file(5, written(5, version, 0, 1)))
    scan = scan_view(source, rid=5, version=version, doing="scanning a test's file")
    assert scan.count == len(records)
    copier = RecordCopier(first_id=9, file_size_bytes=1 << 20)
    for index in range(scan.count):
        copier.make_room(scan.pointer.records[index].length + 1)
        copier.copy(source, scan.pointer.records[index], version=version, compact_count=3, count=count)
    (output,) = copier.outputs
    assert bytes(output[16:]) == b"".join(written(9, 2, 3, count))
