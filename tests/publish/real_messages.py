"""Message records of real stores, live or not, each with its line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from tests.reference.journal import read_folder
from tests.reference.pages import page

LARGE_RECORD, RECORD = 30, 45


@dataclass(frozen=True)
class RealMessage:
    user_type: int
    payload: bytes
    body_file: bytes | None
    """What `<id>.msg` holds."""

    @property
    def line(self) -> bytes:
        return line_of(self.user_type, self.payload, self.body_file)

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line)
        return found


def line_of(user_type: int, payload: bytes, body_file: bytes | None = None) -> bytes:
    """The envelope line, without its newline."""
    source = SOURCE_CORE_LARGE if user_type == LARGE_RECORD else SOURCE_PERSISTER
    batch = LineBatch.of_payloads([payload], queue="q", sources=[source])
    if body_file is not None:
        batch.set_large(0, zlib.decompress(body_file) if batch.measure(0).compressed else body_file)
    return batch.line(0).removesuffix(b"\n")


def real_messages(store: Path) -> Iterator[RealMessage]:
    """All records of messages in the journal and in pages. Large ones whose file has gone are left out."""
    for user_type, payload in _records(store):
        source = SOURCE_CORE_LARGE if user_type == LARGE_RECORD else SOURCE_PERSISTER
        measure = LineBatch.of_payloads([payload], queue="q", sources=[source]).measure(0)
        file = store / f"data/large-messages/{measure.message_id}.msg"
        if not measure.large:
            yield RealMessage(user_type, payload, None)
        elif file.exists():
            yield RealMessage(user_type, payload, file.read_bytes())


def _records(store: Path) -> Iterator[tuple[int, bytes]]:
    for file in read_folder(store / "data/journal"):
        for record in file.scan.records:
            if record.user_type in (LARGE_RECORD, RECORD):
                yield record.user_type, record.body
    for path in sorted((store / "data/paging").rglob("*.page")):
        for entry in page(path.read_bytes()).entries:
            yield LARGE_RECORD if entry.core_large else RECORD, entry.payload
