"""Records of the bindings journal: full layouts, the shorter ones of older brokers, and damage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.errors import DecodeError
from journalfs.format import bindings
from journalfs.format.address_settings import decode_address_setting, decode_address_setting_json
from journalfs.format.record_types import user_type_name
from tests.format import encode
from tests.format.encode import boolean, f64, i8, i16, i32, i64, nullable, simple_string, string

# The queue `sub.b` on `orders` with every field away from its default, in the order of the record.
QUEUE_HEAD = simple_string("sub.b") + simple_string("orders")
QUEUE_FIELDS = (
    nullable(simple_string, "color = 'red'"),
    nullable(simple_string, "user=admin;"),
    boolean(True),
    i32(3) + boolean(True) + i8(1),
    boolean(True),
    boolean(True),
    boolean(True),
    i32(2),
    i64(250),
    nullable(simple_string, "sym"),
    boolean(True),
    boolean(True),
    i32(8),
    boolean(True),
    i64(60_000),
    i64(5),
    nullable(simple_string, "first"),
    i64(100),
    boolean(False),
    boolean(True),
    boolean(True),
)
REQUIRED_FIELDS = 3


def test_queue_binding_in_full() -> None:
    binding = bindings.decode_queue_binding(QUEUE_HEAD + b"".join(QUEUE_FIELDS) + b"newer")
    assert binding == bindings.QueueBinding(
        name="sub.b",
        address="orders",
        filter="color = 'red'",
        metadata="user=admin;",
        auto_created=True,
        max_consumers=3,
        purge_on_no_consumers=True,
        routing_type=bindings.RoutingType.ANYCAST,
        exclusive=True,
        last_value=True,
        configuration_managed=True,
        consumers_before_dispatch=2,
        delay_before_dispatch_ms=250,
        last_value_key="sym",
        non_destructive=True,
        group_rebalance=True,
        group_buckets=8,
        auto_delete=True,
        auto_delete_delay_ms=60_000,
        auto_delete_message_count=5,
        group_first_key="first",
        ring_size=100,
        enabled=False,
        group_rebalance_pause_dispatch=True,
        internal=True,
        unknown=b"newer",
    )
    assert binding.user == "admin"


@pytest.mark.parametrize("fields", range(REQUIRED_FIELDS, len(QUEUE_FIELDS)))
def test_older_queue_bindings_end_sooner(fields: int) -> None:
    full = bindings.decode_queue_binding(QUEUE_HEAD + b"".join(QUEUE_FIELDS))
    shortest = bindings.decode_queue_binding(QUEUE_HEAD + b"".join(QUEUE_FIELDS[:REQUIRED_FIELDS]))
    cut = bindings.decode_queue_binding(QUEUE_HEAD + b"".join(QUEUE_FIELDS[:fields]))
    names = list(bindings.QueueBinding.__dataclass_fields__)
    # Three fields of the record are one of these: they came together.
    kept = 5 if fields == REQUIRED_FIELDS else fields + 4
    for name in names[:kept]:
        assert getattr(cut, name) == getattr(full, name)
    for name in names[kept:]:
        assert getattr(cut, name) == getattr(shortest, name)
        assert getattr(shortest, name) != getattr(full, name) or name == "unknown"


def test_queue_binding_torn_within_a_field() -> None:
    body = QUEUE_HEAD + b"".join(QUEUE_FIELDS)
    with pytest.raises(DecodeError):
        bindings.decode_queue_binding(body[: len(QUEUE_HEAD) + 40])


@pytest.mark.parametrize(
    ("metadata", "user"),
    [
        (None, None),
        ("", None),
        ("user=null;", "null"),
        ("a=b;user=x;", "x"),
        ("user=a=b;", None),
        ("user", None),
    ],
)
def test_user_of_a_queue(metadata: str | None, user: str | None) -> None:
    body = QUEUE_HEAD + nullable(simple_string, None) + nullable(simple_string, metadata) + boolean(False)
    assert bindings.decode_queue_binding(body).user == user


def test_address_binding() -> None:
    body = simple_string("orders") + i32(2) + i8(0) + i8(1) + boolean(True)
    both = (bindings.RoutingType.MULTICAST, bindings.RoutingType.ANYCAST)
    assert bindings.decode_address_binding(body) == bindings.AddressBinding("orders", both, True, False, b"")
    assert bindings.decode_address_binding(body + boolean(True) + b"x").internal
    with pytest.raises(DecodeError, match="no routing type has the number 7"):
        bindings.decode_address_binding(simple_string("orders") + i32(1) + i8(7) + boolean(False))


def test_status() -> None:
    assert bindings.decode_queue_status(i64(5) + i16(0)) == bindings.QueueStatus(5, paused=True)
    assert bindings.decode_address_status(i64(5) + i16(1)) == bindings.AddressStatus(5, paused=False)


def divert_body(routing: int) -> bytes:
    texts = (nullable(string, "d"), nullable(string, "from"), nullable(string, "to"), nullable(string, "d"))
    transformer = nullable(string, "x.Y") + i32(1) + nullable(string, "key") + nullable(string, None)
    return b"".join(texts) + boolean(True) + nullable(string, None) + i8(routing) + transformer


def test_divert() -> None:
    divert = bindings.decode_divert(divert_body(2))
    assert (divert.address, divert.forwarding_address, divert.exclusive) == ("from", "to", True)
    assert divert.routing_type is bindings.DivertRouting.STRIP
    assert divert.transformer == bindings.Transformer("x.Y", {"key": None})
    with pytest.raises(DecodeError):
        bindings.decode_divert(divert_body(9))


def test_a_password_stays_out_of_text() -> None:
    assert "secret" not in repr(bindings.decode_user(string("admin") + string("secret")))


def test_small_records() -> None:
    assert bindings.decode_id_counter(i64(2**31)).value == 2**31
    assert bindings.decode_group(simple_string("g") + simple_string("c")) == bindings.Group("g", "c")
    assert bindings.decode_roles(string("u") + i32(2) + string("a") + string("b")).roles == ("a", "b")
    assert bindings.decode_user(string("admin") + string("x")).name == "admin"


def setting_json(text: str) -> bytes:
    return simple_string("a.#") + simple_string(text)


def test_address_setting_as_json() -> None:
    text = json.dumps(
        {"maxSizeBytes": -1, "deadLetterAddress": "DLQ", "noExpiry": True, "expiryAddress": None}
    )
    setting = decode_address_setting_json(setting_json(text))
    assert setting.match == "a.#"
    assert setting.values == {"maxSizeBytes": -1, "deadLetterAddress": "DLQ", "noExpiry": True}
    assert setting.text == text


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '"text"', '{"maxSizeBytes": [1]}', '{"a": "\ud800', 200_000 * "["]
)
def test_address_setting_that_is_no_flat_object(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_address_setting_json(setting_json(text))


def old_setting(*, deletion_policies: bool) -> bytes:
    ff = b"\xff"
    policy = nullable(simple_string, "OFF") if deletion_policies else b""
    parts = [nullable(simple_string, "BLOCK"), nullable(i64, 1000, mark=ff), nullable(i64, None)]
    parts += [nullable(i32, None), nullable(boolean, None), nullable(i32, 7, mark=ff), nullable(i32, None)]
    parts += [nullable(i64, 50, mark=ff), nullable(f64, 2.5, mark=ff), nullable(i64, None)]
    parts += [nullable(simple_string, "DLA"), nullable(simple_string, None), nullable(i64, None)]
    parts += [nullable(boolean, True, mark=ff), nullable(i64, None), nullable(boolean, None)]
    parts += [nullable(i64, None), nullable(i64, None), nullable(simple_string, None)]
    parts += 6 * [nullable(boolean, False, mark=ff)]
    parts += [policy, nullable(boolean, None), nullable(boolean, None), policy]
    parts += [nullable(i32, 200, mark=ff), nullable(i64, None), nullable(i32, None), nullable(boolean, None)]
    return simple_string("a") + b"".join(parts) + i8(1) + i8(0)


@pytest.mark.parametrize("deletion_policies", [True, False])
def test_address_setting_before_json(deletion_policies: bool) -> None:
    setting = decode_address_setting(old_setting(deletion_policies=deletion_policies))
    assert setting.match == "a"
    values = dict(setting.values)
    if deletion_policies:
        assert values.pop("configDeleteQueues") == values.pop("configDeleteAddresses") == "OFF"
    automatic = ("autoCreateJmsQueues", "autoDeleteJmsQueues", "autoCreateJmsTopics", "autoDeleteJmsTopics")
    assert values == {
        "addressFullMessagePolicy": "BLOCK",
        "maxSizeBytes": 1000,
        "maxDeliveryAttempts": 7,
        "redeliveryDelay": 50,
        "redeliveryMultiplier": 2.5,
        "deadLetterAddress": "DLA",
        "defaultLastValueQueue": True,
        **dict.fromkeys(automatic, False),
        "autoCreateQueues": False,
        "autoDeleteQueues": False,
        "managementBrowsePageSize": 200,
        "defaultQueueRoutingType": "ANYCAST",
        "defaultAddressRoutingType": "MULTICAST",
    }


def test_later_fields_of_an_old_address_setting() -> None:
    # Exclusive, consumers before dispatch, delay before dispatch; then the record ends.
    later = nullable(boolean, True, mark=b"\xff") + nullable(i32, 2, mark=b"\xff") + nullable(i64, None)
    values = decode_address_setting(old_setting(deletion_policies=True) + later).values
    assert values["defaultExclusiveQueue"] is True
    assert values["defaultConsumersBeforeDispatch"] == 2
    assert "defaultDelayBeforeDispatch" not in values


DECODERS = (
    bindings.decode_queue_binding,
    bindings.decode_address_binding,
    bindings.decode_queue_status,
    bindings.decode_divert,
    bindings.decode_roles,
    decode_address_setting,
    decode_address_setting_json,
)


@given(
    st.sampled_from(DECODERS), st.binary(max_size=150) | st.builds(encode.simple_string, st.text(max_size=9))
)
def test_any_body_decodes_or_is_refused(decode: object, body: bytes) -> None:
    assert callable(decode)
    try:
        decode(body)
    except DecodeError as error:
        failed_at = error.offset
    else:
        failed_at = 0
    assert 0 <= failed_at <= len(body)


def test_names_of_types() -> None:
    assert user_type_name(21) == "queue-binding"
    assert user_type_name(45) == "message"
    assert user_type_name(99) == "unknown-99"
