"""XML as `artemis data exp` writes it and `artemis data imp` takes it."""

from __future__ import annotations

import base64
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from journalfs.engine.xml import LEFT_OUT, XmlElements
from journalfs.errors import Damaged, DecodeError, JournalfsError
from journalfs.exchange.amqp_core import as_core
from journalfs.exchange.exported import Exported
from journalfs.format.bindings import RoutingType
from journalfs.format.core_message import CoreType
from journalfs.format.primitives import broker_uuid
from journalfs.format.properties import Code, Property, PropertyValue
from journalfs.live.runs import Run
from journalfs.live.stored_runs import each_stored
from journalfs.message.outgoing import CoreMessage, Outgoing, pieces
from journalfs.selector import values
from journalfs.store.store import JournalStore
from journalfs.views.queues import StoreQueue

MESSAGES_AT_ONCE: Final = 4096

LARGE_PIECE_BYTES: Final = 1000
"""The tools write the body of a large message in pieces of so many bytes, each encoded on its own."""

WILDCARDS: Final = frozenset("#*")

NULL: Final = "_AMQ_NULL"

TYPES: Final[dict[int, str]] = {
    CoreType.BYTES: "bytes", CoreType.MAP: "map", CoreType.OBJECT: "object", CoreType.STREAM: "stream",
    CoreType.TEXT: "text",
}  # fmt: skip
"""What is none of them is `default`."""

PROPERTY_TYPES: Final = {
    Code.NULL: "bytes", Code.BOOLEAN: "boolean", Code.BYTE: "byte", Code.BYTES: "bytes", Code.SHORT: "short",
    Code.INT: "integer", Code.LONG: "long", Code.FLOAT: "float", Code.DOUBLE: "double",
    Code.STRING: "simple-string",
}  # fmt: skip
"""A char has no type there, and is left out by the importer."""

