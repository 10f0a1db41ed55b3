"""Envelopes that are none, or not quite: each is refused with the key that is wrong, and none does harm."""

from __future__ import annotations

import base64
import itertools
import json
import random
import struct
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.errors import BadEnvelope
from journalfs.message.outgoing import Outgoing
from tests.differential.encode_messages import core_message, text_message
from tests.frozen import unpack
from tests.publish.real_messages import RECORD, line_of, real_messages

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def amqp(**sections: object) -> dict[str, object]:
    return {"amqp": sections}


def value(item: object) -> dict[str, object]:
    return amqp(body={"section": "value", "value": item})


def nested(depth: int, *, kind: str = "list") -> dict[str, object]:
    item: dict[str, object] = {"t": "int", "v": 1}
    for _ in range(depth):
        item = {"t": kind, "v": [item]} if kind != "described" else {"t": kind, "descriptor": item, "v": item}
    return item


STRAY = base64.b64encode(text_message(1, "x") + b"stray").decode()

REFUSED: list[tuple[str, dict[str, object], str | None]] = [
    ("nothing at all", {}, None),
    ("no content", {"priority": 4}, None),
    ("unknown key", {"body": "x", "Priority": 4}, "Priority"),
    ("unknown protocol", {"body": "x", "protocol": "MQTT"}, "protocol"),
    ("type of another kind", {"body": "x", "type": 3}, "type"),
    ("unknown type", {"body": "x", "type": "texts"}, "type"),
    ("number of a known type", {"body": "x", "type": "type-3"}, "type"),
    ("type out of range", {"body_base64": "", "type": "type-128"}, "type"),
    ("text of no string", {"body": 5, "type": "text"}, "body"),
    ("number without type", {"body": 5}, "body"),
    ("text as base64", {"body_base64": "eA==", "type": "text"}, "body_base64"),
    ("bytes as text", {"body": "x", "type": "bytes"}, "body"),
    ("base64 of the other alphabet", {"body_base64": "_-=="}, "body_base64"),
    ("base64 without padding", {"body_base64": "eA"}, "body_base64"),
    ("base64 with space", {"body_base64": "eA ==", "type": "bytes"}, "body_base64"),
    ("base64 of no string", {"body_base64": [1]}, "body_base64"),
    ("base64 beyond ASCII", {"body_base64": "é"}, "body_base64"),
    ("priority beyond", {"body": "x", "priority": 10}, "priority"),
    ("priority as text", {"body": "x", "priority": "4"}, "priority"),
    ("priority as truth", {"body": "x", "priority": True}, "priority"),
    ("priority as fraction", {"body": "x", "priority": 4.0}, "priority"),
    ("durable as number", {"body": "x", "durable": 1}, "durable"),
    ("huge time", {"body": "x", "timestamp": 2**63}, "timestamp"),
    ("huger time", {"body": "x", "expiration": -(10**30)}, "expiration"),
    ("schedule of zero", {"body": "x", "scheduledTime": 0}, "scheduledTime"),
    ("negative count", {"body": "x", "deliveryCount": -1}, "deliveryCount"),
    ("user id that is none", {"body": "x", "userId": "ID:5"}, "userId"),
    ("user id of 36 characters", {"body": "x", "userId": 36 * "g"}, "userId"),
    ("large as text", {"body": "x", "largeMessage": "true"}, "largeMessage"),
    ("properties in a list", {"body": "x", "properties": []}, "properties"),
    ("nested property", {"body": "x", "properties": {"p": {"t": "int", "v": 1}}}, "properties.p"),
    ("type without property", {"body": "x", "propertyTypes": {"p": "int"}}, "propertyTypes"),
    (
        "unknown property type",
        {"body": "x", "properties": {"p": 1}, "propertyTypes": {"p": "i32"}},
        "propertyTypes.p",
    ),
    ("group twice", {"body": "x", "groupId": "a", "properties": {"_AMQ_GROUP_ID": "b"}}, "groupId"),
    (
        "duplicate twice",
        {"body": "x", "duplicateId": "a", "duplicateId_base64": "eA=="},
        "duplicateId_base64",
    ),
    ("map in a list", {"body": [], "type": "map"}, "body"),
    ("stream in an object", {"body": {}, "type": "stream"}, "body"),
    ("map in a map", {"body": {"a": {"b": 1}}}, "body.a"),
    ("list in a stream", {"body": [[1]]}, "body[0]"),
    ("half a typed value", {"body": {"a": {"t": "int"}}}, "body.a"),
    ("AMQP type in a core map", {"body": {"a": {"t": "uint", "v": 1}}}, "body.a"),
    ("AMQP key on core", {"body": "x", "messageFormat": 0}, "messageFormat"),
    ("damage", {"body": "x", "damage": "the body is gone"}, "damage"),
    ("amqp in a list", {"amqp": []}, "amqp"),
    ("unknown section", amqp(headers={}), "amqp.headers"),
    ("unknown header field", amqp(header={"prio": 1}), "amqp.header.prio"),
    ("header field beyond", amqp(header={"priority": 256}), "amqp.header.priority"),
    ("key of an annotation that is none", amqp(messageAnnotations=[[5, 5]]), "amqp.messageAnnotations"),
    ("typed key of none", amqp(footer=[[{"t": "string", "v": "k"}, 5]]), "amqp.footer"),
    ("null as a key", amqp(deliveryAnnotations=[[None, 5]]), "amqp.deliveryAnnotations"),
    (
        "symbol as a property",
        amqp(applicationProperties=[[{"t": "symbol", "v": "k"}, 5]]),
        "amqp.applicationProperties",
    ),
    ("string as a priority", amqp(header={"priority": {"t": "string", "v": "4"}}), "amqp.header.priority"),
    ("string as a user", amqp(properties={"userId": {"t": "string", "v": "me"}}), "amqp.properties.userId"),
    (
        "string as a content type",
        amqp(properties={"contentType": {"t": "string", "v": "x"}}),
        "amqp.properties.contentType",
    ),
    ("number without type in properties", amqp(properties={"messageId": 5}), "amqp.properties.messageId"),
    ("map in an object", amqp(applicationProperties={"a": 1}), "amqp.applicationProperties"),
    ("half a pair", amqp(footer=[["a"]]), "amqp.footer"),
    ("unknown body", amqp(body={"section": "datum"}), "amqp.body.section"),
    ("key of another body", amqp(body={"section": "value", "value": 1, "size": 5}), "amqp.body.size"),
    ("cut without lengths", amqp(body={"section": "data", "sections": 2}), "amqp.body.lengths"),
    (
        "lengths that do not add up",
        amqp(body={"section": "data", "lengths": [2, 2]}) | {"body_base64": "eHh4"},
        "amqp.body.lengths",
    ),
    ("negative length", amqp(body={"section": "data", "lengths": [-1]}), "amqp.body.lengths"),
    ("sequences that are none", amqp(body={"section": "sequence", "sequences": [1]}), "amqp.body.sequences"),
    ("unknown AMQP type", value({"t": "integer", "v": 1}), "amqp.body.value"),
    ("type that is no string", value({"t": ["int"], "v": 1}), "amqp.body.value"),
    ("value without type", value({"v": 1}), "amqp.body.value"),
    ("array of many types", value({"t": "array", "v": [1, "x"]}), "amqp.body.value"),
    ("empty array of what", value({"t": "array", "v": [], "of": "described"}), "amqp.body.value"),
    ("array of arrays of described", value({"t": "array", "v": [nested(2, kind="described")]}), "amqp"),
    ("key that the type has not", value({"t": "int", "v": 1, "of": "int"}), "amqp.body.value"),
    ("lone surrogate", value({"t": "string", "v": "\ud800"}), "amqp.body.value"),
    ("char of two", value({"t": "char", "v": "ab"}), "amqp.body.value"),
    ("hexadecimal", value({"t": "decimal32", "v": "0000000g"}), "amqp.body.value"),
    ("too few digits", value({"t": "decimal64", "v": "00"}), "amqp.body.value"),
    ("null with a value", value({"t": "null", "v": 0}), "amqp.body.value"),
    ("too deep", value(nested(66)), "amqp.body.value"),
    ("key that amqp contradicts", amqp(header={"priority": 4}) | {"priority": 7}, "priority"),
    ("body that amqp contradicts", value({"t": "string", "v": "a"}) | {"body": "b"}, "body"),
    ("core key on AMQP", {"protocol": "AMQP", "body": "x", "duplicateId": "d"}, "duplicateId"),
    ("sequence made of nothing", {"protocol": "AMQP", "body": "x", "type": "amqp-sequence"}, "type"),
    ("persister beyond", amqp() | {"persister": 6}, "persister"),
    ("persister of large ones", amqp() | {"persister": 4}, "persister"),
    ("record that is none", {"message_base64": "AQ=="}, "message_base64"),
    ("empty record", {"message_base64": ""}, "message_base64"),
    ("record that keys contradict", {"message_base64": STRAY, "priority": 9}, "priority"),
    ("record of another protocol", {"message_base64": STRAY, "protocol": "AMQP"}, "protocol"),
    (
        "large record without its file",
        {"message_base64": "BA==", "amqp": {}, "largeMessage": True},
        "large_base64",
    ),
]

