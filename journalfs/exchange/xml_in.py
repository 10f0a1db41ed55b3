"""Reads XML that `artemis data exp` wrote, of 2.x or of 1.x and HornetQ, message by message."""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple
from xml.parsers import expat

from journalfs import limits
from journalfs.errors import DecodeError
from journalfs.exchange.xml_out import NULL, PROPERTY_TYPES, TYPES
from journalfs.format.bindings import RoutingType
from journalfs.format.core_message import CoreType
from journalfs.format.properties import Code, Property, PropertyValue
from journalfs.message.outgoing import CoreMessage, Properties

PIECE_BYTES: Final = 1 << 20
OLD_PREFIXES: Final = {"jms.queue.": RoutingType.ANYCAST, "jms.topic.": RoutingType.MULTICAST}
"""Of addresses in exports of Artemis 1.x and HornetQ; brokers of 2.x leave them out."""

IGNORED_FILTERS: Final = ("__AMQX=-1", "__HQX=-1")
"""Of the queues by which old brokers mark a topic."""

_CORE_TYPES: Final = {name: kind for kind, name in TYPES.items()}
_CODES: Final = {name: code for code, name in PROPERTY_TYPES.items() if code is not Code.NULL} | {
    "string": Code.STRING
}


_NOT_XML: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_STAND_INS: Final = 0x10FF00
"""Brokers write control characters as they are, which no XML document can have. Characters for private use
stand in for them while a document is parsed.
"""
_BACK: Final = {_STAND_INS + code: code for code in range(0x20)}


def _stand_in(found: re.Match[bytes]) -> bytes:
    return chr(_STAND_INS + found[0][0]).encode()


class BoundAddress(NamedTuple):
    name: str
    routing_types: tuple[RoutingType, ...]


class BoundQueue(NamedTuple):
    address: str
    name: str
    routing_type: RoutingType
    filter: str | None


@dataclass(slots=True)
class Imported:
    """A message, and the names of its queues."""

    message: CoreMessage
    queues: list[str]


@dataclass(slots=True)
class _Open:
    """The message that is being read."""

    attributes: dict[str, str]
    properties: list[Property] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    large: bool = False


