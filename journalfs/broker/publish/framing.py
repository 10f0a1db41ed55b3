"""Divides the bytes of a written file into messages: a line, a JSON value, an envelope or the whole file,
chosen by the suffix of its name. `Framer` keeps the unfinished rest between writes; it publishes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from journalfs.broker.publish.envelope_message import BYTE_ORDER_MARK, read_envelope
from journalfs.engine.publish import JsonSplitter, LineSplitter, NoJson, Stretches
from journalfs.errors import BadEnvelope
from journalfs.limits import PUBLISHED_PIECE_BYTES_MAX
from journalfs.message.outgoing import NO_PROPERTIES, Buffer, Outgoing, Properties, Texts


class Framing(Enum):
    LINES = auto()
    """A text message a line, without its line feed."""
    JSON_VALUES = auto()
    """A text message a JSON value."""
    ENVELOPES = auto()
    """A message a line, as docs/reference/envelope.md says."""
    WHOLE_FILE = auto()
    """The whole file is one message of bytes: no `Framer` is made, but a `WholeFile`."""


_BY_SUFFIX: Final = {
    "": Framing.LINES,
    "txt": Framing.LINES,
    "log": Framing.LINES,
    "csv": Framing.LINES,
    "lines": Framing.LINES,
    "json": Framing.JSON_VALUES,
    "jsonl": Framing.ENVELOPES,
}

Mark: TypeAlias = tuple[LineSplitter | JsonSplitter, int, int, bytes | None]
"""Where a framer is in its file."""

JSON_DEPTH_MAX: Final = 511
"""Arrays and objects of a value, one in the other, as many as the engine keeps track of."""
_AS_A_WHOLE: Final = "write it as a whole file, with another suffix"

_QUOTED_CHARACTERS: Final = 20
_CHARACTER_BYTES_MAX: Final = 4
_LITERAL_BEGUN: Final = re.compile(rb"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?)\Z")
"""The beginning of a misspelt true, false or null, so that an error text shows the word from its first
letter.
"""
_LITERAL_BEGUN_BYTES_MAX: Final = 4


def framing_of(file_name: str) -> Framing:
    """Return the framing for a file name or path, by its suffix in any case. A dot at the beginning of the
    name begins no suffix.
    """
    stem, _, suffix = file_name.rpartition("/")[2].rpartition(".")
    return _BY_SUFFIX.get(suffix.lower() if stem else "", Framing.WHOLE_FILE)


class Framer:
    """Turns the bytes of one file, as they come, into messages. Copies go on independently."""

    def __init__(self, framing: Framing, *, properties: Properties = NO_PROPERTIES) -> None:
        """`properties` are for messages that come without any: lines of text and JSON values."""
        if framing is Framing.WHOLE_FILE:
            raise ValueError("a whole file is no stream of messages")
        self._framing = framing
        self._properties = properties
        self._splitter: LineSplitter | JsonSplitter
        self._splitter = JsonSplitter() if framing is Framing.JSON_VALUES else LineSplitter()
        self._line_feeds = 0
        """In all that came."""
        self._taken_bytes = 0
        """All that came."""
        self._mark: bytes | None = None if framing is Framing.LINES else b""
        """The beginning of JSON or envelopes, as long as that may be a byte order mark."""

    def copy(self) -> Framer:
        other = Framer(self._framing, properties=self._properties)
        other.reset(self.mark())
        return other

    @property
    def reads_each(self) -> bool:
        """Whether every message is read by itself, which takes a while."""
        return self._framing is Framing.ENVELOPES

    @property
    def takes_lines(self) -> bool:
        """Whether each line is a message of text."""
        return self._framing is Framing.LINES

    def skip(self, size_bytes: int, line_feeds: int) -> None:
        """Whole lines came that are messages already."""
        self._taken_bytes += size_bytes
        self._line_feeds += line_feeds

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that make no message yet."""
        return self._splitter.pending_bytes + len(self._mark or b"")

    def pending(self) -> Buffer:
        """Bytes taken that make no message yet: given to a new framer, it is where this one is."""
        return self._mark or self._splitter.pending()

    def would_pend(self, data: bytes) -> bool:
        """Return True if an unfinished message would be left after `data`. For data that is malformed, True
        if it does not end with a line feed.
        """
        other = self.copy()
        try:
            other.feed(data)
        except BadEnvelope:
            return not data.endswith(b"\n")
        return other.pending_bytes > 0

    def mark(self) -> Mark:
        """Where it is now, to `reset` it to, once."""
        return self._splitter.copy(), self._line_feeds, self._taken_bytes, self._mark

    def reset(self, mark: Mark) -> None:
        """Go on as if nothing had come since."""
        self._splitter, self._line_feeds, self._taken_bytes, self._mark = mark

    def feed(self, data: bytes) -> Sequence[Outgoing]:
        """The messages that `data` completes. Raises BadEnvelope; then it is as if `data` had not come."""
        before = self.mark()
        try:
            return self._feed(data)
        except BadEnvelope:
            self.reset(before)
            raise

    def finish(self) -> Sequence[Outgoing]:
        """Return the messages that the end of the file completes: an unfinished last line, a last number.
        Raises BadEnvelope if the rest is no message. The framer must not be used afterwards.
        """
        try:
            return self._finish()
        except BadEnvelope as error:
            raise BadEnvelope(error.reason, key=error.key, line=error.line, at_end=True) from None

    def _finish(self) -> Sequence[Outgoing]:
        splitter = self._splitter
        if self._mark or (isinstance(splitter, JsonSplitter) and not splitter.may_end):
            raise BadEnvelope("the file ends inside of a JSON value", line=self._line_feeds + 1)
        try:
            return self._messages(splitter.finish())
        except NoJson:
            raise BadEnvelope("the file ends in bytes that are no JSON", line=self._line_feeds + 1) from None

    def check_end(self) -> None:
        """Raise BadEnvelope if the file must not end here. Nothing changes."""
        if self.pending_bytes and self._framing is not Framing.LINES:
            before = self.mark()
            try:
                self.finish()
            finally:
                self.reset(before)

    def _feed(self, data: bytes) -> Sequence[Outgoing]:
        begin = self._taken_bytes
        self._taken_bytes += len(data)
        if self._mark is not None:
            begin -= len(self._mark)
            data = self._mark + data
            if len(data) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(data):
                self._mark = data
                return []
            if data.startswith(BYTE_ORDER_MARK):
                begin += len(BYTE_ORDER_MARK)
                data = data.removeprefix(BYTE_ORDER_MARK)
        try:
            stretches = self._splitter.feed(data)
            finished = sum(map(len, stretches))
            found = self._messages(stretches)
        except NoJson as error:
            raise self._no_json(error, data, begin) from None
        if self._splitter.pending_bytes > PUBLISHED_PIECE_BYTES_MAX:
            megabytes = PUBLISHED_PIECE_BYTES_MAX >> 20
            raise BadEnvelope(
                f"longer than {megabytes} MiB; {_AS_A_WHOLE}",
                line=self._line_feeds + 1,
            )
        self._mark = None
        self._line_feeds += data.count(b"\n") if isinstance(self._splitter, JsonSplitter) else finished
        return found

    def _no_json(self, error: NoJson, data: bytes, begin: int) -> BadEnvelope:
        """Return the error that describes malformed `data`, whose first byte is at offset `begin` of the
        file.
        """
        line = self._line_feeds + data.count(b"\n", 0, error.offset) + 1
        if error.too_deep:
            return BadEnvelope(f"nested deeper than {JSON_DEPTH_MAX} levels; {_AS_A_WHOLE}", line=line)
        # A misspelt word is shown from its first letter on, which may have come with an earlier write.
        pending = bytes(self._splitter.pending())
        in_string = _ends_in_string(pending + data[: error.offset])
        before = pending[-_LITERAL_BEGUN_BYTES_MAX:]
        begin -= len(before)
        data, at = before + data, len(before) + error.offset
        if not in_string and (
            literal := _LITERAL_BEGUN.search(data, max(at - _LITERAL_BEGUN_BYTES_MAX, 0), at)
        ):
            at = literal.start()
        text = data[at : at + _QUOTED_CHARACTERS * _CHARACTER_BYTES_MAX].decode(errors="replace")
        quoted = (text.partition("\n")[0] or text[:1])[:_QUOTED_CHARACTERS]
        return BadEnvelope(f"no JSON at offset {begin + at} of the file: {quoted!r}", line=line)

    def _messages(self, pieces: list[Stretches]) -> Sequence[Outgoing]:
        if self._framing is Framing.ENVELOPES:
            return [message for lines in pieces for message in self._envelopes(lines)]
        if not pieces:
            return []
        (texts,) = pieces
        if self._framing is Framing.JSON_VALUES and not texts.are_utf8:
            raise BadEnvelope("no JSON: it is not UTF-8", line=self._line_feeds + 1)
        return Texts(texts, self._properties)

    def _envelopes(self, lines: Stretches) -> Iterator[Outgoing]:
        for number, line in enumerate(lines, self._line_feeds + 1):
            if not line or line.isspace():
                continue
            try:
                yield read_envelope(line)
            except BadEnvelope as error:
                raise BadEnvelope(error.reason, key=error.key, line=number) from None


def _ends_in_string(values: bytes) -> bool:
    """Whether JSON that goes on from here does so within a string."""
    return values.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"') % 2 == 1
