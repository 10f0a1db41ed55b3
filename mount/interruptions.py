"""Waits that may take as long as somebody else likes: ended by a signal to who waits, or with the mount."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from journalfs_mount.callers import Caller
from journalfs_mount.errnos import refuse
from journalfs_mount.limits import RENAME_WAIT_S, WAITING_MAX
from journalfs_mount.refusals import Refused

LOOK_S: Final = 0.05
"""From one look for signals to the next: a person who pressed Ctrl-C notices no delay."""

UNKNOWN_S: Final = 0.5
"""Somebody who cannot be seen waits this long at most, and is told to try again as after a signal."""

CALLING: ContextVar[int] = ContextVar("calling")
"""The thread whose request a task serves, where it may have to wait for others."""


class Waiting(Protocol):
    """Somebody who waits. Asked in a thread."""

    def is_told_to_stop(self) -> bool: ...

    def is_known(self) -> bool: ...


@dataclass(slots=True, eq=False)
class _Wait:
    who: Waiting
    scope: trio.CancelScope
    since: float


class Interruptions:
    """All waits of one mount. `run` looks after them."""

    def __init__(self) -> None:
        self.connected: Callable[[], bool] = lambda: True
        """Whether the kernel still listens; set by who knows its descriptor."""
        self._waits: set[_Wait] = set()
        self._some = trio.Event()
        self._over = False

    async def wait(self, until: Callable[[], Awaitable[None]], who: Waiting) -> None:
        """Await `until`. EINTR when a signal asks `who` to stop or the mount ends, EAGAIN when too many wait
        already: each keeps a request of the kernel's waiting, of which there are only so many.
        """
        if self._over:
            raise refuse(errno.EINTR)
        if len(self._waits) >= WAITING_MAX:
            raise refuse(errno.EAGAIN)
        with trio.CancelScope() as scope:
            wait = _Wait(who, scope, trio.current_time())
            self._waits.add(wait)
            self._some.set()
            try:
                await until()
            finally:
                self._waits.discard(wait)
        if scope.cancelled_caught:
            raise refuse(errno.EINTR)

    async def run(self) -> None:
        """Look for signals as long as somebody waits, until cancelled."""
        while True:
            await self._some.wait()
            while self._waits:
                await trio.sleep(LOOK_S)
                await self.look()
            self._some = trio.Event()

    async def look(self) -> None:
        """End the waits of those who are told to stop."""
        if not self.connected():
            self.end()
            return
        waits, now = list(self._waits), trio.current_time()
        for wait in await trio.to_thread.run_sync(lambda: [one for one in waits if _is_over(one, now)]):
            wait.scope.cancel()

    def end(self) -> None:
        """The mount is over: nobody waits any longer."""
        self._over = True
        for wait in list(self._waits):
            wait.scope.cancel()


def _is_over(wait: _Wait, now: float) -> bool:
    if wait.who.is_told_to_stop():
        return True
    return not wait.who.is_known() and now - wait.since >= UNKNOWN_S


class RenamersPatience:
    """How who renames waits for room: for a moment only. Until it is answered, the kernel keeps the directory
    from everybody else, who can then neither list it nor take away what is in it: nobody could make room.
    """

    def __init__(self, interruptions: Interruptions) -> None:
        self._interruptions = interruptions

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(RENAME_WAIT_S):
            await self._interruptions.wait(until, Caller(CALLING.get()))
            return
        raise Refused(errno.EAGAIN, "there is no room yet, and a rename cannot wait for it; try again")
