"""What goes into a journal is durable: a broker records no acknowledgement of anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.engine.lines import LineBatch
from journalfs.format.amqp_message import LargeCache, split_large, split_sections
from journalfs.live.stored_runs import message_of_record
from journalfs.message.envelope import decode_envelope
from journalfs.message.outgoing import Record
from tests.reference.amqp import Sections

VALUE = {"section": "value", "value": {"t": "string", "v": "x"}}
AMQP: dict[str, dict[str, object]] = {
    "no header": {"body": VALUE},
    "a header that says nothing": {"header": {"priority": 7}, "body": VALUE},
    "a header that says no": {"header": {"durable": False, "priority": 7, "ttl": 5}, "body": VALUE},
}


def shown(record: Record) -> dict[str, Any]:
    return dict(decode_envelope(LineBatch.of_payloads([record[1]], queue=None).line(0)))


def test_a_core_message_becomes_durable() -> None:
    message = read_envelope(b'{"body": "x", "durable": false, "priority": 7}')
    assert shown(message.record(1, "a", 5))["durable"] is False, "by itself it is what its line says"
    kept = message.kept()
    assert shown(kept.record(1, "a", 5)) == {**shown(message.record(1, "a", 5)), "durable": True}
    assert kept.kept() is kept


@pytest.mark.parametrize("amqp", AMQP.values(), ids=AMQP.keys())
def test_an_amqp_message_says_that_it_is_durable(amqp: dict[str, object]) -> None:
    message = read_envelope(json.dumps({"amqp": amqp}).encode())
    before, after = shown(message.record(1, "a", 5)), shown(message.kept().record(1, "a", 5))
    assert after["durable"] is True
    assert after["amqp"]["header"] == {**before["amqp"].get("header", {}), "durable": True}
    assert {**after["amqp"], "header": None} == {**before["amqp"], "header": None}


@pytest.mark.parametrize("amqp", AMQP.values(), ids=AMQP.keys())
def test_a_large_amqp_message_says_it_in_its_record_and_in_its_file(amqp: dict[str, object]) -> None:
    """A broker that copies one, as to the dead letters, goes by the header in its file."""
    message = read_envelope(json.dumps({"largeMessage": True, "amqp": amqp}).encode())
    kept = message.kept()
    (_, before), (_, after) = message.large_record(1, "a", 5), kept.large_record(1, "a", 5)
    assert (before[9], after[9]) == (0xFF if "header" not in amqp else 0, 0xFF)
    old, new = Sections(b"".join(message.large_body())), Sections(b"".join(kept.large_body()))
    assert new.header == {**(old.header or {}), "durable": {"t": "boolean", "v": True}}
    assert (new.maps, new.properties, new.value) == (old.maps, old.properties, old.value)
    file = b"".join(kept.large_body())
    assert len(file) == kept.body_bytes
    assert split_large(after)[1] == LargeCache.of(split_sections(file))
    assert kept.kept() is kept
    assert message_of_record(45, after, file).kept().durable


@pytest.mark.parametrize(
    "line",
    [
        {"body": "x"},
        {"protocol": "AMQP", "body": "x"},
        {"protocol": "AMQP", "body": "x", "largeMessage": True},
    ],
)
def test_what_is_durable_stays_itself(line: dict[str, object]) -> None:
    message = read_envelope(json.dumps(line).encode())
    assert message.kept() is message
