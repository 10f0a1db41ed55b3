"""Waiting for those parts of the store that do not know how the program waits.

trio is imported by who waits: commands that never do start faster without it.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import _thread
import contextvars
import os
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from time import monotonic_ns
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from journalfs.limits import PIECE_NS

if TYPE_CHECKING:
    import trio

_Result = TypeVar("_Result")


class Crowd(Protocol):
    """The tasks that may be about to stage records, and would share the flush."""

    def is_quiet(self) -> bool:
        """Return True if no task is about to stage anything."""

    async def quiet(self) -> None:
        """Return when each task that has records to stage now has begun to."""


WORKERS_KEPT: Final = 2
"""Threads that stay once they were begun. Another needs memory, which may be out when it is needed."""
WORKERS_MAX: Final = 64
WORKER_IDLE_S: Final = 10.0
WORKER_BEGINS_S_MAX: Final = 5.0
WORKER_STACK_BYTES: Final = 1 << 20


class _Workers:
    """Threads that work through one queue. `threading.Thread.start` waits without an end for a thread that
    found no memory to begin with, and the event loop with it. Here only the first one is waited for, and not
    for long.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = _thread.allocate_lock()
        self._threads = self._pending = 0

    def submit(self, job: Callable[[], None]) -> bool:
        """Have a thread run `job`, which raises nothing. False: there is no thread, nor can one be begun."""
        with self._lock:
            if self._pending >= self._threads and self._threads < WORKERS_MAX:
                self._begin()
            while 0 < self._threads < WORKERS_KEPT and self._begin():
                continue
            if not self._threads:
                return False
            self._jobs.put(job)
            self._pending += 1
        return True

    def _begin(self) -> bool:
        """Begin one more, if the system allows. That it runs is known of the first one only."""
        stack_bytes = _thread.stack_size(WORKER_STACK_BYTES)
        try:
            begun = _thread.allocate_lock()
            begun.acquire()
            _thread.start_new_thread(self._work, (begun,))
        except (RuntimeError, MemoryError):
            return False
        finally:
            _thread.stack_size(stack_bytes)
        if not self._threads and not begun.acquire(timeout=WORKER_BEGINS_S_MAX):
            return False
        self._threads += 1
        return True

    def _work(self, begun: _thread.LockType) -> None:
        begun.release()
        while True:
            try:
                job = self._jobs.get(timeout=WORKER_IDLE_S)
            except Empty:
                if self._may_end():
                    return
                continue
            job()
            # Else an idle thread holds what it worked on last, a closed store and its files among it.
            del job
            with self._lock:
                self._pending -= 1

    def _may_end(self) -> bool:
        with self._lock:
            ends = self._threads > WORKERS_KEPT and self._jobs.empty()
            self._threads -= ends
        return ends


_workers = _Workers()


def _forget_workers() -> None:
    global _workers  # noqa: PLW0603 - threads do not live on in a process that was forked
    _workers = _Workers()


os.register_at_fork(after_in_child=_forget_workers)


async def in_a_thread(
    work: Callable[[], _Result], *, limiter: trio.CapacityLimiter | None = None, abandon: bool = False
) -> _Result:
    """Run `work` in a thread, or in this one if the system refuses a thread: cleaning up after a change has
    to be done all the same. `abandon`: a cancelled caller does not wait for it.
    """
    import trio

    await trio.lowlevel.checkpoint_if_cancelled()
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
    run = contextvars.copy_context().run
    ended: list[_Result | BaseException] = []
    failed = is_waited_for = True

    def report() -> None:
        if is_waited_for:
            trio.lowlevel.reschedule(task)

    def job() -> None:
        nonlocal failed
        try:
            ended.append(run(work))
            failed = False
        except BaseException as error:
            ended.append(error)
        while True:
            try:
                token.run_sync_soon(report)
            except MemoryError:
                continue  # who waits would do so without an end
            except trio.RunFinishedError:
                pass
            return

    def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        nonlocal is_waited_for
        is_waited_for = not abandon
        return trio.lowlevel.Abort.SUCCEEDED if abandon else trio.lowlevel.Abort.FAILED

    async with limiter or trio.to_thread.current_default_thread_limiter():
        if not _workers.submit(job):
            return work()
        await trio.lowlevel.wait_task_rescheduled(leave)
    found = ended[0]
    if failed:
        assert isinstance(found, BaseException)
        raise found
    return found  # type: ignore[return-value]