class XmlReader:
    """Yields what a document says, in its order: `BoundAddress`, `BoundQueue`, `Imported`. Raises
    `DecodeError` with the line of the document.
    """

    def __init__(self, file: BinaryIO, advance: Callable[[int], None] = lambda count: None) -> None:
        self._file = file
        self._advance = advance
        self._found: list[BoundAddress | BoundQueue | Imported] = []
        self._message: _Open | None = None
        self._in_body = False
        self._text: list[str] = []
        self._text_chars = 0
        self._renamed: dict[str, str] = {}
        self._spool: Any = None
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def __iter__(self) -> Iterator[BoundAddress | BoundQueue | Imported]:
        try:
            while data := self._file.read(PIECE_BYTES):
                self._parser.Parse(_NOT_XML.sub(_stand_in, data))
                self._advance(len(data))
                yield from self._taken()
            self._parser.Parse(b"", True)
            yield from self._taken()
        except expat.ExpatError as error:
            raise DecodeError(self._parser.CurrentByteIndex, f"line {error.lineno}: {error}") from error
        except (ValueError, KeyError, binascii.Error) as error:
            where = f"line {self._parser.CurrentLineNumber}"
            raise DecodeError(self._parser.CurrentByteIndex, f"{where}: {error}") from error

    def _taken(self) -> Iterator[BoundAddress | BoundQueue | Imported]:
        found, self._found = self._found, []
        yield from found

    def _refuse_doctype(self, *_: object) -> None:
        raise ValueError("a document of messages declares no types")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        message = self._message
        if name == "message":
            self._message = _Open(attributes)
            self._spool = tempfile.SpooledTemporaryFile(limits.SPOOLED_IN_MEMORY_BYTES_MAX)  # noqa: SIM115
        elif name == "address-binding":
            kinds = tuple(RoutingType[one.strip()] for one in attributes["routing-types"].split(",") if one)
            self._found.append(BoundAddress(attributes["name"], kinds))
        elif name == "queue-binding":
            kind = RoutingType[attributes["routing-type"]]
            text = attributes.get("filter-string") or None
            self._found.append(BoundQueue(attributes["address"], attributes["name"], kind, text))
        elif name == "binding":
            self._old_binding(attributes)
        elif message is not None and name == "property":
            entry = _property(attributes)
            if entry is not None:
                message.properties.append(entry)
        elif message is not None and name == "queue":
            given = attributes["name"]
            message.queues.append(self._renamed.get(given, given))
        elif message is not None and name == "body":
            self._in_body = True
            message.large = attributes.get("isLarge") == "true"

    def _old_binding(self, attributes: dict[str, str]) -> None:
        """Of Artemis 1.x and HornetQ: a queue, whose prefix says of which kind it is."""
        address, queue = attributes["address"], attributes["queue-name"]
        text = attributes.get("filter-string") or None
        kind = RoutingType.MULTICAST
        for prefix, of_prefix in OLD_PREFIXES.items():
            if address.startswith(prefix):
                address, kind = address.removeprefix(prefix), of_prefix
            if queue.startswith(prefix):
                self._renamed[queue] = queue.removeprefix(prefix)
        self._found.append(BoundAddress(address, (kind,)))
        if text not in IGNORED_FILTERS:
            self._found.append(BoundQueue(address, self._renamed.get(queue, queue), kind, text))

    def _characters(self, text: str) -> None:
        if self._in_body:
            self._text.append(text)
            self._text_chars += len(text)
            if self._text_chars > PIECE_BYTES:
                self._decode(whole=False)

    def _decode(self, *, whole: bool) -> None:
        """Each piece of a body is encoded on its own, and white space is between them."""
        tokens = "".join(self._text).split()
        ended = whole or (self._text and self._text[-1][-1:].isspace())
        rest = [] if ended or not tokens else [tokens.pop()]
        for token in tokens:
            self._spool.write(base64.urlsafe_b64decode(token))
        self._text, self._text_chars = rest, sum(map(len, rest))

    def _end(self, name: str) -> None:
        if name == "body" and self._in_body:
            self._decode(whole=True)
            self._in_body = False
        elif name == "message" and self._message is not None:
            self._found.append(Imported(self._made(self._message), self._message.queues))
            self._message = None

    def _made(self, found: _Open) -> CoreMessage:
        attributes = found.attributes
        spool = self._spool
        spool.seek(0)
        body: Any = spool.read()
        spool.close()
        core = CoreMessage(
            _CORE_TYPES.get(attributes.get("type", ""), CoreType.DEFAULT),
            body,
            Properties(tuple(found.properties)),
        )
        core.priority = int(attributes.get("priority", 4))
        core.expiration_ms = int(attributes.get("expiration", 0))
        core.timestamp_ms = int(attributes.get("timestamp", 0))
        core.large = found.large
        if "user-id" in attributes:
            core.user_id = uuid.UUID(attributes["user-id"].removeprefix("ID:")).bytes
        return core


def _property(attributes: dict[str, str]) -> Property | None:
    """None for one without a type, which the brokers' importer leaves out, too."""
    name, text = (attributes[key].translate(_BACK) for key in ("name", "value"))
    kind = attributes.get("type", "")
    code = _CODES.get(kind)
    if code is None:
        return None
    if text == NULL:
        return Property(name, Code.NULL, None)
    return Property(name, code, _value(code, text))


def _value(code: Code, text: str) -> PropertyValue:
    if code is Code.STRING:
        return text
    if code is Code.BOOLEAN:
        return text.lower() == "true"
    if code is Code.BYTES:
        return base64.urlsafe_b64decode(text)
    if code in (Code.FLOAT, Code.DOUBLE):
        return float(text)
    return int(text)
