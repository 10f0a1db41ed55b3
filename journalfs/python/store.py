"""`journalfs.open` for callers that block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, Unpack

from journalfs.api import QueuePath
from journalfs.errors import NoMessage, WrongCall
from journalfs.python.backend import Backend, Batch, Lines, Messages, Place, Taken, Transaction
from journalfs.python.links import Blocking
from journalfs.python.message import Message
from journalfs.python.names import check_selector, moment_text, named, queue_of, range_name
from journalfs.python.opening import Opening
from journalfs.python.outgoing import Body, Duration, Envelope, duration_s, envelope_line, replaced_line

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.python.arrow import Table
    from journalfs.python.asynchronous import AsyncStore
    from journalfs.python.disk import DiskUse
    from journalfs.python.glimpses import Glimpse, Glimpsing
    from journalfs.python.letters import SentBack
    from journalfs.store.queue_counts import QueueCounts
    from journalfs.store.store import JournalStore

T = TypeVar("T")


class Store:
    """A store, opened by `journalfs.open`. Use it in a `with` block, or `close` it.

    It is opened when the block begins, or at the first use. Its methods may be called by several threads.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._opened: tuple[Backend, Blocking, Callable[[], None]] | None = None
        self._closed = False
        self._moment: Backend | None = None
        """What of another store this is: a snapshot, or a range of its history."""
        self.transacting: Final[ContextVar[Transaction | None]] = ContextVar("transacting", default=None)
        """The transaction that the calling thread, or task, is in."""

    # -- opening and closing ---------------------------------------------------------------------------------

    def __enter__(self) -> Store:
        self._backend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncStore:
        from journalfs.python.asynchronous import AsyncStore  # noqa: PLC0415 - for who awaits

        self._awaited = AsyncStore(self._opening)
        return await self._awaited.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._awaited.leave(error)

    def _backend(self) -> tuple[Backend, Blocking, Callable[[], None]]:
        if self._closed:
            raise WrongCall(f"{self._opening.path}: this store is closed; journalfs.open opens it again")
        if self._opened is None:
            self._opened = self._opening.blocking()
        return self._opened

    def close(self) -> None:
        """Let go of the store: of its files, and of its locks if it was open for writing."""
        self._closed = True
        if self._opened is not None:
            (_, _, close), self._opened = self._opened, None
            close()

    def readable(self) -> tuple[JournalStore, Callable[[], None]]:
        """The store for a reader of its own, in any thread, and what closes it (for this package)."""
        if self._moment is None:
            self._backend()
            return self._opening.read()
        found = self._moment.moment()
        return found, lambda: None

    def run(self, work: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
        """Have the store do something (for this package)."""
        backend, link, _ = self._backend()
        return link.run(lambda: work(backend))

    def __repr__(self) -> str:
        how = "for writing" if self._opening.write else "for reading"
        state = (
            "closed" if self._closed else f"through {self._opening.through}" if self._opening.through else how
        )
        return f"<journalfs.Store {str(self._opening.path)!r}, {state}>"

    # -- what is in it ---------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Queue:
        """The queue `"address::queue"`, or an address: its messages are those of its queues, and what is
        published to it is routed to them.
        """
        return Queue(self, named(name))

    def __iter__(self) -> Iterator[Queue]:
        """All queues."""
        return iter(self.queues())

    def __contains__(self, name: str) -> bool:
        place = named(name)
        if place[1] is None:
            return place[0] in self.run(lambda backend: backend.addresses())
        return place in self.run(lambda backend: backend.queues())

    def queues(self) -> Sequence[Queue]:
        return [Queue(self, place) for place in self.run(lambda backend: backend.queues())]

    def addresses(self) -> Sequence[str]:
        return self.run(lambda backend: backend.addresses())

    def status(self) -> Mapping[str, Any]:
        """What `journalfs status` shows."""
        return self.run(lambda backend: backend.status(None))

    def check(self) -> Account:
        """The account of the store: what it has, has not, and why."""
        return self.run(lambda backend: backend.account())

    def overview(self) -> Sequence[QueueCounts]:
        """What each queue holds, asked of all queues at once: for programs that watch very many."""
        return self.run(lambda backend: backend.overview())

    def events(self) -> Sequence[Mapping[str, Any]]:
        """What was refused or went wrong since the store was opened, or mounted: the oldest first
        (docs/reference/events.md).
        """
        return self.run(lambda backend: backend.events())

    def disk(self) -> DiskUse:
        """How full the disk is, and which parts of the store fill it."""
        return self.run(lambda backend: backend.disk())

    def arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> Table:
        """The messages of all queues as columns, for whatever takes an Arrow stream; see `Queue.arrow`."""
        from journalfs.python.arrow import Table  # noqa: PLC0415 - few ask

        return Table(self.readable, None, columns, where)

    # -- changing it -----------------------------------------------------------------------------------------

    def create(self, name: str) -> Queue:
        """Make an address, or a queue with its address, unless it is there."""
        place = named(name)
        self.run(lambda backend: backend.create(place))
        return Queue(self, place)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that this thread publishes and takes in the block happens at its end, at once and durably, or,
        after an exception, not at all.
        """
        if self.transacting.get() is not None:
            raise WrongCall("this thread is in a transaction already; one ends before the next begins")
        transaction = self.run(lambda backend: backend.begin())
        token = self.transacting.set(transaction)
        try:
            yield
        except BaseException:
            self.run(lambda _: transaction.roll_back())
            raise
        else:
            self._commit(transaction)
        finally:
            self.transacting.reset(token)

    def _commit(self, transaction: Transaction) -> None:
        try:
            self.run(lambda _: transaction.commit())
        except BaseException:
            self.run(lambda _: transaction.roll_back())
            raise

    def undo(self, since: str | datetime | None = None, *, dry_run: bool = False) -> Mapping[str, int]:
        """Bring back what the last call removed, or all that was removed since a time ("10m" ago, "14:30");
        how many messages came back to each queue. `dry_run`: would come back.
        """
        text = None if since is None else moment_text(since)
        return self.run(lambda backend: backend.undo(text, plans=dry_run))

    # -- moments ---------------------------------------------------------------------------------------------

    def snapshot(self, name: str) -> Store:
        """Keep the whole store as it is now under a name, and return that, opened for reading."""
        self.run(lambda backend: backend.snapshot(name))
        return self.at_snapshot(name)

    def snapshots(self) -> Sequence[str]:
        return self.run(lambda backend: backend.snapshots())

    def drop_snapshot(self, name: str) -> None:
        self.run(lambda backend: backend.drop_snapshot(name))

    def at_snapshot(self, name: str) -> Store:
        """What a snapshot holds; usable as long as this store is open."""
        return self._within(self.run(lambda backend: backend.of_snapshot(name)))

    def history(self, since: str | datetime | None = None, until: str | datetime | None = None) -> Store:
        """What was sent between two times, consumed or not, as far as the store retains it; usable as long as
        this store is open. Times are datetimes, or as in a shell: "-2h", "2026-01-31T14:30", "yesterday".
        """
        name = range_name(since, until)
        return self._within(self.run(lambda backend: backend.of_history(name)))

    def _within(self, backend: Backend) -> Store:
        found = Store(self._opening)
        _, link, _ = self._backend()
        found._opened, found._moment = (backend, link, lambda: None), backend
        return found


class Queue:
    """A queue of a store, or an address with all of its queues; and what a selector leaves of one (`where`).

    Iterating gives its messages in the order of their arrival, a few at a time, as they were when it began.
    """

    def __init__(
        self, store: Store, place: Place, selector: str | None = None, ids: Sequence[int] | None = None
    ) -> None:
        self._store = store
        self._place = place
        self._selector = selector
        self._ids = ids
        """The messages that it is of alone, for changes; None: all, or those that the selector accepts."""

    @property
    def name(self) -> str:
        """`address::queue`, or the address."""
        return "::".join(filter(None, self._place))

    def __repr__(self) -> str:
        chosen = "" if self._selector is None else f" where {self._selector}"
        return f"<journalfs.Queue {self.name!r}{chosen}>"

    def _queues(self) -> Sequence[QueuePath]:
        address, queue = self._place
        if queue is not None:
            return [(address, queue)]
        return self._store.run(lambda backend: queue_of(backend, self._place, many=True))

    def _one(self) -> QueuePath:
        return self._store.run(lambda backend: queue_of(backend, self._place, many=False))[0]

    def queues(self) -> Sequence[Queue]:
        """The queue, or those of the address. Raises `NoSuchName`."""
        found = self._store.run(lambda backend: queue_of(backend, self._place, many=True))
        return [Queue(self._store, one, self._selector) for one in found]

    # -- reading ---------------------------------------------------------------------------------------------

    def where(self, selector: str) -> Queue:
        """The messages that a JMS selector accepts, as in `"priority > 4 AND region = 'EU'"`."""
        if self._selector is not None:
            selector = f"({self._selector}) AND ({selector})"
        check_selector(selector)
        return Queue(self._store, self._place, selector)

    def __iter__(self) -> Iterator[Message]:
        for queue in self._queues():
            opened = self._messages(queue)
            try:
                while (some := self._some(opened)) is not None:
                    try:
                        yield from some.messages
                    finally:
                        some.end()
            finally:
                opened.close()

    def lines(self) -> Iterator[bytes]:
        """Their envelope lines, without newlines."""
        for lines in self._batches():
            yield from lines

    def _batches(self) -> Iterator[Sequence[bytes]]:
        for queue in self._queues():
            opened = self._opened(queue)
            try:
                while some := self._more(opened):
                    yield some
            finally:
                opened.close()

    def _opened(self, queue: QueuePath) -> Lines:
        return self._store.run(lambda backend: backend.lines(queue, self._selector))

    def _messages(self, queue: QueuePath) -> Messages:
        return self._store.run(lambda backend: backend.messages(queue, self._selector))

    def _some(self, opened: Messages) -> Batch | None:
        return self._store.run(lambda _: opened.more())

    def _more(self, opened: Lines) -> Sequence[bytes]:
        return self._store.run(lambda _: opened.more())

    def __len__(self) -> int:
        return sum(map(self._count, self._queues()))

    def _count(self, queue: QueuePath) -> int:
        return self._store.run(lambda backend: backend.count(queue, self._selector))

    def __bool__(self) -> bool:
        """True also without messages: it is a place and no list."""
        return True

    def status(self) -> Mapping[str, Any]:
        """What `journalfs status` shows of it."""
        return self._store.run(lambda backend: backend.status(self._place))

    def glimpses(self) -> Glimpses:
        """Its messages by their place, a few at a time: for programs that show a screen of a long queue."""
        at, run = self._one(), self._store.run
        return Glimpses(run, run(lambda backend: backend.glimpses(at, self._selector)))

    def reasons(self) -> Mapping[str, int]:
        """Why its messages are here, and how many for each reason: `expired`, `max-deliveries`, `moved`,
        `sent`.
        """
        at = self._one()
        return self._store.run(lambda backend: backend.reasons(at))

    def follow(self, timeout: Duration | None = None) -> Iterator[Message]:
        """The messages that come from now on, as they come; nothing is taken. Ends after `timeout` without
        one, or once the queue is gone.
        """
        seconds = None if timeout is None else duration_s("timeout", timeout)
        at, run = self._one(), self._store.run
        arrivals = run(lambda backend: backend.arrivals(at, self._selector))

        def messages() -> Iterator[Message]:
            try:
                while (line := run(lambda _: arrivals.next(seconds))) is not None:
                    yield Message(line)
            finally:
                arrivals.close()

        return messages()

    def arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> Table:
        """The messages as columns, for whatever takes an Arrow stream: `pyarrow.table(t)`,
        `polars.DataFrame(t)`, `pandas.DataFrame.from_arrow(t)`, DuckDB's `from t`. Bodies are decoded in C,
        as the stream is read.
        """
        from journalfs.python.arrow import Table  # noqa: PLC0415 - few ask

        chosen = self if where is None else self.where(where)
        return Table(self._store.readable, self._place, columns, chosen._selector)

    # -- changing --------------------------------------------------------------------------------------------

    def publish(self, body: Body = None, **headers: Unpack[Envelope]) -> None:
        """Publish a message; it is durable when this returns. `delay` and `expires`: a duration from now, as
        "1h", or a datetime. An address routes it to its queues. Waits while the address is full.
        """
        self.publish_lines(envelope_line(body, **headers))

    def publish_lines(self, lines: bytes) -> None:
        """Publish envelope lines, each ended by a newline."""
        transaction = self._store.transacting.get()
        if transaction is None:
            self._store.run(lambda backend: backend.publish(self._place, lines))
        else:
            self._store.run(lambda _: transaction.publish(self._place, lines))

    @contextlib.contextmanager
    def take(self, timeout: Duration | None = None) -> Iterator[Message]:
        """Take the next message. At the end of the block it is acknowledged, durably; after an exception it
        is given back, and that counts as an attempt. Raises `NoMessage` where none comes within `timeout`
        (None: waits for ever; 0: does not wait).
        """
        taken = self._taken(None if timeout is None else duration_s("timeout", timeout))
        try:
            yield Message(taken.line)
        except BaseException:
            self._store.run(lambda _: taken.give_back())
            raise
        else:
            self._store.run(lambda _: taken.acknowledge())

    def _taken(self, seconds: float | None) -> Taken:
        transaction, at = self._store.transacting.get(), self._one()
        if transaction is None:
            taken = self._store.run(lambda backend: backend.take(at, self._selector, seconds))
        else:
            taken = self._store.run(lambda _: transaction.take(at, self._selector, seconds))
        if taken is None:
            raise NoMessage(
                f"{self.name}: no message came within {seconds or 0:g} s; timeout=None waits for ever"
            )
        return taken

    def those(self, ids: Sequence[int]) -> Queue:
        """These messages alone, for `remove`, `move` and `redrive`."""
        return Queue(self._store, self._place, None, list(ids))

    def replace(self, message: Message, body: Body, **changed: Unpack[Envelope]) -> None:
        """Publish a copy of a message with another body, and remove the message, in one transaction. The copy
        has a new id and comes last. Raises `NoMessage` where somebody else has it by now.
        """
        self._refuse_transaction("replace")
        at, number = self._one(), message.id
        line = replaced_line(message, body, **changed)

        async def replace(backend: Backend) -> None:
            transaction = await backend.begin()
            try:
                if number is None or not await transaction.remove_those(at, [number]):
                    raise NoMessage(f"message {number} is no longer in {self.name}")
                await transaction.publish(at, line)
                await transaction.commit()
            except BaseException:
                await transaction.roll_back()
                raise

        self._store.run(replace)

    def redrive(self, *, dry_run: bool = False) -> SentBack:
        """Send all messages, or those chosen, back to the queues that they came from, as they were there.
        `dry_run`: only say what would become of them.
        """
        self._refuse_transaction("redrive")
        at = self._one()
        return self._store.run(lambda backend: backend.redrive(at, self._selector, self._ids, plans=dry_run))

    def remove(self) -> int:
        """Acknowledge all messages, or those that the selector accepts; how many. `Store.undo` brings them
        back.
        """
        self._refuse_transaction("remove")
        ids = self._ids
        if ids is not None:
            at = self._one()
            return self._store.run(lambda backend: backend.remove_those(at, ids))
        return sum(map(self._remove, self._queues()))

    def _remove(self, queue: QueuePath) -> int:
        return self._store.run(lambda backend: backend.remove(queue, self._selector))

    def move(self, target: str | Queue) -> int:
        """Move all messages, or those that the selector accepts, to another queue, in one transaction; how
        many.
        """
        self._refuse_transaction("move")
        at = named(target) if isinstance(target, str) else target._place
        goal = self._store.run(lambda backend: queue_of(backend, at, many=False))[0]
        source, ids = self._one(), self._ids
        if ids is not None:
            return self._store.run(lambda backend: backend.move_those(source, ids, goal))
        return self._store.run(lambda backend: backend.move(source, self._selector, goal))

    def _refuse_transaction(self, what: str) -> None:
        if self._store.transacting.get() is not None:
            raise WrongCall(f"{what} is no part of a transaction, which publishes and takes")


class Run(Protocol):
    """`Store.run`."""

    def __call__(self, work: Callable[[Backend], Coroutine[Any, Any, T]]) -> T: ...


class Glimpses:
    """The messages of a queue by their place, a few at a time. Used within `with`, or closed."""

    def __init__(self, run: Run, found: Glimpsing) -> None:
        self._run = run
        self._found = found

    def __enter__(self) -> Glimpses:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def count(self) -> int:
        """How many messages there are now; pages are of these."""
        return self._run(lambda _: self._found.count())

    def page(self, begin: int, count: int) -> Sequence[Glimpse]:
        """Messages [begin, begin + count), fewer at the end."""
        return self._run(lambda _: self._found.page(begin, count))

    def whole(self, glimpse: Glimpse) -> Message:
        """The message. Raises `NoMessage` once it is gone."""
        return self._run(lambda _: self._found.whole(glimpse))

    def close(self) -> None:
        self._found.close()


def open_store(path: str | Path, *, write: bool = False, through: str | None = None) -> Store:
    """Open a store: `journalfs.open`. `through` is the URL of the broker that runs on it (`amqp://host:5672`):
    the store's files are read, and the broker makes all changes.
    """
    return Store(Opening(path, write=write, through=through))
