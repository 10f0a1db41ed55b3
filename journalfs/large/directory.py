"""Bodies of large messages: files named after the message, docs/format/large-messages.md.

A body that its client compressed is inflated when it is asked for (`inflated.py`).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from journalfs.engine.buffers import MappedFile
from journalfs.format.large_file import LargeFileKind, format_large_name, parse_large_name
from journalfs.ids import MessageId
from journalfs.large.inflated import InflatedBodies


@dataclass(frozen=True, slots=True)
class LargeFile:
    """One file of the directory, as listed."""

    name: str
    message_id: MessageId
    kind: LargeFileKind
    size_bytes: int
    mtime_ns: int


@dataclass(slots=True)
class LargeDirectory:
    path: Path
    inflated: InflatedBodies = field(default_factory=InflatedBodies)

    def files(self) -> list[LargeFile]:
        """All body files, by message id. A missing directory holds none."""
        found: list[LargeFile] = []
        try:
            entries = list(os.scandir(self.path))
        except FileNotFoundError:
            return []
        for entry in entries:
            parsed = parse_large_name(entry.name)
            if parsed is None:
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            found.append(
                LargeFile(entry.name, parsed.message_id, parsed.kind, status.st_size, status.st_mtime_ns)
            )
        return sorted(found, key=lambda file: (file.message_id, file.name))

    def body(
        self,
        message_id: MessageId,
        *,
        compressed: bool,
        declared_bytes: int | None = None,
        origin: MessageId | None = None,
    ) -> MappedFile | None:
        """The body of a message, inflated; `None` when there is no file.

        `origin` is the message this one was copied from: a broker that died between the record and the copy
        leaves only the origin's file. `declared_bytes` is how long its message says that the body is. Raises
        `Damaged` when a compressed body cannot be inflated to its end.
        """
        path = self._existing(message_id, origin)
        if path is None:
            return None
        try:
            if compressed:
                return self.inflated.body(path, declared_bytes)
            return MappedFile(path)
        except FileNotFoundError:
            return None

    def _existing(self, message_id: MessageId, origin: MessageId | None) -> Path | None:
        for candidate in (message_id, origin):
            if candidate is not None:
                path = self.path / format_large_name(candidate)
                if path.is_file():
                    return path
        return None
