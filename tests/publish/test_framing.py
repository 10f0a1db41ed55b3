"""What one message is, by the name that is written to; and that no cut between writes matters."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.broker.publish import framing as framing_module
from journalfs.broker.publish.framing import JSON_DEPTH_MAX, Framer, Framing, framing_of
from journalfs.engine.lines import SOURCE_PERSISTER, LineBatch
from journalfs.errors import BadEnvelope
from journalfs.format.properties import Code, Property
from journalfs.message.outgoing import Outgoing, Properties, Texts


def bodies(messages: Iterable[Outgoing]) -> list[object]:
    """Texts as str, other content as bytes."""
    found: list[object] = []
    for message in messages:
        payload = message.record(1, "a", 0)[1]
        batch = LineBatch.of_payloads([payload], queue="q", sources=[SOURCE_PERSISTER])
        content = batch.read_body(0, 0, batch.body_bytes(0))
        envelope = json.loads(batch.line(0))
        assert "damage" not in envelope
        found.append(envelope["body"] if envelope["type"] == "text" else content)
    return found


def published(framing: Framing, pieces: Sequence[bytes]) -> list[object]:
    framer = Framer(framing)
    found = [message for piece in pieces for message in framer.feed(piece)]
    return bodies([*found, *framer.finish()])


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


PLACES = st.lists(st.integers(0, 200), max_size=8)


@pytest.mark.rule("S-60")
@pytest.mark.parametrize(
    ("name", "framing"),
    [
        ("in.txt", Framing.LINES),
        ("in.log", Framing.LINES),
        ("in.csv", Framing.LINES),
        ("in.lines", Framing.LINES),
        ("in", Framing.LINES),
        ("IN.TXT", Framing.LINES),
        (".hidden", Framing.LINES),
        ("a.b.txt", Framing.LINES),
        ("in.json", Framing.JSON_VALUES),
        ("part-00000-5e1.c000.json", Framing.JSON_VALUES),
        ("in.jsonl", Framing.ENVELOPES),
        ("in.jsonl.gz", Framing.WHOLE_FILE),
        ("photo.jpeg", Framing.WHOLE_FILE),
        ("in.", Framing.LINES),
        ("out.json/part-0", Framing.LINES),
        ("out.d/in.json", Framing.JSON_VALUES),
        ("in.txt~", Framing.WHOLE_FILE),
    ],
)
def test_names(name: str, framing: Framing) -> None:
    assert framing_of(name) is framing


# ---- lines ----


@pytest.mark.rule("S-61")
def test_lines_are_texts() -> None:
    written = b"first\n\n  spaces \t\r\nw\xc3\xb6rld \xf0\x9f\x9a\x80\nno end"
    assert published(Framing.LINES, [written]) == ["first", "", "  spaces \t\r", "wörld 🚀", "no end"]


@pytest.mark.rule("S-62")
@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"ok then \xf0\x9f\x9a"]
)
def test_a_line_that_is_no_utf8_is_bytes(line: bytes) -> None:
    assert published(Framing.LINES, [b"before\n" + line + b"\nafter\n"]) == ["before", line, "after"]


@given(
    lines=st.lists(st.binary(max_size=40) | st.text(max_size=40).map(str.encode), max_size=6), places=PLACES
)
def test_lines_however_they_are_cut(lines: list[bytes], places: list[int]) -> None:
    data = b"\n".join(lines)
    expected: list[object] = []
    for line in data.removesuffix(b"\n").split(b"\n") if data else []:
        try:
            expected.append(line.decode())
        except UnicodeDecodeError:
            expected.append(line)
    assert published(Framing.LINES, cut(data, places)) == expected


def test_a_message_is_there_as_soon_as_its_line_ends() -> None:
    framer = Framer(Framing.LINES)
    assert bodies(framer.feed(b"one\ntw")) == ["one"]
    assert framer.pending_bytes == 2
    assert framer.feed(b"o") == []
    assert bodies(framer.feed(b"\nthree\n")) == ["two", "three"]
    assert framer.pending_bytes == 0
    assert framer.finish() == []


def test_properties_for_lines() -> None:
    properties = Properties((Property("from", Code.STRING, "shell"),))
    (message,) = Framer(Framing.LINES, properties=properties).feed(b"x\n")
    assert message.envelope("a", now_ms=0, large=False)["properties"] == {"from": "shell"}


# ---- JSON values ----


@pytest.mark.rule("S-63")
def test_json_values_are_texts_as_they_stand() -> None:
    written = b'{"a": [1,\n  2]}{}[ ]\n"x\\"}" true null 12 -0.5e+3 \t"\xc3\xb6"7'
    expected = ['{"a": [1,\n  2]}', "{}", "[ ]", '"x\\"}"', "true", "null", "12", "-0.5e+3", '"ö"', "7"]
    assert published(Framing.JSON_VALUES, [written]) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(
    values=st.lists(JSON, max_size=5),
    gaps=st.lists(st.sampled_from([" ", "\n", "\r\n\t "]), min_size=6, max_size=6),
    indent=st.none() | st.just(1),
    ascii_only=st.booleans(),
    places=PLACES,
)
def test_json_however_it_is_cut(
    values: list[object], gaps: list[str], indent: int | None, ascii_only: bool, places: list[int]
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
    data = (gaps[-1] + "".join(text + gap for text, gap in zip(texts, gaps, strict=False))).encode()
    assert published(Framing.JSON_VALUES, cut(data, places)) == texts
    assert published(Framing.JSON_VALUES, cut(data.rstrip(), places)) == texts


@pytest.mark.parametrize("places", [[], [1], [2], [1, 2], [3]])
def test_a_byte_order_mark_before_json_is_skipped(places: list[int]) -> None:
    assert published(Framing.JSON_VALUES, cut(b"\xef\xbb\xbf[1]", places)) == ["[1]"]


@pytest.mark.rule("S-63")
@pytest.mark.parametrize("places", [[], [1], [2], [1, 2], [3], [7]])
def test_a_byte_order_mark_before_envelopes_is_skipped(places: list[int]) -> None:
    line = b'{"type":"text","body":"a"}\n'
    assert published(Framing.ENVELOPES, cut(b"\xef\xbb\xbf" + 2 * line, places)) == ["a", "a"]
    assert published(Framing.ENVELOPES, cut(b"\xef\xbb\xbf" + line.strip(), places)) == ["a"]
    assert published(Framing.ENVELOPES, cut(b"\xef\xbb\xbf", places)) == []
    with pytest.raises(BadEnvelope, match="beginning of a file only"):
        published(Framing.ENVELOPES, cut(line + b"\xef\xbb\xbf" + line, places))
    framer = Framer(Framing.ENVELOPES)
    framer.feed(b"\xef\xbb")
    with pytest.raises(BadEnvelope, match="ends inside"):
        framer.finish()


@given(st.binary(max_size=30) | st.text('{}[]",:0-+.eEtrufalsn\\ \n', max_size=30).map(str.encode), PLACES)
def test_only_json_passes(data: bytes, places: list[int]) -> None:
    """The same values as the standard library finds, and none where it finds a mistake."""
    expected: list[str] | None
    try:
        expected = values_of(data.removeprefix(b"\xef\xbb\xbf").decode())
    except ValueError:
        expected = None
    try:
        found = published(Framing.JSON_VALUES, cut(data, places))
    except BadEnvelope:
        # Numbers that touch, as in 01 or 1-2, are two values to the standard library and a mistake to us.
        assert expected is None or re.search(rb"[0-9][-0-9]", data)
    else:
        assert found == expected


def values_of(text: str) -> list[str]:
    decoder, found, at = json.JSONDecoder(parse_constant=int), [], 0
    while rest := text[at:].lstrip(" \t\r\n"):
        begin = len(text) - len(rest)
        _, at = decoder.raw_decode(text, begin)
        found.append(text[begin:at])
    return found


@pytest.mark.rule("S-64")
@pytest.mark.parametrize(
    ("written", "line"),
    [
        (b"{} nonsense", 1),
        (b"{}\n[1,]\n", 2),
        (b'\n\n{"a": NaN}', 3),
        (b"01", 1),
        (b'{"a" 1}', 1),
        (b'["\x01"]', 1),
        (b'"\xff"', 1),
        (b"[1]]", 1),
        (b",1", 1),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(written: bytes, line: int) -> None:
    framer = Framer(Framing.JSON_VALUES)
    with pytest.raises(BadEnvelope, match="no JSON") as caught:
        framer.feed(written)
    assert caught.value.line == line


@pytest.mark.rule("S-64")
@pytest.mark.parametrize(
    ("writes", "offset", "quoted"),
    [
        ([b"{bad\n"], 1, "'bad'"),
        ([b"nope\n"], 0, "'nope'"),
        ([b'{}\n{"a": nope}\n'], 9, "'nope}'"),
        ([b'{"a": nope}\n'], 6, "'nope}'"),
        ([b'{"a": tru', b"th}\n"], 6, "'truth}'"),
        ([b'{"a":', b" [1,\n fal", b"l]}"], 11, "'fall]}'"),
        ([b"[true false]"], 6, "'false]'"),
        ([b"[nullx]"], 5, "'x]'"),
        ([b"{'a': 1}"], 1, "\"'a': 1}\""),
        ([b"[\xc3\xa4\xc3\xb6]"], 1, "'\u00e4\u00f6]'"),
        ([b'["\x01"]'], 2, "'\\x01\"]'"),
        ([b'["a\n"]'], 3, "'\\n'"),
        ([b'["n\n"]'], 3, "'\\n'"),
        ([b'["a \\\\\\" t', b'ru\n"]'], 12, "'\\n'"),
        ([b'["\\\\"', b", tru\n]"], 7, "'tru'"),
        ([b"[\xff]"], 1, "'\ufffd]'"),
        ([b"[" + b"x" * 100], 1, f"'{'x' * 20}'"),
        ([b"\xef\xbb", b"\xbfnope"], 3, "'nope'"),
    ],
)
def test_what_is_no_json_is_quoted_from_where_it_goes_wrong(
    writes: list[bytes], offset: int, quoted: str
) -> None:
    framer = Framer(Framing.JSON_VALUES)
    for written in writes[:-1]:
        assert framer.feed(written) == []
    with pytest.raises(BadEnvelope) as caught:
        framer.feed(writes[-1])
    expected = f"no JSON at offset {offset} of the file: {quoted}"
    assert caught.value.reason == expected
    with pytest.raises(BadEnvelope) as again:
        framer.feed(writes[-1])
    assert again.value.reason == expected


@pytest.mark.rule("S-64")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"body":"x', "Unterminated string starting at offset 8 of the line"),
        (b'{"body":"\xc3\xa4" x', "Expecting ',' delimiter at offset 13 of the line"),
        (b'{"body":"\x01"}', "Invalid control character at offset 9 of the line"),
        (b'{"body":"\\q"}', "Invalid \\escape at offset 9 of the line"),
        (b'{"body":"\xc3\xa4\xff"}', "it is not UTF-8 at offset 11 of the line"),
    ],
)
def test_an_envelope_that_is_no_json_is_told_its_line_once(line: bytes, reason: str) -> None:
    with pytest.raises(BadEnvelope) as caught:
        Framer(Framing.ENVELOPES).feed(b'{"body":"a"}\n' + line + b"\n")
    assert (caught.value.line, caught.value.reason) == (2, f"no JSON: {reason}")


@pytest.mark.rule("S-64")
def test_json_that_nests_too_deep_is_told_the_limit() -> None:
    deepest = JSON_DEPTH_MAX * b"[" + JSON_DEPTH_MAX * b"]"
    assert len(Framer(Framing.JSON_VALUES).feed(deepest)) == 1
    framer = Framer(Framing.JSON_VALUES)
    with pytest.raises(BadEnvelope, match=r"deeper than 511 levels.* whole file") as caught:
        framer.feed(b"1\n[" + deepest + b"]")
    assert caught.value.line == 2
    with pytest.raises(BadEnvelope, match="no JSON"):
        framer.feed(b"[1,]")
    with pytest.raises(BadEnvelope, match="deeper than the 64 levels"):
        Framer(Framing.ENVELOPES).feed(b'{"body":' + 20_000 * b"[" + 20_000 * b"]}\n")


@pytest.mark.parametrize("written", [b"[1", b'"a', b"tru", b"-", b"1e", b'{"a":', b"\xef\xbb"])
def test_json_that_ends_too_early(written: bytes) -> None:
    framer = Framer(Framing.JSON_VALUES)
    assert framer.feed(written) == []
    assert framer.pending_bytes == len(written)
    with pytest.raises(BadEnvelope, match="ends inside of a JSON value"):
        framer.finish()


# ---- envelopes ----


@pytest.mark.rule("S-65")
def test_envelope_lines() -> None:
    written = b'{"body":"a","priority":7}\n\n \r\n{"body_base64":"AQI="}\r\n{"body":"last"}'
    framer = Framer(Framing.ENVELOPES)
    messages = [*framer.feed(written), *framer.finish()]
    assert bodies(messages) == ["a", b"\1\2", "last"]
    assert [message.priority for message in messages] == [7, 4, 4]


@pytest.mark.rule("S-64")
def test_a_line_that_is_no_envelope_is_refused_with_line_and_key() -> None:
    framer = Framer(Framing.ENVELOPES)
    framer.feed(b'{"body":"a"}\n{"bo')
    with pytest.raises(BadEnvelope) as caught:
        framer.feed(b'dy":"b"}\n\n{"body":"c","colour":1}\n{"body":"d"}\n')
    assert (caught.value.line, caught.value.key) == (4, "colour")
    assert str(caught.value) == (
        "line 4: colour: there is no such key in an envelope; nothing of this write was published"
    )


@pytest.mark.rule("S-64")
@pytest.mark.parametrize(
    ("framing", "written", "reason"),
    [
        (Framing.ENVELOPES, b'{"body":"a"}\n{"bo', "line 2: "),
        (Framing.JSON_VALUES, b"[1]\n[2", "line 2: the file ends inside of a JSON value"),
        (Framing.JSON_VALUES, b"[1]\n-", "line 2: "),
    ],
)
def test_what_an_unfinished_rest_is_refused_with_says_nothing_of_what_came_before(
    framing: Framing, written: bytes, reason: str
) -> None:
    framer = Framer(framing)
    assert len(framer.feed(written)) == 1
    with pytest.raises(BadEnvelope) as caught:
        framer.finish()
    assert str(caught.value).startswith(reason)
    assert str(caught.value).endswith("; this unfinished rest was not published")
    assert "nothing" not in str(caught.value)


# ---- all of them ----

STREAMS = {
    Framing.LINES: (b"one\ntw", b"o\nth\xffree", b""),
    Framing.JSON_VALUES: (b'[1]\n{"a": "', b'"} 5', b"\n[1,]"),
    Framing.ENVELOPES: (b'{"body":"a"}\n{"bo', b'dy":"b"}\n{"body":"c"}', b'\n{"nobody":1}\n'),
}


@pytest.mark.rule("S-64")
@pytest.mark.parametrize("framing", [Framing.JSON_VALUES, Framing.ENVELOPES])
def test_a_refused_write_leaves_no_trace(framing: Framing) -> None:
    first, second, bad = STREAMS[framing]
    framer = Framer(framing)
    expected = published(framing, [first, second])
    found = [*framer.feed(first)]
    for _ in range(2):
        with pytest.raises(BadEnvelope):
            framer.feed(second + bad)
    found += framer.feed(second)
    assert bodies([*found, *framer.finish()]) == expected


@pytest.mark.parametrize("framing", STREAMS)
def test_copies_go_on_independently(framing: Framing) -> None:
    first, second, _ = STREAMS[framing]
    framer = Framer(framing)
    framer.feed(first)
    before = framer.copy()
    found = bodies([*framer.feed(second), *framer.finish()])
    assert before.pending_bytes
    assert bodies([*before.feed(second), *before.finish()]) == found


@pytest.mark.parametrize("framing", STREAMS)
def test_a_piece_without_end_is_refused(framing: Framing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing_module, "PUBLISHED_PIECE_BYTES_MAX", 1 << 20)
    framer = Framer(framing)
    begun = {Framing.LINES: b"x", Framing.JSON_VALUES: b'"', Framing.ENVELOPES: b"{"}[framing]
    framer.feed(begun + 1_000_000 * b"x")
    with pytest.raises(BadEnvelope, match="longer than 1 MiB"):
        framer.feed(1_000_000 * b"x")
    assert framer.pending_bytes == 1_000_001


def test_a_whole_file_is_no_stream() -> None:
    with pytest.raises(ValueError, match="no stream"):
        Framer(Framing.WHOLE_FILE)


# ---- how long it takes ----


def test_values_stay_together_however_short() -> None:
    framer = Framer(Framing.JSON_VALUES)
    found = framer.feed(b"1 " * 200_000)
    assert isinstance(found, Texts), "no object is made for each"
    assert len(found) == 200_000
    assert framer.pending_bytes == 0
    with pytest.raises(BadEnvelope, match="not UTF-8"):
        framer.feed(b"1 " * 70_000 + b'"\xff" 2 ')
    assert bodies(framer.feed(b'"\xc3\xbc" 2 ')) == ['"\u00fc"', "2"], "as if that had not come"


@pytest.mark.parametrize("framing", [Framing.LINES, Framing.JSON_VALUES])
def test_a_value_may_come_byte_by_byte(framing: Framing) -> None:
    framer = Framer(framing)
    content = b'"' + b"x" * 5_000
    for at in range(len(content)):
        assert framer.feed(content[at : at + 1]) == []
        framer.mark()
    assert framer.pending() == content
    (whole,) = bodies(framer.feed(b'"\n'))
    assert whole == (content + b'"').decode()


@pytest.mark.parametrize("framing", [Framing.LINES, Framing.JSON_VALUES])
def test_a_long_line_is_held_once(framing: Framing) -> None:
    framer, piece, pieces = Framer(framing), b"x" * 131_072, 128
    tracemalloc.start()
    framer.feed(b'"')
    for _ in range(pieces):
        before = framer.mark()
        assert framer.feed(piece) == []
    rest = framer.pending()
    found = framer.feed(b'"\n')
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 1
    assert len(rest) == pieces * len(piece) + 1
    assert most < 2.5 * len(rest), "once, and once more for who looks at it while it grows"
    del rest
    framer.reset(before)
    assert len(framer.pending()) == (pieces - 1) * len(piece) + 1, "as if the last piece had not come"


def test_what_a_cycle_leads_to_may_be_collected() -> None:
    """An error of an unfinished line leads to its frames, and those to it; where engine code looks at a view,
    Python before 3.11.8 crashed.
    """
    script = """
import gc
from journalfs.engine.publish import LineSplitter
splitter = LineSplitter()
assert splitter.feed(b"begun") == []
found = splitter.finish()
assert [list(stretches) for stretches in found] == [[b"begun"]]
found.append(found)
del found, splitter
gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
