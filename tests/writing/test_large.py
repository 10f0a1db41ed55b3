"""Large messages through the mount: a file of its own, and memory that does not grow with it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tests.writing.conftest import Address

LARGE_BYTES = 256 << 20
GROWTH_BYTES_MAX = 48 << 20
"""Pieces on their way, and what the interpreter keeps: far below the message."""
PIECE_BYTES = 1 << 20


def peak_bytes(process_id: int) -> int:
    """Most memory of its own that a process ever had: what it maps of files is not counted."""
    status = Path(f"/proc/{process_id}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def test_a_large_file_is_streamed(address: Address) -> None:
    process_id = address.mount.process_id()
    before = peak_bytes(process_id)
    written, highest = hashlib.sha256(), 0
    with (address.path / "large.bin").open("wb", buffering=0) as file:
        for number in range(LARGE_BYTES // PIECE_BYTES):
            piece = number.to_bytes(4) * (PIECE_BYTES // 4)
            written.update(piece)
            file.write(piece)
            highest = max(highest, peak_bytes(process_id))
    (name,) = address.first.listed()
    read = hashlib.sha256()
    with (address.first.path / ".messages" / name).open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            read.update(piece)
    highest = max(highest, peak_bytes(process_id))
    assert read.digest() == written.digest()
    assert os.stat(address.first.path / ".messages" / name).st_size == LARGE_BYTES
    assert highest - before < GROWTH_BYTES_MAX
    os.unlink(address.first.path / ".messages" / name)
    os.unlink(address.second.path / ".messages" / name)