BEYOND: dict[str, list[object]] = {
    "byte": [128, -129, 1.5, "1", True, None],
    "short": [2**15, -(2**15) - 1],
    "int": [2**31, -(2**31) - 1, 10**4000],
    "long": [2**63, -(2**63) - 1],
    "float": [3.5e38, "x", 1e300, 10**400, True, "inf"],
    "double": [10**400, "nan", None],
    "boolean": [0, "true", None],
    "null": [0, "", False],
    "string": [1, None],
    "char": ["", "ab", "🚀", 5],
    "bytes": ["é", "a", 5],
}


@pytest.mark.parametrize(
    ("envelope", "key"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_refused(envelope: dict[str, object], key: str | None) -> None:
    with pytest.raises(BadEnvelope) as caught:
        read_envelope(json.dumps(envelope).encode())
    assert caught.value.key == key
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("kind", "wrong"), [(kind, one) for kind, many in BEYOND.items() for one in many])
def test_values_beyond_their_type(kind: str, wrong: object) -> None:
    property_line = {"body": "x", "properties": {"p": wrong}, "propertyTypes": {"p": kind}}
    for envelope in (
        property_line,
        {"body": {"p": {"t": kind, "v": wrong}}},
        {"body": [{"t": kind, "v": wrong}]},
    ):
        with pytest.raises(BadEnvelope):
            read_envelope(json.dumps(envelope).encode())


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_amqp_numbers_beyond_their_type(bits: int) -> None:
    unsigned, signed = {
        8: ("ubyte", "byte"),
        16: ("ushort", "short"),
        32: ("uint", "int"),
        64: ("ulong", "long"),
    }[bits]
    for kind, low, high in ((unsigned, 0, 2**bits - 1), (signed, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)):
        for good in (low, high, 0, 1, 255 if high >= 255 else high):
            line = line_of(
                *read_envelope(json.dumps(value({"t": kind, "v": good})).encode()).record(1, "a", 0)
            )
            assert json.loads(line)["amqp"]["body"]["value"] == {"t": kind, "v": good}
        for bad in (low - 1, high + 1):
            with pytest.raises(BadEnvelope):
                read_envelope(json.dumps(value({"t": kind, "v": bad})).encode())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b'{"body":"x"',
        b'{"body":"x"}}',
        b'{"body":"x",}',
        b"[1]",
        b'"body"',
        b"null",
        b"\xef\xbb\xbf[]",
        b'{"body":"\xff"}',
        b'{"body":"\xed\xa0\x80"}',
        b'{"body":"a\x00b"}',
        b'{"body":"x","priority":NaN}',
        b'{"body":"\\ud800","properties":{"p":Infinity}}',
        b'{"body":"x","timestamp":' + 5000 * b"9" + b"}",
        b'{"body":"x","properties":{"p":1e999}}',
        b'{"body":"\\ud800","properties":{"p":1e999}}',
        b'{"body":' + 100_000 * b"[" + 100_000 * b"]" + b"}",
        b'{"amqp":{"body":{"section":"value","value":'
        + 5_000 * b'{"t":"list","v":['
        + b"1"
        + 5_000 * b"]}"
        + b"}}}",
        '{"body":"x"}'.encode("utf-16"),
    ],
)
def test_what_is_no_json_object(line: bytes) -> None:
    with pytest.raises(BadEnvelope):
        read_envelope(line)


