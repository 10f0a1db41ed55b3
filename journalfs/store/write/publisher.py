"""Files that are being written: their bytes become messages as they complete, or at the last close."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from journalfs.engine.buffers import MappedFile
from journalfs.engine.waiting import Turn
from journalfs.errors import JournalfsError, SystemFailure
from journalfs.large.spool import Spool
from journalfs.limits import COPY_CHUNK_BYTES
from journalfs.store.api import Patience
from journalfs.store.framing import Framer, Framing, framing_of
from journalfs.store.outgoing import Outgoing, WholeFile
from journalfs.store.write.admission import Admitted

if TYPE_CHECKING:
    from journalfs.store.write.store import WritingStore


def messages_of(path: Path, file_name: str) -> list[Outgoing]:
    """The messages that a finished file holds. Raises `BadEnvelope` and SystemFailure."""
    framing = framing_of(file_name)
    try:
        if framing is Framing.WHOLE_FILE:
            return [WholeFile(path)]
        framer = Framer(framing)
        messages: list[Outgoing] = []
        with MappedFile(path) as file:
            for at in range(0, file.size_bytes, COPY_CHUNK_BYTES):
                messages += framer.feed(file.copy(at, min(COPY_CHUNK_BYTES, file.size_bytes - at)))
        return [*messages, *framer.finish()]
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="publish a staged file") from error


class FilePublisher:
    """One open file. Writes are taken in the order in which they come."""

    def __init__(
        self, store: WritingStore, address: str, queue: str | None, file_name: str, patience: Patience
    ) -> None:
        self._store = store
        self._patience = patience
        self._address = address
        self._queue = queue
        self._file_name = file_name
        framing = framing_of(file_name)
        self._framer = None if framing is Framing.WHOLE_FILE else Framer(framing)
        self._spool = Spool(store.staging_directory)
        self._turn = Turn()
        self._size_bytes = 0
        self._ended = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    async def write(self, data: bytes) -> None:
        admission = self._store.admission
        admitted = admission.at_once(self._address) or await admission.enter(self._address, self._patience)
        with admitted:
            async with self._turn:
                if self._framer is None:
                    await self._collect(data)
                else:
                    await self._publish_completed(self._framer, data, admitted)
                self._size_bytes += len(data)

    async def _collect(self, data: bytes) -> None:
        if self._spool.fits(len(data)):
            self._spool.take(data)
            return
        try:
            await trio.to_thread.run_sync(lambda: self._spool.append(data))
        except OSError as error:
            raise SystemFailure.from_os(error, self._file_name, doing="keep what was written") from error

    async def _publish_completed(self, framer: Framer, data: bytes, admitted: Admitted) -> None:
        before = framer.mark()
        try:
            await self._publish(framer.feed(data), admitted, whole=False)
        except BaseException:
            # Nothing of it counts, so it may be written again.
            framer.reset(before)
            raise

    async def flush(self) -> None:
        """What was published is durable then; the rest is published at the last close, of which nobody hears
        whether it succeeds: so what cannot be published then is refused here.
        """
        async with self._turn:
            if self._framer is None:
                await self._sync()
            elif self._size_bytes:
                await self._store.published()
                self._framer.check_end()

    async def _sync(self) -> None:
        try:
            await trio.to_thread.run_sync(self._spool.sync)
        except OSError as error:
            raise SystemFailure.from_os(error, self._file_name, doing="sync what was written") from error

    async def finish(self) -> None:
        async with self._turn:
            if self._ended:
                return
            self._ended = True
            if self._framer is None:
                await self._publish_whole()
            else:
                await self._publish(self._framer.finish(), self._taken_before(), whole=True)
                if self._size_bytes:
                    await self._store.published()

    async def _publish_whole(self) -> None:
        """Publish the file as one message. No caller hears of a failure at the last close, so what was
        written is kept then.
        """
        content = self._spool.path or self._spool.content()
        try:
            await self._publish([WholeFile(content)], self._taken_before(), whole=True)
        except JournalfsError:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(
                    lambda: self._store.keep_unpublished(self._spool, self._file_name)
                )
            raise
        await trio.to_thread.run_sync(self._spool.discard)

    def abandon(self) -> None:
        self._ended = True
        self._spool.discard()

    def _taken_before(self) -> Admitted:
        """What is published at the last close was taken by a write; nobody could be told otherwise now."""
        return Admitted(self._store.admission.decide_late(self._address))

    async def _publish(self, messages: Sequence[Outgoing], admitted: Admitted, *, whole: bool) -> None:
        await self._store.publish(self._address, self._queue, messages, whole=whole, admitted=admitted)
