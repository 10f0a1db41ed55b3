"""AMQP messages on their way into the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, Self

from journalfs.engine.lines import LineBatch
from journalfs.format.amqp_message import (
    ADDRESS_PROPERTY,
    BODY_SECTIONS,
    AmqpParts,
    LargeCache,
    Section,
    SectionCode,
    annotated,
    encode_large,
    encode_standard,
    made_durable,
    readdressed,
    split_sections,
)
from journalfs.format.amqp_types import NULL, Value, scalar
from journalfs.format.core_message import DUPLICATE_ID
from journalfs.format.properties import Code, PropertyValue
from journalfs.format.record_types import MessageType
from journalfs.store.bodies import Body, Buffer, pieces, whole
from journalfs.store.envelope import decode_envelope
from journalfs.store.envelope_fields import base64
from journalfs.store.outgoing import NO_PROPERTIES, Outgoing, Properties, Record

_ANNOTATION_TYPES: Final = {
    Code.BYTE: "byte",
    Code.SHORT: "short",
    Code.INT: "int",
    Code.LONG: "long",
    Code.STRING: "string",
}
"""What brokers note on their copies is of these types."""

_ROUTING_OF_DESTINATION: Final = {0: 1, 1: 0, 2: 1, 3: 0}
"""`x-opt-jms-dest` (a queue, a topic, temporary ones) -> routing type."""


class AmqpMessage(Outgoing):
    """A message stored as AMQP."""

    def __init__(self, parts: AmqpParts, body: Body, cache: LargeCache | None = None) -> None:
        """`body` is the whole message; `cache`, the record's copy of its sections, is needed where the body
        is not in memory.
        """
        self._parts = parts
        self._body = body
        self._cache = cache
        self._extra = Properties(None, parts.extra) if parts.extra else NO_PROPERTIES
        self._notes: tuple[tuple[Value, Value], ...] = ()
        """Annotations to be added."""
        self._readdressed = False
        """Its properties are to name the address that it is recorded for."""
        self._made_durable = False
        self.expiration_ms = parts.expiration_ms
        self.large = cache is not None
        payload = self.large_record(0, parts.address or "", 0)[1]
        line = LineBatch.of_payloads([payload], queue=None)
        measure = line.measure(0)
        self._said: Mapping[str, Any] = decode_envelope(line.line(0))
        self._scheduled_ms = measure.scheduled_ms
        self.durable = measure.durable
        self.priority = measure.priority
        self.timestamp_ms = measure.timestamp_ms

    # ---- what it says ----

    @property
    def body_bytes(self) -> int:
        return len(self._body)

    @property
    def routing_type(self) -> int | None:
        wanted = self._annotation("x-opt-routing-type")
        if isinstance(wanted, int):
            return wanted
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
    def scheduled_ms(self) -> int | None:
        return self.queue_schedule_ms or self._scheduled_ms or None

    def _annotation(self, name: str) -> object:
        for key, value in self._said["amqp"].get("messageAnnotations", ()):
            if key == {"t": "symbol", "v": name}:
                found: object = value["v"]
                return found
        return None

    # ---- records ----

    def record_bytes(self, address: str) -> int:
        around = encode_standard(self._parts_for(0, address), b"")
        return len(around) + len(self._body)

    def record(self, message_id: int, address: str, now_ms: int) -> Record:
        message = bytes(whole(self._body))
        if self._notes or self._readdressed or self._made_durable:
            message = b"".join(one.encoded for one in self._changed(split_sections(message), address))
        return MessageType.MESSAGE, encode_standard(self._parts_for(message_id, address), message)

    def large_record(self, message_id: int, address: str, now_ms: int) -> Record:
        parts, cache = self._parts_for(message_id, address), self._cache
        if self._made_durable:
            parts = replace(parts, durable=True)
        if cache is None:
            cache = LargeCache.of(split_sections(bytes(whole(self._body))))
        if self._notes or self._readdressed:
            parts = replace(parts, rewritten=True)
            cache = replace(
                cache, message_annotations=annotated(cache.message_annotations, self._notes).encoded
            )
            if self._readdressed and cache.properties != NULL:
                cache = replace(cache, properties=readdressed(cache.properties, _text(address)).encoded)
        return MessageType.MESSAGE, encode_large(parts, cache)

    def large_body(self) -> Iterator[Buffer]:
        """As it came: what was changed stands in the record, which says so."""
        return pieces(self._body)

    def with_properties(self, extra: Mapping[str, tuple[Code, PropertyValue]]) -> AmqpMessage:
        changed = copy(self)
        changed._extra = self._extra.with_(extra)
        notes = ((_annotation_key(name), _annotation_value(*typed)) for name, typed in extra.items())
        changed._notes = (*self._notes, *notes)
        changed._readdressed = True
        return changed

    def kept(self) -> Self:
        """Of a small message the header counts, and without one it is not durable; of a large one its
        record.
        """
        durable = self._parts.durable if self.large else self._said["amqp"].get("header", {}).get("durable")
        if durable or self._made_durable:
            return self
        changed = copy(self)
        changed.durable = changed._made_durable = True
        return changed

    def _changed(self, sections: Sequence[Section], address: str) -> Iterator[Section]:
        """The sections with what was added, all in their order."""
        rest = {one.code: one for one in sections if one.code not in BODY_SECTIONS}
        bodies = [one for one in sections if one.code in BODY_SECTIONS]
        annotations, properties = rest.get(SectionCode.MESSAGE_ANNOTATIONS), rest.get(SectionCode.PROPERTIES)
        if self._made_durable:
            header = rest.get(SectionCode.HEADER)
            rest[SectionCode.HEADER] = made_durable(header.encoded if header else NULL)
        if self._notes:
            rest[SectionCode.MESSAGE_ANNOTATIONS] = annotated(
                annotations.encoded if annotations else NULL, self._notes
            )
        if self._readdressed and properties is not None:
            rest[SectionCode.PROPERTIES] = readdressed(properties.encoded, _text(address))
        footer = rest.pop(SectionCode.FOOTER, None)
        yield from sorted(rest.values())
        yield from bodies
        if footer is not None:
            yield footer

    def _parts_for(self, message_id: int, address: str) -> AmqpParts:
        """The record's own fields; a property that repeats the address does so for the new one."""
        properties = self._extra
        if properties.get(ADDRESS_PROPERTY) is not None:
            properties = properties.with_({ADDRESS_PROPERTY: (Code.STRING, address)})
        return replace(
            self._parts,
            message_id=message_id,
            address=address,
            extra=properties.encoded if properties.entries else b"",
            expiration_ms=self.expiration_ms,
        )


def _text(text: str) -> Value:
    return scalar("string", text.encode("utf-8", "surrogatepass"))


def _annotation_key(name: str) -> Value:
    """`_AMQ_ORIG_QUEUE` -> `x-opt-ORIG-QUEUE`."""
    return scalar("symbol", b"x-opt-" + name.removeprefix("_AMQ_").replace("_", "-").encode())


def _annotation_value(code: Code, value: PropertyValue) -> Value:
    if isinstance(value, str):
        return _text(value)
    assert value is None or isinstance(value, int)
    return scalar(_ANNOTATION_TYPES[code], value)
