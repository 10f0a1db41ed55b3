"""Lines of messages made for the purpose: numbers, texts, compressed and damaged ones, files that change."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE, LineBatch, Suffix, line_prefix, measure
from journalfs.engine.status import CoreRefused, FileTorn
from tests.differential.encode_messages import (
    amqp_message,
    core_header,
    core_message,
    nullable,
    section,
    text_message,
    typed_properties,
)

TEXT, BYTES, OBJECT, MAP, STREAM = 3, 4, 2, 5, 6


def line_of(payload: bytes, *, large: bytes | None = None, source: int = 0) -> dict[str, Any]:
    batch = LineBatch.of_payloads([payload], queue="q", sources=[source])
    if large is not None:
        batch.set_large(0, large)
    decoded: dict[str, Any] = json.loads(batch.line(0))
    return decoded


def rendered_numbers(code: int, layout: str, values: list[int]) -> list[str]:
    """The text of each bit pattern, taken out of a stream message that holds them all."""
    body = b"".join(struct.pack(">b", code) + struct.pack(layout, bits) for bits in values)
    line = LineBatch.of_payloads([core_message(1, body, kind=STREAM)], queue="q").line(0).decode()
    texts = line[line.index('"body":[') + 8 : line.rindex("]")].split("},{")
    return [text.partition('"v":')[2].strip("}") for text in texts]


def interesting_bits(width: int, fraction: int, *, seed: int) -> list[int]:
    """Powers of two and their neighbours, subnormals, powers of ten, and random patterns; all finite."""
    exponent_max = (1 << (width - 1 - fraction)) - 1
    found = {1, 2, 3, (1 << fraction) - 1, 1 << fraction, (exponent_max << fraction) - 1}
    for exponent in range(1, exponent_max):
        at = exponent << fraction
        found |= {at - 1, at, at + 1}
    for digit in range(1, 10):
        for power in range(-44, 38):
            layout = (">f", ">I") if width == 32 else (">d", ">Q")
            found.add(struct.unpack(layout[1], struct.pack(layout[0], digit * 10.0**power))[0])
    chance = random.Random(seed)
    found |= {chance.getrandbits(width - 1) for _ in range(20_000)}
    found |= {chance.getrandbits(fraction) for _ in range(2_000)}
    return [bits for bits in found if bits >> fraction < exponent_max]


def test_doubles_are_written_with_the_shortest_digits() -> None:
    values = interesting_bits(64, 52, seed=1)
    for bits, text in zip(values, rendered_numbers(9, ">Q", values), strict=True):
        number = struct.unpack(">d", struct.pack(">Q", bits))[0]
        assert text == repr(number), bits


def test_floats_are_written_with_the_shortest_digits() -> None:
    values = interesting_bits(32, 23, seed=2)
    for bits, text in zip(values, rendered_numbers(8, ">I", values), strict=True):
        number = struct.unpack(">f", struct.pack(">I", bits))[0]
        assert struct.pack(">f", float(text)) == struct.pack(">I", bits), text
        digits = len(text.partition("e")[0].replace(".", "").strip("0"))
        shorter = f"{number:.{max(digits - 2, 0)}e}"
        if digits > 1 and math.isfinite(float(shorter)) and float(shorter) < 3.4e38:
            assert struct.pack(">f", float(shorter)) != struct.pack(">I", bits), (text, shorter)


def test_numbers_that_json_has_no_digits_for() -> None:
    doubles = [0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF8 << 48 | 1, 102]
    wanted = ["0.0", "-0.0", '"Infinity"', '"-Infinity"', '"NaN"', '"NaN"', "5.04e-322"]
    assert rendered_numbers(9, ">Q", doubles) == wanted
    whole = struct.unpack(">Q", struct.pack(">d", 102.0))[0]
    assert rendered_numbers(9, ">Q", [whole, whole | 1 << 63]) == ["102.0", "-102.0"]
    assert rendered_numbers(8, ">I", [1 << 31, 0x7F800000, 0x7FC00000, 1]) == [
        "-0.0",
        '"Infinity"',
        '"NaN"',
        "1e-45",
    ]


TEXTS = [
    "",
    "plain",
    "".join(map(chr, range(0x80))),
    'quotes " and \\ and / and \x7f',
    "€ and 🐌 and \u2028 and \ufeff",
    "\ud800",
    "\udc00\ud800",
    "a\ud800b\udc00c" * 20,
    "x" * 15 + '"' + "y" * 16 + "é" + "z" * 33,
    "語" * 40 + "\n" * 40 + "🐌" * 40,
]


def rendered_text(text: str) -> bytes:
    """As Python writes it, which escapes exactly what must be; but lone surrogates only as escapes."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\u{ord(one):04x}" if 0xD800 <= ord(one) < 0xE000 else one for one in quoted).encode()


