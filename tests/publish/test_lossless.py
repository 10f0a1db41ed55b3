"""From a record to its line and back: the same bytes for what real brokers wrote, the same line for any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.errors import BadEnvelope
from journalfs.live.stored_runs import message_of_record
from journalfs.message.outgoing import Outgoing
from tests.differential.encode_messages import core_message, nullable, text_message
from tests.differential.values import amqp_payloads, core_payloads, damaged
from tests.frozen import FILE_STORES, PristineStores
from tests.publish.real_messages import RECORD, RealMessage, line_of, real_messages

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

NEW_ID = 77_001
NOW_MS = 1_764_000_000_000


def written(message: Outgoing, message_id: int, address: str) -> RealMessage:
    """What it becomes: record, and the body file of a large one."""
    if message.large:
        body = b"".join(message.large_body())
        return RealMessage(*message.large_record(message_id, address, NOW_MS), body)
    return RealMessage(*message.record(message_id, address, NOW_MS), None)


def moved(line: dict[str, Any]) -> dict[str, Any]:
    """The line without what says where the message is, which the whole record does too."""
    place = ("id", "address", "extraProperties", "message_base64")
    return {key: value for key, value in line.items() if key not in place}


@pytest.mark.parametrize("name", FILE_STORES)
def test_lines_become_the_records_they_were_made_of(name: str, stores: PristineStores) -> None:
    count = 0
    for real in real_messages(stores[name]):
        line = real.line
        envelope = json.loads(line)
        assert "message_base64" not in envelope, "whatever a broker writes is carried by the keys"
        again = written(read_envelope(line), envelope["id"], envelope["address"])
        assert again == real, line[:2000]
        count += 1
    assert count


@pytest.mark.parametrize("name", FILE_STORES)
def test_records_are_copied_as_they_are(name: str, stores: PristineStores) -> None:
    for real in real_messages(stores[name]):
        envelope = real.envelope
        message = message_of_record(real.user_type, real.payload, real.body_file)
        assert written(message, envelope["id"], envelope["address"]) == real
        copied = written(message, NEW_ID, "else.where")
        assert copied.body_file == real.body_file
        assert copied.envelope["id"] == NEW_ID
        assert copied.envelope["address"] == "else.where"
        assert moved(copied.envelope) == moved(envelope)


@given(payload=core_payloads())
@example(text_message(1, None))
@example(core_message(1, b"", kind=3))
@example(core_message(1, b"\0\0\0\0", kind=2))
@example(core_message(1, b"\1\0\0\0\0", kind=5))
@example(core_message(1, b"\2\1", kind=6))
@example(core_message(1, b"\x08\xff\xc0\0\0", kind=6))
def test_any_core_message_comes_back(payload: bytes) -> None:
    line = line_of(RECORD, payload)
    envelope = json.loads(line)
    message = read_envelope(line)
    again = written(message, envelope["id"], envelope["address"] or "")
    if envelope["address"] is None:
        assert moved(again.envelope) == moved(envelope)
    elif again.payload != payload:
        # An empty body means null or nothing, as its one-byte forms do: either may have been there. What
        # is no number has many forms, one of which is written.
        assert line_of(RECORD, again.payload) == line
        body = envelope.get("body", envelope.get("body_base64"))
        assert not body or '"NaN"' in json.dumps(body)
    facts_agree(message, envelope)


@given(payload=amqp_payloads())
def test_any_amqp_message_comes_back(payload: bytes) -> None:
    line = line_of(RECORD, payload)
    envelope = json.loads(line)
    message = read_envelope(line)
    again = written(message, envelope["id"], envelope["address"] or "")
    if envelope["address"] is None:
        assert moved(again.envelope) == moved(envelope)
    elif "message_base64" in envelope:
        assert again.payload == payload
    else:
        assert again.envelope == envelope
    facts_agree(message, envelope)


def facts_agree(message: Outgoing, envelope: dict[str, Any]) -> None:
    """What a store asks of a message before it is written."""
    assert message.durable == envelope["durable"]
    assert message.priority == envelope["priority"]
    assert message.timestamp_ms == envelope["timestamp"]
    assert message.expiration_ms == envelope.get("expiration", 0)
    assert message.record_bytes(envelope["address"] or "") == len(
        message.record(1, envelope["address"] or "", 0)[1]
    )
    seen = dict(message.envelope(envelope["address"] or "", now_ms=0, large=message.large))
    headers = ("type", "userId", "groupId", "properties", "propertyTypes")
    assert {key: seen.get(key) for key in headers} == {key: envelope.get(key) for key in headers}


@contextmanager
def refused_types() -> Iterator[None]:
    try:
        yield
    except BadEnvelope as error:
        if not re.search("of none of the types|null is no key", str(error)):
            raise


@given(payload=damaged(core_payloads() | amqp_payloads()))
def test_damaged_messages_are_never_made(payload: bytes) -> None:
    """A line with damage is refused, and one with a field of AMQP of another type than it must be, which no
    broker loads; whatever is not refused makes a message that can be read.
    """
    line = line_of(RECORD, payload)
    envelope = json.loads(line)
    if "damage" in envelope:
        with pytest.raises(BadEnvelope) as caught:
            read_envelope(line)
        assert caught.value.key == "damage"
        return
    message: Outgoing | None = None
    with refused_types():
        message = read_envelope(line)
    if message is None:
        return
    again = written(message, NEW_ID, "a").envelope
    assert moved(again) == moved(envelope)


def test_a_body_that_a_client_compressed_is_compressed_again(stores: PristineStores) -> None:
    compressed = [
        real
        for real in real_messages(stores["large-and-paged"])
        if real.envelope.get("properties", {}).get("_AMQ_LARGE_COMPRESSED")
    ]
    assert compressed
    for real in compressed:
        message = read_envelope(real.line)
        envelope = real.envelope
        assert written(message, envelope["id"], envelope["address"]) == real
        assert message.body_bytes < envelope["properties"]["_AMQ_LARGE_SIZE"]


@pytest.mark.parametrize("body", [b"", b"\0", nullable("")])
def test_empty_texts(body: bytes) -> None:
    line = line_of(RECORD, core_message(1, body, kind=3))
    assert line_of(RECORD, read_envelope(line).record(1, "a", 0)[1]) == line
