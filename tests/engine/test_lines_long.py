"""Lines far longer than a window: any window is a slice of the whole, and reading on is linear."""

from __future__ import annotations

import json
import random
import struct
import threading
import time
from collections.abc import Callable

import pytest

from journalfs.engine.lines import SOURCE_CORE_LARGE, LineBatch
from tests.differential.encode_messages import amqp_message, core_header, nullable, section, simple_string

WINDOW_BYTES = 128 * 1024
TAIL_BYTES = 8192
"""`tail` goes back in steps of so much."""


def _wide(code: int, count: int, inside: bytes) -> bytes:
    return bytes([code]) + struct.pack(">II", len(inside) + 4, count) + inside


def _core(kind: int, body: bytes) -> LineBatch:
    batch = LineBatch.of_payloads([core_header(9, kind=kind)], queue="q", sources=[SOURCE_CORE_LARGE])
    batch.set_large(0, body)
    return batch


def _amqp(encoded: bytes) -> LineBatch:
    """A large AMQP message: its record caches nothing here, its file holds everything."""
    record = b"\x04" + struct.pack(">q?q", 9, True, 0) + nullable("a") + bytes(4)
    record += struct.pack(">ii", -1, 0) + b"\x40" + struct.pack(">iii", -1, 0, -1) + b"\x40"
    record += struct.pack(">i", -1) + b"\x40" + struct.pack(">ii", -1, 0) + b"\x40" + bytes(9)
    batch = LineBatch.of_payloads([record], queue="q")
    batch.set_large(0, encoded)
    return batch