@pytest.mark.parametrize("text", TEXTS)
def test_texts_keep_every_unit(text: str) -> None:
    batch = LineBatch.of_payloads([text_message(1, text)], queue="q")
    line = batch.line(0)
    assert json.loads(line)["body"] == text
    assert line.count(b"\n") == 1
    assert line.endswith(b',"body":' + rendered_text(text) + b"}\n")
    content = batch.read_body(0, 0, 1 << 20)
    assert content == text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    "raw", [b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"ok \xc0\x80 \xf5", b"cut \xe2\x82"]
)
def test_amqp_strings_that_are_not_utf8_can_be_told_back(raw: bytes) -> None:
    payload = amqp_message(1, section(0x77, b"\xa1" + bytes([len(raw)]) + raw))
    line = line_of(payload)
    assert "damage" not in line
    assert line["body"].encode("utf-8", "surrogateescape") == raw
    assert LineBatch.of_payloads([payload], queue="q").read_body(0, 0, 99) == raw


def test_a_queue_name_may_hold_anything() -> None:
    for name in ("q", 'a"b\\', "ключ/🐌", "\ud800", None):
        batch = LineBatch.of_payloads([text_message(1)], queue=name)
        assert batch.line(0).startswith(line_prefix(name))
        assert json.loads(batch.line(0))["queue"] == name


def test_what_belongs_to_the_queue_stands_before_the_message() -> None:
    batch = LineBatch.of_payloads(
        [text_message(5)] * 2, queue="q", delivery_counts=[0, 3], scheduled_ms=[0, 4070908800000]
    )
    tail = batch.measure(0).tail_bytes
    assert batch.line(0).startswith(b'{"queue":"q","address":"a","id":5,')
    assert batch.line(1).startswith(b'{"queue":"q","deliveryCount":3,"scheduledTime":4070908800000,"address"')
    assert batch.line(0)[-2 - tail :] == batch.line(1)[-2 - tail :]
    assert len(batch.line(0)) == len(line_prefix("q")) + tail + 2


SUFFIXES = [
    (TEXT, nullable("plain"), Suffix.TXT),
    (TEXT, nullable(' {"a": [1, 2.5e-3, true, null, "\\u00e9"]}\n'), Suffix.JSON),
    (TEXT, nullable("[]"), Suffix.JSON),
    (TEXT, nullable("[1] []"), Suffix.TXT),
    (TEXT, nullable("[01]"), Suffix.TXT),
    (TEXT, nullable('{"a":1,}'), Suffix.TXT),
    (TEXT, nullable("12"), Suffix.TXT),
    (TEXT, nullable("[" * 400 + "]" * 400), Suffix.JSON),
    (TEXT, nullable("[" * 100_000), Suffix.TXT),
    (TEXT, b"", Suffix.TXT),
    (TEXT, nullable(None), Suffix.TXT),
    (BYTES, b"\x00\x01", Suffix.BIN),
    (BYTES, b"a,b\r\n1,2\r\n", Suffix.TXT),
    (BYTES, '{"ключ": "é"}'.encode(), Suffix.JSON),
    (BYTES, "é".encode()[:1], Suffix.BIN),
    (BYTES, b"del \x7f", Suffix.BIN),
    (BYTES, b"", Suffix.TXT),
    (OBJECT, struct.pack(">i", 2) + b"\xac\xed", Suffix.SER),
    (MAP, typed_properties({"a": ("int", 1)}), Suffix.JSON),
    (STREAM, b"", Suffix.JSON),
]


@pytest.mark.parametrize(("kind", "body", "suffix"), SUFFIXES)
def test_suffixes_go_by_content(kind: int, body: bytes, suffix: Suffix) -> None:
    assert measure(core_message(1, body, kind=kind)).suffix is suffix


COMPRESSED = {"_AMQ_LARGE_COMPRESSED": ("boolean", True), "_AMQ_LARGE_SIZE": ("long", 0)}


