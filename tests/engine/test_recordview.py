"""Raw views: every record as a line that can be turned back into the record."""

from __future__ import annotations

import base64
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.engine.recordview import PageView, RecordView, user_type_name
from journalfs.engine.scan import scan_journal
from tests.differential.encode import journal_file, record
from tests.differential.encode_messages import simple_string
from tests.frozen import FILE_STORES, PristineStores

KINDS = {
    10: "EVENT",
    11: "ADD",
    12: "UPDATE",
    13: "ADD_TX",
    14: "UPDATE_TX",
    15: "DELETE_TX",
    16: "DELETE",
    17: "PREPARE",
    18: "COMMIT",
    19: "ROLLBACK",
}
XID = struct.pack(">ii", 4711, 2) + b"bq" + struct.pack(">i", 3) + b"gid"
XID_KEYS = {"formatId": 4711, "branchQualifier_base64": "YnE=", "globalTransactionId_base64": "Z2lk"}


def lines_of(tmp_path: Path, records: list[bytes]) -> list[dict[str, Any]]:
    path = tmp_path / "activemq-data-1.amq"
    path.write_bytes(journal_file(1, records, size=4096))
    file = MappedFile(path)
    view = RecordView(file, scan_journal(file, rid=1, version=2), 'name "with" é')
    return [json.loads(line) for line in view.read(0, view.size_bytes).splitlines()]


DECODED = [
    (24, struct.pack(">q", 5), {"value": 5}),
    (22, struct.pack(">qh", 5, -1), {"queue": 5, "status": -1}),
    (29, struct.pack(">q", 5), {"message": 5}),
    (32, struct.pack(">q", 5), {"queue": 5}),
    (33, struct.pack(">q", 5), {"queue": 5}),
    (34, struct.pack(">qi", 5, 3), {"queue": 5, "deliveryCount": 3}),
    (35, struct.pack(">qi", 5, -3), {"pageTx": 5, "messages": -3}),
    (36, struct.pack(">qq", 5, 99), {"queue": 5, "scheduledTime": 99}),
    (39, struct.pack(">qqi", 5, 6, -1), {"queue": 5, "page": 6, "number": -1}),
    (40, struct.pack(">qqq", 5, 6, 7), {"queue": 5, "messages": 6, "messageBytes": 7}),
    (40, struct.pack(">qq", 5, 6), {"queue": 5, "messages": 6}),
    (42, struct.pack(">qqi", 5, 6, 7), {"queue": 5, "page": 6, "messages": 7}),
    (46, struct.pack(">qh", 5, 1), {"addressId": 5, "status": 1}),
    (
        37,
        simple_string("a/é") + struct.pack(">i", 2) + b"\0\xff",
        {"address": "a/é", "duplicateId_base64": "AP8="},
    ),
    (38, XID + b"\xff", {"xid": XID_KEYS, "committed": True}),
    (38, XID[:-1], {}),
    (37, struct.pack(">i", 2**31 - 1), {}),
    (99, b"own", {}),
]
FRAME = {
    "file",
    "offset",
    "kind",
    "id",
    "tx",
    "userType",
    "userTypeName",
    "bytes",
    "compactCount",
    "body_base64",
}


@pytest.mark.parametrize(("user_type", "body", "wanted"), DECODED)
def test_small_layouts_are_decoded(
    tmp_path: Path, user_type: int, body: bytes, wanted: dict[str, Any]
) -> None:
    (line,) = lines_of(
        tmp_path, [record(11, 1, record_id=8, user_type=user_type, compact_count=2, body=body)]
    )
    assert {key: value for key, value in line.items() if key not in FRAME} == wanted
    assert (line["file"], line["offset"], line["kind"], line["id"]) == ('name "with" é', 16, "ADD", 8)
    assert (line["userType"], line.get("userTypeName")) == (user_type, user_type_name(user_type))
    assert line["compactCount"] == 2
    assert base64.b64decode(line["body_base64"]) == body
    assert "tx" not in line


def test_every_kind_has_its_own_keys(tmp_path: Path) -> None:
    made = [
        record(10, 1, record_id=1, user_type=49, body=b"x"),
        record(13, 1, tx_id=2, record_id=3, user_type=45, body=b"y"),
        record(15, 1, tx_id=2, record_id=3),
        record(16, 1, record_id=3),
        record(17, 1, tx_id=2, count=4, body=XID),
        record(18, 1, tx_id=2, count=4),
        record(19, 1, tx_id=2),
    ]
    lines = lines_of(tmp_path, made)
    assert [line["kind"] for line in lines] == [
        "EVENT",
        "ADD_TX",
        "DELETE_TX",
        "DELETE",
        "PREPARE",
        "COMMIT",
        "ROLLBACK",
    ]
    keys = [set(line) - {"file", "offset", "kind", "bytes"} for line in lines]
    assert keys == [
        {"id", "userType", "userTypeName", "body_base64"},
        {"id", "tx", "userType", "userTypeName", "body_base64"},
        {"id", "tx"},
        {"id"},
        {"tx", "count", "xid", "body_base64"},
        {"tx", "count"},
        {"tx"},
    ]
    assert lines[4]["xid"] == XID_KEYS


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_journals_can_be_rebuilt_from_their_lines(name: str, stores: PristineStores) -> None:
    paths = [
        *(stores[name] / "data/journal").glob("*.amq"),
        *(stores[name] / "data/bindings").glob("*.bindings"),
    ]
    for path in paths:
        file = MappedFile(path)
        rid = struct.unpack(">iiq", file.copy(0, 16))[2] & 0x7FFFFFFF
        view = RecordView(file, scan_journal(file, rid=rid, version=2), path.name)
        whole = view.read(0, view.size_bytes + 1)
        assert len(whole) == view.size_bytes
        numbers = {text: kind for kind, text in KINDS.items()}
        for line in map(json.loads, whole.splitlines()):
            again = record(
                numbers[line["kind"]],
                rid,
                compact_count=line.get("compactCount", 0),
                tx_id=line.get("tx", 0),
                record_id=line.get("id", 0),
                user_type=line.get("userType", 0),
                count=line.get("count", 0),
                body=base64.b64decode(line.get("body_base64", "")),
            )
            assert again == file.copy(line["offset"], line["bytes"])
        chance = random.Random(name)
        for _ in range(20):
            offset, length = chance.randrange(len(whole) + 1), chance.randrange(9000)
            assert view.read(offset, length) == whole[offset : offset + length]


def test_lines_of_a_page(stores: PristineStores) -> None:
    path = max(
        (stores["large-and-paged"] / "data/paging").rglob("*.page"), key=lambda one: one.stat().st_size
    )
    file = MappedFile(path)
    scan = scan_page(file)
    view = PageView(file, scan, path.name, address="a")
    assert scan.count
    for entry, text in zip(scan, view.read(0, view.size_bytes).splitlines(), strict=True):
        line = json.loads(text)
        assert (line["number"], line["offset"], line["id"]) == (entry.number, entry.offset, entry.message_id)
        assert tuple(line["queues"]) == entry.queue_ids
        assert base64.b64decode(line["body_base64"]) == file.copy(entry.payload_offset, entry.payload_bytes)


def test_windows_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "activemq-data-1.amq"
    path.write_bytes(journal_file(1, [], size=64))
    file = MappedFile(path)
    view = RecordView(file, scan_journal(file, rid=1, version=2), path.name)
    assert (view.size_bytes, view.read(0, 10)) == (0, b"")
    with pytest.raises(ValueError, match="window"):
        view.read(-1, 2)
    with pytest.raises(IndexError):
        view.line(0)
