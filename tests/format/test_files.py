"""File names, headers, the control file of a compaction, locks and page folders."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.errors import DecodeError
from journalfs.format.journal_file import (
    ControlFile,
    HistoryFileName,
    JournalFileName,
    JournalFileState,
    decode_control_file,
    parse_file_name,
    parse_history_name,
    read_header,
)
from journalfs.format.large_file import LargeFileKind, LargeFileName, format_large_name, parse_large_name
from journalfs.format.page_folder import (
    PageFileName,
    ascii_only,
    decode_address_file,
    format_page_name,
    parse_page_name,
)
from journalfs.format.server_lock import NodeState, decode_server_lock
from journalfs.format.xid import Xid, decode_xid, xid_of
from journalfs.ids import FileId, MessageId, PageNumber
from tests.format import encode
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores


def test_header() -> None:
    header = read_header(bytes.fromhex("00000002 00000000 0000000180000005") + b"records")
    assert (header.version, header.user_version, header.file_id) == (2, 0, 0x1_8000_0005)
    assert header.rid == 5
    assert header.readable
    assert not header.blank


@pytest.mark.parametrize(
    ("header", "readable", "blank"),
    [
        (encode.header(1, version=1), True, False),
        (encode.header(1, version=3), False, False),
        (encode.header(1, user_version=1), False, False),
        (bytes(16), False, True),
    ],
)
def test_other_versions_are_told_apart(header: bytes, readable: bool, blank: bool) -> None:
    assert read_header(header).readable == readable
    assert read_header(header).blank == blank


def test_short_header_is_damage() -> None:
    with pytest.raises(DecodeError, match="16 bytes of header, here are 15"):
        read_header(bytes(15))


@pytest.mark.parametrize(
    ("name", "prefix", "number", "state"),
    [
        ("activemq-data-12.amq", "activemq-data", 12, JournalFileState.NORMAL),
        ("activemq-data-12.amq.tmp", "activemq-data", 12, JournalFileState.CREATING),
        ("activemq-data-12.amq.cmp", "activemq-data", 12, JournalFileState.COMPACTED),
        ("activemq-data-12.amq.bkp", "activemq-data", 12, JournalFileState.TO_RETAIN),
        ("copy.amq", "copy", 0, JournalFileState.NORMAL),
        ("-7.amq", "", 7, JournalFileState.NORMAL),
    ],
)
def test_journal_file_names(name: str, prefix: str, number: int, state: JournalFileState) -> None:
    assert parse_file_name(name, extension="amq") == JournalFileName(name, prefix, number, state)


@pytest.mark.parametrize(
    "name", ["activemq-data-1.bindings", "activemq-data-1.amq.crc", "server.lock", "amq", ""]
)
def test_other_files_are_none_of_the_journal(name: str) -> None:
    assert parse_file_name(name, extension="amq") is None


def test_history_names() -> None:
    parsed = parse_history_name("activemq-data-20261121092343-10.amq", extension="amq")
    assert parsed == HistoryFileName("activemq-data", "20261121092343", FileId(10))
    assert parse_history_name("activemq-data-10.amq", extension="amq") is None


def control_file(body: bytes, *, block_bytes: int = 1) -> bytes:
    """As a broker writes it; with a block size, header and record each begin a block."""

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % block_bytes)

    return padded(encode.header(0)) + padded(encode.add(0, 1, 0, body))


OLD_AND_NEW = (
    encode.i32(3)
    + b"".join(encode.utf(f"jrn-{number}.dat") for number in (1, 2, 3))
    + encode.i32(1)
    + encode.utf("jrn-6.dat.cmp")
    + encode.i32(1)
    + encode.utf("a")
    + encode.utf("b")
)


@pytest.mark.parametrize("block_bytes", [1, 4096])
@pytest.mark.parametrize("slack", [b"", bytes(4)])
def test_control_file(block_bytes: int, slack: bytes) -> None:
    decoded = decode_control_file(control_file(OLD_AND_NEW + slack, block_bytes=block_bytes))
    expected = ControlFile(("jrn-1.dat", "jrn-2.dat", "jrn-3.dat"), ("jrn-6.dat.cmp",), (("a", "b"),))
    assert decoded == expected


@pytest.mark.parametrize("cut", [8, 16, 40, 102])
def test_torn_control_file_counts_for_nothing(cut: int) -> None:
    with pytest.raises(DecodeError):
        decode_control_file(control_file(OLD_AND_NEW)[:cut])


@pytest.mark.parametrize("name", ["../journal-1.amq", "/etc/passwd", "", ".", "..", "a\0b"])
def test_control_file_names_plain_files_only(name: str) -> None:
    body = encode.i32(1) + encode.utf(name) + encode.i32(0) + encode.i32(0)
    with pytest.raises(DecodeError, match="is no name of a journal file"):
        decode_control_file(control_file(body))


@given(st.binary(max_size=120))
def test_any_control_file_decodes_or_is_refused(body: bytes) -> None:
    try:
        decoded = decode_control_file(control_file(body))
    except DecodeError:
        return
    names = (*decoded.delete, *decoded.settle, *(name for pair in decoded.rename for name in pair))
    assert not any("/" in name for name in names)


def test_server_lock() -> None:
    lock = decode_server_lock(bytes.fromhex("4c3030 174ffdeae58711f1bf9602fc00000001"))
    assert lock.state is NodeState.ACTIVE
    assert lock.node_id == uuid.UUID("174ffdea-e587-11f1-bf96-02fc00000001")
    assert decode_server_lock(b"").state is NodeState.UNKNOWN
    assert decode_server_lock(b"000").node_id is None
    assert decode_server_lock(b"Z00").state_byte == ord("Z")
    with pytest.raises(DecodeError, match="5 of 16 bytes"):
        decode_server_lock(b"L00" + bytes(5))


@pytest.mark.parametrize("name", FILE_STORES)
def test_server_locks_of_real_brokers(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    lock = decode_server_lock((stores[name] / "data" / "journal" / "server.lock").read_bytes())
    assert str(lock.node_id) == expected[name]["nodeId"]
    clean = expected[name]["made"]["ended"] == "clean"
    assert lock.state is (NodeState.STOPPED if clean else NodeState.ACTIVE)


def test_xid() -> None:
    data = bytes.fromhex("00001267 00000007 6272616e636831 0000000a 676c6f62616c2d78797a")
    xid = decode_xid(data)
    assert xid == Xid(4711, b"branch1", b"global-xyz")
    assert xid.base64() == "YnJhbmNoMWdsb2JhbC14eXp5EgAA"
    with pytest.raises(DecodeError):
        decode_xid(data[:-1])


def test_page_names() -> None:
    assert parse_page_name("000000007.page") == PageFileName(PageNumber(7), False)
    assert parse_page_name("000000007.page.invalidPage") == PageFileName(PageNumber(7), True)
    assert parse_page_name("1000000000.page") == PageFileName(PageNumber(1_000_000_000), False)
    assert parse_page_name("address.txt") is None
    assert parse_page_name("7.page.tmp") is None
    assert format_page_name(PageNumber(7)) == "000000007.page"


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (b"orders\n", "orders"),
        (b"orders", "orders"),
        (b"orders\r\nmore\n", "orders"),
        ("ключ.名前\n".encode(), "ключ.名前"),
        (b"caf\xe9\n", "café"),
    ],
)
def test_address_file(data: bytes, address: str) -> None:
    assert decode_address_file(data) == address


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n", b"\nlater\n"])
def test_address_file_without_an_address(data: bytes) -> None:
    with pytest.raises(DecodeError, match="no address"):
        decode_address_file(data)


def test_address_file_of_a_broker_without_unicode() -> None:
    assert ascii_only("orders") == "orders"
    assert ascii_only("é.a") == "?.a"
    assert ascii_only("😀é") == "??"


@given(st.integers(0, 2**63 - 1))
def test_large_names(message_id: int) -> None:
    name = format_large_name(MessageId(message_id))
    assert parse_large_name(name) == LargeFileName(MessageId(message_id), LargeFileKind.DURABLE)


def test_other_large_names() -> None:
    assert parse_large_name("5.tmp") == LargeFileName(MessageId(5), LargeFileKind.NOT_DURABLE)
    assert parse_large_name("5.sync") == LargeFileName(MessageId(5), LargeFileKind.SYNCING)
    for name in ("5.msg.bak", "x.msg", "-5.msg", "5"):
        assert parse_large_name(name) is None


@pytest.mark.parametrize(
    "xid",
    [
        Xid(7, b"branch-", b"global"),
        Xid(-(1 << 31), b"", b"\xff"),
        Xid((1 << 31) - 1, b"\xff" * 64, b"\xfe" * 64),
    ],
)
def test_the_whole_name_of_an_xid_is_a_file_name_that_says_all(xid: Xid) -> None:
    assert xid_of(xid.whole()) == xid
    assert len(xid.whole()) < 255
    assert "/" not in xid.whole()


@pytest.mark.parametrize(
    "text",
    [
        "7.Z2xvYmFs",
        "7.Z2xvYmFs.YnI.YnI",
        "07.Z2xvYmFs.YnI",
        "7_0.Z2xvYmFs.YnI",
        "-1.Z2xvYmFs.YnI",
        "2147483648.Z2xvYmFs.YnI",
        "-2147483649.Z2xvYmFs.YnI",
        "x.Z2xvYmFs.YnI",
        "7..YnI",
        "7.Z2xvYmFs.YnI=",
        "7.Z2xvYmFs.YnJ",
        "7.Z2xvYmF.Y",
        "7.Z2+v.YnI",
        "7.Z2/v.YnI",
        f"7.{'AAAA' * 22}.YnI",
        f"7.Z2xvYmFs.{'AAAA' * 22}",
        "7.Z2xv\u00e9.YnI",
        f"{'9' * 5000}.Z2xv.YnI",
        "branch",
        "Yv////8=",
    ],
)
def test_what_is_no_whole_name_is_no_xid(text: str) -> None:
    assert xid_of(text) is None
