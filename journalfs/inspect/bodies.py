"""Bodies in files of their own against what the records of their messages say."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, SupportsIndex, overload

from journalfs.damage import name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE
from journalfs.engine.status import FileTorn
from journalfs.errors import Damaged, DecodeError
from journalfs.format.amqp_message import BODY_SECTIONS, LARGE, LargeCache, SectionCode, code_of, split_large
from journalfs.format.amqp_types import skip
from journalfs.format.core_message import LARGE_COMPRESSED, LARGE_SIZE, ORIGINAL_MESSAGE_ID, split_header
from journalfs.format.large_file import format_large_name
from journalfs.format.primitives import Reader
from journalfs.format.properties import decode_properties
from journalfs.ids import MessageId
from journalfs.inspect.findings import Finding
from journalfs.inspect.record_bodies import check_section
from journalfs.store.orphans import large_records

if TYPE_CHECKING:
    from journalfs.live.core import Core

_WINDOW_BYTES: Final = 1 << 20
_SECTION_BYTES_MAX: Final = 16 << 20
"""Of a section that is looked into; longer ones are only measured."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a record says of its body."""

    message_id: int
    origin: int | None = None
    size_bytes: int | None = None
    compressed: bool = False
    cache: LargeCache | None = None
    """Of an AMQP message, where its sections are; None: they are not those of the file."""
    amqp: bool = False


def wrong_bodies(core: Core) -> Iterator[Finding]:
    """Bodies that are there and not what their records say. A body that several messages have is looked at
    for each. What is missing or too short is damage of the store already.
    """
    for message_id, payload, source in large_records(core):
        try:
            said = _said(message_id, payload, source)
        except DecodeError:
            continue  # damage of the record
        found = None if said is None else _wrong_in(core, said)
        if found is not None:
            yield found


def name_of_body(core: Core, message_id: int | None) -> str:
    """What the file of a message's body is called, if it has one."""
    return name_of(core.large.path / format_large_name(MessageId(message_id or 0)), core.root)


def _said(message_id: int, payload: bytes, source: int) -> _Said | None:
    """None: it has no file. Raises `DecodeError`."""
    if source == SOURCE_CORE_LARGE:
        header = split_header(Reader(payload)).header
        values = {one.name: one.value for one in decode_properties(Reader(header.properties))}
        size, origin = values.get(LARGE_SIZE), values.get(ORIGINAL_MESSAGE_ID)
        return _Said(
            message_id,
            origin if isinstance(origin, int) else None,
            size if isinstance(size, int) else None,
            compressed=bool(values.get(LARGE_COMPRESSED)),
        )
    if payload[:1] != bytes((LARGE,)):
        return None
    parts, cache = split_large(payload)
    return _Said(message_id, cache=None if parts.rewritten else cache, amqp=True)


def _wrong_in(core: Core, said: _Said) -> Finding | None:
    try:
        path = core.large.file(MessageId(said.message_id))
        if path is None and said.origin is not None:
            path = core.large.file(MessageId(said.origin))
        if path is None:
            return None
        with MappedFile(path) as body:
            offset, reason = _reason(body, said) or (0, "")
    except FileTorn as error:
        offset, reason = 0, str(error)
    except (Damaged, OSError):
        return None  # damage of the store already
    return Finding(name_of(path, core.root), offset, 0, "large-message", reason) if reason else None


def _reason(body: MappedFile, said: _Said) -> tuple[int, str] | None:
    if said.amqp:
        return _wrong_sections(body, said.cache)
    size_bytes = body.size_bytes
    if said.compressed:
        try:
            size_bytes = _inflated_bytes(body)
        except zlib.error as error:
            return 0, f"it does not inflate: {error}"
    if said.size_bytes is not None and size_bytes != said.size_bytes:
        which = "inflates to" if said.compressed else "has"
        return min(size_bytes, said.size_bytes), (
            f"the body of message {said.message_id} {which} {size_bytes} bytes, and its record says "
            f"{said.size_bytes}"
        )
    return None


def _inflated_bytes(body: MappedFile) -> int:
    """Raises zlib.error."""
    stream, total = zlib.decompressobj(), 0
    for at in range(0, body.size_bytes, _WINDOW_BYTES):
        window = body.copy(at, min(_WINDOW_BYTES, body.size_bytes - at))
        while window and not stream.eof:
            total += len(stream.decompress(window, _WINDOW_BYTES))
            window = stream.unconsumed_tail
    if not stream.eof:
        raise zlib.error("it ends early")
    return total


def _wrong_sections(body: MappedFile, cache: LargeCache | None) -> tuple[int, str] | None:
    """The sections of an AMQP message, and that they are where the record says."""
    places: dict[SectionCode, int] = {}
    body_at, at = -1, 0
    content = _Content(body)
    try:
        while at < len(content):
            if content[at] != 0:
                return at, "no section of the AMQP message begins here"
            value_at = skip(content, at + 1)
            end = skip(content, value_at)
            code = code_of(content[at + 1 : value_at], at)
            if end - at <= _SECTION_BYTES_MAX:
                check_section(code, content[at:end])
            if code in BODY_SECTIONS and body_at < 0:
                body_at = at
            places.setdefault(code, at)
            at = end
    except DecodeError as error:
        return at, f"a section of the AMQP message, byte {error.offset}: {error.reason}"
    return None if cache is None else _moved(places, body_at, cache)


class _Content:
    """The bytes of a body, each piece when it is asked for."""

    def __init__(self, body: MappedFile) -> None:
        self._body = body

    def __len__(self) -> int:
        return self._body.size_bytes

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...

    def __getitem__(self, key: SupportsIndex | slice, /) -> int | bytes:
        if isinstance(key, slice):
            start, stop, _ = key.indices(len(self))
            return self._body.copy(start, max(0, stop - start))
        return self._body.copy(key.__index__(), 1)[0]


def _moved(places: dict[SectionCode, int], body_at: int, cache: LargeCache) -> tuple[int, str] | None:
    expected = {
        SectionCode.HEADER: cache.header_at,
        SectionCode.DELIVERY_ANNOTATIONS: cache.delivery_annotations_at,
        SectionCode.MESSAGE_ANNOTATIONS: cache.message_annotations_at,
        SectionCode.PROPERTIES: cache.properties_at,
        SectionCode.APPLICATION_PROPERTIES: cache.application_properties_at,
    }
    for code, said in expected.items():
        found = places.get(code, -1)
        if said >= 0 and said != found:
            return max(0, found), f"its {code.name.lower()} begin at {found}, and the record says {said}"
    if cache.body_at >= 0 and cache.body_at != body_at:
        return max(0, body_at), f"its body begins at {body_at}, and the record says {cache.body_at}"
    return None