def test_a_compressed_body_that_became_small_is_inflated() -> None:
    text = "again and again " * 20_000
    payload = core_message(1, zlib.compress(nullable(text)), properties=COMPRESSED)
    batch = LineBatch.of_payloads([payload], queue="q")
    assert json.loads(batch.line(0))["body"] == text
    assert batch.measure(0).compressed is False
    whole = batch.line(0)
    pieces = [batch.read(at, 5000) for at in range(0, batch.size_bytes, 5000)]
    assert b"".join(pieces) == whole
    assert batch.read_body(0, 100, 1000) == text[100:1100].encode()


@pytest.mark.parametrize(
    "stream", [b"no zlib", zlib.compress(nullable("x"))[:-3], zlib.compress(nullable("x")) + b"!"]
)
def test_a_broken_compressed_body_is_shown_as_it_is(stream: bytes) -> None:
    line = line_of(core_message(1, stream, properties=COMPRESSED))
    assert "compressed body" in line["damage"]
    assert base64.b64decode(line["body_base64"]) == stream
    assert line["id"] == 1


@pytest.mark.slow
def test_a_body_that_inflates_without_end_is_refused() -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    line = line_of(core_message(1, bomb, kind=BYTES, properties=COMPRESSED))
    assert "too long when inflated" in line["damage"]
    assert base64.b64decode(line["body_base64"]) == bomb


def _wide(code: int, count: int, inside: bytes) -> bytes:
    return bytes([code]) + struct.pack(">II", len(inside) + 4, count) + inside


def _lists(depth: int) -> bytes:
    value = b"\x45"
    for _ in range(depth):
        value = _wide(0xD0, 1, value)
    return value


HOSTILE = {
    "nested too deeply": _lists(64),
    "no width": _wide(0xF0, 0xFFFFFFFF, b"\x40"),
    "elements of no width": _wide(0xD0, 3, _wide(0xF0, 40_000, b"\x41") * 3),
    "too early": _wide(0xD0, 0x7FFFFFFF, b"\x40" * 1000),
    "more elements than bytes": _wide(0xF0, 0x7FFFFFFF, b"\x50" + b"x" * 10),
    "longer than its items": _wide(0xD0, 1, b"\x40\x40"),
    "key without a value": _wide(0xD1, 1, b"\x40"),
    "unknown constructor": b"\x99",
    "repeat too long": _wide(0xF0, 70_000, b"\x00\xa3\xff" + b"d" * 255 + b"\x50" + b"1" * 70_000),
    "is no character": b"\x73\x00\x11\x00\x00",
    "neither 0 nor 1": b"\x56\x02",
    "ends too early": b"\xb1\xff\xff\xff\xff",
    "an AMQP value ends": b"\x00" * 5000,
}


@pytest.mark.parametrize(("reason", "value"), HOSTILE.items())
@pytest.mark.parametrize("place", [0x72, 0x77])
def test_hostile_amqp_is_damage_and_nothing_else(reason: str, value: bytes, place: int) -> None:
    if place == 0x72:
        value = _wide(0xD1, 2, b"\xa3\x01k" + value)
    payload = amqp_message(7, section(place, value))
    line = line_of(payload)
    assert reason in line["damage"]
    assert line["id"] == 7
    assert base64.b64decode(line["message_base64"]) == payload


def test_the_deepest_nesting_that_is_decoded() -> None:
    line = line_of(amqp_message(7, section(0x77, _lists(63))))
    assert "damage" not in line
    value, depth = line["amqp"]["body"]["value"], 0
    while value["v"]:
        value, depth = value["v"][0], depth + 1
    assert depth == 63


@pytest.mark.parametrize("cut", [1, 8, 9, 20, 40])
def test_a_payload_that_ends_too_early(cut: int) -> None:
    payload = text_message(77, "text", properties={"k": ("string", "v")})
    line = line_of(payload[:-cut])
    assert line["damage"]
    assert base64.b64decode(line["message_base64"]) == payload[:-cut]
    found = measure(payload[:-cut])
    assert found.damaged
    assert found.suffix is Suffix.BIN


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x09xyz", b"\x05\x00", b"\x04" + bytes(9)])
def test_a_payload_that_is_no_message(payload: bytes) -> None:
    line = line_of(payload)
    assert line["damage"]
    assert base64.b64decode(line["message_base64"]) == payload


