"""Bodies that their clients compressed, inflated so that any range of them can be read.

What a stream inflates to is not known before it was: a kilobyte may stand for a megabyte, and a hostile one
for far more than its message says. So a body is inflated in memory as far as memory is set aside for it. What
is longer must have been declared by its message, and gets a nameless temporary file, if that leaves at least
as much free as it takes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from journalfs.engine.buffers import MappedFile
from journalfs.errors import Damaged
from journalfs.limits import COPY_CHUNK_BYTES, INFLATED_BODIES_KEPT_MAX, INFLATED_IN_MEMORY_BYTES_MAX


class NoRoomToInflate(Damaged):
    """The body is as its message says, but there is nowhere to put it. With more room it can be read."""


@dataclass(slots=True)
class InflatedBodies:
    """The last few inflated bodies, by what tells one content of a file from another."""

    _kept: OrderedDict[Hashable, MappedFile] = field(default_factory=OrderedDict)
    _no_room: dict[Hashable, str] = field(default_factory=dict)
    """What was measured without its body is shown without it, whatever room there is later."""

    def body(self, path: Path, declared_bytes: int | None) -> MappedFile:
        """The inflated content of `path`, of which its message says that it has `declared_bytes`.

        Raises `Damaged` when the stream is broken, ends early or is longer than it may be.
        """
        status = path.stat()
        key = (path, status.st_size, status.st_mtime_ns)
        if key in self._no_room:
            raise NoRoomToInflate(path, 0, self._no_room[key])
        mapped = self._kept.get(key)
        if mapped is None:
            try:
                mapped = inflate(path, declared_bytes)
            except NoRoomToInflate as error:
                self._no_room[key] = error.reason
                raise
            self._kept[key] = mapped
            while len(self._kept) > 1 and self._too_many():
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return mapped

    def _too_many(self) -> bool:
        held = sum(mapped.size_bytes for mapped in self._kept.values())
        return len(self._kept) > INFLATED_BODIES_KEPT_MAX or held > INFLATED_IN_MEMORY_BYTES_MAX

    @property
    def lacked_room(self) -> bool:
        """Whether anything is shown without its body for want of room."""
        return bool(self._no_room)


def inflate(path: Path, declared_bytes: int | None) -> MappedFile:
    """Inflate a zlib stream (RFC 1950); bytes behind its end are ignored, as the broker does."""
    limit_bytes = max(declared_bytes or 0, INFLATED_IN_MEMORY_BYTES_MAX)
    # Not below TMPDIR: that it is full must not keep a store from being opened.
    target: IO[bytes] = os.fdopen(os.memfd_create("journalfs-body"), "w+b")
    try:
        done = 0
        for consumed, piece in _pieces(path):
            if done + len(piece) > limit_bytes:
                reason = f"the compressed body inflates to more than the {limit_bytes} bytes it may have"
                raise Damaged(path, consumed, reason)
            if done <= INFLATED_IN_MEMORY_BYTES_MAX < done + len(piece):
                target = _moved_to_disk(target, limit_bytes, path)
            with _room_for(limit_bytes, path):
                target.write(piece)
            done += len(piece)
        with _room_for(limit_bytes, path):
            target.flush()
        return MappedFile(f"/proc/self/fd/{target.fileno()}")
    finally:
        with contextlib.suppress(OSError):  # what could not be written is not wanted any more
            target.close()


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """The inflated content, piece by piece, each with how far the file was read for it."""
    stream = zlib.decompressobj()
    consumed = 0
    with path.open("rb") as compressed:
        while not stream.eof:
            chunk = compressed.read(COPY_CHUNK_BYTES)
            if not chunk:
                raise Damaged(path, consumed, "the compressed body ends before its stream does")
            consumed += len(chunk)
            try:
                while chunk and not stream.eof:
                    yield consumed, stream.decompress(chunk, COPY_CHUNK_BYTES)
                    chunk = stream.unconsumed_tail
            except zlib.error as error:
                raise Damaged(path, consumed, f"the compressed body cannot be inflated: {error}") from error


def _moved_to_disk(memory: IO[bytes], wanted_bytes: int, path: Path) -> IO[bytes]:
    """A temporary file with what was inflated so far."""
    import shutil  # noqa: PLC0415 - few stores have such bodies, and every command imports this module
    import tempfile  # noqa: PLC0415

    with memory, _room_for(wanted_bytes, path):
        folder = tempfile.gettempdir()
        free_bytes = shutil.disk_usage(folder).free
        if free_bytes < 2 * wanted_bytes:
            raise OSError(errno.ENOSPC, f"{folder} has {free_bytes} bytes free")
        target = tempfile.TemporaryFile(prefix="journalfs-", dir=folder)  # noqa: SIM115  (the caller's)
        memory.seek(0)
        shutil.copyfileobj(memory, target, COPY_CHUNK_BYTES)
        return target


@contextlib.contextmanager
def _room_for(wanted_bytes: int, path: Path) -> Iterator[None]:
    """Say of a failure to write what was to be written."""
    try:
        yield
    except OSError as error:
        reason = f"no room to inflate a body of up to {wanted_bytes} bytes: {error.strerror or error}"
        raise NoRoomToInflate(path, 0, reason) from error
