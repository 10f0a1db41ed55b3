"""Envelope lines as Python values. Lone surrogates, legal in the broker's strings, come through as they
are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

import msgspec

from journalfs.engine.lines import LineBatch
from journalfs.errors import DecodeError
from journalfs.format.amqp_message import sent_bytes, split_standard
from journalfs.format.core_message import stored_bytes
from journalfs.selector.identifiers import SIZE_BYTES

if TYPE_CHECKING:
    from journalfs.selector import Selector


Decode = Callable[[bytes], Mapping[str, object]]


_ESCAPES: Final = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F]..)|.)", re.DOTALL)


def of_whole_characters(line: bytes) -> bytes:
    """Return a line with other text in the place of half a pair of surrogates, the same text for the same
    half: for comparisons by a decoder that takes none.
    """
    return _ESCAPES.sub(lambda found: b"\\uffff" + found[1] if found[1] else found[0], line)


def envelope_decoder(keys: frozenset[str] | None) -> Decode:
    """A function that decodes `keys` of a line, all for `None`; bodies, which may be long, are skipped unless
    asked for.
    """
    if keys is None:
        quick: Decode = msgspec.json.Decoder(dict[str, object]).decode
    else:
        make: Any = TypedDict
        quick = msgspec.json.Decoder(make("Keys", dict.fromkeys(keys, Any), total=False)).decode

    def decode(line: bytes) -> Mapping[str, object]:
        try:
            return quick(line)
        except msgspec.DecodeError:
            # Escaped lone surrogates, legal in the broker's strings, are taken by the standard library only.
            return cast("dict[str, object]", json.loads(line))

    return decode


decode_envelope: Decode = envelope_decoder(None)
"""One line as a dictionary."""


# Messages as selectors judge them.

Judged = Callable[[LineBatch, int], Mapping[str, object]]


def decoder_for(selector: Selector) -> Judged:
    """A function that decodes what the selector reads of a message in a batch."""
    if selector.asks_size:
        return judged
    decode = envelope_decoder(selector.keys)
    return lambda batch, index: decode(batch.line(index))


def judged(batch: LineBatch, index: int) -> Mapping[str, object]:
    """All that any selector may read of a message. Raises FileTorn."""
    envelope = decode_envelope(batch.line(index))
    try:
        return {**envelope, SIZE_BYTES: _size_bytes(envelope, batch, index)}
    except DecodeError:
        # A damaged one: its line says so.
        return envelope


def _size_bytes(envelope: Mapping[str, object], batch: LineBatch, index: int) -> int:
    """How long the broker's encoding is, without a body that has a file of its own. Raises DecodeError."""
    payload, large = batch.payload(index), bool(envelope.get("largeMessage"))
    if envelope.get("protocol") == "AMQP":
        return 0 if large else sent_bytes(split_standard(payload)[1])
    return stored_bytes(payload, large=large)
