"""Bodies of large messages: files named after the message, docs/format/large-messages.md.

A body that its client compressed is inflated once into a nameless temporary file, so that any range of it can
be read; the last few of those are kept.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from journalfs.engine.buffers import MappedFile
from journalfs.errors import Damaged
from journalfs.format.large_file import LargeFileKind, format_large_name, parse_large_name
from journalfs.ids import MessageId
from journalfs.limits import COPY_CHUNK_BYTES, INFLATED_BODIES_KEPT_MAX


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
    _inflated: OrderedDict[tuple[MessageId, int, int], MappedFile] = field(default_factory=OrderedDict)

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
        self, message_id: MessageId, *, compressed: bool, origin: MessageId | None = None
    ) -> MappedFile | None:
        """The body of a message, inflated; `None` when there is no file.

        `origin` is the message this one was copied from: a broker that died between the record and the copy
        leaves only the origin's file. Raises `Damaged` when a compressed body cannot be inflated to its end.
        """
        path = self._existing(message_id, origin)
        if path is None:
            return None
        try:
            if compressed:
                return self._inflate(path, message_id)
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

    def _inflate(self, path: Path, message_id: MessageId) -> MappedFile:
        status = path.stat()
        key = (message_id, status.st_size, status.st_mtime_ns)
        mapped = self._inflated.get(key)
        if mapped is None:
            mapped = inflate(path)
            while len(self._inflated) >= INFLATED_BODIES_KEPT_MAX:
                self._inflated.popitem(last=False)
            self._inflated[key] = mapped
        self._inflated.move_to_end(key)
        return mapped


def inflate(path: Path) -> MappedFile:
    """Inflate a zlib stream (RFC 1950) into a nameless file. Raises `Damaged` when the stream is broken or
    ends early; bytes behind its end are ignored, as the broker does.
    """
    import tempfile  # noqa: PLC0415 - few stores have such bodies, and every command imports this module

    stream = zlib.decompressobj()
    consumed = 0
    with path.open("rb") as compressed, tempfile.NamedTemporaryFile(prefix="journalfs-") as target:
        while not stream.eof:
            chunk = compressed.read(COPY_CHUNK_BYTES)
            if not chunk:
                raise Damaged(path, consumed, "the compressed body ends before its stream does")
            consumed += len(chunk)
            try:
                while chunk:
                    target.write(stream.decompress(chunk, COPY_CHUNK_BYTES))
                    chunk = stream.unconsumed_tail
            except zlib.error as error:
                raise Damaged(path, consumed, f"the compressed body cannot be inflated: {error}") from error
        target.flush()
        return MappedFile(Path(target.name))
