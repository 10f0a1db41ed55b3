"""Sizes as configuration files write them: `10485760`, `10M`, `64 KiB`. All units are powers of 1024."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"\s*([0-9]+)\s*(?:([kmg])i?)?b?\s*", re.IGNORECASE | re.ASCII)
_SIGNED: Final = re.compile(r"\s*[+-][0-9]+\s*", re.ASCII)
_FACTORS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def parse_size_bytes(text: str) -> int:
    """Bytes. A negative number may stand for "no limit"; a sign is for numbers without a unit only, as a
    broker has it. Raises `ValueError`."""
    match = _SIZE.fullmatch(text)
    if match is not None:
        return int(match.group(1)) * _FACTORS[(match.group(2) or "").lower()]
    if _SIGNED.fullmatch(text):
        return int(text)
    raise ValueError(
        f"{text.strip()!r} is no size: write a number with K, M or G (powers of 1024) or without"
    )
