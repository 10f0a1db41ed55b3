"""Small records and bindings, encoded: the same bytes as in every real store, and what reading them gives."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from inspect import get_annotations, signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.format import bindings, primitives, record_bodies
from journalfs.format import bindings as bindings_encode
from journalfs.format.address_settings import StoredAddressSetting, decode_address_setting_json
from journalfs.format.primitives import Reader
from journalfs.format.xid import Xid, decode_xid, read_xid
from journalfs.message.outgoing import UserIds
from tests.frozen import FILE_STORES, PristineStores
from tests.publish import bindings_kept
from tests.reference.journal import PREPARE, read_folder

FIXED_LAYOUTS: Mapping[int, tuple[str, Callable[..., bytes]]] = {
    32: (">q", record_bodies.reference),
    33: (">q", record_bodies.acknowledgement),
    34: (">qi", record_bodies.delivery_count),
    35: (">qi", record_bodies.page_transaction),
    36: (">qq", record_bodies.scheduled_time),
    39: (">qqi", record_bodies.cursor_acknowledgement),
    40: (">qqq", record_bodies.page_counter),
    42: (">qqi", record_bodies.page_complete),
}

BINDINGS: Mapping[int, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    20: (bindings.decode_group, bindings_kept.encode_group),
    21: (bindings.decode_queue_binding, bindings_encode.encode_queue_binding),
    22: (bindings.decode_queue_status, bindings_encode.encode_status),
    24: (bindings.decode_id_counter, bindings_encode.encode_id_counter),
    27: (bindings.decode_divert, bindings_kept.encode_divert),
    44: (bindings.decode_address_binding, bindings_encode.encode_address_binding),
    46: (bindings.decode_address_status, bindings_encode.encode_status),
    47: (bindings.decode_user, bindings_kept.encode_user),
    48: (bindings.decode_roles, bindings_kept.encode_roles),
    52: (decode_address_setting_json, bindings_encode.encode_address_setting_json),
}

CONTENT = (30, 45, 49)
"""Messages, and pieces of large bodies in the retention folder's copy."""


def again(user_type: int, body: bytes) -> bytes:
    """The body made anew of what it says."""
    if user_type in FIXED_LAYOUTS:
        layout, encode = FIXED_LAYOUTS[user_type]
        return encode(*struct.unpack(layout, body))
    reader = Reader(body)
    if user_type == 37:
        return record_bodies.duplicate_id(reader.simple_string(), reader.byte_array())
    assert user_type == 38, f"no other type is written by brokers of this format: {user_type}"
    return record_bodies.heuristic_completion(read_xid(reader), committed=reader.boolean())


@pytest.mark.parametrize("name", FILE_STORES)
def test_message_journal(name: str, stores: PristineStores) -> None:
    seen = set()
    for file in read_folder(stores[name] / "data/journal"):
        for record in file.scan.records:
            if record.kind == PREPARE:
                assert record_bodies.encode_xid(decode_xid(record.body)) == record.body
            elif record.user_type and record.user_type not in CONTENT:
                assert again(record.user_type, record.body) == record.body
                seen.add(record.user_type)
    assert 32 in seen


@pytest.mark.parametrize("name", FILE_STORES)
def test_bindings_journal(name: str, stores: PristineStores) -> None:
    seen = set()
    for file in read_folder(stores[name] / "data/bindings", "bindings"):
        for record in file.scan.records:
            if record.user_type in BINDINGS:
                decode, encode = BINDINGS[record.user_type]
                assert encode(decode(record.body)) == record.body
                seen.add(record.user_type)
    assert {21, 24, 44} <= seen


TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
LONG_TEXT = st.sampled_from(["x" * 8, "é" * 9, "\ud83d" * 9, "y" * 4094, "ž" * 4095, "🚀" * 2100]) | TEXT
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
ROUTING = st.sampled_from(bindings.RoutingType)
TRANSFORMER = st.none() | st.builds(
    bindings.Transformer, LONG_TEXT, st.dictionaries(st.none() | TEXT, st.none() | LONG_TEXT, max_size=3)
)


