"""A faster way for pyfuse3's request loop to wait.

The stock loop goes through trio's scheduler twice for each request, which is three quarters of a request's
time. Here one task keeps the reader's role: it polls the FUSE descriptor together with trio's own, and runs
trio only when something else can run or a slice of a millisecond is over. During a burst it polls for a
moment before it sleeps, because on two CPUs waking a sleeping one costs more than the request.

This replaces one private function of pyfuse3 and reads one private object of trio. `prepare` checks both and
says why it cannot be done where they changed; the mount then runs on the stock loop.
"""

from __future__ import annotations

import inspect
import math
import os
import select
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import pyfuse3
import trio

from journalfs_mount.front.front import Front
from journalfs_mount.kernel.loop_watch import LoopWatch

SLICE_S: Final = 0.001
"""Longest time between two turns of trio's while requests keep coming."""

TURN_S: Final = 0.0002
"""Longest time that other tasks which can run wait while requests keep coming."""

GATHER_S: Final = 0.001
"""Longest time that requests are gathered for one flush: the time to read a few dozen."""

BURST_S: Final = 0.0005
"""A client that asked this recently is likely to ask again at once."""

SPIN_S: Final = 60e-6
"""How long to poll for the next request of a burst; about what waking a sleeping CPU takes."""

SLEEP_MAX_NS: Final = 100_000_000
"""Wake up this often though nothing calls: a net under the bookkeeping of runnable tasks."""

_WAIT_NAME: Final = "_wait_fuse_readable"
_LOOP_NAME: Final = "_session_loop"


class FastWaitUnavailableError(Exception):
    """The private names that the fast wait stands on are not what they were."""


class OfTrio(NamedTuple):
    """The descriptor that trio waits with, and what tells until when."""

    fd: int
    next_deadline: Callable[[], float]


class Handled(Protocol):
    begun: int
    """How many requests a handler was called for."""


class Told(Protocol):
    def look_soon(self) -> None: ...


