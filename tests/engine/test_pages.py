"""Page files: records found, damage told, lines made."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import line_prefix
from journalfs.engine.pages import PageScan, page_shares, scan_page
from journalfs.engine.recordview import PageView
from tests.differential.encode_messages import (
    amqp_message,
    core_header,
    nullable,
    page_record,
    section,
    text_message,
)

AMQP_LARGE = (
    b"\x04"
    + struct.pack(">q?q", 12, True, 0)
    + nullable("a")
    + struct.pack(">iii", 0, -1, 0)
    + b"\x40"
    + struct.pack(">iii", -1, 0, -1)
    + b"\x40"
    + struct.pack(">i", -1)
    + b"\x40"
    + struct.pack(">ii", -1, 0)
    + b"\x40"
    + bytes(9)
)
RECORDS = [
    page_record(-1, 0, text_message(10, "small"), [7, 8]),
    page_record(300, 1, core_header(11), [7]),
    page_record(-1, 2, AMQP_LARGE, [8]),
    page_record(0, -1, core_header(13), []),
    page_record(-1, 0, amqp_message(14, section(0x77, b"\xa1\x01x")), [9, 7]),
    page_record(-1, 0, amqp_message(15, section(0x77, b"\xa1\x01y"), persister=2), [7]),
    page_record(-1, 0, amqp_message(16, section(0x77, b"\xa1\x01z"), persister=3), [7]),
]


def scanned(tmp_path: Path, content: bytes) -> PageScan:
    path = tmp_path / "000000001.page"
    path.write_bytes(content)
    return scan_page(MappedFile(path))


def test_every_kind_of_record(tmp_path: Path) -> None:
    scan = scanned(tmp_path, b"".join(RECORDS))
    entries = list(scan)
    assert [entry.message_id for entry in entries] == [10, 11, 12, 13, 14, 15, 16] == list(scan.message_ids())
    assert [entry.queue_ids for entry in entries] == [(7, 8), (7,), (8,), (), (9, 7), (7,), (7,)]
    assert [entry.tx_id for entry in entries] == [-1, 300, -1, 0, -1, -1, -1] == list(scan.tx_ids())
    assert [entry.kind for entry in entries] == [0, 1, 2, -1, 0, 0, 0]
    assert [entry.number for entry in entries] == list(range(7))
    assert scan.end == len(b"".join(RECORDS))
    assert (scan.damaged_at, scan.reason, scan.undecoded()) == (None, None, [])
    assert scan.large() == [(1, 11), (2, 12), (3, 13)]
    assert list(scan.of_queue(7)) == [0, 1, 4, 5, 6]
    assert list(scan.of_queue(99)) == []
    ids, starts = scan.queue_ids()
    assert list(ids) == [7, 8, 7, 8, 9, 7, 7, 7]
    assert list(starts) == [0, 2, 3, 4, 4, 6, 7, 8]


def test_what_each_queue_has_of_a_page(tmp_path: Path) -> None:
    """As many records, and as long lines, as when they are chosen one by one; a queue named twice has one."""
    thousand = [page_record(-1, 0, text_message(20 + at, "x" * at), range(1000, 2000)) for at in range(3)]
    twice = page_record(-1, 0, text_message(30, "twice"), [2**62, 5, 5, -3])
    scan = scanned(tmp_path, b"".join([*RECORDS, *thousand, twice, RECORDS[0]]))
    shares = page_shares(scan)
    assert list(shares) == sorted({queue for entry in scan for queue in entry.queue_ids})
    for queue_id, share in shares.items():
        chosen = scan.of_queue(queue_id)
        lines = scan.fill_lines(chosen, queue="a queue", now_ms=0)
        prefix_bytes = len(line_prefix("a queue")) * len(chosen)
        assert (share.records, share.line_bytes + prefix_bytes) == (len(chosen), lines.size_bytes)
    assert shares[5].records == 1
    assert page_shares(scanned(tmp_path, b"")) == {}


DAMAGE = [
    (b"{" + struct.pack(">i", 50) + b"x" * 10, "longer than the page"),
    (b"{" + struct.pack(">i", -2) + b"x" * 10, "longer than the page"),
    (b"{\x7f\xff\xff\xff" + b"x" * 10, "longer than the page"),
    (RECORDS[0][:-1] + b"]", "does not end"),
    (b"{\0\0\0\0}", "does not end"),
    (b"garbage", "no record begins"),
    (bytes(4096), "only zeros"),
    (RECORDS[0][:-1], "longer than the page"),
]


@pytest.mark.parametrize(("tail", "reason"), DAMAGE)
def test_damage_ends_the_page_and_is_told(tmp_path: Path, tail: bytes, reason: str) -> None:
    good = RECORDS[0] + RECORDS[1]
    scan = scanned(tmp_path, good + tail)
    assert scan.count == 2
    assert scan.end == scan.damaged_at == len(good)
    assert scan.reason is not None
    assert reason in scan.reason


@pytest.mark.parametrize("rest", [b"", b"{", b"{\0\0\0\1"])
def test_a_few_bytes_at_the_end_are_ignored(tmp_path: Path, rest: bytes) -> None:
    scan = scanned(tmp_path, RECORDS[0] + rest)
    assert (scan.count, scan.damaged_at) == (1, None)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">qb", -1, 0) + b"\x09nothing known",
        struct.pack(">qb", -1, 5) + text_message(1) + bytes(4),
        struct.pack(">qb", -1, 0) + text_message(1) + struct.pack(">i", 2) + bytes(8),
        struct.pack(">qb", -1, 0) + text_message(1) + struct.pack(">i", -1),
        struct.pack(">qb", -1, 1) + struct.pack(">i", 2**31 - 1) + core_header(1),
        struct.pack(">qb", -1, 0),
    ],
)
def test_a_record_that_cannot_be_decoded_keeps_its_number(tmp_path: Path, content: bytes) -> None:
    """The numbers of the records behind it are what acknowledgements name, so it must count."""
    strange = b"{" + struct.pack(">i", len(content)) + content + b"}"
    scan = scanned(tmp_path, RECORDS[0] + strange + RECORDS[4])
    assert scan.count == 3
    assert scan.undecoded() == [1]
    assert scan.entry(1).queue_ids == ()
    assert scan.entry(2).message_id == 14
    assert list(scan.of_queue(7)) == [0, 2]
    view = PageView(MappedFile(tmp_path / "000000001.page"), scan, "000000001.page", address="a")
    line = json.loads(view.line(1))
    assert line["undecoded"] is True
    assert base64.b64decode(line["body_base64"]) in content


def test_lines_of_chosen_records(tmp_path: Path) -> None:
    scheduled = text_message(20, "later", properties={"_AMQ_SCHED_DELIVERY": ("long", 5000)})
    scan = scanned(tmp_path, RECORDS[0] + page_record(-1, 0, scheduled, [7]) + RECORDS[1])
    batch = scan.fill_lines([1, 0], queue="q", now_ms=4000)
    lines = [json.loads(line) for line in batch.read(0, batch.size_bytes).splitlines()]
    assert [line["id"] for line in lines] == [20, 10]
    assert lines[0]["scheduledTime"] == 5000
    assert "scheduledTime" not in lines[1]
    later = scan.fill_lines([1], queue="q", now_ms=5000)
    assert "scheduledTime" not in json.loads(later.line(0))
    assert scan.fill_lines([], queue="q", now_ms=0).size_bytes == 0
    with pytest.raises(IndexError):
        scan.entry(3)


def test_a_large_message_is_measured_with_its_body(tmp_path: Path) -> None:
    scan = scanned(tmp_path, RECORDS[1])
    body = nullable("large text")
    probe = scan.fill_lines([0], queue=None, now_ms=0)
    probe.set_large(0, body)
    scan.set_measure(0, probe.measure(0))
    batch = scan.fill_lines([0], queue="q", now_ms=0)
    batch.set_large(0, body)
    line = json.loads(batch.line(0))
    assert line["body"] == "large text"
    assert scan.measure(0).body_bytes == len("large text")
