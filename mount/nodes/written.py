"""Files that are written in an address or queue: their bytes become messages, and the name goes with the last
close.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio
from pyfuse3 import EntryAttributes, FUSEError, SetattrFields

from journalfs.api import Publisher, nothing_follows
from journalfs.errors import JournalfsError
from journalfs_mount.errnos import Refused, refuse
from journalfs_mount.front.hot_writes import HotFile, MadeFile
from journalfs_mount.limits import HOLE_BYTES_MAX, HOLE_STEP_BYTES
from journalfs_mount.names.being_written import NameKey, WrittenName
from journalfs_mount.nodes.base import Directory, MountContext, Node, OpenedFile, Unreadable
from journalfs_mount.nodes.inodes import node_key
from journalfs_mount.process.callers import Writer, is_open

ATTRIBUTES_S: Final = 1.0
"""The kernel counts what it writes itself, so it need not ask for the size before each append."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages are published."""

    address_name: str
    queue_name: str | None
    """None: routed to the queues of the address."""

    def publish(self, node: Node, name: bytes, flags: int) -> WritingFile:
        """Open `name` for writing; `node` is what the kernel knows it by."""
        store, key = node.context.changing(), (self.address_name, self.queue_name, name)
        patience = WritersPatience(node, flags)
        publisher = store.publisher(self.address_name, self.queue_name, os.fsdecode(name), patience)
        return WritingFile(node, key, publisher, flags, patience)

    def drop(self, node: Node, name: bytes, flags: int) -> WritingFile:
        """Open a name whose content means nothing to a store."""
        key = self.address_name, self.queue_name, name
        return WritingFile(node, key, Dropping(), flags, WritersPatience(node, flags))


class WritersPatience:
    """How a writer waits for room in a full address: not at all if its handle is non-blocking."""

    def __init__(self, node: Node, flags: int) -> None:
        self._node = node
        self._blocks = not flags & os.O_NONBLOCK
        self.opener = 0
        """The thread that opened the handle."""
        self.waiting = False

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        if not self._blocks:
            raise refuse(errno.EAGAIN)
        self.waiting = True
        try:
            context, writer = self._node.context, Writer(self.opener, self._node.inode)
            await context.interruptions.wait(until, writer)
        finally:
            self.waiting = False