async def offload(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread, so that the event loop goes on. A cancelled caller still waits for its end."""
    return await in_a_thread(work)


SLICES_MAX: Final = 2
_limiters: dict[str, trio.CapacityLimiter] = {}
"""Of threads, by what they are for."""


def _few(what: str) -> trio.CapacityLimiter:
    import trio

    return _limiters.get(what) or _limiters.setdefault(what, trio.CapacityLimiter(SLICES_MAX))


async def in_slices(work: Callable[[], None], stop: Callable[[], None]) -> None:
    """Run one slice of long work in a thread. Few slices run at a time, in the order of their calls; the
    caller asks again for each further slice. A cancelled caller does not wait: `stop` tells the work to end.
    """
    import trio

    try:
        await in_a_thread(work, limiter=_few("slices"), abandon=True)
    except trio.Cancelled:
        stop()
        raise


async def in_thread(work: Callable[[], object]) -> None:
    """Run a piece of work on the body of a message in a thread, of which few do so at a time. When cancelled
    nobody waits for it any more, and it ends by itself.
    """
    await in_a_thread(work, limiter=_few("bodies"), abandon=True)


async def together(*works: Callable[[], Awaitable[None]]) -> None:
    """Run all of them side by side until all have ended; the failure of one ends the others."""
    import trio

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)


async def unbroken(work: Callable[[], Awaitable[_Result]]) -> _Result:
    """Run `work` to its end, and deliver a cancellation only afterwards: for work that must not be left half
    done.
    """
    import trio

    with trio.CancelScope(shield=True):
        result = await work()
    return result  # noqa: RET504 - a scope may swallow, as types see it


async def checkpoint() -> None:
    """Let others go on."""
    import trio

    await trio.lowlevel.checkpoint()


async def _let_others(busy_s: float) -> bool:
    del busy_s
    await checkpoint()
    return False


REST: ContextVar[Callable[[float], Awaitable[bool]]] = ContextVar("rest", default=_let_others)
"""Lets others go on after a piece of long work that took so many seconds; whether there are others whom it
would keep waiting. Set by who serves several users.
"""


class Slices:
    """For work that many small steps make up: `pause` between two of them, and nobody waits long for it."""

    __slots__ = ("_until_ns",)

    def __init__(self) -> None:
        self._until_ns = monotonic_ns() + PIECE_NS

    @classmethod
    def none(cls) -> Slices:
        """Return slices that never pause, for work without other tasks beside it."""
        slices = cls()
        slices._until_ns = sys.maxsize
        return slices

    async def pause(self) -> None:
        """Let other tasks run if this one has run for long enough. A cancellation is delivered here."""
        over_ns = monotonic_ns() - self._until_ns
        if over_ns >= 0:
            await REST.get()((over_ns + PIECE_NS) / 1e9)
            self._until_ns = monotonic_ns() + PIECE_NS


class FairLock:
    """A lock that is granted in the order of arrival: `async with turn`. A lock that is free is taken without
    a turn of the scheduler.
    """

    __slots__ = ("_taken", "_waiting", "_watching")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None
        self._watching: trio.lowlevel.ParkingLot | None = None

    def locked(self) -> bool:
        return self._taken

    async def nobodys(self) -> None:
        """Return when no task holds the lock, without taking it. If such callers took it one after the other,
        the next caller would have to wait for all of them.
        """
        import trio

        while self._taken:
            if self._watching is None:
                self._watching = trio.lowlevel.ParkingLot()
            await self._watching.park()

    async def __aenter__(self) -> None:
        if self._taken:
            if self._waiting is None:
                import trio

                self._waiting = trio.lowlevel.ParkingLot()
            await self._waiting.park()
        self._taken = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever waits has it from here on, so that nobody comes in between.
        self._taken = bool(self._waiting)
        if self._waiting:
            self._waiting.unpark()
        elif self._watching:
            self._watching.unpark_all()


class Bell:
    """Something to do for one task: `ring` any number of times, `rung` returns once."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        import trio

        self._event = trio.Event()

    def ring(self) -> None:
        self._event.set()

    async def rung(self) -> None:
        import trio

        await self._event.wait()
        self._event = trio.Event()
