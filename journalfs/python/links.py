"""How calls reach the store that they are for: from a thread that blocks, from trio, from asyncio.

A store of this process works in one trio loop. For callers that block, and for asyncio, a thread has it
(`Owner`); under trio it is the caller's own. The files of a mount need no loop: their calls block (`drive`).
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from journalfs.errors import DependencyMissing, WrongCall, single

if TYPE_CHECKING:
    import asyncio

    import trio

SLICE_S: Final = 0.5
T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Blocking(Protocol):
    """Runs work for a caller that blocks."""

    def run(self, work: Work[T]) -> T: ...


class Awaiting(Protocol):
    """Runs work for a caller that awaits."""

    @property
    def slice_s(self) -> float | None:
        """How long work may wait for something, since it is not cancelled; None: it is cancelled at once."""

    async def run(self, work: Work[T]) -> T: ...


def drive(work: Work[T]) -> T:
    """Run what blocks instead of awaiting, to its end."""
    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise AssertionError("this work awaits, and was taken for work that blocks")


class Direct:
    """For files of a mount: each call is a few system calls."""

    def run(self, work: Work[T]) -> T:
        return drive(work)


class InThreads:
    """The same for a caller that awaits, on any loop that anyio knows."""

    slice_s: float | None = SLICE_S

    async def run(self, work: Work[T]) -> T:
        import anyio.to_thread  # noqa: PLC0415 - an optional library

        # Not given up when cancelled: a thread that nobody waits for might take a message, and keep it.
        return await anyio.to_thread.run_sync(drive, work)


class InLoop:
    """For a store that works in the caller's own trio loop."""

    slice_s: float | None = None

    async def run(self, work: Work[T]) -> T:
        return await work()


class _Job(Generic[T]):
    """Work that another thread asked for."""

    def __init__(self, work: Work[T], ended: Callable[[], None]) -> None:
        import trio  # noqa: PLC0415 - takes long

        self._work = work
        self._ended = ended
        self._scope = trio.CancelScope()
        self._outcome: tuple[T] | None = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Raises nothing but what ends the loop: the caller is told of the rest."""
        try:
            with self._scope:
                self._outcome = (await self._work(),)
        except (Exception, BaseExceptionGroup) as error:
            self._error = error
        finally:
            self._ended()

    def cancel(self) -> None:
        self._scope.cancel()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if self._outcome is None:
            raise WrongCall("the store was closed while this waited")
        return self._outcome[0]


class Owner:
    """A thread whose trio loop has a store. `start` it, and `stop` it whatever happens."""

    def __init__(self, serve: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """`serve` opens the store, calls what it gets once that is done, and works until it is cancelled;
        what it raises before is raised by `start`.
        """
        self._serve = serve
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._thread = threading.Thread(target=self._run, name="journalfs", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._token is None or self._failure is not None:
            self._thread.join()
            assert self._failure is not None
            raise self._failure

    def stop(self) -> None:
        """End the loop, with all that waits in it. Raises what closing the store raises."""
        if self._token is not None:
            import trio  # noqa: PLC0415 - takes long

            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._cancel)
        self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def begin(self, work: Work[T], ended: Callable[[], None]) -> _Job[T]:
        """Run work in the loop; `ended` is called there."""
        job = _Job(work, ended)

        def start() -> None:
            if self._nursery is None or self._nursery.cancel_scope.cancel_called:
                ended()
            else:
                self._nursery.start_soon(job.run)

        self._soon(start)
        return job

    def cancel(self, job: _Job[T]) -> None:
        self._soon(job.cancel)

    def _soon(self, action: Callable[[], None]) -> None:
        import trio  # noqa: PLC0415 - takes long

        try:
            assert self._token is not None, "it was started"
            self._token.run_sync_soon(action)
        except trio.RunFinishedError:
            raise WrongCall("this store is closed; journalfs.open opens it again") from None

    def _cancel(self) -> None:
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def _run(self) -> None:
        import trio  # noqa: PLC0415 - takes long

        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = single(error)
        self._ready.set()

    async def _main(self) -> None:
        import trio  # noqa: PLC0415 - takes long

        async with trio.open_nursery() as nursery:
            self._nursery, token = nursery, trio.lowlevel.current_trio_token()

            def ready() -> None:
                self._token = token
                self._ready.set()

            await self._serve(ready)


class FromThreads:
    """Callers that block, of a store that an `Owner` has."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def run(self, work: Work[T]) -> T:
        """Ended by an exception in the calling thread, as Ctrl-C is, the work is cancelled."""
        done = threading.Event()
        job = self._owner.begin(work, done.set)
        try:
            done.wait()
        except BaseException:
            with suppress(WrongCall):
                self._owner.cancel(job)
                done.wait()
            raise
        return job.result()


class FromAsyncio:
    """Callers that await on asyncio, of a store that an `Owner` has."""

    slice_s: float | None = None

    def __init__(self, owner: Owner) -> None:
        import asyncio  # noqa: PLC0415 - for who uses it

        self._owner = owner
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()

    async def run(self, work: Work[T]) -> T:
        import asyncio  # noqa: PLC0415 - for who uses it

        done: asyncio.Future[None] = self._loop.create_future()

        def ended() -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                self._loop.call_soon_threadsafe(_set, done)

        job = self._owner.begin(work, ended)
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            # What was begun ends first, so that whoever cancelled it knows what is done.
            with suppress(WrongCall):
                self._owner.cancel(job)
                await done
            raise
        return job.result()


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def running_library() -> str:
    """`trio` or `asyncio`, whichever runs the caller. Raises `DependencyMissing` and `WrongCall`."""
    try:
        import anyio  # noqa: PLC0415 - an optional library
        import sniffio  # noqa: PLC0415 - anyio and trio have it
    except ImportError:
        raise DependencyMissing(
            "async with journalfs.open(...)", package="anyio", install="pip install 'journalfs[async]'"
        ) from None
    del anyio
    try:
        return sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        raise WrongCall("async with journalfs.open(...) runs under trio or asyncio only") from None
