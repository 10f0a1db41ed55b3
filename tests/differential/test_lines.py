"""Lines as the C core renders them against the reference envelopes: of real, random and damaged messages."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from tests.differential.encode_messages import core_header, core_message, nullable
from tests.differential.values import amqp_payloads, core_payloads, damaged
from tests.frozen import FILE_STORES, PristineStores
from tests.reference.compare import REVERSIBLE_KEYS
from tests.reference.journal import read_folder
from tests.reference.messages import decode
from tests.reference.pages import page
from tests.reference.primitives import MalformedError
from tests.truth.bodies import check_file

# Failing examples of these strategies are long, and printing them is the point.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def real_payloads(store: Path) -> Iterator[tuple[bool, bytes]]:
    """Every message record of a store, live or not: whether it is a bare core header, and the payload."""
    for file in read_folder(store / "data/journal"):
        for record in file.scan.records:
            if record.user_type in (30, 45):
                yield record.user_type == 30, record.body
    for path in sorted((store / "data/paging").rglob("*.page")):
        for entry in page(path.read_bytes()).entries:
            yield entry.core_large, entry.payload


def batch_of(payload: bytes, *, core_large: bool = False) -> LineBatch:
    source = SOURCE_CORE_LARGE if core_large else SOURCE_PERSISTER
    return LineBatch.of_payloads([payload], queue="q", sources=[source])


def plain(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in REVERSIBLE_KEYS}


def _without_types_of_empty_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key != "of" or value.get("t") != "array"}
        return {key: _without_types_of_empty_arrays(inner) for key, inner in kept.items()}
    return [_without_types_of_empty_arrays(one) for one in value] if isinstance(value, list) else value


def _canonical(envelope: dict[str, Any]) -> str:
    """As text, which tells -0.0 from 0.0 and 1 from true."""
    keys = [json.dumps(key) for key, _ in envelope.get("amqp", {}).get("applicationProperties", ())]
    if len(keys) != len(set(keys)):
        # A key that is there twice, which no standard allows: only the sections show both.
        envelope = {
            key: value for key, value in envelope.items() if key not in ("properties", "propertyTypes")
        }
    return json.dumps(envelope, sort_keys=True, indent=1)


def assert_same_line(batch: LineBatch, payload: bytes, expected: dict[str, Any] | None) -> None:
    """`expected`: the reference's envelope, None if it cannot decode the payload."""
    rendered = batch.line(0)
    assert rendered.endswith(b"}\n")
    assert rendered.count(b"\n") == 1
    line = json.loads(rendered)
    assert line.pop("queue") == "q"
    if expected is None:
        assert base64.b64decode(line["message_base64"], validate=True) == payload
        return
    if "damage" in line:
        # Stricter than the reference is allowed, as long as nothing is lost.
        assert base64.b64decode(line["message_base64"], validate=True) == payload
        return
    assert _canonical(_without_types_of_empty_arrays(plain(line))) == _canonical(expected)


def assert_same_file(batch: LineBatch) -> None:
    measure = batch.measure(0)
    line = json.loads(batch.line(0))
    content = batch.read_body(0, 0, measure.body_bytes + 10)
    assert len(content) == measure.body_bytes
    assert measure.message_id == line["id"]
    assert measure.timestamp_ms == line["timestamp"]
    assert list(check_file(line, f"{line['id']}{measure.suffix.text}", content)) == []


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_messages(name: str, stores: PristineStores) -> None:
    bodies = stores[name] / "data/large-messages"
    count = 0
    for core_large, payload in real_payloads(stores[name]):
        message = decode(payload, core_large=core_large)
        batch = batch_of(payload, core_large=core_large)
        if message.envelope.get("largeMessage"):
            path = bodies / f"{message.message_id}.msg"
            if not path.exists():
                batch.set_large(0, None)
                assert "damage" in json.loads(batch.line(0))
                continue
            body = path.read_bytes()
            message = decode(payload, core_large=core_large, large=body)
            if message.envelope.get("properties", {}).get("_AMQ_LARGE_COMPRESSED"):
                body = zlib.decompress(body)
            batch.set_large(0, body)
        assert_same_line(batch, payload, message.envelope)
        assert "damage" not in json.loads(batch.line(0))
        assert_same_file(batch)
        count += 1
    assert count


@given(payload=core_payloads() | amqp_payloads())
def test_random_messages(payload: bytes) -> None:
    batch = batch_of(payload)
    assert_same_line(batch, payload, decode(payload).envelope)
    assert "damage" not in json.loads(batch.line(0))
    assert_same_file(batch)


@given(payload=damaged(core_payloads() | amqp_payloads()))
def test_damaged_messages(payload: bytes) -> None:
    try:
        expected = decode(payload).envelope
    except MalformedError:
        expected = None
    assert_same_line(batch_of(payload), payload, expected)


@pytest.mark.parametrize(
    "broken", [b"\x80", b"\xc3", b"\xc3a", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"a" * 4095], ids=repr
)
def test_a_stream_with_a_string_that_is_no_utf_is_damage(broken: bytes) -> None:
    text = b"\x0a\x01" + struct.pack(">IH", 9, len(broken)) + broken
    payload = core_message(7, text, kind=6)
    line = json.loads(batch_of(payload).line(0))
    assert line["damage"] == "a string of the stream is no UTF"
    assert base64.b64decode(line["message_base64"], validate=True) == payload


@given(text=st.none() | st.text(max_size=300), cut=st.integers(0, 40))
def test_large_core_text(text: str | None, cut: int) -> None:
    body = nullable(text)
    size = ("long", len(body))
    payload = core_header(5, kind=3, properties={"_AMQ_LARGE_SIZE": size})
    batch = batch_of(payload, core_large=True)
    batch.set_large(0, body[: len(body) - cut] if cut else body)
    line = json.loads(batch.line(0))
    if cut:
        assert "damage" in line
        assert line["message_base64"]
    else:
        assert_same_line(batch, payload, decode(payload, core_large=True, large=body).envelope)
        assert_same_file(batch)


PAYLOADS = st.lists(core_payloads() | amqp_payloads(), min_size=1, max_size=5)
WINDOWS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 700)), min_size=1, max_size=8)


@given(payloads=PAYLOADS, windows=WINDOWS)
def test_any_window_is_a_slice_of_the_whole(payloads: list[bytes], windows: list[tuple[int, int]]) -> None:
    batch = LineBatch.of_payloads(
        payloads,
        queue="väldigt/queue\ud800",
        delivery_counts=[index * 11 for index in range(len(payloads))],
        scheduled_ms=[0, 4070908800000, 1, 0, 5][: len(payloads)],
    )
    whole = b"".join(batch.line(index) for index in range(len(payloads)))
    assert len(whole) == batch.size_bytes
    assert batch.read(0, len(whole) + 1) == whole
    for offset, length in windows:
        assert batch.read(offset, length) == whole[offset : offset + length]
    one_by_one = b"".join(batch.read(at, 1) for at in range(min(len(whole), 400)))
    assert one_by_one == whole[:400]


@given(payload=core_payloads() | amqp_payloads(), step=st.integers(1, 40))
def test_any_window_of_a_message_file(payload: bytes, step: int) -> None:
    batch = batch_of(payload)
    size = batch.body_bytes(0)
    whole = batch.read_body(0, 0, size)
    pieces = [batch.read_body(0, at, step) for at in range(0, min(size, 600), step)]
    assert b"".join(pieces) == whole[: len(b"".join(pieces))]
    assert batch.read_body(0, size, 1) == b""
