"""Files opened for writing. `FilePublisher` turns their bytes into messages, at each write or at the last
close. `mount/nodes/written.py` calls it; calls for one file take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from journalfs.api import Patience, nothing_follows
from journalfs.bodies.flushed import FlushNote
from journalfs.bodies.writing import Spool
from journalfs.broker.limits.admission import Admitted
from journalfs.broker.publish.flushed import Flushed
from journalfs.broker.publish.framing import Framer, Framing, framing_of
from journalfs.broker.publish.publication import path_of
from journalfs.engine.waiting import FairLock, Slices, in_a_thread, unbroken
from journalfs.errors import JournalfsError, failing
from journalfs.limits import PARSED_PIECE_BYTES, SPOOLED_IN_MEMORY_BYTES_MAX
from journalfs.message.outgoing import Buffer, Outgoing, WholeFile


class FilePublisher:
    """One open file. Writes are taken in the order in which they come."""

    def __init__(
        self, flushed: Flushed, address: str, queue: str | None, file_name: str, patience: Patience
    ) -> None:
        self._flushed = flushed
        self._sending = flushed.sending
        self._patience = patience
        self._address = address
        self._queue = queue
        self._file_name = file_name
        self._path = path_of(address, queue, file_name)
        framing = framing_of(file_name)
        self._framer = None if framing is Framing.WHOLE_FILE else Framer(framing)
        self._note: FlushNote | None = None
        """The note of the content that the last flush made durable and that is not published yet; None: there
        is none.
        """
        self._next_id: str | None = None
        in_memory = min(SPOOLED_IN_MEMORY_BYTES_MAX, self._sending.publishing.min_large_bytes - 1)
        self._spool = Spool(self._make_body, memory_bytes_max=in_memory)
        self._turn = FairLock()
        self._size_bytes = 0
        self._ended = False
        self._forgotten = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def unfinished_bytes(self) -> int:
        if self._forgotten:
            return 0
        return self._size_bytes if self._framer is None else self._framer.pending_bytes

    @property
    def is_whole(self) -> bool:
        return self._framer is None

    def leaves_gap(self, data: bytes) -> bool:
        return bool(data) and (self._framer is None or self._framer.would_pend(data))

    @property
    def lines_to(self) -> tuple[str, str | None] | None:
        framer = self._framer
        if framer is None or not framer.takes_lines or framer.pending_bytes or self._next_id is not None:
            return None
        return None if self._forgotten or self._turn.locked() else (self._address, self._queue)

    def lines_published(self, size_bytes: int, lines: int) -> None:
        assert self._framer is not None
        self._framer.skip(size_bytes, lines)
        self._size_bytes += size_bytes

    async def write(self, data: bytes) -> None:
        if self._forgotten:
            self._size_bytes += len(data)
            return
        self._sending.check(self._address, self._queue)
        admission = self._sending.admission
        admitted = admission.at_once(self._address) or await admission.enter(self._address, self._patience)
        with admitted:
            async with self._turn:
                if self._forgotten:
                    pass  # while it waited
                elif self._framer is None:
                    await self._collect(data)
                else:
                    await self._publish_completed(self._framer, data, admitted)
                self._size_bytes += len(data)

    async def _collect(self, data: bytes) -> None:
        if self._spool.fits(len(data)):
            self._spool.take(data)
            return
        with failing("keep the content", self._file_name):
            await in_a_thread(lambda: self._spool.append(data))

    async def _publish_completed(self, framer: Framer, data: bytes, admitted: Admitted) -> None:
        before = framer.mark()
        try:
            await self._publish(await self._fed(framer, data), admitted, whole=False)
        except BaseException:
            # Nothing of it counts, so it may be written again.
            framer.reset(before)
            raise

    async def _fed(self, framer: Framer, data: bytes) -> Sequence[Outgoing]:
        """The messages that `data` completes. Where each is read by itself, others go on in between."""
        if not framer.reads_each or len(data) <= PARSED_PIECE_BYTES:
            return framer.feed(data)
        found: list[Outgoing] = []
        slices = Slices()
        for at in range(0, len(data), PARSED_PIECE_BYTES):
            found += framer.feed(data[at : at + PARSED_PIECE_BYTES])
            await slices.pause()
        return found

    # ---- flushing ----

    async def flush(self, *, unfinished: bool = True, is_last: Callable[[], bool] = nothing_follows) -> bool:
        """Make all content durable. Published messages are durable afterwards; the unfinished rest is noted
        beside the journal, and the last close publishes it, or the next opening of the store after a crash.

        Raise the error that the last close would meet, if this is the last flush (`is_last`): the kernel
        tells nobody the result of a release. `unfinished=False` leaves the rest unnoted, since a write failed
        and the file will not be published. Returns True if the last close can publish the rest.
        """
        async with self._turn:
            if self._forgotten:
                return True
            if self._framer is not None and self._size_bytes:
                await self._sending.parts.store.published()
            if not unfinished:
                return False
            could_end = True
            try:
                self._check_end()
            except JournalfsError:
                if is_last():
                    raise
                could_end = False
            if self._flushed.folder.keeps:
                await self._note_rest()
            return could_end

    def _check_end(self) -> None:
        """Raises what is known now to keep the rest from being published."""
        if self._framer is not None:
            self._framer.check_end()
        if self.unfinished_bytes:
            self._sending.routing.of_any(self._address, self._queue)

    async def _note_rest(self) -> None:
        if self._framer is not None:
            rest = self._framer.pending()
            size_bytes = len(rest)
        else:
            await self._sync()
            rest = self._spool.content()
            size_bytes = self._size_bytes
        if size_bytes:
            in_file = self._spool.path is not None
            note_id = self._note_id()
            note = FlushNote(note_id, self._address, self._queue, self._file_name, size_bytes, in_file)
            await self._flushed.note(note, rest)
            self._note = note

    async def _sync(self) -> None:
        with failing("sync the content", self._file_name):
            await in_a_thread(self._spool.sync)

    def _note_id(self) -> str:
        """One for all that is not published yet."""
        if self._next_id is None:
            self._next_id = self._flushed.new_id()
        return self._next_id

    def _make_body(self) -> Path:
        return self._flushed.folder.make_body(self._note_id())

    async def forget(self) -> int:
        """Drop the content after the file's name was removed: nothing of it is published from here on.
        Returns the dropped bytes.
        """
        async with self._turn:
            dropped_bytes = self.unfinished_bytes
            if self._note is not None:
                await self._flushed.forget(self._note.note_id)
                self._note = None
            self._forgotten = True
            self.abandon()
            return dropped_bytes

    # ---- the last close ----

    async def finish(self) -> None:
        async with self._turn:
            if self._ended:
                return
            self._ended = True
            if self._framer is None:
                content = self._spool.path or self._spool.content()
                await self._publish_rest([WholeFile(content, finished=True)], b"")
            else:
                rest = self._framer.pending()
                await self._publish_rest(self._framer.finish(), rest)
                if self._size_bytes:
                    await self._sending.parts.store.published()

    async def finish_flushed(self) -> None:
        """End a file whose last flush failed or never came: publish the content of the flush before, and drop
        the rest.
        """
        async with self._turn:
            if self._note is not None and not self._ended:
                self._ended = True
                self._spool.close()
                try:
                    await self._flushed.publish(self._note)
                except JournalfsError as error:
                    await self._keep(b"", error)
                    raise
                self._next_id = self._note = None
            self._abandon()

    async def _publish_rest(self, messages: Sequence[Outgoing], rest: Buffer) -> None:
        """Publish what the last close completes. No caller hears of a failure then, so what was written is
        kept.
        """
        try:
            await self._publish(messages, self._flushed.admitted(self._address), whole=True)
        except JournalfsError as error:
            await self._keep(rest, error)
            raise
        self._abandon()

    async def _keep(self, rest: Buffer, error: JournalfsError) -> None:
        with trio.CancelScope(shield=True):
            await in_a_thread(lambda: self._set_aside(rest, error))

    def _set_aside(self, rest: Buffer, error: JournalfsError) -> None:
        """In a thread."""
        note, self._note = self._note, None
        if note is None:
            # It was never flushed, or there is nothing that outlives the process.
            self._spool.take(rest)
            self._flushed.set_aside_spool(self._spool, self._path, error)
        elif self._sending.parts.journals.failure is None:
            self._flushed.set_aside(note, error)
        else:
            self._flushed.stays(note, error)
        self._spool.close()

    def abandon(self) -> None:
        self._ended = True
        self._abandon()

    def _abandon(self) -> None:
        self._spool.close()
        if self._next_id is not None:
            self._flushed.drop(self._next_id)
            self._next_id = self._note = None

    async def _publish(self, messages: Sequence[Outgoing], admitted: Admitted, *, whole: bool) -> None:
        """Publish messages, and with the first of them what was flushed before."""
        if not messages:
            return
        note = self._note
        note_id = None if note is None else note.note_id
        await self._sending.publish(
            self._address,
            self._queue,
            messages,
            path=self._path,
            whole=whole,
            admitted=admitted,
            note_id=note_id,
        )
        if note is not None:
            # It counts: given up now, it would be written again.
            with self._sending.parts.journals.past_commit:
                await unbroken(lambda: self._flushed.settled(note.note_id))
            self._note = self._next_id = None
