"""`journalfs.open` for callers that await, on trio and on asyncio."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from journalfs.api import QueuePath
from journalfs.errors import NoMessage, WrongCall
from journalfs.python.backend import Backend, Batch, Messages, Place, Taken, Transaction
from journalfs.python.links import Awaiting
from journalfs.python.message import Message
from journalfs.python.names import check_selector, moment_text, named, queue_of, range_name
from journalfs.python.outgoing import Body, Duration, Envelope, duration_s, envelope_line

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.python.opening import Opening

T = TypeVar("T")


class AsyncStore:
    """A store, opened by `async with journalfs.open(...)`: as `Store`, with methods that are awaited.

    Under trio the store works in the caller's loop; under asyncio in a thread. A call that is cancelled has
    done nothing, or all.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._opened: tuple[Backend, Awaiting] | None = None
        self._close: Callable[[BaseException | None], Awaitable[None]] | None = None
        self.transacting: Final[ContextVar[Transaction | None]] = ContextVar("transacting", default=None)
        """The transaction that the calling task is in, and those that it began within."""

    async def enter(self) -> AsyncStore:
        backend, link, self._close = await self._opening.awaiting()
        self._opened = backend, link
        return self

    async def leave(self, error: BaseException | None) -> None:
        self._opened = None
        if self._close is not None:
            await self._close(error)

    async def run(self, work: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
        """Have the store do something (for this package)."""
        if self._opened is None:
            raise WrongCall(f"{self._opening.path}: the store is closed; journalfs.open opens it")
        backend, link = self._opened
        return await link.run(lambda: work(backend))

    async def waited(
        self, wait: Callable[[float | None], Awaitable[T | None]], seconds: float | None
    ) -> T | None:
        """What `wait` gives within so many seconds, in slices if it cannot be cancelled (for this package).
        None sooner than asked for says that nothing will come.
        """
        slice_s = None if self._opened is None else self._opened[1].slice_s
        if slice_s is None:
            return await wait(seconds)
        import anyio  # noqa: PLC0415 - an optional library

        end = math.inf if seconds is None else anyio.current_time() + seconds
        while True:
            began = anyio.current_time()
            step_s = min(slice_s, max(0.0, end - began))
            found = await wait(step_s)
            ended = anyio.current_time()
            if found is not None or ended >= end or ended - began < step_s / 2:
                return found
            await anyio.sleep(0)  # where it is cancelled

    def __repr__(self) -> str:
        is_open = "for writing" if self._opening.write else "for reading"
        state = "closed" if self._opened is None else is_open
        return f"<journalfs.AsyncStore {str(self._opening.path)!r}, {state}>"

    # -- what is in it ---------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> AsyncQueue:
        """The queue `"address::queue"`, or an address."""
        return AsyncQueue(self, named(name))

    async def queues(self) -> Sequence[AsyncQueue]:
        return [AsyncQueue(self, place) for place in await self.run(lambda backend: backend.queues())]

    async def addresses(self) -> Sequence[str]:
        return await self.run(lambda backend: backend.addresses())

    async def status(self) -> Mapping[str, Any]:
        return await self.run(lambda backend: backend.status(None))

    async def check(self) -> Account:
        """The account of the store: what it has, has not, and why."""
        return await self.run(lambda backend: backend.account())

    # -- changing it -----------------------------------------------------------------------------------------

    async def create(self, name: str) -> AsyncQueue:
        """Make an address, or a queue with its address, unless it is there."""
        place = named(name)
        await self.run(lambda backend: backend.create(place))
        return AsyncQueue(self, place)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All that this task publishes and takes in the block happens at its end, at once and durably, or,
        after an exception, not at all.
        """
        import anyio  # noqa: PLC0415 - an optional library

        if self.transacting.get() is not None:
            raise WrongCall("this task is in a transaction already; one ends before the next begins")
        transaction = await self.run(lambda backend: backend.begin())
        token = self.transacting.set(transaction)
        try:
            yield
            await self.run(lambda _: transaction.commit())
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.run(lambda _: transaction.roll_back())
            raise
        finally:
            self.transacting.reset(token)

    async def undo(self, since: str | datetime | None = None) -> Mapping[str, int]:
        """Bring back what the last call removed, or all that was removed since a time."""
        text = None if since is None else moment_text(since)
        return await self.run(lambda backend: backend.undo(text))

    # -- moments ---------------------------------------------------------------------------------------------

    async def snapshot(self, name: str) -> AsyncStore:
        """Keep the whole store as it is now under a name, and return that."""
        await self.run(lambda backend: backend.snapshot(name))
        return await self.at_snapshot(name)

    async def snapshots(self) -> Sequence[str]:
        return await self.run(lambda backend: backend.snapshots())

    async def drop_snapshot(self, name: str) -> None:
        await self.run(lambda backend: backend.drop_snapshot(name))

    async def at_snapshot(self, name: str) -> AsyncStore:
        return self._within(await self.run(lambda backend: backend.of_snapshot(name)))

    async def history(
        self, since: str | datetime | None = None, until: str | datetime | None = None
    ) -> AsyncStore:
        """What was sent between two times, as far as the store retains it."""
        name = range_name(since, until)
        return self._within(await self.run(lambda backend: backend.of_history(name)))

    def _within(self, backend: Backend) -> AsyncStore:
        assert self._opened is not None, "it answered just now"
        found = AsyncStore(self._opening)
        found._opened = backend, self._opened[1]
        return found


class AsyncQueue:
    """A queue of a store, or an address with all of its queues; or what a selector leaves (`where`)."""

    def __init__(self, store: AsyncStore, place: Place, selector: str | None = None) -> None:
        self._store = store
        self._place = place
        self._selector = selector

    @property
    def name(self) -> str:
        """`address::queue`, or the address."""
        return "::".join(filter(None, self._place))

    def __repr__(self) -> str:
        chosen = "" if self._selector is None else f" where {self._selector}"
        return f"<journalfs.AsyncQueue {self.name!r}{chosen}>"

    async def _queues(self, *, many: bool = True) -> Sequence[QueuePath]:
        address, queue = self._place
        if queue is not None:
            return [(address, queue)]
        return await self._store.run(lambda backend: queue_of(backend, self._place, many=many))

    async def _one(self) -> QueuePath:
        return (await self._queues(many=False))[0]

    # -- reading ---------------------------------------------------------------------------------------------

    def where(self, selector: str) -> AsyncQueue:
        """The messages that a JMS selector accepts."""
        if self._selector is not None:
            selector = f"({self._selector}) AND ({selector})"
        check_selector(selector)
        return AsyncQueue(self._store, self._place, selector)

    async def __aiter__(self) -> AsyncIterator[Message]:
        for queue in await self._queues():
            opened = await self._messages(queue)
            try:
                while (some := await self._some(opened)) is not None:
                    try:
                        for message in some.messages:
                            yield message
                    finally:
                        some.end()
            finally:
                opened.close()

    async def _messages(self, queue: QueuePath) -> Messages:
        return await self._store.run(lambda backend: backend.messages(queue, self._selector))

    async def _some(self, opened: Messages) -> Batch | None:
        return await self._store.run(lambda _: opened.more())

    async def count(self) -> int:
        return sum([await self._count(queue) for queue in await self._queues()])

    async def _count(self, queue: QueuePath) -> int:
        return await self._store.run(lambda backend: backend.count(queue, self._selector))

    async def status(self) -> Mapping[str, Any]:
        return await self._store.run(lambda backend: backend.status(self._place))

    async def follow(self, timeout: Duration | None = None) -> AsyncIterator[Message]:
        """The messages that come from the first `anext` on; nothing is taken. Ends after `timeout` without
        one, or once the queue is gone.
        """
        seconds = None if timeout is None else duration_s("timeout", timeout)
        at, run = await self._one(), self._store.run
        arrivals = await run(lambda backend: backend.arrivals(at, self._selector))

        async def arrival(left_s: float | None) -> bytes | None:
            return await run(lambda _: arrivals.next(left_s))

        try:
            while (line := await self._store.waited(arrival, seconds)) is not None:
                yield Message(line)
        finally:
            arrivals.close()

    # -- changing --------------------------------------------------------------------------------------------

    async def publish(self, body: Body = None, **headers: Unpack[Envelope]) -> None:
        """Publish a message; it is durable when this returns. See `Queue.publish`."""
        await self.publish_lines(envelope_line(body, **headers))

    async def publish_lines(self, lines: bytes) -> None:
        """Publish envelope lines, each ended by a newline."""
        transaction = self._store.transacting.get()
        if transaction is None:
            await self._store.run(lambda backend: backend.publish(self._place, lines))
        else:
            await self._store.run(lambda _: transaction.publish(self._place, lines))

    @contextlib.asynccontextmanager
    async def take(self, timeout: Duration | None = None) -> AsyncIterator[Message]:
        """Take the next message, as `Queue.take` does: it is acknowledged at the end of the block, and given
        back after an exception, or when the block is cancelled.
        """
        import anyio  # noqa: PLC0415 - an optional library

        taken = await self._taken(None if timeout is None else duration_s("timeout", timeout))
        try:
            yield Message(taken.line)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._store.run(lambda _: taken.give_back())
            raise
        with anyio.CancelScope(shield=True):
            await self._store.run(lambda _: taken.acknowledge())

    async def _taken(self, seconds: float | None) -> Taken:
        transaction, at = self._store.transacting.get(), await self._one()

        async def take(left_s: float | None) -> Taken | None:
            if transaction is None:
                return await self._store.run(lambda backend: backend.take(at, self._selector, left_s))
            return await self._store.run(lambda _: transaction.take(at, self._selector, left_s))

        taken = await self._store.waited(take, seconds)
        if taken is None:
            raise NoMessage(
                f"{self.name}: no message came within {seconds or 0:g} s; timeout=None waits for ever"
            )
        return taken

    async def remove(self) -> int:
        """Acknowledge all messages, or those that the selector accepts; how many."""
        self._refuse_transaction("remove")
        return sum([await self._remove(queue) for queue in await self._queues()])

    async def _remove(self, queue: QueuePath) -> int:
        return await self._store.run(lambda backend: backend.remove(queue, self._selector))

    async def move(self, target: str | AsyncQueue) -> int:
        """Move all messages, or those that the selector accepts, to another queue; how many."""
        self._refuse_transaction("move")
        at = named(target) if isinstance(target, str) else target._place
        goal = (await self._store.run(lambda backend: queue_of(backend, at, many=False)))[0]
        source = await self._one()
        return await self._store.run(lambda backend: backend.move(source, self._selector, goal))

    def _refuse_transaction(self, what: str) -> None:
        if self._store.transacting.get() is not None:
            raise WrongCall(f"{what} is no part of a transaction, which publishes and takes")
