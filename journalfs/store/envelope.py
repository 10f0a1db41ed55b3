"""Envelope lines as Python values. Lone surrogates, legal in the broker's strings, come through as they
are.
"""

from __future__ import annotations

import json
from typing import cast

import msgspec

_decode = msgspec.json.Decoder(dict[str, object]).decode


def decode_envelope(line: bytes) -> dict[str, object]:
    """One line as a dictionary."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        # The fast decoder refuses escaped lone surrogates; the standard library takes them.
        return cast("dict[str, object]", json.loads(line))


def json_string(text: str) -> bytes:
    """A JSON string as the renderer writes it: UTF-8, lone surrogates escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text, ensure_ascii=True).encode("ascii")
