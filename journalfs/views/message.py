"""One live message in one queue: its own file, its envelope, its extended attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from journalfs.api import Bytes, ByteSource
from journalfs.errors import Gone, StaleView
from journalfs.ids import MessageId
from journalfs.live.content import CloserLook, ShownT, looking_again
from journalfs.live.read_ahead import Ahead, checked
from journalfs.live.runs import HeldFile, Run, at_once, check_all
from journalfs.live.sources import WatchedSource
from journalfs.message.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.engine.lines import LineBatch
    from journalfs.live.content import QueueContent

SUFFIXES = (b".txt", b".json", b".bin", b".ser")
"""By the number that the C core gives to kinds of content."""

HEADER_PREFIX = "user.journalfs."
PROPERTY_PREFIX = "user.property."
ATTRIBUTE_VALUE_BYTES_MAX = 65_536
"""Largest value of one attribute that the kernel takes (XATTR_SIZE_MAX)."""
ATTRIBUTE_NAME_BYTES_MAX = 255
"""And as a name (XATTR_NAME_MAX)."""

NOT_HEADERS = frozenset(
    {"properties", "propertyTypes", "body", "body_base64", "amqp", "message_base64", "queue"}
)


class BodySource:
    """A message's own file."""

    def __init__(self, batch: LineBatch, held: list[HeldFile], size_bytes: int) -> None:
        self._batch = batch
        self._held = held
        self._size_bytes = size_bytes
        self._end_of_last = -1
        self._ahead = Ahead()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def read(self, offset: int, length: int) -> Bytes:
        end = min(offset + length, self._size_bytes)
        self._end_of_last = end
        return self._ahead.take(offset, end) or self._window(offset, end)

    def _window(self, begin: int, end: int) -> memoryview:
        def window() -> memoryview:
            size_bytes = self._size_bytes
            return memoryview(self._batch.read_body(0, begin, max(0, end - begin), body_bytes=size_bytes))

        return checked(window, lambda: check_all(self._held))

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        if not self._batch.has_long or offset == self._end_of_last or offset >= self._size_bytes:
            return None
        return self._ahead.render(offset, min(offset + length, self._size_bytes), self._window)

    def close(self) -> None:
        """Nothing to do: the batch lets go of its files with the last reference to it."""


class StoreMessage:
    """A message as it is now. `run` holds just this one."""

    def __init__(self, content: QueueContent, run: Run) -> None:
        self._content = content
        self._looked = False
        self._take(run)

    def _take(self, run: Run) -> None:
        content = self._content
        self._found = run
        self._run = content.counted(run)
        columns = run.columns(content)
        self._id = MessageId(columns.ids[0])
        self._size_bytes = columns.sizes[0]
        self._mtime_ms = columns.mtimes_ms[0]
        self._suffix = SUFFIXES[columns.suffixes[0]]

    @property
    def message_id(self) -> MessageId:
        return self._id

    @property
    def name(self) -> bytes:
        return b"%d%s" % (self._id, self._suffix)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def mtime_ns(self) -> int:
        return self._mtime_ms * 1_000_000

    @property
    def edition(self) -> int:
        return self._content.core.edition

    def line(self) -> bytes:
        """The envelope line, with its newline."""
        return self._shown(self._line)

    def _shown(self, show: Callable[[CloserLook], ShownT]) -> ShownT:
        """Return the result of `show` for the message. Raises `Gone` if it was consumed meanwhile."""

        def shown(look: CloserLook) -> ShownT:
            if self._looked:
                self._find()
            self._looked = True  # unless all goes well
            look.at([self._found])
            content = show(look)
            self._looked = False
            return content

        return looking_again(self._content, shown)

    def _find(self) -> None:
        """Find the message again, since it may lie elsewhere now. Raises `Gone`."""
        run = self._content.find(self._id)
        if run is None:
            raise Gone(self.name.decode())
        self._take(run)

    def _line(self, look: CloserLook) -> bytes:
        batch, held = self._run.opened(self._content)
        line = checked(lambda: memoryview(batch.line(0)), lambda: check_all(held))
        return bytes(line)

    def envelope(self) -> Mapping[str, object]:
        return decode_envelope(self.line())

    def attributes(self) -> Mapping[str, bytes]:
        envelope = self.envelope()
        found: dict[str, bytes] = {}
        for key, value in envelope.items():
            if key not in NOT_HEADERS:
                _put(found, HEADER_PREFIX + key, value)
        properties = envelope.get("properties")
        if isinstance(properties, dict):
            for key, value in properties.items():
                _put(found, PROPERTY_PREFIX + key, value)
        return found

    def open(self) -> ByteSource:
        """Raises `StaleView` where its file turns out to have another length than it was said to have."""
        size_bytes = self._size_bytes
        source = self._shown(self._opened)
        if source.size_bytes != size_bytes:
            source.close()
            raise StaleView(self.name.decode())
        return source

    def _opened(self, look: CloserLook) -> ByteSource:
        batch, held = self._run.opened(self._content)
        source = at_once(BodySource(batch, held, self._size_bytes), self._content)
        return WatchedSource(source, look)


def _put(found: dict[str, bytes], name: str, value: object) -> None:
    """Add an attribute if the kernel can carry it; the envelope has it in any case."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    encoded = text.encode("utf-8", "surrogatepass")
    fits = len(name.encode("utf-8", "surrogatepass")) <= ATTRIBUTE_NAME_BYTES_MAX
    if fits and len(encoded) <= ATTRIBUTE_VALUE_BYTES_MAX and "\0" not in name:
        found[name] = encoded