def _text(units: int) -> LineBatch:
    pattern = 'plain text that goes on, then é, 語 and 🐌, "quotes"\n' * 50
    text = (pattern * (units // len(pattern) + 1))[:units]
    return _core(3, nullable(text))


def _map(entries: int) -> LineBatch:
    body = bytearray(b"\1" + struct.pack(">i", entries))
    for at in range(entries):
        body += simple_string(f"k{at}") + b"\x06" + struct.pack(">i", at)
    return _core(5, bytes(body))


def _map_of_texts(entries: int) -> LineBatch:
    """More long values than are remembered."""
    text = simple_string("é and x" * 6000)
    body = b"".join(simple_string(f"k{at}") + b"\x0a" + text for at in range(entries))
    return _core(5, b"\1" + struct.pack(">i", entries) + body)


def _stream(values: int) -> LineBatch:
    return _core(6, b"".join(b"\x07" + struct.pack(">q", at * at) for at in range(values)))


def _amqp_string(length: int) -> LineBatch:
    text = ("é and x" * length)[:length].encode()
    return _amqp(section(0x77, b"\xb1" + struct.pack(">I", len(text)) + text))


def _amqp_list(items: int) -> LineBatch:
    inside = b"".join(b"\xa1\x03abc\x55\x07" for _ in range(items // 2))
    nested = _wide(0xD0, items // 2 * 2, inside)
    return _amqp(section(0x77, _wide(0xD0, 2, nested + nested)))


def _amqp_data(sections: int) -> LineBatch:
    return _amqp(b"".join(section(0x75, b"\xa0" + bytes([at % 7]) + bytes(at % 7)) for at in range(sections)))


def _amqp_sequences(sections: int) -> LineBatch:
    return _amqp(section(0x76, b"\xc0\x04\x02\x54\x01\x40") * sections)


def _amqp_properties(entries: int) -> LineBatch:
    pairs = b"".join(b"\xa1\x06" + f"{at:06}".encode() + b"\x54\x01" for at in range(entries))
    return _amqp(section(0x74, _wide(0xD1, 2 * entries, pairs)) + section(0x77, b"\x40"))


SHAPES: dict[str, tuple[Callable[[int], LineBatch], int]] = {
    "text": (_text, 700_000),
    "map": (_map, 30_000),
    "map of texts": (_map_of_texts, 20),
    "stream": (_stream, 40_000),
    "amqp string": (_amqp_string, 600_000),
    "amqp list": (_amqp_list, 30_000),
    "amqp data": (_amqp_data, 120_000),
    "amqp sequences": (_amqp_sequences, 20_000),
    "amqp properties": (_amqp_properties, 20_000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_any_window_of_a_long_line(shape: str) -> None:
    make, size = SHAPES[shape]
    batch = make(size)
    whole = batch.read(0, batch.size_bytes)
    line = json.loads(whole)
    assert "damage" not in line
    assert len(whole) > 4 * WINDOW_BYTES
    assert b"".join(batch.read(at, 70_001) for at in range(0, len(whole), 70_001)) == whole
    chance = random.Random(shape)
    for _ in range(60):
        offset, length = chance.randrange(len(whole)), chance.choice([1, 7, 500, 4096, 150_000])
        assert batch.read(offset, length) == whole[offset : offset + length]
    for offset in range(len(whole) - 50_000, 0, -150_001):
        assert batch.read(offset, 3000) == whole[offset : offset + 3000]
    assert all(batch.read(at, 8000) == whole[at : at + 8000] for at in range(len(whole), -1, -8000))


@pytest.mark.parametrize("shape", SHAPES)
def test_any_window_of_a_long_file(shape: str) -> None:
    make, size = SHAPES[shape]
    batch = make(size)
    total = batch.body_bytes(0)
    whole = batch.read_body(0, 0, total)
    assert len(whole) == total
    assert b"".join(batch.read_body(0, at, 30_011) for at in range(0, total, 30_011)) == whole
    for at in range(max(total - 5000, 0), 0, -200_003):
        assert batch.read_body(0, at, 3000) == whole[at : at + 3000]
    assert all(batch.read_body(0, at, 8000) == whole[at : at + 8000] for at in range(total, -1, -8000))


def _best_of(count: int, act: Callable[[], object]) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_on_costs_no_more_than_reading_at_once(shape: str) -> None:
    """A hundred windows over one line: starting each from its beginning would take fifty times as long."""
    make, size = SHAPES[shape]
    batch = make(size * 20)
    total = batch.size_bytes
    assert total > 100 * WINDOW_BYTES

    def in_windows() -> None:
        for at in range(0, total, WINDOW_BYTES):
            batch.read_view(at, WINDOW_BYTES)

    at_once = _best_of(3, lambda: batch.read_view(0, total))
    assert _best_of(2, in_windows) < 12 * at_once + 0.05


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_backwards_costs_little_more(shape: str) -> None:
    """A thousand windows, as `tail` reads: starting each from the beginning would take hundreds of times as
    long.
    """
    make, size = SHAPES[shape]
    batches = [make(size * 10) for _ in range(2)]
    total = batches[0].size_bytes
    assert total > 600 * TAIL_BYTES

    def backwards() -> None:
        batch = batches.pop()
        for at in range(total - TAIL_BYTES, 0, -TAIL_BYTES):
            batch.read_view(at, TAIL_BYTES)

    at_once = _best_of(3, lambda: batches[0].read_view(0, total))
    assert _best_of(2, backwards) < 30 * at_once + 0.1


def test_two_readers_of_one_batch() -> None:
    batch = _text(2_000_000)
    whole = batch.read(0, batch.size_bytes)
    wrong: list[int] = []

    def reader(step: int) -> None:
        wrong.extend(at for at in range(0, len(whole), step) if batch.read(at, step) != whole[at : at + step])

    threads = [threading.Thread(target=reader, args=(step,)) for step in (100_003, 131_072, 65_537)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_lines_among_short_ones() -> None:
    short = amqp_message(1, section(0x77, b"\xa1\x01x"))
    long_one = core_header(9, kind=4)
    batch = LineBatch.of_payloads(
        [short, long_one, short, long_one], queue="q", sources=[0, SOURCE_CORE_LARGE, 0, SOURCE_CORE_LARGE]
    )
    batch.set_large(1, bytes(range(256)) * 2000)
    batch.set_large(3, b"\xff" * 100_001)
    whole = batch.read(0, batch.size_bytes)
    assert [len(line) + 1 for line in whole.splitlines()] == [
        batch.starts[at + 1] - batch.starts[at] for at in range(4)
    ]
    for step in (999, 10_007, 131_072):
        assert b"".join(batch.read(at, step) for at in range(0, len(whole), step)) == whole
