"""Page files as the C core reads them against the reference: real ones, invented ones, damaged ones."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageScan, scan_page
from tests.differential.encode_messages import core_header, page_record, text_message
from tests.differential.values import amqp_payloads, core_payloads
from tests.frozen import FILE_STORES, PristineStores
from tests.reference import pages as reference

# Failing examples of these strategies are long, and printing them is the point.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def scanned(data: bytes) -> PageScan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scanned.page")
        path.write_bytes(data)
        return scan_page(MappedFile(path))


def entries_of(data: bytes, found: PageScan) -> list[reference.PageEntry | None]:
    """None for a record that could not be decoded, which only keeps its number."""
    entries: list[reference.PageEntry | None] = []
    for index in range(found.count):
        one = found.entry(index)
        payload = data[one.payload_offset : one.payload_offset + one.payload_bytes]
        entry = reference.PageEntry(one.tx_id, one.source == 1, payload, one.queue_ids)
        entries.append(None if one.undecoded else entry)
    return entries


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_pages(name: str, stores: PristineStores) -> None:
    for path in sorted((stores[name] / "data/paging").rglob("*.page")):
        data = path.read_bytes()
        found = scanned(data)
        assert entries_of(data, found) == reference.page(data).entries
        assert found.damaged_at is None


def _record(draw: st.DrawFn) -> bytes:
    queues = draw(st.lists(st.integers(0, 2**40), max_size=4))
    tx_id = draw(st.sampled_from([-1, 0, 5, 2**40]))
    kind = draw(st.sampled_from([0, 0, 0, 1, -1]))
    if kind:
        return page_record(tx_id, kind, core_header(draw(st.integers(1, 99)), kind=4), queues)
    payload = draw(core_payloads() | amqp_payloads() | st.integers(1, 9).map(text_message))
    return page_record(tx_id, 0, payload, queues)


RECORDS = st.lists(st.composite(_record)(), max_size=6)


@given(records=RECORDS, rest=st.binary(max_size=5))
def test_invented_pages(records: list[bytes], rest: bytes) -> None:
    """Fewer than six bytes behind the last record are ignored."""
    data = b"".join(records) + rest
    found = scanned(data)
    assert entries_of(data, found) == reference.page(data).entries
    assert len(found) == len(records)
    assert found.damaged_at is None


@given(records=RECORDS.filter(bool), at=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_pages(records: list[bytes], at: int, byte: int, cut: bool) -> None:
    """The reference stops at damage, as the broker does; what precedes must be the same."""
    data = bytearray(b"".join(records))
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] = byte
    whole = bytes(data)
    expected = reference.page(whole)
    found = scanned(whole)
    assert entries_of(whole, found)[: len(expected.entries)] == expected.entries
    if expected.damaged_at is None:
        assert len(found) == len(expected.entries)
        assert found.damaged_at is None
    else:
        behind = range(len(expected.entries), len(found))
        # A record that is whole but for what its message says of itself is still a record of its queues; its
        # line has the message as it is stored.
        undecoded = set(found.undecoded())
        decoded = [index for index in behind if index not in undecoded]
        lines = [found.fill_lines([index], queue="q", now_ms=0).line(0) for index in decoded]
        kept = any(b'"message_base64"' in line for line in lines)
        assert found.damaged_at is not None or undecoded or kept


@given(
    records=RECORDS.filter(lambda found: len(found) > 2), which=st.integers(0, 3), byte=st.integers(0, 255)
)
def test_damaged_frame_hides_one_record(records: list[bytes], which: int, byte: int) -> None:
    """Records on both sides of it keep their content, and their numbers."""
    number = which % (len(records) - 2)
    intact = reference.page(b"".join(records)).entries
    frame = bytearray(records[number])
    frame[0] = byte if byte != ord("{") else 0
    data = b"".join([*records[:number], bytes(frame), *records[number + 1 :]])
    entries = entries_of(data, scanned(data))
    assert entries[:number] == intact[:number]
    assert entries[number + 1 :] == intact[number + 1 :]
    assert entries[number] is None


def test_record_of_half_a_gigabyte_that_is_not_there() -> None:
    data = b"{" + struct.pack(">i", 2**29) + bytes(100)
    found = scanned(data)
    assert len(found) == 0
    assert found.damaged_at == 0
