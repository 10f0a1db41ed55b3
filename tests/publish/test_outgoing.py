"""What messages become that state little: defaults, whole files, large ones, and the broker's own copies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.broker.publish.framing import Framer, Framing
from journalfs.engine.lines import LineBatch
from journalfs.engine.status import FileTorn
from journalfs.errors import BadEnvelope, DecodeError
from journalfs.format.amqp_message import LargeCache, split_large, split_sections
from journalfs.format.properties import Code, PropertyValue
from journalfs.limits import COPY_CHUNK_BYTES
from journalfs.live.stored_runs import message_of_record
from journalfs.message.outgoing import Outgoing, WholeFile
from tests.differential.encode_messages import amqp_message, core_header, section
from tests.frozen import FILE_STORES, PristineStores
from tests.publish.real_messages import LARGE_RECORD, RECORD, RealMessage, line_of, real_messages
from tests.reference.amqp import Sections

NOW_MS = 1_764_000_000_000
MIN_LARGE_BYTES = 102_400
RECORD_BYTES_MAX = 501_760


def text(line: str) -> Outgoing:
    (message,) = Framer(Framing.LINES).feed(line.encode() + b"\n")
    return message


def shown(message: Outgoing, *, address: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line_of(*message.record(5, address, NOW_MS)))
    return found


def large(message: Outgoing, address: str = "a") -> bool:
    return message.is_large(address, min_large_bytes=MIN_LARGE_BYTES, record_bytes_max=RECORD_BYTES_MAX)


PROPERTIES = {"to": "a", "absoluteExpiryTime": {"t": "timestamp", "v": NOW_MS}}
ANNOTATIONS = [[{"t": "symbol", "v": "mine"}, {"t": "int", "v": 1}]]
APPLICATION = [[{"t": "string", "v": "k"}, {"t": "string", "v": "v"}]]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"applicationProperties": APPLICATION},
        {"deliveryAnnotations": ANNOTATIONS, "messageAnnotations": ANNOTATIONS, "footer": ANNOTATIONS},
        {"header": {"durable": True, "ttl": {"t": "uint", "v": 5}}, "properties": {"subject": "s"}},
    ],
)
@pytest.mark.parametrize("expiration_ms", [0, NOW_MS + 5])
def test_a_large_amqp_file_says_when_it_expires(more: dict[str, Any], expiration_ms: int) -> None:
    """Once that is another time; and its record says where the sections stand."""
    body = {"section": "value", "value": {"t": "string", "v": "long " * 50_000}}
    line = {"amqp": {"properties": PROPERTIES, "body": body} | more, "largeMessage": True}
    first = read_envelope(json.dumps(line).encode())
    stored = b"".join(first.large_body())
    small = read_envelope(json.dumps({**line, "largeMessage": False}).encode())
    before_it_was_large = b"".join(small.expiring_at(expiration_ms).large_body())
    message = message_of_record(*first.large_record(5, "a", NOW_MS), stored).expiring_at(expiration_ms)
    again = b"".join(message.large_body())
    assert len(again) == message.body_bytes
    assert again == before_it_was_large
    before, after = Sections(stored), Sections(again)
    expiry = {"absoluteExpiryTime": {"t": "timestamp", "v": expiration_ms}} if expiration_ms else {}
    wanted = {**(before.properties or {})}
    wanted.pop("absoluteExpiryTime", None)
    assert after.properties == wanted | expiry
    assert "ttl" not in (after.header or {})
    assert (after.maps, after.value) == (before.maps, before.value)
    _, payload = message.large_record(6, "b", NOW_MS)
    places, found = split_large(payload)[1], LargeCache.of(split_sections(again))
    assert places == replace(found, properties=places.properties, header=places.header)
    assert b"".join(message_of_record(45, payload, again).large_body()) == again


TTL = {"header": {"durable": True, "ttl": 5000}}
EXPIRES = {"properties": {"absoluteExpiryTime": NOW_MS + 7}}


@pytest.mark.parametrize(
    ("amqp", "expiration", "wanted"),
    [
        (EXPIRES, None, NOW_MS + 7),
        (EXPIRES, NOW_MS + 7, NOW_MS + 7),
        (EXPIRES | TTL, None, NOW_MS + 7),
        (TTL, None, NOW_MS + 5000),
        (TTL, NOW_MS + 9, NOW_MS + 9),
        ({"header": {"ttl": 0}}, None, NOW_MS),
        ({"properties": {"absoluteExpiryTime": 0}}, None, 0),
        ({}, NOW_MS + 9, NOW_MS + 9),
        ({}, None, 0),
    ],
)
@pytest.mark.parametrize("is_large", [False, True])
def test_an_amqp_message_expires_as_its_sections_say(
    amqp: dict[str, Any], expiration: int | None, wanted: int, is_large: bool
) -> None:
    """As a broker takes it that it is sent to: what its record says is what brokers and mounts go by."""
    line: dict[str, Any] = {"amqp": {**amqp, "body": {"section": "value", "value": "x"}}}
    if expiration is not None:
        line["expiration"] = expiration
    message = read_envelope(json.dumps(line).encode())
    assert message.expires_ms(NOW_MS) == wanted
    message.arrives(NOW_MS)
    encode = message.large_record if is_large else message.record
    user_type, payload = encode(5, "a", NOW_MS)
    assert message.expiration_ms == wanted
    stored = message_of_record(user_type, payload, b"".join(message.large_body()))
    assert stored.expiration_ms == wanted
    measure = LineBatch.of_payloads([payload], queue=None).measure(0)
    assert measure.expiration_ms == wanted


@pytest.mark.parametrize(
    ("amqp", "expiration"), [(EXPIRES, NOW_MS + 8), (EXPIRES, 0), (EXPIRES | TTL, NOW_MS + 8), (TTL, 0)]
)
def test_an_expiration_that_says_otherwise_is_refused(amqp: dict[str, Any], expiration: int) -> None:
    line = {"amqp": {**amqp, "body": {"section": "value", "value": "x"}}, "expiration": expiration}
    with pytest.raises(BadEnvelope) as refused:
        read_envelope(json.dumps(line).encode())
    assert refused.value.key == "expiration"


@pytest.mark.rule("S-66")
def test_what_nobody_states() -> None:
    envelope = shown(text("hello"))
    user_id = envelope.pop("userId")
    assert envelope == {
        "queue": "q",
        "address": "a",
        "id": 5,
        "protocol": "CORE",
        "type": "text",
        "durable": True,
        "priority": 4,
        "timestamp": NOW_MS,
        "body": "hello",
    }
    assert shown(text("hello"))["userId"] != user_id
    stated = shown(read_envelope(b'{"body":"hello"}'))
    assert stated == envelope


def test_a_user_id_stays_once_it_is_given() -> None:
    message = text("x")
    seen = message.envelope("a", now_ms=NOW_MS, large=False)
    assert shown(message)["userId"] == shown(message)["userId"] == seen["userId"]


@pytest.mark.rule("S-67")
def test_a_whole_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3
    path = tmp_path / "spooled"
    path.write_bytes(content)
    message = WholeFile(path)
    path.unlink()
    payloads = [one.record(5, "a", NOW_MS)[1] for one in (message, WholeFile(content))]
    for payload in payloads:
        batch = LineBatch.of_payloads([payload], queue="q")
        assert json.loads(batch.line(0))["type"] == "bytes"
        assert batch.read_body(0, 0, 1000) == content
    assert not large(message)


@pytest.mark.rule("S-67")
def test_a_large_file_is_never_whole_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "spooled"
    size = 3 * COPY_CHUNK_BYTES + 17
    with path.open("wb") as file:
        file.write(b"begin")
        file.truncate(size)
    message = WholeFile(path)
    assert large(message)
    pieces = list(message.large_body())
    assert max(map(len, pieces)) == COPY_CHUNK_BYTES
    assert b"".join(pieces) == path.read_bytes()
    user_type, payload = message.large_record(5, "a", NOW_MS)
    assert user_type == LARGE_RECORD
    envelope = json.loads(line_of(user_type, payload, path.read_bytes()))
    assert envelope["largeMessage"] is True
    assert envelope["properties"] == {"_AMQ_LARGE_SIZE": size}
    assert envelope["propertyTypes"] == {"_AMQ_LARGE_SIZE": "long"}
    assert "damage" not in envelope


def test_a_spooled_file_that_is_cut_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "spooled"
    path.write_bytes(bytes(1_000_000))
    message = WholeFile(path)
    with path.open("r+b") as file:
        file.truncate(10)
    with pytest.raises(FileTorn):
        list(message.large_body())


@pytest.mark.rule("S-67")
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (WholeFile(bytes(MIN_LARGE_BYTES - 1)), False),
        (WholeFile(bytes(MIN_LARGE_BYTES)), True),
        # A text's body has two bytes a character, and five before them.
        (text((MIN_LARGE_BYTES // 2 - 3) * "x"), False),
        (text((MIN_LARGE_BYTES // 2 - 2) * "x"), True),
        (read_envelope(b'{"body":"small","largeMessage":true}'), True),
        (read_envelope(json.dumps({"body": "s", "properties": {"p": 250_500 * "x"}}).encode()), False),
        (read_envelope(json.dumps({"body": "s", "properties": {"p": 250_700 * "x"}}).encode()), True),
    ],
)
def test_what_is_large(message: Outgoing, expected: bool) -> None:
    assert large(message) is expected


def test_the_length_of_a_record_is_known_before() -> None:
    for message in (text("é"), WholeFile(b"abc"), read_envelope(b'{"body":{"a":1},"groupId":"g"}')):
        assert message.record_bytes("orders") == len(message.record(1, "orders", NOW_MS)[1])


# ---- what a store asks of them ----


@pytest.mark.parametrize(
    ("line", "routing", "duplicate", "scheduled"),
    [
        ({"body": "x"}, None, None, None),
        ({"body": "x", "properties": {"_AMQ_ROUTING_TYPE": 1}}, 1, None, None),
        ({"body": "x", "properties": {"_AMQ_ROUTING_TYPE": 7}}, None, None, None),
        ({"body": "x", "duplicateId": "é"}, None, b"\xe9\0", None),
        ({"body": "x", "duplicateId_base64": "AQI="}, None, b"\1\2", None),
        ({"body": "x", "properties": {"_AMQ_SCHED_DELIVERY": 77}}, None, None, 77),
        ({"body": "x", "properties": {"_AMQ_SCHED_DELIVERY": 77}, "scheduledTime": 99}, None, None, 99),
        ({"protocol": "AMQP", "body": "x"}, None, None, None),
        ({"protocol": "AMQP", "body": "x", "properties": {"_AMQ_DUPL_ID": "é"}}, None, b"\xe9\0", None),
        (
            {
                "protocol": "AMQP",
                "body": "x",
                "properties": {"_AMQ_DUPL_ID": "AQI="},
                "propertyTypes": {"_AMQ_DUPL_ID": "binary"},
            },
            None,
            b"\1\2",
            None,
        ),
    ],
)
def test_routing_duplicates_and_schedules(
    line: dict[str, Any], routing: int | None, duplicate: bytes | None, scheduled: int | None
) -> None:
    message = read_envelope(json.dumps(line).encode())
    assert (message.routing_type, message.duplicate_id, message.scheduled_ms) == (
        routing,
        duplicate,
        scheduled or 0,
    )


@pytest.mark.parametrize(
    ("annotations", "routing", "scheduled"),
    [
        ({"x-opt-routing-type": ("byte", 1)}, 1, None),
        ({"x-opt-jms-dest": ("byte", 0)}, 1, None),
        ({"x-opt-jms-dest": ("byte", 0), "x-opt-routing-type": ("byte", 7)}, None, None),
        ({"x-opt-jms-dest": ("byte", 1)}, 0, None),
        ({"x-opt-jms-dest": ("byte", 9)}, None, None),
        ({"x-opt-jms-dest": ("byte", 1), "x-opt-routing-type": ("byte", 1)}, 1, None),
        ({"x-opt-delivery-time": ("timestamp", 77)}, None, 77),
        ({"x-opt-delivery-delay": ("uint", 5)}, None, 1005),
    ],
)
def test_annotations(
    annotations: dict[str, tuple[str, object]], routing: int | None, scheduled: int | None
) -> None:
    pairs = [
        [{"t": "symbol", "v": key}, {"t": kind, "v": value}] for key, (kind, value) in annotations.items()
    ]
    properties = {"creationTime": {"t": "timestamp", "v": 1000}}
    line = {"amqp": {"messageAnnotations": pairs, "properties": properties}}
    message = read_envelope(json.dumps(line).encode())
    assert (message.routing_type, message.scheduled_ms) == (routing, scheduled or 0)


def test_the_delivery_count_comes_along() -> None:
    assert read_envelope(b'{"body":"x","deliveryCount":3}').delivery_count == 3
    assert text("x").delivery_count == 0


# ---- the broker's own copies ----

ORIGIN = "_AMQ_ORIG_MESSAGE_ID"
CODES = {
    "_AMQ_ORIG_MESSAGE_ID": Code.LONG,
    "_AMQ_ACTUAL_EXPIRY": Code.LONG,
    "_AMQ_ORIG_ROUTING_TYPE": Code.BYTE,
}


def added_by(copied: dict[str, Any]) -> dict[str, tuple[Code, Any]]:
    """What a broker noted on its copy."""
    if copied["protocol"] == "AMQP":
        stated = {name: value["v"] for name, value in copied.get("extraProperties", {}).items()}
    else:
        stated = copied.get("properties", {})
    return {
        name: (CODES.get(name, Code.STRING), value)
        for name, value in stated.items()
        if name.startswith(("_AMQ_ORIG", "_AMQ_ACTUAL"))
    }


def without_order(line: dict[str, Any]) -> dict[str, Any]:
    """Maps of a broker have no order of their own."""
    annotations = line.get("amqp", {}).get("messageAnnotations")
    if annotations is not None:
        annotations.sort(key=json.dumps)
    return line


def copies_of_brokers(store: Path) -> list[tuple[RealMessage, RealMessage]]:
    """Originals and what the broker made of them, where the journal still has both."""
    by_id = {real.envelope["id"]: real for real in real_messages(store)}
    found = []
    for real in by_id.values():
        origin = added_by(real.envelope).get(ORIGIN)
        if origin is not None and origin[1] in by_id:
            found.append((by_id[origin[1]], real))
    return found


def test_copies_are_those_that_brokers_make(stores: PristineStores) -> None:
    compared = {"CORE": 0, "AMQP": 0}
    for name in FILE_STORES:
        for original, copied in copies_of_brokers(stores[name]):
            envelope = copied.envelope
            message = message_of_record(original.user_type, original.payload, original.body_file)
            copy = message.with_properties(added_by(envelope))
            copy.expiration_ms = envelope.get("expiration", 0)
            write = copy.large_record if copy.large else copy.record
            again = line_of(*write(envelope["id"], envelope["address"], NOW_MS), copied.body_file)
            assert without_order(json.loads(again)) == without_order(envelope)
            compared[envelope["protocol"]] += 1
    assert all(compared.values()), compared


NOTES: dict[str, tuple[Code, PropertyValue]] = {
    "_AMQ_ORIG_ADDRESS": (Code.STRING, "orders"),
    "_AMQ_ORIG_MESSAGE_ID": (Code.LONG, 2**40),
}


def test_a_copy_leaves_the_original_alone() -> None:
    for line in (
        b'{"body":"x","properties":{"_AMQ_ORIG_ADDRESS":"a","n":1}}',
        b'{"protocol":"AMQP","body":"x"}',
    ):
        message = read_envelope(line)
        before = message.record(1, "a", 0)
        twice = message.with_properties(NOTES).with_properties({"_AMQ_ORIG_ADDRESS": (Code.STRING, "again")})
        assert message.record(1, "a", 0) == before
        envelope = shown(twice)
        stated = envelope.get("extraProperties") or envelope["properties"]
        values = {name: value["v"] if isinstance(value, dict) else value for name, value in stated.items()}
        assert values["_AMQ_ORIG_ADDRESS"] == "again"
        assert values["_AMQ_ORIG_MESSAGE_ID"] == 2**40


def test_annotations_of_an_amqp_copy() -> None:
    line = {
        "amqp": {
            "header": {"durable": True},
            "messageAnnotations": [
                [{"t": "symbol", "v": "kept"}, {"t": "int", "v": 1}],
                [{"t": "symbol", "v": "x-opt-ORIG-ADDRESS"}, {"t": "string", "v": "earlier"}],
            ],
            "properties": {"to": "orders", "subject": "s"},
            "body": {"section": "value", "value": {"t": "string", "v": "b"}},
            "footer": [[{"t": "symbol", "v": "f"}, {"t": "boolean", "v": True}]],
        }
    }
    copy = read_envelope(json.dumps(line).encode()).with_properties(NOTES)
    amqp = shown(copy, address="DLQ")["amqp"]
    assert amqp["messageAnnotations"] == [
        [{"t": "symbol", "v": "kept"}, {"t": "int", "v": 1}],
        [{"t": "symbol", "v": "x-opt-ORIG-ADDRESS"}, {"t": "string", "v": "orders"}],
        [{"t": "symbol", "v": "x-opt-ORIG-MESSAGE-ID"}, {"t": "long", "v": 2**40}],
    ]
    assert amqp["properties"] == {"to": "DLQ", "subject": "s"}
    assert (amqp["header"], amqp["footer"]) == (line["amqp"]["header"], line["amqp"]["footer"])


def test_a_large_amqp_copy_says_that_its_record_counts(stores: PristineStores) -> None:
    found = 0
    for real in real_messages(stores["large-and-paged"]):
        if real.payload[0] != 4 or real.user_type != RECORD:
            continue
        copy = message_of_record(real.user_type, real.payload, real.body_file).with_properties(NOTES)
        assert b"".join(copy.large_body()) == real.body_file
        envelope = json.loads(line_of(*copy.large_record(7, "DLQ", NOW_MS), real.body_file))
        before = real.envelope
        keys = [key["v"] for key, _ in envelope["amqp"]["messageAnnotations"]]
        assert keys[-2:] == ["x-opt-ORIG-ADDRESS", "x-opt-ORIG-MESSAGE-ID"]
        assert envelope["amqp"]["properties"] == before["amqp"]["properties"]
        assert envelope["amqp"]["body"] == before["amqp"]["body"]
        assert envelope["extraProperties"]["_AMQ_AD"] == {"t": "string", "v": "DLQ"}
        found += 1
    assert found


# ---- records that are none ----


@pytest.mark.parametrize(
    ("user_type", "payload"),
    [
        (RECORD, b""),
        (RECORD, b"\1\0"),
        (RECORD, b"\6" + bytes(40)),
        (RECORD, b"\4" + bytes(60)),
        (RECORD, amqp_message(1, section(0x77, b"\x40"))[:-9]),
        (LARGE_RECORD, core_header(1)),
        (LARGE_RECORD, core_header(1)[:10]),
    ],
)
def test_records_that_cannot_be_taken_apart(user_type: int, payload: bytes) -> None:
    with pytest.raises(DecodeError):
        message_of_record(user_type, payload, None)


@pytest.mark.parametrize("protocol", ["AMQP", "CORE"])
@pytest.mark.parametrize(("kind", "value"), [("string", "a"), ("boolean", True), ("long", 5), ("short", 5)])
def test_a_type_may_be_stated_that_need_not_be(protocol: str, kind: str, value: object) -> None:
    line = {"protocol": protocol, "properties": {"x": value}, "propertyTypes": {"x": kind}, "body": "b"}
    message = read_envelope(json.dumps(line).encode())
    assert message.envelope("a", now_ms=0, large=False)["properties"] == {"x": value}
