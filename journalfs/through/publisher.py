"""A file that is written on a mount whose broker runs: its messages go to the broker as they complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from tempfile import SpooledTemporaryFile

import trio

from journalfs.api import nothing_follows
from journalfs.broker.publish.framing import Framer, Framing, framing_of
from journalfs.limits import SPOOLED_IN_MEMORY_BYTES_MAX
from journalfs.message.outgoing import Outgoing, WholeFile
from journalfs.through.errors import NotThrough

Publish = Callable[[str, str | None, Sequence[Outgoing]], Awaitable[None]]


class ThroughPublisher:
    """One open file. Writes are taken in the order in which they come."""

    def __init__(self, publish: Publish, address: str, queue: str | None, file_name: str) -> None:
        self._publish = publish
        self._place = address, queue
        framing = framing_of(file_name)
        self._framer = None if framing is Framing.WHOLE_FILE else Framer(framing)
        self._spool = SpooledTemporaryFile(SPOOLED_IN_MEMORY_BYTES_MAX)  # noqa: SIM115 - closed by `_end`
        self._turn = trio.Lock()
        self._size_bytes = 0
        self._ended = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def unfinished_bytes(self) -> int:
        if self._ended:
            return 0
        return self._size_bytes if self._framer is None else self._framer.pending_bytes

    @property
    def is_whole(self) -> bool:
        return self._framer is None

    @property
    def lines_to(self) -> None:
        """No line is published but by the broker."""
        return None

    def lines_published(self, size_bytes: int, lines: int) -> None:
        raise AssertionError("no lines are lent here")

    def leaves_gap(self, data: bytes) -> bool:
        return bool(data) and (self._framer is None or self._framer.would_pend(data))

    async def write(self, data: bytes) -> None:
        """Returns when the broker has accepted the messages that `data` completes."""
        async with self._turn:
            if self._ended:
                pass  # its name was removed: what is written goes nowhere, as in any file system
            elif self._framer is None:
                self._spool.write(data)
            else:
                before = self._framer.mark()
                try:
                    await self._send(self._framer.feed(data))
                except BaseException:
                    # Nothing of it counts, so it may be written again.
                    self._framer.reset(before)
                    raise
            self._size_bytes += len(data)

    async def flush(self, *, unfinished: bool = True, is_last: Callable[[], bool] = nothing_follows) -> bool:
        """What is in messages is durable with the broker. The rest is nowhere yet: where a program asks for
        it to be durable before its close (fsync), that is refused instead of promised.
        """
        async with self._turn:
            if self._ended or not unfinished:
                return self._ended
            if self._framer is not None:
                self._framer.check_end()
            if self.unfinished_bytes and not is_last():
                raise NotThrough("what is no whole message yet cannot be made durable through a broker")
            return True

    async def finish(self) -> None:
        """The last close."""
        async with self._turn:
            if self._ended:
                return
            try:
                if self._framer is not None:
                    await self._send(self._framer.finish())
                else:
                    self._spool.seek(0)
                    await self._send([WholeFile(self._spool.read(), finished=True)])
            finally:
                self._end()

    async def finish_flushed(self) -> None:
        """Nothing was flushed that is not published."""
        self._end()

    async def forget(self) -> int:
        async with self._turn:
            dropped_bytes = self.unfinished_bytes
            self._end()
            return dropped_bytes

    def abandon(self) -> None:
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._spool.close()

    async def _send(self, messages: Sequence[Outgoing]) -> None:
        if messages:
            await self._publish(*self._place, messages)
