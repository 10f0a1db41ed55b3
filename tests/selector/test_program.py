"""The steps that judge records in C say what the functions say of envelopes, or that they cannot tell."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.engine._native import ffi
from journalfs.engine.lines import LineBatch
from journalfs.engine.select import ASK, NO, YES, Judge, Stop
from journalfs.errors import BadEnvelope, SelectorError
from journalfs.message.envelope import decoder_for
from journalfs.selector import Selector, compile_selector
from tests.differential.values import amqp_payloads, core_payloads, damaged
from tests.frozen import FILE_STORES, PristineStores
from tests.publish.real_messages import RECORD, real_messages
from tests.selector import strategies
from tests.selector.cases import FILTERS, JMS_FILTERS, ROW, SELECTORS
from tests.selector.evaluate import Properties, envelope_of

NOW_MS = 1_764_000_000_000
NAMED = (
    "JMSPriority > 3", "JMSTimestamp < 5", "JMSExpiration <> 0 OR AMQDurable = 'DURABLE'", "NOT a",
    "JMSMessageID LIKE 'ID:%'", "JMSXGroupID = 'a' OR JMSType = 'b'", "_AMQ_GROUP_ID IS NULL",
    "a IN ('', 'x', 'é')", "NOT (a BETWEEN b AND 5)", "AMQUserID IS NULL", "AMQAddress = 'orders'",
    "a LIKE '%_b'",
)  # fmt: skip


def in_core(selector: Selector, payloads: Sequence[bytes], sources: Sequence[int] | None = None) -> bytes:
    """A verdict for each payload."""
    if selector.program is None:
        return bytes([ASK]) * len(payloads)
    batch = LineBatch.of_payloads(payloads, queue="q", sources=sources)
    verdicts = ffi.new("uint8_t[]", len(payloads))
    assert Judge(selector.program).judge(batch.lines, len(payloads), verdicts) == len(payloads)
    return bytes(ffi.buffer(verdicts))


def from_lines(
    selector: Selector, payloads: Sequence[bytes], sources: Sequence[int] | None = None
) -> list[bool]:
    batch = LineBatch.of_payloads(payloads, queue="q", sources=sources)
    decode = decoder_for(selector)
    return [selector.accepts(decode(batch, index)) for index in range(len(payloads))]


def agree(text: str, payloads: Sequence[bytes], *, stored: bool = False) -> bytes:
    try:
        selector = compile_selector(text, stored=stored)
    except SelectorError:
        assume(False)
    verdicts = in_core(selector, payloads)
    for verdict, expected in zip(verdicts, from_lines(selector, payloads), strict=True):
        assert verdict in (ASK, YES if expected else NO), text
    return verdicts


def payload(properties: Properties, *, protocol: str = "CORE") -> bytes:
    envelope = {**envelope_of(properties), "protocol": protocol, "body": "x"}
    message = read_envelope(json.dumps(envelope).encode())
    return message.record(7, "orders", NOW_MS)[1]


@pytest.mark.parametrize("name", FILE_STORES)
def test_messages_of_real_stores_are_judged_alike(name: str, stores: PristineStores) -> None:
    shapes = {(len(message.payload), message.user_type): message for message in real_messages(stores[name])}
    found = list(shapes.values())[:100]
    payloads = [message.payload for message in found]
    sources = [int(message.user_type != RECORD) for message in found]
    for stored, texts in ((True, FILTERS + NAMED), (False, FILTERS + JMS_FILTERS + NAMED)):
        for text in texts:
            selector = compile_selector(text, stored=stored)
            verdicts = in_core(selector, payloads, sources)
            expected = from_lines(selector, payloads, sources)
            for verdict, message, accepted in zip(verdicts, found, expected, strict=True):
                assert verdict in (ASK, YES if accepted else NO), (text, message.line[:500])


def test_common_questions_are_answered_by_the_core(stores: PristineStores) -> None:
    payloads = [
        message.payload for message in real_messages(stores["orders-basic"]) if message.user_type == RECORD
    ]
    for text in (*JMS_FILTERS, "n = 1 OR n > 7", "region LIKE 'E%' AND price < 0", "kind IN ('a', 'b')"):
        assert ASK not in in_core(compile_selector(text), payloads), text


def test_every_selector_with_an_answer_of_the_broker_is_judged_alike() -> None:
    row = payload(ROW)
    asked = [text for text in SELECTORS if _compiles(text) and agree(text, [row], stored=True)[0] == ASK]
    assert len(asked) < len(SELECTORS) / 5


def _compiles(text: str) -> bool:
    try:
        compile_selector(text, stored=True)
    except SelectorError:
        return False
    return True


either = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@either
@given(
    text=st.one_of(strategies.SELECTORS, strategies.CONDITIONS),
    properties=strategies.PROPERTIES,
    protocol=st.sampled_from(("CORE", "AMQP")),
)
@example(text="NULL > (a + 'x')", properties={"a": ("string", "x")}, protocol="CORE")
@example(text="b > (a + 1) OR TRUE", properties={"a": ("string", "x")}, protocol="CORE")
@example(text="raw > 1 OR TRUE", properties={"raw": ("bytes", "AQI=")}, protocol="CORE")
@example(text="TRUE OR raw > 1", properties={"raw": ("bytes", "AQI=")}, protocol="CORE")
@example(text="NOT (b = 1 AND raw > 1)", properties={"raw": ("bytes", "AQI=")}, protocol="CORE")
@example(text="b = 1 AND raw > 1 OR TRUE", properties={"raw": ("bytes", "AQI=")}, protocol="CORE")
@example(text="NOT +a OR (a AND +a)", properties={"a": ("int", "1")}, protocol="AMQP")
@example(text="- - a = 5 AND -(-5) = 5", properties={"a": ("int", "5")}, protocol="AMQP")
@example(text="a = -9223372036854775808", properties={"a": ("long", "-9223372036854775808")}, protocol="CORE")
@example(text="a * 3 = 5 OR a % 0 = a / 0", properties={"a": ("long", str(2**63 - 1))}, protocol="CORE")
@example(text="a = 16777217", properties={"a": ("float", "16777216")}, protocol="CORE")
def test_generated_selectors_are_judged_alike(text: str, properties: Properties, protocol: str) -> None:
    known = {
        name: value
        for name, value in properties.items()
        if protocol == "AMQP" or value[0] not in ("timestamp", "uuid")
    }
    try:
        made = payload(known, protocol=protocol)
    except BadEnvelope:
        assume(False)
    agree(text, [made])


@either
@given(
    payloads=st.lists(
        st.one_of(core_payloads(), amqp_payloads(), damaged(core_payloads())), min_size=1, max_size=4
    )
)
def test_any_message_is_judged_alike(payloads: list[bytes]) -> None:
    for text in NAMED:
        agree(text, payloads)


@either
@given(
    text=st.text(alphabet="ab%_!\U0001f600\n", max_size=8),
    pattern=st.text(alphabet="ab%_!\U0001f600\n.", max_size=8),
    escape=st.sampled_from(("", " ESCAPE '!'", " ESCAPE '%'", " ESCAPE '_'", " ESCAPE 'a'")),
    protocol=st.sampled_from(("CORE", "AMQP")),
)
def test_patterns_match_alike(text: str, pattern: str, escape: str, protocol: str) -> None:
    made = payload({"color": ("string", text)}, protocol=protocol)
    assert agree(f"color LIKE '{pattern}'{escape}", [made])[0] != ASK


def test_long_chains_are_many_steps_and_quick_ones() -> None:
    chain = compile_selector(" OR ".join(f"n = {number}" for number in range(3000)))
    found = in_core(chain, [payload({"n": ("int", str(number))}) for number in (0, 2999, 3000)])
    assert list(found) == [YES, YES, NO]


def test_judging_ends_when_nobody_waits_for_it() -> None:
    """A pattern that takes very long on one long text: it is given up in the middle of that."""
    selector = compile_selector(f"color LIKE '%{'a_' * 20_000}b'")
    batch = LineBatch.of_payloads([payload({"color": ("string", "a" * 4_000_000)})], queue="q")
    verdicts, stop = ffi.new("uint8_t[]", 1), Stop()
    assert selector.program is not None
    judge, answers = Judge(selector.program), []
    thread = threading.Thread(target=lambda: answers.append(judge.judge(batch.lines, 1, verdicts, stop=stop)))
    thread.start()
    assert thread.is_alive()
    stop.set()
    thread.join(timeout=20)
    assert answers == [0]


def test_judging_takes_its_time_and_goes_on() -> None:
    selector = compile_selector("n < 5")
    batch = LineBatch.of_payloads([payload({"n": ("int", str(n % 10))}) for n in range(1000)], queue="q")
    verdicts = ffi.new("uint8_t[]", 1000)
    assert selector.program is not None
    judge, done = Judge(selector.program), 0
    deadline = time.monotonic() + 20
    while done < 1000 and time.monotonic() < deadline:
        done += judge.judge(batch.lines + done, 1000 - done, verdicts + done, budget_ns=1)
    assert bytes(ffi.buffer(verdicts)) == bytes([YES] * 5 + [NO] * 5) * 100
