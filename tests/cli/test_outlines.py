"""Lines that are checked: what they say of themselves is known without ever holding one that is long."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs import windows
from journalfs.exchange.outlines import TEXT_BYTES_MAX, Outline, outlined_lines
from journalfs.live.sources import BytesSource
from journalfs.windows import WINDOW_BYTES, whole_lines
from tests.cli.running import journalfs

LONG = "x" * (TEXT_BYTES_MAX + 1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(LONG) | st.just('"\\' * TEXT_BYTES_MAX),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def outline_of(value: object) -> object:
    if isinstance(value, (dict, list)):
        return None
    if isinstance(value, str) and len(json.dumps(value, ensure_ascii=False).encode()) - 2 > TEXT_BYTES_MAX:
        return ""
    return value


@given(
    line=st.dictionaries(st.text(max_size=9), VALUES, max_size=6),
    cuts=st.lists(st.integers(0, 4 * TEXT_BYTES_MAX), max_size=8),
)
def test_an_outline_is_the_object_without_what_is_long(line: dict[str, Any], cuts: list[int]) -> None:
    text = json.dumps(line, ensure_ascii=False).encode()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    outline = Outline()
    for start, end in itertools.pairwise(places):
        outline.feed(text[start:end])
    assert outline.fed_bytes == len(text)
    assert json.loads(outline.taken()) == {key: outline_of(value) for key, value in line.items()}


@pytest.mark.parametrize("window_bytes", [1, 7, 64, 100_000])
def test_lines_of_any_length(monkeypatch: pytest.MonkeyPatch, window_bytes: int) -> None:
    monkeypatch.setattr(windows, "WINDOW_BYTES", window_bytes)
    lines = [json.dumps({"id": n, "body": "y" * n}).encode() for n in (1, 500, 2, 3, 70, 4)]
    content = b"".join(line + b"\n" for line in lines)
    found = list(outlined_lines(BytesSource(content)))
    assert [line for some, _ in found for line in some] == lines
    assert sum(size_bytes for _, size_bytes in found) == len(content)
    assert [
        line for some in whole_lines(BytesSource(content)) for line in some.splitlines(keepends=True)
    ] == [line + b"\n" for line in lines]


class LongLine:
    """One line with a body of many windows, made as it is read."""

    HEAD, TAIL = b'{"queue":"q","id":7,"body":"', b'","damage":"told"}\n'
    size_bytes = len(HEAD) + 50 * WINDOW_BYTES + len(TAIL)

    def read(self, offset: int, length: int) -> bytes:
        if offset == 0:
            return self.HEAD
        left = self.size_bytes - len(self.TAIL) - offset
        return b"\\n" * (min(length, left) // 2) if left > 1 else b"n"[:left] + self.TAIL

    def ahead(self, offset: int, length: int) -> None:
        """It is made at once."""

    def close(self) -> None:
        assert self.size_bytes, "nothing is held"


def test_a_long_line_takes_the_memory_of_a_window() -> None:
    tracemalloc.start()
    ((lines, size_bytes),) = outlined_lines(LongLine())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert json.loads(lines[0]) == {"queue": "q", "id": 7, "body": "", "damage": "told"}
    assert size_bytes == LongLine.size_bytes
    assert peak_bytes < 6 * WINDOW_BYTES


def test_check_of_a_large_body_takes_little_memory(store_copy: Callable[[str], Path]) -> None:
    """A body of 40 windows, most of which is a hole."""
    store = store_copy("large-and-paged")
    body = min((store / "data" / "large-messages").glob("*.msg"))
    with body.open("r+b") as file:
        file.truncate(40 * WINDOW_BYTES)
    tracemalloc.start()
    done = journalfs("check", store)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert int(done.stderr.partition("(")[2].split()[0]) > 40 * WINDOW_BYTES, "its line was read"
    assert peak_bytes < 10 * WINDOW_BYTES
