"""Messages as AMQP clients get them, read by the clients' own library."""

from __future__ import annotations

import pytest

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.errors import BadEnvelope
from journalfs.through.encoding import encoded, encoded_run

proton = pytest.importorskip("proton")

KINDS = {"default": 0, "map": 2, "bytes": 3, "stream": 4, "text": 5}


def decoded(line: str, duplicate_id: str = "ours") -> proton.Message:  # type: ignore[name-defined]
    message = proton.Message()
    message.decode(encoded(read_envelope(line.encode()), duplicate_id))
    return message


@pytest.mark.parametrize(
    ("line", "kind", "body"),
    [
        ('{"body":"hello"}', "text", "hello"),
        ('{"type":"text","body":null}', "text", None),
        ('{"type":"map","body":{"a":1,"b":{"t":"int","v":2}}}', "map", {"a": 1, "b": 2}),
        ('{"type":"stream","body":[1,"a",true]}', "stream", [1, "a", True]),
        ('{"body_base64":"AAEC"}', "bytes", b"\0\1\2"),
        ('{"type":"default","body_base64":""}', "default", None),
    ],
)
def test_each_kind_of_core_message(line: str, kind: str, body: object) -> None:
    found = decoded(line)
    assert found.annotations == {"x-opt-jms-msg-type": KINDS[kind]}
    assert (bytes(found.body) if isinstance(found.body, memoryview) else found.body) == body
    assert found.durable


def test_what_a_message_says_of_itself() -> None:
    found = decoded(
        '{"body":"x","priority":9,"groupId":"g","expiration":1900000000000,"timestamp":1700000000000,'
        '"properties":{"region":"EU","n":5,"w":2.5},"propertyTypes":{"n":"int","w":"float"}}'
    )
    assert (found.priority, found.group_id) == (9, "g")
    assert (found.expiry_time, found.creation_time) == (1_900_000_000, 1_700_000_000)
    assert found.properties == {"region": "EU", "n": 5, "w": 2.5, "_AMQ_DUPL_ID": "ours"}
    assert [type(found.properties[name]) for name in ("n", "w")] == [proton.int32, proton.float32]


def test_a_schedule_comes_along() -> None:
    found = decoded('{"body":"x","scheduledTime":1900000000000}')
    assert found.annotations["x-opt-delivery-time"] == 1_900_000_000_000


@pytest.mark.rule("S-384")
def test_each_has_a_duplicate_id_and_keeps_its_own() -> None:
    assert decoded('{"body":"x","duplicateId":"o-17"}').properties == {"_AMQ_DUPL_ID": "o-17"}
    assert decoded('{"protocol":"AMQP","body":"x"}').properties == {"_AMQ_DUPL_ID": "ours"}
    lines = [read_envelope(b'{"body":"x"}'), read_envelope(b'{"body":"x"}')]
    assert len(set(encoded_run(lines))) == 2


def test_a_message_that_is_amqp_goes_as_it_is() -> None:
    line = '{"protocol":"AMQP","body":"x","properties":{"_AMQ_DUPL_ID":"own","color":"red"},"userId":"m-1"}'
    message = read_envelope(line.encode())
    assert encoded(message, "other") == encoded(message, "another")


def test_what_amqp_cannot_carry_is_refused() -> None:
    with pytest.raises(BadEnvelope, match="embedded"):
        encoded(read_envelope(b'{"type":"embedded","body_base64":"AAEC"}'), "ours")
