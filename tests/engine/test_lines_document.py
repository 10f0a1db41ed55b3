"""The envelope document shows what is written; real messages come without their payload beside them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from tests.differential.encode_messages import (
    amqp_message,
    core_header,
    core_message,
    section,
    text_message,
    typed_properties,
    typed_value,
)
from tests.frozen import FILE_STORES, PristineStores
from tests.reference.journal import read_folder

DOCUMENT = Path(__file__).parents[2] / "docs/reference/envelope.md"
USER_ID = bytes.fromhex("6f1c2a7e4f0011eeb9620242ac120002")
TEXT = text_message(
    4411,
    '{"order":17,"total":"12.50 €"}',
    address="orders",
    user_id=USER_ID,
    timestamp=1764000000000,
    priority=7,
    expiration=1764003600000,
    properties={
        "color": ("string", "red"),
        "weight": ("float", 1.5),
        "express": ("boolean", True),
        "_AMQ_GROUP_ID": ("string", "customer-9"),
        "_AMQ_DUPL_ID": ("string", "o-17"),
    },
)
MAP = core_message(
    4412,
    typed_properties(
        {
            "sku": ("string", "A-7"),
            "qty": ("int", 3),
            "price": ("double", 19.99),
            "tag": ("bytes", b"\1\2\xff"),
            "gone": ("null", None),
        }
    ),
    address="orders",
    kind=5,
    timestamp=1764000000001,
)
STREAM_VALUES = [("short", -300), ("string", "zwölf"), ("string", None), ("char", 0x416)]
STREAM = core_message(
    4413,
    b"\x02\xff" + b"".join(typed_value(value, stream=True) for value in STREAM_VALUES),
    address="orders",
    kind=6,
    timestamp=1764000000002,
)
LARGE = core_header(
    4415,
    address="orders",
    kind=4,
    timestamp=1764000000003,
    properties={"_AMQ_LARGE_SIZE": ("long", 300000)},
)
DATA = amqp_message(
    4416,
    section(0x70, b"\xc0\x04\x02\x41\x50\x06")
    + section(0x73, b"\xc0\x0f\x03\xa1\x03m-1\x40\xa1\x06orders")
    + section(0x74, b"\xc1\x0e\x04\xa1\x04size\x50\x2a\xa1\x02ok\x41")
    + section(0x75, b"\xa0\x03abc")
    + section(0x75, b"\xa0\x02de"),
    address="orders",
    extra={"_AMQ_AD": ("string", "orders")},
)
PAIRS = b"\xa1\x01k\x54\x0c\xa3\x01s\xe0\x05\x03\x51\x01\x02\x03"
VALUE = amqp_message(
    4417, section(0x77, b"\xd1" + struct.pack(">II", len(PAIRS) + 4, 4) + PAIRS), address="orders"
)


def shown_lines() -> set[str]:
    """The lines of the document's examples; one that is broken goes on with a blank."""
    text = DOCUMENT.read_text()
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return {line for line in re.sub(r"\n (?=\S)", "", blocks).splitlines() if line}


@pytest.mark.parametrize(
    ("payload", "source", "delivery_count"),
    [
        (TEXT, SOURCE_PERSISTER, 2),
        (MAP, SOURCE_PERSISTER, 0),
        (STREAM, SOURCE_PERSISTER, 0),
        (LARGE, SOURCE_CORE_LARGE, 0),
        (DATA, SOURCE_PERSISTER, 0),
        (VALUE, SOURCE_PERSISTER, 0),
    ],
)
def test_the_examples_are_what_is_written(payload: bytes, source: int, delivery_count: int) -> None:
    batch = LineBatch.of_payloads(
        [payload], queue="billing", sources=[source], delivery_counts=[delivery_count]
    )
    assert batch.line(0).decode().rstrip("\n") in shown_lines()


@pytest.mark.parametrize("name", FILE_STORES)
def test_no_real_message_needs_its_payload_beside_it(name: str, stores: PristineStores) -> None:
    payloads = [
        record.body
        for file in read_folder(stores[name] / "data/journal")
        for record in file.scan.records
        if record.user_type == 45
    ]
    batch = LineBatch.of_payloads(payloads, queue="q")
    lines = map(json.loads, batch.read(0, batch.size_bytes).splitlines())
    assert [line["id"] for line in lines if "message_base64" in line] == []
