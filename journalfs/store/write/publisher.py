"""Files that are being written: their bytes become messages as they complete, or at the last close."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import trio

from journalfs.errors import SystemFailure
from journalfs.limits import COPY_CHUNK_BYTES, SPOOLED_IN_MEMORY_BYTES_MAX
from journalfs.store.framing import Framer, Framing, framing_of
from journalfs.store.outgoing import Outgoing, WholeFile

if TYPE_CHECKING:
    from journalfs.store.write.store import WritingStore


def messages_of(path: Path, file_name: str) -> list[Outgoing]:
    """The messages that a finished file holds. Raises `BadEnvelope` and SystemFailure."""
    framing = framing_of(file_name)
    try:
        if framing is Framing.WHOLE_FILE:
            return [WholeFile(path)]
        framer, messages = Framer(framing), []
        with path.open("rb") as file:
            while piece := file.read(COPY_CHUNK_BYTES):
                messages += framer.feed(piece)
        return messages + framer.finish()
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="publish a staged file") from error


class FilePublisher:
    """One open file. Writes are taken in the order in which they come."""

    def __init__(self, store: WritingStore, address: str, queue: str | None, file_name: str) -> None:
        self._store = store
        self._address = address
        self._queue = queue
        framing = framing_of(file_name)
        self._framer = None if framing is Framing.WHOLE_FILE else Framer(framing)
        self._spool = Spool(store)
        self._turn = trio.Lock()
        self._size_bytes = 0
        self._ended = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    async def write(self, data: bytes) -> None:
        async with self._turn:
            if self._framer is None:
                await self._spool.add(data)
            else:
                before = copy(self._framer)
                messages = self._framer.feed(data)
                try:
                    await self._publish(messages, whole=False)
                except BaseException:
                    # Nothing of it counts, so it may be written again.
                    self._framer = before
                    raise
            self._size_bytes += len(data)

    async def flush(self) -> None:
        """What was published is durable then; the rest is published at the last close."""
        async with self._turn:
            if self._framer is not None and self._size_bytes:
                await self._store.published()
            else:
                await self._spool.flush()

    async def finish(self) -> None:
        async with self._turn:
            if self._ended:
                return
            self._ended = True
            try:
                if self._framer is None:
                    await self._publish([self._spool.message()], whole=True)
                else:
                    await self._publish(self._framer.finish(), whole=True)
                    if self._size_bytes:
                        await self._store.published()
            finally:
                self._spool.close()

    def abandon(self) -> None:
        self._ended = True
        self._spool.close()

    async def _publish(self, messages: Sequence[Outgoing], *, whole: bool) -> None:
        await self._store.publish(self._address, self._queue, messages, whole=whole)


class Spool:
    """Bytes of one message: in memory while they are few, then in a file that is nobody's before it is
    published.
    """

    def __init__(self, store: WritingStore) -> None:
        self._store = store
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._path: Path | None = None

    async def add(self, data: bytes) -> None:
        if self._file is None and len(self._memory) + len(data) <= SPOOLED_IN_MEMORY_BYTES_MAX:
            self._memory += data
            return
        try:
            await trio.to_thread.run_sync(lambda: self._append(data))
        except OSError as error:
            raise SystemFailure.from_os(error, self._path or "", doing="keep what was written") from error

    def _append(self, data: bytes) -> None:
        if self._file is None:
            descriptor, name = tempfile.mkstemp(prefix="spool-", dir=self._store.staging_directory())
            self._path = Path(name)
            self._file = os.fdopen(descriptor, "wb", buffering=0)
            _write_all(self._file.fileno(), bytes(self._memory))
            self._memory.clear()
        _write_all(self._file.fileno(), data)

    async def flush(self) -> None:
        if self._file is not None:
            file = self._file
            await trio.to_thread.run_sync(lambda: os.fsync(file.fileno()))

    def message(self) -> Outgoing:
        """All of it as one message."""
        if self._path is None:
            return WholeFile(bytes(self._memory))
        return WholeFile(self._path)

    def close(self) -> None:
        self._memory.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