def built(cls: type, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """All fields by their types, but those given."""
    by_type = {
        "str": LONG_TEXT,
        "str | None": st.none() | LONG_TEXT,
        "int": I64,
        "bool": st.booleans(),
        "Transformer | None": TRANSFORMER,
        "RoutingType": ROUTING,
        "DivertRouting": st.sampled_from(bindings.DivertRouting),
        "bytes": st.just(b""),
    }
    stated = {
        name: annotation
        for base in reversed(cls.__mro__)
        for name, annotation in get_annotations(base).items()
        if name in signature(cls).parameters and name not in fields
    }
    known = {name: by_type[annotation] for name, annotation in stated.items()}
    return st.builds(cls, **known, **fields)


VALUES: Mapping[int, st.SearchStrategy[Any]] = {
    20: built(bindings.Group, group_id=TEXT, cluster=TEXT),
    21: built(
        bindings.QueueBinding,
        metadata=TEXT,
        max_consumers=I32,
        consumers_before_dispatch=I32,
        group_buckets=I32,
        unknown=st.binary(max_size=3),
    ),
    22: built(bindings.QueueStatus),
    24: built(bindings.IdCounter),
    27: built(bindings.Divert),
    44: built(
        bindings.AddressBinding,
        routing_types=st.lists(ROUTING, max_size=2).map(tuple),
        unknown=st.binary(max_size=3),
    ),
    46: built(bindings.AddressStatus),
    47: built(bindings.User),
    48: built(bindings.Roles, roles=st.lists(LONG_TEXT, max_size=3).map(tuple)),
    52: st.builds(
        lambda match, text: StoredAddressSetting(match, {"maxSizeBytes": 5}, text),
        TEXT,
        st.sampled_from(['{"maxSizeBytes":5}', ' {"maxSizeBytes": 5} ']),
    ),
}


@pytest.mark.parametrize("user_type", VALUES)
def test_bindings_read_as_they_were_written(user_type: int) -> None:
    decode, encode = BINDINGS[user_type]

    @given(VALUES[user_type])
    def check(value: Any) -> None:
        assert decode(encode(value)) == value

    check()


def test_a_queue_without_metadata_gets_empty_ones() -> None:
    """A null there keeps a broker from starting."""
    body = (
        primitives.simple_string("q")
        + primitives.simple_string("a")
        + primitives.NULL
        + primitives.NULL
        + b"\0"
    )
    without = bindings.decode_queue_binding(body)
    assert without.metadata is None
    assert bindings.decode_queue_binding(bindings_encode.encode_queue_binding(without)).metadata == ""


def test_settings_of_the_binary_form_are_not_written_without_a_text() -> None:
    with pytest.raises(ValueError, match="have no JSON text"):
        bindings_encode.encode_address_setting_json(StoredAddressSetting("a", {}, None))


@given(st.builds(Xid, I32, st.binary(max_size=64), st.binary(max_size=64)))
def test_xids(xid: Xid) -> None:
    assert decode_xid(record_bodies.encode_xid(xid)) == xid


@given(LONG_TEXT)
def test_strings(text: str) -> None:
    assert Reader(primitives.simple_string(text)).simple_string() == Reader(primitives.string(text)).string()
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert Reader(primitives.string(text)).string() == joined


def test_a_short_string_that_no_length_can_tell() -> None:
    # 4,094 characters of three bytes are all that the middle form can have, and they fit.
    assert len(primitives.utf("ž" * 4094)) < len(primitives.utf("€" * 4094)) <= 0xFFFF


@given(st.lists(st.integers(0, 2**42), min_size=2, max_size=50), st.binary(min_size=8, max_size=8))
def test_user_ids(times_ms: list[int], seed: bytes) -> None:
    ids = UserIds(seed)
    drawn = [uuid.UUID(bytes=ids.draw(now_ms)) for now_ms in times_ms]
    assert len(set(drawn)) == len(drawn)
    assert all(one.version == 1 and one.variant == uuid.RFC_4122 for one in drawn)
    assert [one.time for one in drawn] == sorted(one.time for one in drawn)
    latest_ms = max(times_ms)
    assert drawn[-1].time - 0x01B21DD213814000 - latest_ms * 10_000 in range(len(drawn))
    assert UserIds().draw(latest_ms)[8:] != UserIds().draw(latest_ms)[8:]
