"""`.follow` and `.take`: files that are read while messages come, a whole line with each read.

Each opening has a position of its own, and an inode number of its own (`finders.py`), so that the descriptors
of one process can be told from those of others, and each has the size that fits what was read of it. A stream
that no process has open, or is about to open, always has the same number and keeps it when it is opened:
tools compare the file they opened with the one they had looked at.
"""

from __future__ import annotations

import errno
import math
import os
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Protocol

import trio
from pyfuse3 import EntryAttributes

from journalfs.api import Bytes, ByteSource, Consumer, Delivery, Follower
from journalfs_mount.errnos import Refused, refuse
from journalfs_mount.limits import FOLLOWED_MORE_BYTES, FOLLOWED_SIZE_BYTES
from journalfs_mount.nodes.base import MountContext, Node, OpenedFile, Selection, Unreadable, read_ahead
from journalfs_mount.nodes.inodes import parent_and_name
from journalfs_mount.nodes.view import ViewDirectory
from journalfs_mount.process.callers import Writer, lineage
from journalfs_mount.process.endings import Ending
from journalfs_mount.process.reader import Reader, Seen

EMPTY = Unreadable()


class Polled(Protocol):
    """The kernel's side of somebody who polls."""

    def notify(self) -> None: ...


class Stream(OpenedFile):
    """An open stream: the line that is being read, and where in the stream it stands."""

    __slots__ = (
        "_given_back", "_holder", "_line", "_node", "_start", "_turn", "_waits_not", "opener", "polled",
        "reader",
    )  # fmt: skip

    def __init__(self, node: StreamFile, flags: int, given_back: Callable[[], None]) -> None:
        """`given_back` is called when its user has one less."""
        super().__init__(node.inode, node.context.now_ns(), EMPTY, direct_io=True, keep_cache=False)
        self._node = node
        self._line: ByteSource = EMPTY
        self._start = 0
        self._turn = trio.Lock()
        self._waits_not = bool(flags & os.O_NONBLOCK)
        self.opener = 0
        """The thread that opened it."""
        self.reader: Reader | None = None
        self._holder = Writer(0, node.inode)
        self.polled: Polled | None = None
        self._given_back = given_back
        node.openings.append(self)

    def opened_by(self, thread: int) -> None:
        self.opener = thread
        self.reader = Reader.of(thread, self._node.inode)
        self._holder = Writer(thread, self._node.inode)

    def is_of(self, task: int) -> bool:
        """Whether a thread, or a process, opened it."""
        return task == self.opener or (self.reader is not None and task == self.reader.pid)

    writable: ClassVar[int] = 0
    """True if `poll` reports POLLOUT."""

    @property
    def position(self) -> int:
        """How much of the stream was handed out, counted from its opening."""
        return self._start + self._line.size_bytes

    async def read(self, offset: int, length: int) -> Bytes:
        """From the line that is there, or, at its end, the next one: never more than one line."""
        if self._within(offset):
            await read_ahead(self._line, offset - self._start, length)
            return self._line.read(offset - self._start, length)
        read: Bytes = b""

        async def read_on() -> None:
            nonlocal read
            read = await self._read_on(offset, length)

        await self._node.context.interruptions.wait(read_on, self._holder)
        return read

    def _within(self, offset: int) -> bool:
        return self._start <= offset < self.position

    async def _read_on(self, offset: int, length: int) -> Bytes:
        async with self._turn:
            if not self._within(offset):
                self._check_place(offset)
                await self._came_back()
                await self.find()
                # Known before a message is taken: what is taken and not in the stream would count as read.
                begins = self.position
                line = self._take()
                if line is None and (self._ended() or self._may_be_empty(offset, length)):
                    return b""
                if line is None:
                    line = await self._wait()
                if line is None:
                    return b""
                self._start, self._line = begins, line
            return self._line.read(offset - self._start, length)

    async def _wait(self) -> ByteSource | None:
        if self._waits_not or (self.reader is not None and self.reader.waits_not()):
            raise refuse(errno.EAGAIN)
        return await self._next()

    def _check_place(self, offset: int) -> None:
        if offset != self.position:
            raise refuse(errno.EINVAL)

    def _may_be_empty(self, offset: int, length: int) -> bool:
        """Whether this is somebody who looks for the end of what is there before waiting for more."""
        return False

    async def _came_back(self) -> None:
        """The reader is done with the line before."""

    @abstractmethod
    def _ended(self) -> bool:
        """True when nothing will come any more."""

    @abstractmethod
    def is_found(self) -> bool:
        """Whether `ready` needs no time."""

    @abstractmethod
    async def find(self) -> None:
        """See to that, while others are served."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether a read would not wait."""

    def due_s(self) -> float:
        """Seconds until it may be ready without anything having changed."""
        return math.inf

    @abstractmethod
    def _take(self) -> ByteSource | None: ...

    @abstractmethod
    async def _next(self) -> ByteSource | None: ...

    def forget_line(self) -> None:
        """Forget the current line; its bytes stay counted in the position."""
        self._start, self._line = self.position, EMPTY

    async def release(self) -> None:
        self._node.openings.remove(self)
        self._given_back()


