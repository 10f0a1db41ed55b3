"""Reading from a file of lines which messages it holds."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from journalfs_mount.lines import message_ids
from journalfs_mount.report import TextSource


@given(st.lists(st.tuples(st.none() | st.integers(0, 2**62), st.text())), st.integers(1, 64))
def test_ids_of_lines(messages: list[tuple[int | None, str]], piece: int) -> None:
    """However the file is cut in pieces, and whatever else a line says."""
    text = b"".join(
        json.dumps({"id": number, "body": body, "properties": {"id": "not this"}}).encode() + b"\n"
        for number, body in messages
    )
    assert message_ids(TextSource(text), piece) == [number for number, _ in messages if number is not None]


def test_a_line_without_an_id_or_a_last_line_feed() -> None:
    assert message_ids(TextSource(b'{"body":"damaged"}\n{"id":7}')) == [7]