# ---- what is taken although a store would not write it so ----


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"body": "x"}, {"type": "text", "body": "x"}),
        ({"body": None}, {"type": "text", "body": None}),
        ({"type": "text"}, {"type": "text", "body": None}),
        ({"type": "default"}, {"type": "default", "body_base64": ""}),
        ({"body_base64": "AQI="}, {"type": "bytes", "body_base64": "AQI="}),
        ({"body": {}}, {"type": "map", "body": {}}),
        ({"body": []}, {"type": "stream", "body": []}),
        ({"type": "type--7", "body_base64": "AQ=="}, {"type": "type--7", "body_base64": "AQ=="}),
        (
            {"body": {"s": "a", "n": 5, "f": 0.5, "b": True, "z": None}},
            {
                "type": "map",
                "body": {
                    "s": {"t": "string", "v": "a"},
                    "n": {"t": "long", "v": 5},
                    "f": {"t": "double", "v": 0.5},
                    "b": {"t": "boolean", "v": True},
                    "z": {"t": "null", "v": None},
                },
            },
        ),
        (
            {"body": "x", "properties": {"n": 5, "f": 0.5}},
            {"properties": {"n": 5, "f": 0.5}, "propertyTypes": {"n": "long", "f": "double"}},
        ),
        (
            {"body": "x", "properties": {"_AMQ_ROUTING_TYPE": 1, "_AMQ_GROUP_SEQUENCE": 2}},
            {"propertyTypes": {"_AMQ_ROUTING_TYPE": "byte", "_AMQ_GROUP_SEQUENCE": "int"}},
        ),
        (
            {"body": "x", "properties": {"f": 1, "g": 0.1}, "propertyTypes": {"f": "double", "g": "float"}},
            {"properties": {"f": 1.0, "g": 0.1}},
        ),
        ({"body": "x", "groupId": "g"}, {"groupId": "g", "properties": {"_AMQ_GROUP_ID": "g"}}),
        (
            {"body": "tiny", "properties": {"_AMQ_LARGE_COMPRESSED": True, "_AMQ_LARGE_SIZE": 5}},
            {"body": "tiny", "properties": {"_AMQ_LARGE_COMPRESSED": True, "_AMQ_LARGE_SIZE": 13}},
        ),
        ({"body_base64": "", "properties": {"_AMQ_LARGE_COMPRESSED": True}}, {"body_base64": ""}),
        ({"body": "x", "properties": {"_AMQ_LARGE_COMPRESSED": "true"}}, None),
        ({"body": "x", "userId": None, "groupId": None}, {"body": "x"}),
        (
            {"protocol": "AMQP", "body": "x", "priority": 7, "groupId": "g", "userId": "m", "timestamp": 5},
            {
                "type": "amqp-value",
                "body": "x",
                "durable": True,
                "priority": 7,
                "groupId": "g",
                "userId": "m",
                "timestamp": 5,
            },
        ),
        ({"protocol": "AMQP", "body_base64": "AQI="}, {"type": "amqp-data", "body_base64": "AQI="}),
        ({"protocol": "AMQP", "type": "none"}, {"type": "none"}),
        ({"protocol": "AMQP", "type": "amqp-value"}, None),
        ({"protocol": "AMQP", "type": "amqp-value", "body": None}, {"type": "amqp-value"}),
        (
            {"protocol": "AMQP", "body": {"t": "list", "v": [1]}, "type": "amqp-value"},
            {"type": "amqp-value"},
        ),
        ({"protocol": "AMQP", "body": 3}, {"type": "amqp-value"}),
        ({"protocol": "AMQP", "body": {"sku": 3}}, None),
        ({"protocol": "AMQP", "body": "x", "type": "amqp-data"}, None),
        ({"protocol": "AMQP", "body": "x", "body_base64": "AQI="}, None),
        ({"protocol": "AMQP", "body": "x", "duplicateId": "d"}, None),
        ({"protocol": "AMQP", "body": "x", "properties": {"a": {"t": "int", "v": 1}}}, None),
        (
            {"protocol": "AMQP", "body": "x", "properties": {"a": 1, "b": 2}, "propertyTypes": {"a": "int"}},
            {"properties": {"a": 1, "b": 2}, "propertyTypes": {"a": "int", "b": "long"}},
        ),
        (
            {"protocol": "AMQP", "body": "x", "properties": {"a": 1, "b": "s"}, "expiration": 99},
            {"properties": {"a": 1, "b": "s"}, "propertyTypes": {"a": "long"}, "expiration": 99},
        ),
        (amqp(body={"section": "value", "value": 5}), {"type": "amqp-value"}),
        (amqp(properties={"creationTime": 5}), {"timestamp": 5}),
    ],
)
def test_what_a_person_would_write(envelope: dict[str, object], expected: dict[str, object] | None) -> None:
    line = json.dumps(envelope).encode()
    if expected is None:
        with pytest.raises(BadEnvelope):
            read_envelope(line)
        return
    found = json.loads(line_of(*read_envelope(line).record(1, "a", 0)))
    assert {key: found.get(key) for key in expected} == expected
    assert read_envelope(json.dumps(found).encode()).record(1, "a", 0)[1]