class Following(Stream):
    """A reader of `.follow`."""

    __slots__ = ("_asked", "_back_from", "_follower", "_told")

    def __init__(
        self, node: StreamFile, flags: int, given_back: Callable[[], None], follower: Follower
    ) -> None:
        super().__init__(node, flags, given_back)
        self._follower = follower
        self._asked = False
        """True once a process that has it open asked for its size."""
        self._told = 0
        """How often somebody was told that there is something to read, before anything was."""
        self._back_from = 0
        """Where `tail -f` looked first that was told so."""

    def size_bytes(self) -> int:
        """The size told to the kernel. Until a line is read it grows with each question, since a reader that
        seeks to the told end waits for more behind it. At the first question it is 0: a program that copies
        within the mount asks once and lets the kernel copy, which would take a short line for the end of the
        file. A program that sees no size reads by itself.
        """
        if not self._asked:
            self._asked = True
            return 0
        ready = self.ready()
        if self.position:
            return self.position + FOLLOWED_SIZE_BYTES + (FOLLOWED_MORE_BYTES if ready else 0)
        self._told += ready
        return FOLLOWED_SIZE_BYTES + self._told * FOLLOWED_MORE_BYTES

    async def read(self, offset: int, length: int) -> Bytes:
        return b"" if self._looks_back(offset, length) else await super().read(offset, length)

    def _looks_back(self, offset: int, length: int) -> bool:
        """True for `tail -f`, which was told a size before it looked: it searches backwards from the end for
        the last lines, finds none, and reads on from where it is.
        """
        back_from, self._back_from = self._back_from, 0
        if self.position:
            return False
        if length == FOLLOWED_SIZE_BYTES and offset and offset % FOLLOWED_MORE_BYTES == 0:
            self._back_from = offset
            return True
        if back_from and offset + length == back_from:
            self._start = offset
            return True
        return False

    def is_found(self) -> bool:
        return self._follower.is_found()

    async def find(self) -> None:
        await self._follower.find()

    def ready(self) -> bool:
        return self._follower.ready() or self._follower.ended

    def _ended(self) -> bool:
        return self._follower.ended

    def _take(self) -> ByteSource | None:
        return self._follower.take()

    async def _next(self) -> ByteSource | None:
        return await self._follower.next()

    def _check_place(self, offset: int) -> None:
        behind = offset - self.position
        if behind > 0 and behind % FOLLOWED_MORE_BYTES == FOLLOWED_SIZE_BYTES:
            # Who went to the end that it was told of goes on from there.
            self._start, self._line = offset, EMPTY
        super()._check_place(offset)

    def _may_be_empty(self, offset: int, length: int) -> bool:
        if offset or length != FOLLOWED_SIZE_BYTES:
            return False
        return not (self._waits_not or (self.reader is not None and self.reader.waits_not()))

    async def release(self) -> None:
        await super().release()
        self._line.close()


class Consuming(Stream):
    """A reader whose lines are deliveries of a consumer."""

    __slots__ = ("_consumer",)

    def __init__(
        self, node: StreamFile, flags: int, given_back: Callable[[], None], consumer: Consumer
    ) -> None:
        super().__init__(node, flags, given_back)
        self._consumer = consumer

    def is_found(self) -> bool:
        return self._consumer.is_found()

    async def find(self) -> None:
        await self._consumer.find()

    def ready(self) -> bool:
        return self._consumer.ready() or self._consumer.ended

    def due_s(self) -> float:
        return self._consumer.due_s()

    def _ended(self) -> bool:
        return self._consumer.ended

    def _take(self) -> ByteSource | None:
        return self._line_of(self._consumer.take())

    async def _next(self) -> ByteSource | None:
        return self._line_of(await self._consumer.next())

    @abstractmethod
    def _line_of(self, delivery: Delivery | None) -> ByteSource | None:
        """Keep a delivery that begins, and return its line; None: there is none."""


