"""Waits that others end: by a signal, by the mount's end, or because nobody can say who waits."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
import trio
import trio.testing
from pyfuse3 import FUSEError

from journalfs_mount.limits import WAITING_MAX
from journalfs_mount.process.callers import Caller, Writer
from journalfs_mount.process.interruptions import UNKNOWN_S, Interruptions, Waiting

T = TypeVar("T")

NO_PROCESS = 2**22
"""No kernel gives so high an id."""

NO_FILE = 2**63 - 1

BLOCKS_A_SIGNAL = (
    "import signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})\n"
    "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n"
    "file = open(sys.argv[1])\n"
    "print('ready', flush=True)\n"
    "input()\n"
)


class Told:
    """Somebody who is told to stop when a test says so."""

    def __init__(self) -> None:
        self.told = False

    def is_told_to_stop(self) -> bool:
        return self.told

    def is_known(self) -> bool:
        return True


async def given_up(interruptions: Interruptions, who: Waiting) -> int | None:
    """The errno that a wait for what never comes ends with."""
    try:
        await interruptions.wait(trio.sleep_forever, who)
    except FUSEError as error:
        return error.errno
    return None


async def test_whoever_is_told_to_stop_stops(autojump_clock: trio.testing.MockClock) -> None:
    interruptions, first, second = Interruptions(), Told(), Told()
    ended = {name: trio.Event() for name in ("first", "second")}
    found: list[tuple[str, int | None]] = []

    async def wait(name: str, who: Told) -> None:
        found.append((name, await given_up(interruptions, who)))
        ended[name].set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.run)
        nursery.start_soon(wait, "first", first)
        nursery.start_soon(wait, "second", second)
        await trio.sleep(10)
        assert found == []
        second.told = True
        await ended["second"].wait()
        assert found == [("second", errno.EINTR)]
        interruptions.end()
        await ended["first"].wait()
        assert found == [("second", errno.EINTR), ("first", errno.EINTR)]
        assert await given_up(interruptions, Told()) == errno.EINTR
        nursery.cancel_scope.cancel()


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock would jump while a thread is at work."""

    async def run(work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()

    monkeypatch.setattr(trio.to_thread, "run_sync", run)


@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("hinted_after_s", [None, 0.2])
async def test_the_kernel_tells_of_one_signal_only(
    autojump_clock: trio.testing.MockClock, hinted_after_s: float | None
) -> None:
    """That was one that does not ask to stop. The next one counts, though nobody hints at it; so it does for
    who came to wait just after the hint, which may have been about them.
    """
    interruptions, who, other = Interruptions(), Told(), Told()
    interruptions.told = True
    if hinted_after_s is not None:
        interruptions.look_soon()
        await trio.sleep(hinted_after_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.run)
        nursery.start_soon(given_up, interruptions, other)
        async with trio.open_nursery() as waiter:

            async def wait() -> None:
                assert await given_up(interruptions, who) == errno.EINTR

            waiter.start_soon(wait)
            if hinted_after_s is None:
                await trio.sleep(60)
                interruptions.look_soon()
            await trio.sleep(60)
            who.told, told_at = True, trio.current_time()
        assert trio.current_time() - told_at <= 1
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("without_threads")
async def test_nobody_is_looked_at_without_a_hint(autojump_clock: trio.testing.MockClock) -> None:
    """Where the kernel tells of each first signal, a mount with nothing to do sleeps."""
    interruptions, looks = Interruptions(), 0
    interruptions.told = True

    class Watched(Told):
        def is_told_to_stop(self) -> bool:
            nonlocal looks
            looks += 1
            return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.run)
        nursery.start_soon(given_up, interruptions, Watched())
        await trio.sleep(5)
        before = looks
        await trio.sleep(60)
        assert looks == before
        nursery.cancel_scope.cancel()


async def test_a_connection_that_is_gone_ends_all_waits(autojump_clock: trio.testing.MockClock) -> None:
    interruptions = Interruptions()
    kernel, ours = socket.socketpair()
    ended: list[int | None] = []

    async def wait() -> None:
        ended.append(await given_up(interruptions, Told()))

    interruptions.descriptors = frozenset({ours.fileno()})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.run)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            await trio.sleep(5)
            assert not ended
            kernel.close()
        assert ended == [errno.EINTR]
        nursery.cancel_scope.cancel()
    ours.close()


@pytest.mark.parametrize("make", [lambda: Caller(NO_PROCESS), lambda: Writer(NO_PROCESS, NO_FILE)])
async def test_who_cannot_be_seen_tries_again(
    autojump_clock: trio.testing.MockClock, make: Callable[[], Waiting]
) -> None:
    interruptions = Interruptions()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.run)
        assert await given_up(interruptions, make()) == errno.EINTR
        assert trio.current_time() >= UNKNOWN_S
        nursery.cancel_scope.cancel()


async def test_only_so_many_wait(autojump_clock: trio.testing.MockClock) -> None:
    interruptions = Interruptions()
    ended: list[int | None] = []

    async def wait() -> None:
        ended.append(await given_up(interruptions, Told()))

    async with trio.open_nursery() as nursery:
        for _ in range(WAITING_MAX):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert await given_up(interruptions, Told()) == errno.EAGAIN
        interruptions.end()
    assert ended == [errno.EINTR] * WAITING_MAX


async def test_what_comes_while_somebody_is_told_to_stop_counts() -> None:
    """Who was let in is not told that it was interrupted."""
    interruptions, who = Interruptions(), Told()
    who.told = True
    let_in = trio.Event()

    async def until() -> None:
        await let_in.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptions.wait, until, who)
        await trio.testing.wait_all_tasks_blocked()
        let_in.set()
        await trio.testing.wait_all_tasks_blocked()
        await interruptions.look()


@contextmanager
def blocking_a_signal() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has this file open."""
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKS_A_SIGNAL, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.stdin.write(b"\n")


def test_only_a_signal_that_is_wanted_and_not_taken_asks_to_stop() -> None:
    with blocking_a_signal() as process:
        caller = Caller(process.pid)
        writer = Writer(process.pid, os.stat(__file__).st_ino)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
            process.send_signal(number)
        assert caller.is_known()
        assert not caller.is_told_to_stop()
        assert not writer.is_told_to_stop()
        assert not writer.is_told_to_stop()
        assert writer.is_known()


def test_who_has_a_file_open_is_found_among_all_processes() -> None:
    with blocking_a_signal():
        for inode, known in ((os.stat(__file__).st_ino, True), (NO_FILE, False)):
            writer = Writer(NO_PROCESS, inode)
            writer.is_told_to_stop()
            assert writer.is_known() is known