class FastWait(trio.abc.Instrument):
    """The wait of one mount. Make it with `prepare`, inside `trio.run`, after `pyfuse3.init`."""

    def __init__(
        self,
        fuse_fd: int,
        of_trio: OfTrio,
        watch: LoopWatch | None = None,
        front: Front | None = None,
        rests: Callable[[], None] = lambda: None,
    ) -> None:
        """`rests` is called before each wait."""
        self._rests, self._next_deadline = rests, of_trio.next_deadline
        self._watch = watch
        self._front = front
        self._device: Device = _Polled(fuse_fd, of_trio.fd) if front is None else front
        self._runnable: set[trio.lowlevel.Task] = set()
        self._reader: trio.lowlevel.Task | None = None
        self._waiting = False
        self._parked: list[trio.lowlevel.Task] = []
        """Tasks that could read. The last one reads next: each has a buffer as large as the largest write,
        and few tasks should ever need theirs.
        """
        self._served: set[trio.lowlevel.Task] = set()
        self._beginning: set[trio.lowlevel.Task] = set()
        self._gatherers: list[tuple[trio.lowlevel.Task, float]] = []
        """Tasks that wait for a moment without requests, and since when."""
        self._closed = False
        self._yielded = 0.0
        self._stock: Any = None
        self.requests = 0
        self._handled: Handled | None = None
        self._told: Told | None = None
        self._expected = -1

    @classmethod
    def prepare(
        cls,
        fuse_fd: int,
        watch: LoopWatch | None = None,
        start_front: Callable[[int], Front | None] = lambda _trio_fd: None,
        rests: Callable[[], None] = lambda: None,
    ) -> FastWait:
        """Check the private names and make the wait. Raises `FastWaitUnavailableError` with the reason.
        `start_front` is given the descriptor that trio waits with.
        """
        stock = getattr(pyfuse3, _WAIT_NAME, None)
        if not callable(stock):
            raise FastWaitUnavailableError(f"pyfuse3 has no {_WAIT_NAME}")
        if inspect.signature(stock).parameters:
            raise FastWaitUnavailableError(f"pyfuse3's {_WAIT_NAME} takes arguments")
        of_trio = _of_trio()
        return cls(fuse_fd, of_trio, watch, start_front(of_trio.fd), rests)

    def install(self) -> None:
        """Take the stock wait's place."""
        self._stock = getattr(pyfuse3, _WAIT_NAME)
        setattr(pyfuse3, _WAIT_NAME, self.wait)
        trio.lowlevel.add_instrument(self)

    def close(self) -> None:
        """End the loop: every wait returns False from now on. Called before `pyfuse3.terminate`."""
        self._closed = True
        self._release_gatherers()
        while self._parked:
            trio.lowlevel.reschedule(self._parked.pop())

    def uninstall(self) -> None:
        setattr(pyfuse3, _WAIT_NAME, self._stock)
        trio.lowlevel.remove_instrument(self)

    # trio.abc.Instrument: who could run. trio's own queue does not show the rest of the batch it is working
    # on.

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        if getattr(task.coro, "__name__", "") == _LOOP_NAME:
            self._beginning.add(task)

    def _begins(self, task: trio.lowlevel.Task) -> bool:
        """Whether it is one more task of the request loop, whose first step leads no further than `wait`."""
        begins = task in self._beginning
        self._beginning.discard(task)
        return begins

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self._runnable.add(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._runnable.discard(task)
        # Whatever it does, but for who reads on, whose requests say themselves whether they change anything.
        if self._front is not None and self._reader is not task and not self._begins(task):
            # P-7: without it C answers from what held before the step, after its effect was seen by somebody.
            self._front.revoke(steps=True)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        # The reader's handler waits for something, or the task ended: the next one reads on.
        if self._reader is task and not self._waiting:
            # Named here, so that no newcomer takes the role meanwhile.
            self._reader = self._parked.pop() if self._parked else None
            if self._reader is not None:
                trio.lowlevel.reschedule(self._reader)
            else:
                # Nobody is left who could find out that no more requests come.
                self._release_gatherers()

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        if task in self._served:
            self._served.discard(task)
            self._may_be_over()

    def tell(self, handled: Handled, told: Told) -> None:
        """Tell of a request for which no handler was called, which is somebody who is interrupted as a rule,
        and of the end of a task of the request loop, all of which end when the mount does.
        """
        self._handled, self._told = handled, told

    def _begun(self) -> int:
        return 0 if self._handled is None else self._handled.begun

    def _may_be_over(self) -> None:
        if self._told is not None:
            self._told.look_soon()

    async def wait(self) -> bool:
        """Return True when a request can be read, False when the loop shall end."""
        task = trio.lowlevel.current_task()
        if 0 <= self._begun() < self._expected:
            self._may_be_over()
        self._expected = -1
        while self._reader is not task:
            if self._closed:
                return False
            if self._reader is None:
                self._reader = task
            else:
                await self._park(task)
        self._served.add(task)
        self._waiting = True
        try:
            return await self._wait_as_reader()
        finally:
            self._waiting = False

    async def _park(self, task: trio.lowlevel.Task) -> None:
        # One that never read a request yet comes after all that did.
        self._parked.insert(len(self._parked) if task in self._served else 0, task)

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def is_quiet(self) -> bool:
        """Whether no request waits to be read."""
        return self._closed or self._device.is_quiet()

    async def quiet(self) -> None:
        """Return when no request waits to be read, or after a moment. At once, without a turn of anybody's,
        if none does now.
        """
        if self.is_quiet():
            return
        entry = trio.lowlevel.current_task(), perf_counter()
        self._gatherers.append(entry)

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._gatherers.remove(entry)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _release_gatherers(self) -> None:
        while self._gatherers:
            trio.lowlevel.reschedule(self._gatherers.pop()[0])

    async def _wait_as_reader(self) -> bool:
        wait, runnable = self._device.wait, self._runnable
        while not self._closed:
            now = perf_counter()
            if self._watch is not None:
                self._watch.waits(now)
            if self._gatherers and now - self._gatherers[0][1] >= GATHER_S:
                self._release_gatherers()
            if now - self._yielded >= (TURN_S if runnable else SLICE_S):
                self._yielded = now
                await trio.lowlevel.checkpoint()
                continue
            self._rests()
            is_idle = not runnable and not self._gatherers
            if wait(self._sleep_ns() if is_idle else 0, burst=is_idle):
                self.requests += 1
                # A handler begins before anybody waits for the next request.
                self._expected = self._begun() + 1
                if self._watch is not None:
                    self._watch.works(perf_counter())
                return True
            self._release_gatherers()
            # Whoever can run, trio's descriptor, its next deadline, or the net: let it run at once.
            self._yielded = 0.0
        return False

    def _sleep_ns(self) -> int:
        left_s = self._next_deadline() - trio.current_time()
        return SLEEP_MAX_NS if math.isinf(left_s) else min(max(int(left_s * 1e9), 0), SLEEP_MAX_NS)


class Device(Protocol):
    """The source of requests."""

    def wait(self, timeout_ns: int, *, burst: bool) -> bool:
        """Whether there is a request. False: trio has something to do, or the time is over. `burst`: wait
        awake for a moment if one came a moment ago, then asleep.
        """

    def is_quiet(self) -> bool:
        """Whether no request waits to be read."""


class _Polled:
    """The kernel's descriptor, beside trio's."""

    def __init__(self, fuse_fd: int, trio_fd: int) -> None:
        self._fuse_fd = fuse_fd
        self._poll = select.poll()
        self._poll.register(fuse_fd, select.POLLIN)
        self._poll.register(trio_fd, select.POLLIN)
        self._requests_poll = select.poll()
        self._requests_poll.register(fuse_fd, select.POLLIN)
        self._spins = len(os.sched_getaffinity(0)) > 1
        self._last_request = 0.0

    def wait(self, timeout_ns: int, *, burst: bool) -> bool:
        poll = self._poll.poll
        ready = poll(0)
        if not ready and burst and self._spins:
            end = perf_counter()
            if end - self._last_request < BURST_S:
                end += SPIN_S
                while not ready and perf_counter() < end:
                    ready = poll(0)
        if not ready and timeout_ns:
            ready = poll(timeout_ns / 1e6)
        if any(fd == self._fuse_fd for fd, _ in ready):
            self._last_request = perf_counter()
            return True
        return False

    def is_quiet(self) -> bool:
        return not self._requests_poll.poll(0)


def fuse_descriptors() -> set[int]:
    """This process's open descriptors of the FUSE device."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one that listed the directory
        if target == "/dev/fuse":
            found.add(int(name))
    return found


def _of_trio() -> OfTrio:
    try:
        from trio._core._run import GLOBAL_RUN_CONTEXT  # noqa: PLC0415  (private: on use only)

        runner = GLOBAL_RUN_CONTEXT.runner
        epoll, next_deadline = runner.io_manager._epoll, runner.deadlines.next_deadline
    except (ImportError, AttributeError) as error:
        raise FastWaitUnavailableError(f"trio's scheduler looks different: {error}") from None
    if not isinstance(epoll, select.epoll):
        raise FastWaitUnavailableError("trio does not wait with epoll")
    return OfTrio(epoll.fileno(), next_deadline)