class Taking(Consuming):
    """A reader of `.take`, and the message that it has."""

    __slots__ = ("_delivery", "_read_to")

    def __init__(
        self, node: StreamFile, flags: int, given_back: Callable[[], None], consumer: Consumer
    ) -> None:
        super().__init__(node, flags, given_back, consumer)
        self._delivery: Delivery | None = None
        self._read_to = 0
        """The end of what was read, counted from the opening."""

    async def read(self, offset: int, length: int) -> Bytes:
        content = await super().read(offset, length)
        self._read_to = max(self._read_to, offset + len(content))
        return content

    def _was_read(self) -> bool:
        """Whether its reader has all of the message, if maybe not the line feed behind it."""
        return self._read_to >= self.position - 1

    def _line_of(self, delivery: Delivery | None) -> ByteSource | None:
        self._delivery = delivery
        return None if delivery is None else delivery.line

    async def _came_back(self) -> None:
        """Acknowledge the message before: a reader that reads on is done with it, also if it got it by
        another opening of the stream.
        """
        if self.reader is not None:
            await self._node.context.endings.came_back(self.reader, self._node.queue_path())
        if self._delivery is not None:
            await self._decide(well=True)

    async def flush(self) -> None:
        """Note that a descriptor is closed. Only the process that opened the stream decides over its message,
        by how it ends; closes of others, mostly its children, decide nothing.
        """
        if self.reader is None or self._delivery is None:
            return
        match self.reader.seen(beside=self._beside(self.reader)):
            case Seen.HAS_IT:
                return
            case Seen.ENDED_WELL | Seen.CLOSED if not self._was_read():
                await self._put_back()
            case Seen.ENDED_WELL:
                await self._decide(well=True)
            case Seen.FAILED:
                await self._decide(well=False)
            case Seen.CLOSED:
                await self._closed_by_reader(self.reader, self._delivery)
            case Seen.GONE:
                pass
        self.reader = None

    def _beside(self, reader: Reader) -> int:
        """How many other openings the process has under the same number: `/dev/stdin` opens again what is
        open.
        """
        readers = (one.reader for one in self._node.openings if one is not self)
        return sum(one is not None and one.process == reader.process for one in readers)

    async def _closed_by_reader(self, reader: Reader, delivery: Delivery) -> None:
        self.forget_line()
        self._delivery = None
        node = self._node
        ending = Ending(reader, delivery, node.queue_path(), node.context.changing(), node.path())
        node.context.endings.begin(ending)

    async def release(self) -> None:
        """The last close. Of whom nothing could be told, the message is given back."""
        await super().release()
        if self._delivery is not None:
            await self._decide(well=False)
        with self._node.context.noted(self._node.path):
            await self._consumer.close()

    async def end(self) -> None:
        """The mount is over, which is nobody's failure."""
        if self._delivery is not None:
            await self._put_back()

    async def _put_back(self) -> None:
        """Release the message without counting an attempt: its reader ended before it was done, without a
        failure.
        """
        delivery, self._delivery = self._delivery, None
        assert delivery is not None
        self.forget_line()
        await delivery.give_back(failed=False)

    async def _decide(self, *, well: bool) -> None:
        delivery, self._delivery = self._delivery, None
        assert delivery is not None
        self.forget_line()
        with self._node.context.noted(self._node.path):
            if well:
                await delivery.acknowledge()
            else:
                await delivery.give_back(failed=True)


class StreamFile(Node):
    """A stream that can be opened, or is."""

    __slots__ = ("_directory", "finders", "openings")

    def __init__(self, context: MountContext, directory: ViewDirectory) -> None:
        super().__init__(context)
        self._directory = directory
        self.openings: list[Stream] = []
        self.finders: set[int] = set()
        """Threads that found it by name, and neither opened it nor asked anything since."""

    def another(self, which: bytes) -> StreamFile:
        """Return the node of the same stream under another number."""
        _, name = parent_and_name(self.key)
        node = self._directory.enter(name, partial(type(self), self.context, self._directory), which)
        assert isinstance(node, StreamFile), "it was made as one"
        return node

    @property
    def selection(self) -> Selection | None:
        return self._directory.selection

    def concerns(self, address_name: str) -> bool:
        return self._directory.concerns(address_name)

    def queue_path(self) -> tuple[str, str]:
        return self._directory.queue_path()

    async def set_extended(self, name: str, value: bytes) -> None:
        reason = "readers have no settings and no priorities: each asks for its next message"
        raise Refused(errno.EPERM, reason)

    def told(self, thread: int) -> EntryAttributes:
        """Attributes for who has it open, of what it is about to read."""
        return self.attributes()

    takes_answers: ClassVar[bool] = False
    """True where it can be opened for reading and writing, too."""

    async def before_opening(self) -> None:
        """Raise where it must not be opened."""

    @abstractmethod
    def open_stream(self, flags: int, given_back: Callable[[], None]) -> Stream:
        """Open it for reading, or to read and answer."""


class FollowFile(StreamFile):
    __slots__ = ()

    def attributes(self) -> EntryAttributes:
        """Of a size that suits who is about to open it: an answer that comes late to one does not mislead
        another that has opened it.
        """
        return self._attributes(0)

    def told(self, thread: int) -> EntryAttributes:
        opened = self._asked_about(thread)
        return self._attributes(0 if opened is None else opened.size_bytes())

    def _asked_about(self, thread: int) -> Following | None:
        """Return the opening that a question means, among those that share the number (as by `/dev/stdin`):
        the thread's own, one of its process, or one inherited from a parent process.
        """
        openings = [opened for opened in reversed(self.openings) if isinstance(opened, Following)]
        if len(openings) > 1:
            for task in lineage(thread):
                for opened in openings:
                    if opened.is_of(task):
                        return opened
        return openings[0] if openings else None

    def _attributes(self, size_bytes: int) -> EntryAttributes:
        return self.shown(size_bytes, self.context.now_ns())

    def open_stream(self, flags: int, given_back: Callable[[], None]) -> Stream:
        with self.context.noted(self.path):
            self.context.rights.require(looked_at=[self.queue_path()])
        return Following(self, flags, given_back, self._directory.view().follow())
