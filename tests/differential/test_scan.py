"""The C scan against the reference scan: real files, damaged ones, and files made of odd fragments."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import GapKind, RecordInfo, Scan, scan_journal
from tests.differential.encode import header, record
from tests.differential.mutations import mutated
from tests.frozen import FILE_STORES, PristineStores
from tests.reference import journal as reference

RID = 7


def _c_scan(data: bytes, rid: int, version: int = 2, *, start: int = 16, stop: int | None = None) -> Scan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scanned.amq")
        path.write_bytes(data)
        with MappedFile(path) as file:
            return scan_journal(file, rid=rid, version=version, start=start, stop=stop)


def _as_reference(found: RecordInfo, data: bytes) -> reference.Record:
    return reference.Record(
        kind=found.kind,
        offset=found.offset,
        length=found.length,
        compact_count=found.compact_count,
        tx_id=found.tx_id,
        record_id=found.record_id,
        user_type=found.user_type,
        count=found.count,
        body=data[found.body_offset : found.body_offset + found.body_bytes],
        body_offset=found.body_offset if found.body_bytes else 0,
    )


def _expected(found: reference.Scan) -> list[reference.Record]:
    # Where an empty body would begin is nobody's business.
    return [one if one.body else reference.Record(**{**vars(one), "body_offset": 0}) for one in found.records]


def assert_same_scan(data: bytes, rid: int, version: int = 2) -> None:
    expected = reference.scan(data, rid, version)
    actual = _c_scan(data, rid, version)
    assert [_as_reference(one, data) for one in actual] == _expected(expected)
    assert actual.marked == expected.marked
    assert actual.end == expected.end
    assert_gaps_tell_the_rest(data, actual)


def assert_gaps_tell_the_rest(data: bytes, found: Scan) -> None:
    """Records and gaps do not overlap, leave nothing out up to the last record, and only zeros behind it."""
    spans = [(one.offset, one.length) for one in found] + [(one.offset, one.length) for one in found.gaps()]
    at = 16
    for offset, length in sorted(spans):
        assert offset >= at
        assert length > 0
        if offset > at:
            assert at >= found.end
            assert not any(data[at:offset])
        at = offset + length
    assert at >= found.end or found.count == 0
    assert not any(data[at:])
    behind = {one.kind for one in found.gaps() if one.offset >= found.end}
    assert behind <= {GapKind.TORN, GapKind.STALE}


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_files(name: str, stores: PristineStores) -> None:
    paths = [*(stores[name] / "data").rglob("*.amq"), *(stores[name] / "data").rglob("*.bindings")]
    assert paths
    for path in paths:
        data = path.read_bytes()
        version, _, file_id = struct.unpack(">iiq", data[:16])
        assert_same_scan(data, file_id & 0x7FFFFFFF, version)


@given(data=mutated())
def test_damaged_real_files(data: bytes) -> None:
    version, _, file_id = struct.unpack(">iiq", data[:16])
    assert_same_scan(data, file_id & 0x7FFFFFFF, version)


BODIES = st.binary(max_size=40) | st.builds(
    record, st.sampled_from([10, 11, 16, 18]), st.just(RID), record_id=st.integers(0, 9), body=st.just(b"in")
)
RECORDS = st.builds(
    record,
    st.integers(10, 19),
    st.sampled_from([RID, RID, RID, RID + 1, -1]),
    compact_count=st.integers(-128, 127),
    tx_id=st.integers(-(2**63), 2**63 - 1),
    record_id=st.integers(-(2**63), 2**63 - 1),
    user_type=st.integers(-128, 127),
    count=st.integers(-(2**31), 2**31 - 1),
    body=BODIES,
)
# A head of this file's, then lengths nobody would write.
LIARS = st.builds(
    lambda kind, fields, size: (
        struct.pack(">BiB", kind, RID, 0) + fields + struct.pack(">i", size) + b"\0" * 8
    ),
    st.integers(10, 19),
    st.sampled_from([bytes(4), bytes(8), bytes(12), bytes(16)]),
    st.sampled_from([-(2**31), -30, -1, 0, 1, 20, 2**31 - 40, 2**31 - 1]),
)
FRAGMENTS = st.one_of(
    RECORDS,
    RECORDS.flatmap(lambda whole: st.integers(0, len(whole) - 1).map(lambda end: whole[:end])),
    LIARS,
    st.integers(0, 600).map(bytes),
    st.binary(max_size=30),
    st.lists(st.sampled_from([10, 11, 13, 17, 18, 0, RID]), max_size=30).map(bytes),
)


@given(fragments=st.lists(FRAGMENTS, max_size=12))
def test_files_of_fragments(fragments: list[bytes]) -> None:
    assert_same_scan(header(RID) + b"".join(fragments), RID)


@given(bodies=st.lists(st.tuples(st.integers(10, 19), BODIES), max_size=8), cut=st.integers(0, 30))
def test_files_of_version_1(bodies: list[tuple[int, bytes]], cut: int) -> None:
    data = header(RID, 1) + b"".join(
        record(kind, RID, version=1, record_id=kind, tx_id=5, count=1, body=body) for kind, body in bodies
    )
    assert_same_scan(data[: max(16, len(data) - cut)], RID, 1)


@given(fragments=st.lists(FRAGMENTS, max_size=8), start=st.integers(16, 300), stop=st.integers(16, 600))
def test_windows_of_a_file(fragments: list[bytes], start: int, stop: int) -> None:
    data = header(RID) + b"".join(fragments)
    start, stop = min(start, len(data)), min(stop, len(data))
    actual = _c_scan(data, RID, start=start, stop=stop)
    expected = reference.scan(data[:stop], RID, 2, min(start, stop))
    assert [_as_reference(one, data) for one in actual] == _expected(expected)
    assert actual.end == expected.end


@given(fragments=st.lists(RECORDS, min_size=1, max_size=6), at=st.integers(0, 10_000))
def test_records_inside_a_damaged_one_are_flagged(fragments: list[bytes], at: int) -> None:
    """A record whose check size is broken claims its extent; what is found in there says so."""
    inner = record(11, RID, record_id=666, user_type=45, body=b"forged")
    outer = bytearray(record(11, RID, record_id=1, user_type=45, body=b"x" * (at % 50) + inner + b"y" * 9))
    outer[-1] ^= 1
    data = header(RID) + bytes(outer) + b"".join(fragments)
    assert_same_scan(data, RID)
    forged = [one for one in _c_scan(data, RID) if one.record_id == 666]
    assert [one.in_damage for one in forged] == [True]
    behind = [one for one in _c_scan(data, RID) if one.offset >= 16 + len(outer)]
    assert not any(one.in_damage for one in behind)
