"""The worked examples of the format pages decode to what the pages say."""

from __future__ import annotations

import re
import struct
import uuid
from pathlib import Path

import pytest

from journalfs.format import bindings
from journalfs.format.journal_file import decode_control_file, read_header
from journalfs.format.server_lock import NodeState, decode_server_lock
from journalfs.format.xid import Xid, decode_xid
from tests.reference import journal, messages, pages

PAGES = Path(__file__).resolve().parents[2] / "docs" / "format"
TIMESTAMP_MS = 1_798_761_600_000


def examples(page: str) -> list[bytes]:
    """The page's hex blocks, without what stands behind each `;`."""
    blocks = re.findall(r"^```hex\n(.*?)^```$", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    return [bytes.fromhex("".join(line.split(";")[0] for line in block.splitlines())) for block in blocks]


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_every_page_has_a_worked_example(page: str) -> None:
    assert examples(page)


def test_journal_file() -> None:
    header, control, lock = examples("journal-file.md")
    assert read_header(header).readable
    assert read_header(header).file_id == 7
    decoded = decode_control_file(control)
    assert decoded.delete == ("activemq-data-1.amq", "activemq-data-2.amq")
    assert decoded.settle == ("activemq-data-9.amq.cmp",)
    assert decoded.rename == ()
    state = decode_server_lock(lock)
    assert state.state is NodeState.ACTIVE
    assert state.node_id == uuid.UUID("7c9e6670-74e0-11ed-9b6a-0242ac120002")


def test_records() -> None:
    records, xid = examples("records.md")
    found = journal.scan(bytes(journal.HEADER_BYTES) + records, rid=7).records
    assert [record.kind for record in found] == [journal.ADD_TX, journal.COMMIT, journal.DELETE]
    assert sum(record.length for record in found) == len(records)
    added, committed, deleted = found
    assert (added.tx_id, added.record_id, added.user_type) == (40, 41, 44)
    assert (committed.tx_id, committed.count, deleted.record_id) == (40, 1, 41)
    address = bindings.decode_address_binding(added.body)
    assert (address.name, address.routing_types) == ("orders", (bindings.RoutingType.ANYCAST,))
    assert decode_xid(xid) == Xid(17, b"bq-", b"gt-1")


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_checksums() -> None:
    [flush] = examples("checksums.md")
    content = bytes(journal.HEADER_BYTES) + flush
    added, checksum = journal.scan(content, rid=1).records
    assert (added.record_id, added.user_type, added.body) == (41, 45, b"part")
    assert (checksum.kind, checksum.user_type, checksum.length) == (journal.EVENT, 99, 51)
    name, begin, length, *_ = struct.unpack_from(">4sII", checksum.body)
    assert (name, begin, begin + length) == (b"JFS1", added.offset, checksum.offset)
    covered = (1).to_bytes(8) + checksum.body[:24] + content[begin : begin + length]
    assert crc32c(covered) == int.from_bytes(checksum.body[24:])


def test_bindings() -> None:
    [queue] = map(bindings.decode_queue_binding, examples("bindings.md"))
    assert (queue.name, queue.address, queue.filter, queue.ring_size) == ("audit", "orders", "vip", 1000)
    assert queue.routing_type is bindings.RoutingType.MULTICAST
    assert queue.enabled
    assert queue.unknown == b""


def test_messages() -> None:
    [payload] = examples("messages.md")
    message = messages.decode(payload)
    assert (message.message_id, message.priority) == (4411, 4)
    said = {
        key: message.envelope[key]
        for key in ("address", "type", "durable", "timestamp", "body", "properties")
    }
    assert said == {
        "address": "orders",
        "type": "text",
        "durable": True,
        "timestamp": TIMESTAMP_MS,
        "body": "hello",
        "properties": {"color": "red"},
    }


def test_pages() -> None:
    [data] = examples("pages.md")
    page = pages.page(data)
    assert page.damaged_at is None
    [entry] = page.entries
    assert (entry.tx_id, entry.core_large, entry.queue_ids) == (-1, False, (21, 22))
    assert [entry.payload] == examples("messages.md")


def test_large_messages() -> None:
    [header] = examples("large-messages.md")
    message = messages.decode(header, core_large=True, large=bytes(204_800))
    assert message.message_id == 4412
    assert (message.envelope["type"], message.envelope["address"]) == ("bytes", "orders")
    assert message.envelope["properties"] == {"_AMQ_LARGE_SIZE": 204_800}
