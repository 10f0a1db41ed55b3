"""AMQP messages on their way into the store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Self

from journalfs.engine.lines import LineBatch
from journalfs.format import amqp_message
from journalfs.format.amqp_types import NULL, Value, scalar
from journalfs.format.core_message import DUPLICATE_ID, annotation_of
from journalfs.format.properties import Code, PropertyValue
from journalfs.format.record_types import MessageType
from journalfs.message import outgoing
from journalfs.message.envelope import decode_envelope
from journalfs.message.envelope_fields import base64

_ANNOTATION_TYPES: Final = {
    Code.BYTE: "byte", Code.SHORT: "short", Code.INT: "int", Code.LONG: "long", Code.STRING: "string",
}  # fmt: skip
"""The types of the notes that brokers put on their copies."""

_ROUTING_OF_DESTINATION: Final = {0: 1, 1: 0, 2: 1, 3: 0}
"""`x-opt-jms-dest` (a queue, a topic, temporary ones) -> routing type."""

_ROUTING_TYPE: Final = "x-opt-routing-type"

_DUE_AT: Final = "x-opt-delivery-time"
_DUE_AFTER: Final = "x-opt-delivery-delay"


@dataclass(frozen=True, slots=True)
class _Head:
    """The sections that a file begins with, up to what a message says to applications."""

    encoded: bytes
    instead_of: int
    """So many bytes."""
    cache: amqp_message.LargeCache
    """As of the file that has it."""


class AmqpMessage(outgoing.Outgoing):
    """A message stored as AMQP."""

    def __init__(
        self, parts: amqp_message.AmqpParts, body: outgoing.Body, cache: amqp_message.LargeCache | None = None
    ) -> None:
        """`body` is the whole message; `cache`, the record's copy of its sections, is needed where the body
        is not in memory.
        """
        self._parts = parts
        self._body = body
        self._cache = cache
        self._extra = outgoing.Properties(None, parts.extra) if parts.extra else outgoing.NO_PROPERTIES
        self._notes: tuple[tuple[Value, Value], ...] = ()
        """Annotations to be added."""
        self._forgotten: tuple[Value, ...] = ()
        """Keys of annotations to be taken away."""
        self._readdressed = False
        """True if its properties must name the address that it is recorded for."""
        self._made_durable = False
        self._expires_anew = False
        """True if its sections must state `expiration_ms`."""
        self._wanted: tuple[int | None] | None = None
        """The routing type that its annotations must state; None: the one they state."""
        self._due: tuple[int] | None = None
        """The time that its annotations must state as due, 0: at once; None: the one they state."""
        self.lives_ms: int | None = None
        """How long from its arrival on, where no time is known at which it expires."""
        self.sent_to = parts.address
        self.expiration_ms = parts.expiration_ms
        self.large = cache is not None
        self.durable = parts.durable
        payload = self.large_record(0, parts.address or "", 0)[1]
        line = LineBatch.of_payloads([payload], queue=None)
        measure = line.measure(0)
        self._said: Mapping[str, Any] = decode_envelope(line.line(0))
        self._scheduled_ms = measure.scheduled_ms
        if not self.large:
            self.durable = self._is_durable()
        self.priority = measure.priority
        self.timestamp_ms = measure.timestamp_ms

    def in_memory(self) -> AmqpMessage:
        """Itself, or a copy of one with a file, as if it fitted into a record."""
        if not self.large:
            return self
        parts = replace(self._parts, persister=amqp_message.STANDARD)
        return AmqpMessage(parts, b"".join(bytes(piece) for piece in self.large_body()))

    # ---- what it says ----

    @property
    def body_bytes(self) -> int:
        # Of what may be small it is asked each time just to see that: the length that it came with will do.
        head = self._new_head() if self.large else None
        return len(self._body) if head is None else len(head.encoded) + len(self._body) - head.instead_of

    @property
    def routing_type(self) -> int | None:
        wanted = self._wanted[0] if self._wanted is not None else self._annotation(_ROUTING_TYPE)
        if isinstance(wanted, int):
            return outgoing.known_routing_type(wanted)
        destination = self._annotation("x-opt-jms-dest")
        return _ROUTING_OF_DESTINATION.get(destination) if isinstance(destination, int) else None

    @property
    def duplicate_id(self) -> bytes | None:
        value = self._said.get("properties", {}).get(DUPLICATE_ID)
        if not isinstance(value, str):
            return None
        if self._said.get("propertyTypes", {}).get(DUPLICATE_ID) == "binary":
            return base64(value, DUPLICATE_ID)
        return value.encode("utf-16-le", "surrogatepass")

    @property
    def own_schedule_ms(self) -> int:
        return self._due[0] if self._due is not None else self._scheduled_ms

    def _is_durable(self) -> bool:
        """Brokers take a small one without a header for durable; of a large one the record says it."""
        header = self._said["amqp"].get("header")
        return header is None or header.get("durable") is True

    def said_expiry(self) -> tuple[int, int | None]:
        """The expiration that its sections state, 0: none; and the time to live that they state, None: none.
        A broker obeys the former if both are there.
        """
        properties, header = (self._said["amqp"].get(key, {}) for key in ("properties", "header"))
        time, ttl = properties.get("absoluteExpiryTime"), header.get("ttl")
        return max(0, time["v"]) if time is not None else 0, ttl

    def expires_ms(self, now_ms: int) -> int:
        if self.expiration_ms or self.lives_ms is None:
            return self.expiration_ms
        return now_ms + self.lives_ms

    def arrives(self, now_ms: int) -> None:
        """A delay counts from when it was made, and from its arrival where it does not say that."""
        self.expiration_ms = self.expires_ms(now_ms)
        delay_ms = self._annotation(_DUE_AFTER)
        states_time = self.timestamp_ms or self._annotation(_DUE_AT) is not None
        if self.queue_schedule_ms is None and not states_time and type(delay_ms) is int and delay_ms > 0:
            self.queue_schedule_ms = now_ms + delay_ms

    def in_journal(self, now_ms: int) -> Self:
        """Return the message as the journal holds it: with its own due time, which brokers obey whatever the
        record says.
        """
        return self.in_page(now_ms)

    def _annotation(self, name: str) -> object:
        for key, value in self._said["amqp"].get("messageAnnotations", ()):
            if key == {"t": "symbol", "v": name}:
                found: object = value["v"]
                return found
        return None

    # ---- records ----

    def record_bytes(self, address: str) -> int:
        around = amqp_message.encode_standard(self._parts_for(0, address), b"")
        return len(around) + len(self._body)

    def record(self, message_id: int, address: str, now_ms: int) -> outgoing.Record:
        message = bytes(outgoing.whole(self._body))
        if self._changed or self._made_durable:
            message = b"".join(
                one.encoded for one in self._rewritten(amqp_message.split_sections(message), address)
            )
        return MessageType.MESSAGE, amqp_message.encode_standard(
            self._parts_for(message_id, address), message
        )

    def large_record(self, message_id: int, address: str, now_ms: int) -> outgoing.Record:
        parts, head = replace(self._parts_for(message_id, address), durable=self.durable), self._new_head()
        cache = head.cache if head is not None else self._as_it_came()
        if self._changed or (self._made_durable and head is None):
            parts = replace(parts, rewritten=True)
            cache = replace(
                cache,
                header=self._header(cache.header),
                message_annotations=self._annotations(cache.message_annotations),
                # A broker leaves it to small messages to say where their copies are.
                properties=self._properties(cache.properties),
            )
        return MessageType.MESSAGE, amqp_message.encode_large(parts, cache)

    def large_body(self) -> Iterator[outgoing.Buffer]:
        """As it came: what was changed stands in the record, which says so. But a broker that makes a core
        message of it reads the file alone, and who is given one whose time is over drops it: so an expiration
        that is no longer so is not there either. And one that copies it loses a copy that is not durable.
        """
        head = self._new_head()
        if head is None:
            return outgoing.pieces(self._body)
        return chain((head.encoded,), outgoing.pieces(self._body, head.instead_of))

    def _as_it_came(self) -> amqp_message.LargeCache:
        """Return the parts that a record repeats of the body's file, present or future."""
        return self._cache or amqp_message.LargeCache.of(
            amqp_message.split_sections(bytes(outgoing.whole(self._body)))
        )

    def _new_head(self) -> _Head | None:
        """Return the beginning of a large message's file if it must state another expiration, or that the
        message is durable.
        """
        if not (self._expires_anew or self._made_durable):
            return None
        cache = self._as_it_came()
        header, properties = self._header(cache.header), self._properties(cache.properties)
        ends = [at for at in (cache.application_properties_at, cache.body_at) if at >= 0]
        if (header, properties) == (cache.header, cache.properties) or not ends:
            return None
        at, size = cache.delivery_annotations_at, cache.delivery_annotations_bytes
        delivery = bytes(outgoing.part(self._body, at, at + size)) if at >= 0 else NULL
        codes = amqp_message.SectionCode
        found = (
            (codes.HEADER, header),
            (codes.DELIVERY_ANNOTATIONS, delivery),
            (codes.MESSAGE_ANNOTATIONS, cache.message_annotations),
            (codes.PROPERTIES, properties),
        )
        sections = [amqp_message.Section(code, encoded) for code, encoded in found if encoded != NULL]
        encoded = b"".join(one.encoded for one in sections)
        return _Head(encoded, min(ends), cache.behind(sections))

    def with_properties(self, extra: Mapping[str, tuple[Code, PropertyValue]]) -> AmqpMessage:
        notes = ((_annotation_key(name), _annotation_value(*typed)) for name, typed in extra.items())
        return self._with(
            _extra=self._extra.with_({amqp_message.ADDRESS_PROPERTY: (Code.STRING, ""), **extra}),
            _parts=replace(self._parts, persister=amqp_message.STANDARD),
            _notes=(*self._notes, *notes),
            _readdressed=True,
        )

    def without_properties(self, names: Collection[str]) -> AmqpMessage:
        forgotten = (*self._forgotten, *map(_annotation_key, names))
        return self._with(_extra=self._extra.without(*names), _forgotten=forgotten, _readdressed=True)

    def integer(self, name: str) -> int | None:
        return self._extra.integer(name)

    def is_text(self, name: str) -> bool:
        value = self._said.get("properties", {}).get(name)
        return value is None or (isinstance(value, str) and name not in self._said.get("propertyTypes", {}))

    def text(self, name: str) -> str | None:
        return outgoing.as_text(self._said.get("properties", {}).get(name))

    def expiring_at(self, expiration_ms: int) -> AmqpMessage:
        return self._with(expiration_ms=expiration_ms, lives_ms=None, _expires_anew=True, _readdressed=True)

    def wanting(self, routing_type: int | None) -> AmqpMessage:
        return self._with(_wanted=(routing_type,), _readdressed=True)

    def due_at(self, due_ms: int) -> AmqpMessage:
        return self._with(_due=(due_ms,))

    def kept(self) -> Self:
        """The header has to say it: brokers go by that when they copy it, and not by what they wrote of a
        large one into its record.
        """
        durable = self._said["amqp"].get("header", {}).get("durable") is True
        if self._made_durable or (durable and (self.durable or not self.large)):
            return self
        return self._with(durable=True, _made_durable=True)

    @property
    def _changed(self) -> bool:
        return bool(self._notes) or self._readdressed or self._due is not None

    def _rewritten(
        self, sections: Sequence[amqp_message.Section], address: str
    ) -> Iterator[amqp_message.Section]:
        """The sections with what was changed, all in their order."""
        rest = {one.code: one.encoded for one in sections if one.code not in amqp_message.BODY_SECTIONS}
        rest[amqp_message.SectionCode.HEADER] = self._header(rest.get(amqp_message.SectionCode.HEADER, NULL))
        rest[amqp_message.SectionCode.MESSAGE_ANNOTATIONS] = self._annotations(
            rest.get(amqp_message.SectionCode.MESSAGE_ANNOTATIONS, NULL)
        )
        properties = self._properties(rest.get(amqp_message.SectionCode.PROPERTIES, NULL))
        if self._readdressed and properties != NULL:
            properties = amqp_message.readdressed(properties, _text(address)).encoded
        rest[amqp_message.SectionCode.PROPERTIES] = properties
        footer = rest.pop(amqp_message.SectionCode.FOOTER, NULL)
        yield from (amqp_message.Section(code, rest[code]) for code in sorted(rest) if rest[code] != NULL)
        yield from (one for one in sections if one.code in amqp_message.BODY_SECTIONS)
        if footer != NULL:
            yield amqp_message.Section(amqp_message.SectionCode.FOOTER, footer)

    def _header(self, encoded: bytes) -> bytes:
        """The section as it is to be, from what it is; null: there is none."""
        if self._made_durable:
            encoded = amqp_message.made_durable(encoded).encoded
        return (
            amqp_message.without_ttl(encoded).encoded if self._expires_anew and encoded != NULL else encoded
        )

    def _annotations(self, encoded: bytes) -> bytes:
        notes, without = list(self._notes), list(self._forgotten)
        if self._wanted is not None:
            key, (kind,) = _symbol(_ROUTING_TYPE), self._wanted
            if kind is None:
                without.append(key)
            else:
                notes.append((key, scalar("byte", kind)))
        if self._due is not None:
            (due_ms,) = self._due
            without += [_symbol(_DUE_AT), _symbol(_DUE_AFTER)]
            if due_ms:
                notes.append((_symbol(_DUE_AT), scalar("long", due_ms)))
        if not notes and (not without or encoded == NULL):
            return encoded
        return amqp_message.annotated(encoded, notes, without=without).encoded

    def _properties(self, encoded: bytes) -> bytes:
        if self._expires_anew and (self.expiration_ms or encoded != NULL):
            encoded = amqp_message.expiring(encoded, self.expiration_ms).encoded
        return encoded

    def _parts_for(self, message_id: int, address: str) -> amqp_message.AmqpParts:
        """The record's own fields; a property that repeats the address does so for the new one."""
        properties = self._extra
        if properties.get(amqp_message.ADDRESS_PROPERTY) is not None:
            properties = properties.with_({amqp_message.ADDRESS_PROPERTY: (Code.STRING, address)})
        return replace(
            self._parts,
            message_id=message_id,
            address=address,
            extra=properties.encoded if properties.entries else b"",
            expiration_ms=self.expiration_ms,
        )


def _text(text: str) -> Value:
    return scalar("string", text.encode("utf-8", "surrogatepass"))


def _symbol(text: str) -> Value:
    return scalar("symbol", text.encode())


def _annotation_key(name: str) -> Value:
    return _symbol(annotation_of(name))


def _annotation_value(code: Code, value: PropertyValue) -> Value:
    if isinstance(value, str):
        return _text(value)
    assert value is None or isinstance(value, int)
    return scalar(_ANNOTATION_TYPES[code], value)
