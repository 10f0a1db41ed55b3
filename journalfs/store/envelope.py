"""Envelope lines as Python values. Lone surrogates, legal in the broker's strings, come through as they
are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

import msgspec

Decode = Callable[[bytes], Mapping[str, object]]


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