def between_floats(*, seed: int) -> Iterator[tuple[str, str]]:
    """Decimals beside the middle between two floats, which they become as doubles; and the nearer float."""
    chance = random.Random(seed)
    while True:
        bits = chance.randrange(1, 0x7F7FFFFE)
        below, above = (struct.unpack(">f", struct.pack(">I", one))[0] for one in (bits, bits + 1))
        middle = (below + above) / 2
        digits = f"{middle:.14e}"
        distance = Fraction(digits) - Fraction(middle)
        if float(digits) == middle and distance:
            yield digits, f"{bits + (distance > 0):08x}"


def test_the_nearest_float() -> None:
    for digits, bits in itertools.islice(between_floats(seed=4), 200):
        for sign, nearest in (("", bits), ("-", f"{int(bits, 16) | 1 << 31:08x}")):
            line = f'{{"body":[{{"t":"float","v":{sign}{digits}}}]}}'.encode()
            assert bytes.fromhex("08" + nearest) in read_envelope(line).record(1, "a", 0)[1]


def test_a_record_that_comes_along_is_taken_as_it_is() -> None:
    payload = text_message(1, "x") + b"stray"
    line = line_of(RECORD, payload)
    assert "message_base64" in json.loads(line)
    assert read_envelope(line).record(1, "a", 0)[1] == payload
    other = read_envelope(line).record(2, "b", 0)[1]
    assert json.loads(line_of(RECORD, other))["body"] == "x"


