"""`.take` with readers that acknowledge messages by writing only.

A reader that only reads acknowledges by how it ends (`stream.Taking`). For one that has the file open for
reading and writing, neither reading on nor closing acknowledges.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple

import trio
from pyfuse3 import EntryAttributes, FUSEError

from journalfs.api import Bytes, ByteSource, Consumer, Delivery
from journalfs.message.envelope import envelope_decoder
from journalfs_mount.errnos import Refused
from journalfs_mount.limits import UNANSWERED_MAX
from journalfs_mount.nodes.base import read_ahead
from journalfs_mount.nodes.stream import Consuming, Stream, StreamFile, Taking

_WORD: Final = re.compile(rb"[ \t]*(ack|nack)(?:[ \t]+([0-9]{1,19}))?[ \t\r]*")
_WORDS: Final = "write ack or nack, for the oldest message that is not answered yet, or ack ID or nack ID"
_decode_id: Final = envelope_decoder(frozenset({"id"}))


class _Answer(NamedTuple):
    delivery: Delivery
    consumed: bool
    """True: acknowledge it; False: give it back."""


class Working(Consuming):
    """A reader that answers, and the messages that it has and has not answered yet, the oldest first."""

    __slots__ = ("_answering", "_at", "_unanswered")

    writable: ClassVar[int] = select.POLLOUT

    def __init__(
        self, node: StreamFile, flags: int, given_back: Callable[[], None], consumer: Consumer
    ) -> None:
        super().__init__(node, flags, given_back, consumer)
        self._unanswered: list[Delivery] = []
        self._at = 0
        """How much of the stream was read. Writing moves the descriptor's own offset, so that says nothing
        here."""
        self._answering = trio.Lock()

    # -- reading ---------------------------------------------------------------------------------------------

    async def read(self, offset: int, length: int) -> Bytes:
        """Return the rest of the line that is being read, or, at its end, the next line."""
        read: Bytes = b""

        async def read_on() -> None:
            nonlocal read
            async with self._turn:
                read = await self._next_bytes(length)

        await self._node.context.interruptions.wait(read_on, self._holder)
        return read

    async def _next_bytes(self, length: int) -> Bytes:
        if not self._within(self._at) and not await self._next_line():
            return b""
        await read_ahead(self._line, self._at - self._start, length)
        found = self._line.read(self._at - self._start, length)
        self._at += len(found)
        return found

    async def _next_line(self) -> bool:
        """Whether there is one."""
        if len(self._unanswered) >= UNANSWERED_MAX:
            with self._node.context.noted(self._node.path):
                raise Refused(
                    errno.EBUSY, f"{UNANSWERED_MAX} messages of this reader wait for an answer; {_WORDS}"
                )
        await self.find()
        line = self._take()
        if line is None and not self._ended():
            line = await self._wait()
        if line is None:
            return False
        self._start, self._line, self._at = self.position, line, self.position
        return True

    def _line_of(self, delivery: Delivery | None) -> ByteSource | None:
        if delivery is None:
            return None
        self._unanswered.append(delivery)
        return delivery.line

    # -- answering -------------------------------------------------------------------------------------------

    async def write(self, offset: int, data: bytes) -> None:
        """Acknowledge, or give back, what the lines of `data` say; returns when that is durable. EINVAL for
        other words: then nothing of this write is done.
        """
        with self._node.context.noted(self._node.path):
            async with self._answering:
                for delivery, consumed in self._answers(data):
                    await self._settle(delivery, consumed=consumed)

    def _answers(self, data: bytes) -> Sequence[_Answer]:
        lines = data.removesuffix(b"\n").split(b"\n")
        left, found = list(self._unanswered), []
        for line in lines:
            said = _WORD.fullmatch(line)
            if said is None:
                raise Refused(errno.EINVAL, f"{line[:40]!r} is no answer, nothing was answered; {_WORDS}")
            delivery = self._meant(left, said[2])
            left.remove(delivery)
            found.append(_Answer(delivery, said[1] == b"ack"))
        return found

    def _meant(self, left: Sequence[Delivery], number: bytes | None) -> Delivery:
        """The message of that id, or the oldest: answers without an id come in the order of the messages,
        also from a reader whose buffer holds later ones.
        """
        if number is None:
            if left:
                return left[0]
            raise Refused(
                errno.EINVAL, "no message waits for an answer: read one first; nothing was answered"
            )
        for delivery in left:
            if _id_of(delivery) == int(number):
                return delivery
        reason = f"this reader has no message {int(number)} that waits for an answer, nothing was answered"
        raise Refused(errno.EINVAL, f"{reason}; only what was read here is answered, and once")

    async def _settle(self, delivery: Delivery, *, consumed: bool) -> None:
        self._unanswered.remove(delivery)
        if delivery.line is self._line:
            self.forget_line()
            self._at = self.position
        if consumed:
            await delivery.acknowledge()
        else:
            await delivery.give_back(failed=True)

    # -- the end ---------------------------------------------------------------------------------------------

    async def release(self) -> None:
        """The last close: unanswered messages are released, and that counts as an attempt."""
        await super().release()
        await self._give_back(failed=True)
        with self._node.context.noted(self._node.path):
            await self._consumer.close()

    async def end(self) -> None:
        """The mount is over, which is nobody's failure."""
        await self._give_back(failed=False)

    async def _give_back(self, *, failed: bool) -> None:
        self.forget_line()
        while self._unanswered:
            delivery = self._unanswered.pop()
            # One that could not be counted is told of, and the others go back all the same.
            with contextlib.suppress(FUSEError), self._node.context.noted(self._node.path):
                await delivery.give_back(failed=failed)


def _id_of(delivery: Delivery) -> object:
    line = delivery.line
    return _decode_id(bytes(line.read(0, line.size_bytes))).get("id")


class TakeFile(StreamFile):
    """A file of size 0, so that a program that copies by size takes nothing. Only the owner of the mount may
    read it, since reading takes messages away.
    """

    __slots__ = ()

    takes_answers = True

    async def before_opening(self) -> None:
        await self._directory.before_losing()

    def attributes(self) -> EntryAttributes:
        now_ns = self.context.now_ns()
        return self.context.present.own_file(self.inode, mtime_ns=now_ns, given=self.permissions())

    def open_stream(self, flags: int, given_back: Callable[[], None]) -> Stream:
        with self.context.noted(self.path):
            self.context.rights.require(leaves=[self.queue_path()])
            consumer = self.context.removing().consumer(self.queue_path(), self._directory.selectors() or ())
        if flags & os.O_ACCMODE == os.O_RDONLY:
            return Taking(self, flags, given_back, consumer)
        return Working(self, flags, given_back, consumer)