_ESCAPED: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML document can have."""


class XmlWriter:
    """Writes one store. `told` is given what cannot be said in XML, `lost` which message is left out;
    `exported` counts what became of each, and says which messages are wanted.
    """

    def __init__(
        self,
        out: BinaryIO,
        told: Callable[[str], None],
        lost: Callable[[str], None],
        advance: Callable[[int], None],
        exported: Exported,
    ) -> None:
        self._out = out
        self._exported = exported
        self._wanted = exported.wanted
        self._full_names: dict[str, str] = {}
        """`ADDRESS::QUEUE` of each queue."""
        self._told = told
        self._lost = lost
        self._advance = advance
        self._lost_characters = 0
        self._elements = XmlElements(out)
        self._queues: dict[str, bytes] = {}
        """Elements that name them."""

    def write(self, store: JournalStore) -> None:
        self._out.write(b"\n<activemq-journal>\n   <bindings>")
        queues = [
            queue for queue in store.queues() if self._wanted.wants_queue(queue.model.address, queue.name)
        ]
        self._full_names = {queue.name: f"{queue.model.address}::{queue.name}" for queue in queues}
        of_them = {queue.model.address for queue in queues}
        for address in store.addresses():
            if self._wanted.queues and address.name not in of_them:
                continue
            kinds = ",".join(one.name for one in address.model.binding.routing_types)
            self._element(
                "address-binding",
                ("routing-types", kinds),
                ("name", address.name),
                ("id", address.address_id),
            )
        for queue in queues:
            self._queue_binding(queue)
        self._out.write(b"\n   </bindings>\n   <messages>")
        self._messages(queues)
        self._out.write(b"\n   </messages>\n</activemq-journal>")
        if self._lost_characters:
            text = "characters that XML cannot have (NUL and other control characters) became U+FFFD"
            self._told(f"{self._lost_characters} {text}")

    def _queue_binding(self, queue: StoreQueue) -> None:
        binding = queue.model.binding
        self._element(
            "queue-binding",
            ("address", binding.address),
            ("filter-string", binding.filter or ""),
            ("name", binding.name),
            ("id", queue.model.queue_id),
            ("routing-type", binding.routing_type.name),
        )

    def _element(self, name: str, *attributes: tuple[str, object]) -> None:
        said = " ".join(f'{key}="{self._text(str(value))}"' for key, value in attributes)
        self._out.write(f"\n      <{name} {said}/>".encode())

    def _text(self, text: str) -> str:
        if _NOT_XML.search(text):
            text, count = _NOT_XML.subn("\ufffd", text)
            self._lost_characters += count
        return text.translate(_ESCAPED)

    # -- messages --------------------------------------------------------------------------------------------

    def _messages(self, queues: Sequence[StoreQueue]) -> None:
        """Each message once, with all its queues, at the first of them."""
        for together in _sharing(queues):
            shared = _shared_ids(together)
            for queue in together:
                left_out = 0
                for run in _runs(queue):
                    chosen = self._wanted.chosen(queue.content, run)
                    left_out += len(run) - len(chosen)
                    if len(chosen):
                        self._run(queue, chosen, shared)
                self._exported.not_wanted(self._full_names[queue.name], left_out)

    def _run(self, queue: StoreQueue, run: Run, shared: Mapping[int, Sequence[str]]) -> None:
        """By the core, but for what is anything but usual."""
        ids, numbers = run.ids(queue.content), run.numbers
        names, which = _names(queue.name, ids, shared)
        queues = [b"".join(map(self._queue, some)) for some in names]
        self._count(names, which, len(ids))
        lines, _held, _ = run.headers(queue.content)
        at = 0
        while (at := self._elements.write(lines, ids, at, queues, which)) < len(ids):
            number = which[at] if which else 0
            if number != LEFT_OUT:
                self._one(queue, run.of(numbers[at : at + 1]), queues[number], names[number])
            at += 1
        self._advance(len(ids))

    def _queue(self, name: str) -> bytes:
        if name not in self._queues:
            self._queues[name] = f'            <queue name="{self._text(name)}"/>\n'.encode()
        return self._queues[name]

    def _count(self, names: Sequence[Sequence[str]], which: array[int] | None, messages: int) -> None:
        """Count messages as carried, in each of their queues."""
        of_names = Counter({0: messages}) if which is None else Counter(which)
        for number, count in of_names.items():
            if number != LEFT_OUT:
                for name in names[number]:
                    self._exported.carried[self._full_names[name]] += count

    def _leave(self, names: Sequence[str], reason: str) -> None:
        """Count a message that was taken for carried, and is not."""
        for name in names:
            self._exported.carried[self._full_names[name]] -= 1
            self._exported.left(self._full_names[name], reason)

    def _one(self, queue: StoreQueue, run: Run, queues: bytes, names: Sequence[str]) -> None:
        for message_id, message in each_stored(queue.content, run):
            if isinstance(message, JournalfsError):
                self._lost(f"message {message_id} of {queue.name} is left out: {message}")
                self._leave(names, message.reason if isinstance(message, Damaged) else str(message))
            else:
                self._message(message_id, message, queues, names)

    def _message(self, message_id: int, message: Outgoing, queues: bytes, names: Sequence[str]) -> None:
        try:
            core = message if isinstance(message, CoreMessage) else as_core(message)
            properties = "".join(map(self._property, core.properties.entries))
        except DecodeError as error:
            self._lost(f"message {message_id} is left out: {error}")
            self._leave(names, error.reason)
            return
        user_id = ""
        if core.user_id is not None:
            user_id = f' user-id="{broker_uuid(core.user_id)}"'
        kind = TYPES.get(core.core_type, "default")
        self._out.write(
            f'\n      <message id="{message_id}" priority="{core.priority}" '
            f'expiration="{core.expiration_ms}" timestamp="{core.timestamp_ms or 0}" type="{kind}"'
            f"{user_id}>\n         <properties>{properties}\n         </properties>\n"
            "         <queues>\n".encode()
        )
        self._out.write(queues + b"         </queues>\n")
        self._body(core)

    def _property(self, entry: Property) -> str:
        kind = PROPERTY_TYPES.get(entry.code)
        value = self._text(java_text(entry.code, entry.value))
        typed = f' type="{kind}"' if kind else ""
        return f'\n            <property name="{self._text(entry.name)}" value="{value}"{typed}/>'

    def _body(self, core: CoreMessage) -> None:
        out = self._out
        if not core.large:
            encoded = base64.urlsafe_b64encode(core.body if isinstance(core.body, bytes) else _whole(core))
            out.write(b"         <body>\n            <![CDATA[" + encoded + b"]]>")
        else:
            out.write(b'         <body isLarge="true">')
            for piece in _in_pieces(pieces(core.body)):
                out.write(b"\n            <![CDATA[" + base64.urlsafe_b64encode(piece) + b"]]>")
        out.write(b"\n         </body>\n      </message>")


def _whole(core: CoreMessage) -> bytes:
    return b"".join(bytes(piece) for piece in pieces(core.body))


def _in_pieces(given: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    left = b""
    for piece in given:
        data = left + bytes(piece)
        end = len(data) - len(data) % LARGE_PIECE_BYTES
        for at in range(0, end, LARGE_PIECE_BYTES):
            yield data[at : at + LARGE_PIECE_BYTES]
        left = data[end:]
    if left:
        yield left


def _runs(queue: StoreQueue) -> Iterator[Run]:
    """All messages of a queue, those that a transaction in doubt has taken as well, as `data exp` does."""
    for run in [*queue.content.live(), *queue.content.delivering()]:
        yield from run.split(MESSAGES_AT_ONCE)


def _names(
    queue: str, ids: array[int], shared: Mapping[int, Sequence[str]]
) -> tuple[list[Sequence[str]], array[int] | None]:
    """Names of queues, and which of them are of which message: None, all have the first."""
    names: list[Sequence[str]] = [[queue]]
    if not shared:
        return names, None
    known: dict[Sequence[str], int] = {}
    which = array("i")
    for message_id in ids:
        queues = shared.get(message_id)
        if queues is None:
            which.append(0)
        elif queues[0] != queue:
            which.append(LEFT_OUT)
        else:
            number = known.setdefault(tuple(queues), len(names))
            if number == len(names):
                names.append(queues)
            which.append(number)
    return names, which


def _sharing(queues: Sequence[StoreQueue]) -> list[list[StoreQueue]]:
    """Queues of one address, or whose address has wildcards and others that may be meant: a message may be in
    several of them.
    """
    by_address: dict[str, list[StoreQueue]] = {}
    for queue in queues:
        by_address.setdefault(queue.model.address, []).append(queue)
    if not any(set(address) & WILDCARDS for address in by_address):
        return list(by_address.values())
    fans = [one for one in by_address.values() if one[0].model.binding.routing_type is RoutingType.MULTICAST]
    others = [one for one in by_address.values() if one not in fans]
    return [*others, [queue for one in fans for queue in one]]


def _shared_ids(queues: Sequence[StoreQueue]) -> dict[int, list[str]]:
    """Of the messages that are in several of an address's queues, which."""
    if len(queues) < 2:
        return {}
    first: dict[int, str] = {}
    found: dict[int, list[str]] = {}
    for queue in queues:
        for run in [*queue.content.live(), *queue.content.delivering()]:
            for message_id in run.columns(queue.content).ids:
                known = first.setdefault(message_id, queue.name)
                if known != queue.name:
                    found.setdefault(message_id, [known]).append(queue.name)
    return found


def java_text(code: Code, value: PropertyValue) -> str:
    """A value as Java prints it, bytes in base64."""
    if value is None:
        return NULL
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return values.as_text(values.Single(value) if code is Code.FLOAT else value)
    return str(value)
