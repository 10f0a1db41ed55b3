"""Journal files with damage: a hypothesis strategy over short pieces of real ones."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tests.differential.encode import record
from tests.frozen import unpack

SOURCES = ("aio", "transactions", "compacted", "orders-basic")
PIECE_BYTES = 12_000


@cache
def pieces() -> tuple[bytes, ...]:
    """The beginning of every journal and bindings file of some stores, long enough for dozens of records."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in SOURCES:
            unpack(name, Path(folder))
            for path in sorted(Path(folder, name, "data").rglob("*")):
                if path.suffix in (".amq", ".bindings"):
                    found.append(path.read_bytes()[:PIECE_BYTES])
    return tuple(found)


def _rid(data: bytes) -> int:
    return int(struct.unpack(">q", data[8:16])[0]) & 0x7FFFFFFF


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A piece after one to six changes: cut, flipped, zeroed, spliced, overwritten, forged record put in."""
    data = bytearray(draw(st.sampled_from(pieces())))
    rid = _rid(bytes(data))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(16, max(16, len(data) - 1)))
        length = draw(st.integers(1, 400))
        kind = draw(st.sampled_from(["truncate", "flip", "zero", "splice", "garbage", "forge", "insert"]))
        if kind == "truncate":
            del data[at:]
        elif kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        elif kind == "splice":
            source = draw(st.integers(16, max(16, len(data) - 1)))
            data[at : at + length] = data[source : source + length]
        elif kind == "garbage":
            data[at : at + 30] = draw(st.binary(min_size=1, max_size=30))
        else:
            forged = record(
                draw(st.integers(10, 19)),
                rid,
                record_id=at,
                tx_id=length,
                count=draw(st.integers(0, 3)),
                body=b"forged",
            )
            data[at : at + (0 if kind == "insert" else len(forged))] = forged
    return bytes(data)
