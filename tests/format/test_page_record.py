"""Records of pages, encoded: what brokers wrote comes out again, byte for byte."""

from __future__ import annotations

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.format.page_record import page_record
from journalfs.format.record_types import MessageType
from journalfs.ids import QueueId
from tests.differential.encode_messages import page_record as other_record
from tests.frozen import PristineStores

CORE_LARGE = 1


@pytest.mark.parametrize("name", ["large-and-paged", "transactions"])
def test_real_pages_are_encoded_as_they_are(stores: PristineStores, name: str) -> None:
    kinds: set[int] = set()
    """0 small, 1 large core, 2 other large: of the last there is none in these stores."""
    for path in sorted(stores[name].rglob("*.page")):
        with MappedFile(path) as mapped:
            for entry in scan_page(mapped):
                kind = MessageType.LARGE_MESSAGE if entry.kind == CORE_LARGE else MessageType.MESSAGE
                payload = mapped.copy(entry.payload_offset, entry.payload_bytes)
                encoded = page_record(entry.tx_id, kind, payload, [QueueId(one) for one in entry.queue_ids])
                assert encoded == mapped.copy(entry.offset, entry.record_bytes), f"{path} {entry.number}"
                kinds.add(entry.kind)
    assert kinds
    if name == "large-and-paged":
        assert kinds == {0, CORE_LARGE}


def test_a_large_amqp_message_has_its_own_kind() -> None:
    payload = b"\4" + bytes(8)
    assert page_record(-1, MessageType.MESSAGE, payload, []) == other_record(-1, 2, payload, [])