# ---- by chance ----


@cache
def real_lines() -> tuple[bytes, ...]:
    """Short lines of two stores, which have every kind of message."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("orders-basic", "amqp-exotic", "amqp-mqtt-stomp-openwire"):
            unpack(name, Path(folder))
            for real in real_messages(Path(folder, name)):
                line = real.line
                if len(line) < 4000:
                    envelope = json.loads(line)
                    found[envelope["protocol"], envelope["type"], tuple(envelope), len(line) // 64] = line
    return tuple(found.values())


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key or index in it."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from places(node[key])


WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**70,
    0.5,
    "",
    "x",
    "AQ==",
    "\ud800",
    [],
    {},
    [[]],
    {"t": "int", "v": 1},
]


def taken(line: bytes) -> Outgoing | None:
    """The message; None if it is refused, and nothing but refused."""
    try:
        return read_envelope(line)
    except BadEnvelope:
        return None


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_envelopes_that_were_tampered_with(chance: random.Random, changes: int) -> None:
    envelope = json.loads(chance.choice(real_lines()))
    for _ in range(changes):
        container, key = chance.choice(list(places(envelope)))
        match chance.randrange(4):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container["added"] = container[key]
            case 2:
                container[key] = [container[key]]
            case _:
                container[key] = deepcopy(chance.choice(WRONG))  # the next change may be within it
        if not envelope:
            break
    line = json.dumps(envelope).encode()
    message = taken(line)
    if message is None:
        return
    payload = message.record(7, "a", 0)[1]
    made = line_of(RECORD, payload)
    assert b'"damage"' not in made
    assert line_of(RECORD, read_envelope(made).record(7, "a", 0)[1]) == made


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_lines_whose_bytes_were_damaged(chance: random.Random, changes: int) -> None:
    line = bytearray(chance.choice(real_lines()))
    for _ in range(changes):
        line[chance.randrange(len(line))] = chance.choice(b'{}[]",:\\ue0"\xff\x00\xc3\n')
    for one in bytes(line).split(b"\n"):
        message = taken(one)
        if message is not None:
            assert b'"damage"' not in line_of(RECORD, message.record(7, "a", 0)[1])


@given(st.binary(max_size=60))
def test_any_record_that_comes_along(stray: bytes) -> None:
    for payload in (stray, core_message(1, stray, kind=6), text_message(1, "x") + stray):
        line = json.dumps({"message_base64": base64.b64encode(payload).decode()}).encode()
        message = taken(line)
        if message is not None:
            assert b'"damage"' not in line_of(RECORD, message.record(7, "b", 0)[1])