class Dropping:
    """A publisher that publishes nothing."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.unfinished_bytes = 0
        self.is_whole = False
        self.lines_to = None

    async def write(self, data: bytes) -> None:
        self.size_bytes += len(data)

    def lines_published(self, size_bytes: int, lines: int) -> None:
        """None are."""

    def leaves_gap(self, data: bytes) -> bool:
        """Nothing has a meaning here."""
        del data
        return False

    async def flush(self, *, unfinished: bool = True, is_last: Callable[[], bool] = nothing_follows) -> bool:
        """Nothing was kept."""
        del unfinished, is_last
        return True

    async def finish(self) -> None:
        """Nothing was kept."""

    async def finish_flushed(self) -> None:
        """Nothing was kept."""

    async def forget(self) -> int:
        """Nothing was kept."""
        return 0

    def abandon(self) -> None:
        """Nothing was kept."""


@dataclass(slots=True)
class Refusal:
    """The error that refused a change of a file. Once set, nothing more of this file is published."""

    number: int
    """The errno."""
    final: bool
    """True for all errors but EAGAIN and EINTR, after which the same bytes can be written again. An event
    tells of the others.
    """
    stuck: bool
    """True if an unfinished message was there, or would have been with the refused bytes: later bytes would
    follow a gap.
    """
    unkept: bool = False
    """True if the store or its disk could not keep the unfinished rest. The next close may succeed, but its
    writer has got an error and writes the rest again, so it would come twice.
    """


NOT_EMPTIED: Final = "emptying it takes no message away; remove it to acknowledge what it holds"
_NOT_NOW: Final = frozenset((errno.EAGAIN, errno.EINTR))


class WritingFile(OpenedFile):
    """A handle whose bytes are published. The file's name exists as long as one of these is open."""

    __slots__ = (
        "_appends", "_context", "_could_end", "_flushed", "_hole_end", "_key", "_name", "_node", "_patience",
        "_publisher", "_refusal", "_synced_bytes", "_told", "_turn", "empties", "hot",
    )  # fmt: skip

    def __init__(
        self, node: Node, key: NameKey, publisher: Publisher, flags: int, patience: WritersPatience
    ) -> None:
        context = node.context
        super().__init__(node.inode, context.now_ns(), Unreadable(), direct_io=True, keep_cache=False)
        self._context: MountContext = context
        self._node = node
        self._key = key
        self._publisher = publisher
        self._patience = patience
        self._appends = bool(flags & os.O_APPEND)
        self._turn = trio.Lock()
        self._flushed = self._could_end = True
        self._hole_end = 0
        """Up to here there are zeros, which are taken before anything else is."""
        self._synced_bytes = 0
        """How much there was when somebody asked for it to be kept, and it was."""
        self._refusal: Refusal | None = None
        self._told = False
        """Whether a close was refused, which an event says."""
        self._name: WrittenName = context.written.opened(key, self)
        self.hot: HotFile | None = None
        """Where the front may publish its lines."""
        self.empties = False
        """Whether it was opened to be emptied, and there is something in it."""

    @property
    def size_bytes(self) -> int:
        """Bytes taken so far, and zeros behind them."""
        return max(self._publisher.size_bytes, self._hole_end)

    def opened_by(self, thread: int) -> None:
        self._patience.opener = thread

    async def write(self, offset: int, data: bytes) -> None:
        """Publish bytes, in the order of the calls. Bytes of other handles are not mixed in."""
        await self._take_turn()
        try:
            self._refuse_again()
            next_of_file = b""
            try:
                with self._context.noted(self._node.path, self._consequence):
                    if not self._appends and self._may_become(offset):
                        self._hole_end = offset
                    await self._fill_hole()
                    self._check_place(offset)
                    self._flushed, next_of_file = False, data
                    await self._publisher.write(data)
            except BaseException as error:
                self._was_refused(error, next_of_file)
                raise
            if self._refusal is not None and not self._refusal.final:
                self._refusal = None
        finally:
            self._turn.release()
            self.warm()

    async def flush(self) -> None:
        """Called for each closed descriptor, also of child processes, and before the first write. Another
        descriptor may still write: a shell closes the one it handed to a command.
        """
        await self._flush(lambda: not is_open(self.inode, near=self._patience.opener))

    async def _flush(self, is_last: Callable[[], bool]) -> None:
        if self._patience.waiting:
            # Of the write that waits for room nothing has been taken, and all before it is published.
            return
        await self._take_turn()
        try:
            refusal = self._refusal
            done = self._flushed and self._could_end
            if refusal is None and done:
                return
            if refusal is not None and refusal.unkept:
                raise refuse(refusal.number)
            if not done:
                if refusal is None:
                    with self._context.noted(self._node.path, self._consequence):
                        await self._fill_hole()
                self._flushed, self._told = False, True
                found = await self._make_durable(is_last, unfinished=refusal is None)
                self._could_end, self._flushed, self._told = found, refusal is None, False
            if refusal is not None and self._publisher.unfinished_bytes:
                self._refuse_end(refusal)
        finally:
            self._turn.release()
            self.warm()

    async def _make_durable(self, is_last: Callable[[], bool], *, unfinished: bool) -> bool:
        """Make the content durable. Returns True if the unfinished rest could end here."""
        ends = unkept = False

        def ends_here() -> bool:
            nonlocal ends
            ends = is_last()
            return ends

        try:
            with self._context.noted(self._node.path, lambda: self._consequence() if unkept else ""):
                try:
                    return await self._publisher.flush(unfinished=unfinished, is_last=ends_here)
                except JournalfsError:
                    # What must not end here is refused for what it is, and whoever has it open may go on.
                    unkept = not ends
                    raise
        except FUSEError as error:
            if unkept:
                self._refusal = Refusal(error.errno, final=True, stuck=True, unkept=True)
            raise

    async def sync(self) -> None:
        """Make the content durable, whatever follows."""
        await self._flush(lambda: False)
        self._synced_bytes = self.size_bytes

    def warm(self) -> None:
        """Nothing of it is under way: the front publishes what comes next, if that is whole lines."""
        if self.hot is None or self._turn.locked() or self._refusal is not None or self._name.removed:
            return
        place = self._publisher.lines_to
        if place is not None:
            self.hot.warm(place, self.size_bytes, appends=self._appends)

    def published(self, size_bytes: int, lines: int) -> None:
        """The front published lines that were written to it."""
        self._flushed = False
        self._publisher.lines_published(size_bytes, lines)

    def failed(self, error: Exception) -> None:
        """Note that the front failed to write lines. Their writer has got the error."""
        try:
            with self._context.noted(self._node.path, self._consequence):
                raise error
        except FUSEError as refusal:
            self._was_refused(refusal)

    def closed(self) -> None:
        """The front closed it: all that was written to it is published."""
        self._let_go()
        self._publisher.abandon()

    def _let_go(self) -> None:
        if self.hot is not None:
            self.hot.close()
            self.hot = None
        self._context.written.closed(self._key, self._name, self)

    async def release(self) -> None:
        self._let_go()
        with self._context.publications.begun(self._key[0]):
            await self._take_turn()
            try:
                await self._finish()
            finally:
                self._turn.release()

    async def forget(self) -> int | None:
        """Drop the content after the file's name was removed. Returns the dropped bytes; None if nothing
        would have been published.
        """
        self._cool()
        dropped_bytes = await self._publisher.forget()
        return None if isinstance(self._publisher, Dropping) else dropped_bytes

    def truncate(self, size_bytes: int) -> None:
        """Allow only the present size: published bytes cannot be taken back, and none are made up. A file
        that is one message may get zeros at its end, as copies of sparse files do.
        """
        if size_bytes == self.size_bytes:
            return
        self._cool()
        if self._refusal is None and self._may_become(size_bytes):
            self._hole_end, self._flushed = size_bytes, False
            return
        self._refuse_again()
        try:
            with self._context.noted(self._node.path, self._consequence):
                raise Refused(errno.EINVAL, wrong_size(self.size_bytes, size_bytes))
        except FUSEError as error:
            self._was_refused(error)
            raise

    def _may_become(self, size_bytes: int) -> bool:
        """Whether zeros may follow what was taken, up to that size."""
        return self._publisher.is_whole and 0 < size_bytes - self._publisher.size_bytes <= HOLE_BYTES_MAX

    async def _fill_hole(self) -> None:
        while (missing := self._hole_end - self._publisher.size_bytes) > 0:
            self._flushed = False
            await self._publisher.write(bytes(min(missing, HOLE_STEP_BYTES)))

    def _was_refused(self, error: BaseException, next_of_file: bytes = b"") -> None:
        if self._refusal is not None and self._refusal.final:
            return
        number = error.errno if isinstance(error, FUSEError) else errno.EIO
        final = isinstance(error, FUSEError) and number not in _NOT_NOW
        stuck = final and (self._publisher.unfinished_bytes > 0 or self._publisher.leaves_gap(next_of_file))
        self._refusal, self._flushed = Refusal(number, final, stuck), False

    def _refuse_again(self) -> None:
        """Raise the earlier error for each further write, without another event."""
        if self._refusal is not None and self._refusal.stuck:
            raise refuse(self._refusal.number)

    def _refuse_end(self, refusal: Refusal) -> None:
        """Raise an error at close for bytes that a write took and that are not published, with one event."""
        if refusal.final:
            raise refuse(refusal.number)
        refusal.number = errno.EIO if refusal.number == errno.EINTR else refusal.number
        refusal.final = refusal.stuck = True
        with self._context.noted(self._node.path, self._consequence):
            raise Refused(refusal.number, "a write was broken off and not repeated")

    def _consequence(self) -> str:
        unfinished = self._publisher.unfinished_bytes
        if unfinished and self._is_promised():
            return (
                f"; of the {unfinished} bytes before it, those are published that were synced, at its close"
            )
        return f"; the {unfinished} bytes before it are not published" if unfinished else ""

    async def _finish(self) -> None:
        # A file that nothing was written to is no empty message: `touch` publishes nothing.
        if self._name.removed or not self.size_bytes:
            self._publisher.abandon()
            if self.empties and not self._name.removed:
                with self._context.noted(self._node.path):
                    raise Refused(errno.EPERM, NOT_EMPTIED)
            return
        if self._refusal is not None and not self._is_promised():
            # Whoever closed a descriptor of it before, as every program does that is started meanwhile, did
            # not ask for what is incomplete to be kept.
            self._publisher.abandon()
            return
        if self._told:
            # That what was flushed before cannot be published either, and is kept, has an event of its own.
            with suppress(JournalfsError):
                await self._publisher.finish_flushed()
            return
        with self._context.noted(self._node.path):
            if self._flushed and self._hole_end <= self._publisher.size_bytes:
                await self._publisher.finish()
            else:
                # The mount ends while it is open, or its writer was told that something is missing from it.
                await self._publisher.finish_flushed()

    def _is_promised(self) -> bool:
        """Return True if a process asked for some of the unfinished rest to be durable."""
        return self.size_bytes - self._publisher.unfinished_bytes < self._synced_bytes

    def _check_place(self, offset: int) -> None:
        if not self._appends and offset != self._publisher.size_bytes:
            raise Refused(
                errno.EINVAL,
                f"written at {offset} after {self._publisher.size_bytes} bytes: a file is written "
                "from front to back; write to a name that begins with an underscore and rename it",
            )

    def _cool(self) -> None:
        if self.hot is not None:
            self.hot.cool()

    async def _take_turn(self) -> None:
        self._cool()
        # Without going through the scheduler where nobody else is at it, which is as good as always.
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()


