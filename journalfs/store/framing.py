"""What one message is in a file that is written: a line, a JSON value, an envelope, or all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from enum import Enum, auto
from typing import Final, TypeAlias

from journalfs.engine.publish import JsonSplitter, LineSplitter, NoJson, Stretches, TextBodies
from journalfs.errors import BadEnvelope
from journalfs.limits import PUBLISHED_PIECE_BYTES_MAX
from journalfs.store.envelope_message import read_envelope
from journalfs.store.outgoing import NO_PROPERTIES, Outgoing, Properties, TextMessage
from journalfs.store.texts import Texts


class Framing(Enum):
    LINES = auto()
    """A text message a line, without its line feed."""
    JSON_VALUES = auto()
    """A text message a JSON value."""
    ENVELOPES = auto()
    """A message a line, as docs/ENVELOPE.md says."""
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

Mark: TypeAlias = tuple[LineSplitter | JsonSplitter, int, bytes | None]
"""Where a framer is in its file."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def framing_of(file_name: str) -> Framing:
    """By the suffix, whatever its case. A dot at the beginning begins no suffix."""
    stem, _, suffix = file_name.rpartition(".")
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
        self._mark: bytes | None = b"" if framing is Framing.JSON_VALUES else None
        """The beginning of a stream of JSON, as long as that may be a byte order mark."""

    def __copy__(self) -> Framer:
        other = Framer(self._framing, properties=self._properties)
        other._splitter, other._line_feeds, other._mark = copy(self._splitter), self._line_feeds, self._mark
        return other

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that make no message yet."""
        return self._splitter.pending_bytes + len(self._mark or b"")

    def pending(self) -> bytes:
        """Bytes taken that make no message yet: given to a new framer, it is where this one is."""
        return (self._mark or b"") + self._splitter.pending()

    def mark(self) -> Mark:
        """Where it is now, to `reset` it to, once."""
        return self._splitter.__copy__(), self._line_feeds, self._mark

    def reset(self, mark: Mark) -> None:
        """Go on as if nothing had come since."""
        self._splitter, self._line_feeds, self._mark = mark

    def feed(self, data: bytes) -> Sequence[Outgoing]:
        """The messages that `data` completes. Raises BadEnvelope; then it is as if `data` had not come."""
        before = self.mark()
        try:
            return self._feed(data)
        except BadEnvelope:
            self.reset(before)
            raise

    def finish(self) -> Sequence[Outgoing]:
        """The messages that the end of the file completes: an unfinished last line, a last number. Raises
        BadEnvelope where it completes none; whatever comes, the file is over.
        """
        try:
            return self._finish()
        except BadEnvelope as error:
            raise BadEnvelope(error.reason, key=error.key, line=error.line, at_end=True) from None

    def _finish(self) -> Sequence[Outgoing]:
        splitter = self._splitter
        if isinstance(splitter, JsonSplitter) and (self._mark or not splitter.may_end):
            raise BadEnvelope("the file ends inside of a JSON value", line=self._line_feeds + 1)
        try:
            return self._messages(splitter.finish())
        except NoJson:
            raise BadEnvelope("the file ends in what is no JSON", line=self._line_feeds + 1) from None

    def check_end(self) -> None:
        """Raise BadEnvelope if the file must not end here. Nothing changes."""
        if self.pending_bytes and self._framing is not Framing.LINES:
            before = self.mark()
            try:
                self.finish()
            finally:
                self.reset(before)

    def _feed(self, data: bytes) -> Sequence[Outgoing]:
        if self._mark is not None:
            data = self._mark + data
            if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
                self._mark = data
                return []
            data = data.removeprefix(_BYTE_ORDER_MARK)
        try:
            stretches = self._splitter.feed(data)
            finished = sum(map(len, stretches))
            found = self._messages(stretches)
        except NoJson as error:
            line = self._line_feeds + data.count(b"\n", 0, error.offset) + 1
            raise BadEnvelope(f"no JSON: {data[error.offset : error.offset + 20]!r}", line=line) from None
        if self._splitter.pending_bytes > PUBLISHED_PIECE_BYTES_MAX:
            megabytes = PUBLISHED_PIECE_BYTES_MAX >> 20
            raise BadEnvelope(
                f"longer than {megabytes} MiB; write it as a whole file, with another suffix",
                line=self._line_feeds + 1,
            )
        self._mark = None
        self._line_feeds += data.count(b"\n") if isinstance(self._splitter, JsonSplitter) else finished
        return found

    def _messages(self, pieces: list[Stretches]) -> Sequence[Outgoing]:
        if self._framing is Framing.ENVELOPES:
            return [message for lines in pieces for message in self._envelopes(lines)]
        properties = self._properties
        if len(pieces) == 1 and self._framing is Framing.LINES:
            return Texts(pieces[0], properties)
        messages: list[Outgoing] = []
        for texts in pieces:
            for body, plain in TextBodies(texts):
                if plain:
                    raise BadEnvelope("no JSON: it is not UTF-8", line=self._line_feeds + 1)
                messages.append(TextMessage(body, plain=False, properties=properties))
        return messages

    def _envelopes(self, lines: Stretches) -> Iterator[Outgoing]:
        for number, line in enumerate(lines, self._line_feeds + 1):
            if not line or line.isspace():
                continue
            try:
                yield read_envelope(line)
            except BadEnvelope as error:
                raise BadEnvelope(error.reason, key=error.key, line=number) from None