def test_what_no_key_carries_is_kept_with_the_line() -> None:
    """Odd but readable encodings come with the whole payload, ordinary ones never do."""
    assert "message_base64" not in line_of(text_message(1, properties={"b": ("boolean", True)}))
    twice = core_header(1)[:-1] + b"\x01" + struct.pack(">i", 2) + b"\0\0\0\0\0" * 2
    line = line_of(twice, large=b"", source=SOURCE_CORE_LARGE)
    assert line["properties"] == {"": None}
    assert base64.b64decode(line["message_base64"]) == twice
    symbolic = amqp_message(1, b"\x00\xa3\x11amqp:amqp-value:*\xa1\x01x")
    line = line_of(symbolic)
    assert line["body"] == "x"
    assert base64.b64decode(line["message_base64"]) == symbolic


def test_extra_properties_format_and_old_persisters_are_told() -> None:
    value = section(0x77, b"\xa1\x01x")
    plain = amqp_message(1, value, extra={"_AMQ_AD": ("string", "a")})
    assert {"extraProperties", "persister", "messageFormat"} & line_of(plain).keys() == set()
    line = line_of(amqp_message(1, value, persister=3, extra={"_AMQ_ORIG_QUEUE": ("string", "o")}))
    assert line["extraProperties"] == {"_AMQ_ORIG_QUEUE": {"t": "string", "v": "o"}}
    assert line["persister"] == 3
    unaddressed = amqp_message(1, value, address=None, extra={"_AMQ_AD": ("string", "target")})
    assert line_of(unaddressed)["address"] == "target"


def large_batch(body: MappedFile | bytes | None, *, size: int) -> LineBatch:
    header = core_header(9, kind=BYTES, properties={"_AMQ_LARGE_SIZE": ("long", size)})
    batch = LineBatch.of_payloads([header], queue="q", sources=[SOURCE_CORE_LARGE])
    if body is not None:
        batch.set_large(0, body)
    return batch


def test_a_large_body_that_is_missing_or_short() -> None:
    line = json.loads(large_batch(None, size=10).line(0))
    assert "missing" in line["damage"]
    assert line["largeMessage"] is True
    assert "body_base64" not in line
    batch = large_batch(b"01234567", size=10)
    line = json.loads(batch.line(0))
    assert "shorter" in line["damage"]
    assert base64.b64decode(line["body_base64"]) == b"01234567"
    batch.set_large(0, None)
    assert "missing" in json.loads(LineBatch(batch.lines, 1, queue="q", keep=batch).line(0))["damage"]


def test_a_large_body_of_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "9.msg"
    path.touch()
    with MappedFile(path) as body:
        line = json.loads(large_batch(body, size=0).line(0))
    assert line["body_base64"] == ""
    assert "damage" not in line


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    """A line whose length was promised is never delivered with another length."""
    path = tmp_path / "9.msg"
    text = nullable("first" * 4000)
    path.write_bytes(text)
    header = core_header(9, kind=TEXT)
    with MappedFile(path) as body:
        batch = LineBatch.of_payloads([header], queue="q", sources=[SOURCE_CORE_LARGE])
        batch.set_large(0, body)
        assert batch.size_bytes
        with path.open("r+b") as file:
            file.seek(5)
            file.write("é".encode("utf-16-le") * 4)
        with pytest.raises(CoreRefused):
            batch.read(0, batch.size_bytes)


def test_a_file_that_is_truncated_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "9.msg"
    path.write_bytes(bytes(3_000_000))
    with MappedFile(path) as body:
        batch = large_batch(body, size=3_000_000)
        whole = batch.read(0, batch.size_bytes)
        path.write_bytes(bytes(1000))
        with pytest.raises(FileTorn):
            batch.read(0, batch.size_bytes)
        with pytest.raises(FileTorn):
            batch.read_body(0, 0, 3_000_000, body_bytes=3_000_000)
        path.write_bytes(bytes(3_000_000))
        assert batch.read(0, batch.size_bytes) == whole


def test_windows_outside_are_refused() -> None:
    batch = LineBatch.of_payloads([text_message(1)], queue="q")
    for offset, length in ((-1, 5), (0, -1)):
        with pytest.raises(ValueError, match="window"):
            batch.read(offset, length)
        with pytest.raises(ValueError, match="window"):
            batch.read_body(0, offset, length)
    for index in (-1, 1):
        with pytest.raises(IndexError):
            batch.line(index)
        with pytest.raises(IndexError):
            batch.measure(index)
    assert batch.read(batch.size_bytes, 10) == b""
    assert LineBatch.of_payloads([], queue="q").read(0, 10) == b""
