"""The hash XXH64, as Spark's function `xxhash64` has it: archives know messages without an id by it."""

from __future__ import annotations

from struct import iter_unpack, unpack_from
from typing import Final

_1: Final = 0x9E3779B185EBCA87
_2: Final = 0xC2B2AE3D27D4EB4F
_3: Final = 0x165667B19E3779F9
_4: Final = 0x85EBCA77C2B2AE63
_5: Final = 0x27D4EB2F165667C5
_ALL: Final = (1 << 64) - 1


def xxhash64(content: bytes, seed: int) -> int:
    """Return the hash as a signed number."""
    whole = len(content) // 32 * 32
    if whole:
        lanes = [(seed + _1 + _2) & _ALL, (seed + _2) & _ALL, seed & _ALL, (seed - _1) & _ALL]
        for words in iter_unpack("<4Q", content[:whole]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        found = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _1 + _4) & _ALL
    else:
        found = (seed + _5) & _ALL
    return _ended(_rest(content, whole, (found + len(content)) & _ALL))


def _rest(content: bytes, at: int, found: int) -> int:
    """Take in what is left behind the last whole 32 bytes."""
    while at + 8 <= len(content):
        found = (_turned(found ^ _round(0, unpack_from("<Q", content, at)[0]), 27) * _1 + _4) & _ALL
        at += 8
    if at + 4 <= len(content):
        found = (_turned(found ^ (unpack_from("<I", content, at)[0] * _1 & _ALL), 23) * _2 + _3) & _ALL
        at += 4
    for byte in content[at:]:
        found = _turned(found ^ (byte * _5 & _ALL), 11) * _1 & _ALL
    return found


def _ended(found: int) -> int:
    found = (found ^ found >> 33) * _2 & _ALL
    found = (found ^ found >> 29) * _3 & _ALL
    found ^= found >> 32
    return found - (1 << 64) if found >> 63 else found


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _2) & _ALL, 31) * _1 & _ALL


def _turned(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _ALL