def wrong_size(written_bytes: int, wanted_bytes: int) -> str:
    return (
        f"{written_bytes} bytes were written, so its size cannot become {wanted_bytes}; "
        "write to a name that begins with an underscore and rename it"
    )


class WrittenFile(Node):
    """A name that is being written, as one of those who looked it up or made it knows it.

    Each of them gets a number of its own: the kernel lets only one at a time write to a number, and writers
    that share a name shall share flushes too.
    """

    __slots__ = ("_key", "_latest", "_open")

    def __init__(
        self, context: MountContext, key: NameKey, open_it: Callable[[Node, int], WritingFile]
    ) -> None:
        super().__init__(context)
        self._key = key
        self._open = open_it
        self._latest: WritingFile | None = None

    def attributes(self) -> EntryAttributes:
        written = self._latest or self.context.written.find(self._key)
        size_bytes = 0 if written is None else written.size_bytes
        return self.shown(size_bytes, self.context.now_ns(), attributes_s=ATTRIBUTES_S)

    def open(self) -> OpenedFile:
        """Refuse to open for reading: the content is messages already, or not yet."""
        raise refuse(errno.EACCES)

    def open_to_write(self, flags: int) -> WritingFile:
        self._latest = self._open(self, flags)
        return self._latest

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        handle = opened if isinstance(opened, WritingFile) else self._latest
        if not fields.update_size:
            return
        if handle is not None:
            handle.truncate(wanted.st_size)
            return
        written = self.context.written.find(self._key)
        size_bytes = 0 if written is None else written.size_bytes
        if wanted.st_size != size_bytes:
            raise Refused(errno.EINVAL, wrong_size(size_bytes, wanted.st_size))

    async def remove(self) -> None:
        handles = self.context.written.remove(self._key)
        dropped = [found for handle in handles if (found := await handle.forget()) is not None]
        if dropped:
            self.context.changing().dropped(
                self.path(),
                f"removed while it was written: {sum(dropped)} bytes that were not published are dropped, "
                "and so is what is written to it from now on",
            )

    async def move(self, target: Directory, name: bytes) -> None:
        raise Refused(
            errno.EBUSY, "it is being written; a name that begins with an underscore can be renamed"
        )


def written_file(
    directory: Directory, destination: Destination, name: bytes, *, dropped: bool
) -> WrittenFile:
    """A new node for a name that is written in `directory`."""
    node = directory.enter(
        name, partial(_written, directory, destination, name, dropped), _version(directory)
    )
    assert isinstance(node, WrittenFile)
    return node


def made_file(directory: Directory, destination: Destination, made: MadeFile) -> WritingFile:
    """Return the handle of a file that the front created and opened."""
    node = _written(directory, destination, made.name, dropped=False)
    key = node_key(directory.inode, made.name, _version(directory))
    directory.context.nodes.adopt(node, made.inode, key, made.lookups)
    return node.open_to_write(made.flags)


def _written(directory: Directory, destination: Destination, name: bytes, dropped: bool) -> WrittenFile:
    key = destination.address_name, destination.queue_name, name
    open_it = destination.drop if dropped else destination.publish
    return WrittenFile(directory.context, key, lambda node, flags: open_it(node, name, flags))


def _version(directory: Directory) -> bytes:
    return b"written %d" % directory.context.written.next_serial()
