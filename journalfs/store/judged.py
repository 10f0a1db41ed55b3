"""Messages as selectors judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from journalfs.engine.lines import LineBatch
from journalfs.errors import DecodeError
from journalfs.format.amqp_message import sent_bytes, split_standard
from journalfs.selector.sizes import AMQP_BYTES
from journalfs.store.envelope import decode_envelope, envelope_decoder

if TYPE_CHECKING:
    from journalfs.selector import Selector

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
    if envelope.get("protocol") != "AMQP" or envelope.get("largeMessage"):
        return envelope
    try:
        _, message = split_standard(batch.payload(index))
        return {**envelope, AMQP_BYTES: sent_bytes(message)}
    except DecodeError:
        # A damaged one: its line says so.
        return envelope
