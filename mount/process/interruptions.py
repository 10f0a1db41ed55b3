"""Waits that may take as long as somebody else likes: ended by a signal to who waits, or with the mount."""

from __future__ import annotations

import errno
import math
import select
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from journalfs.api import in_a_thread
from journalfs_mount.errnos import Refused, refuse
from journalfs_mount.limits import RENAME_WAIT_S, WAITING_MAX
from journalfs_mount.process.callers import Caller
from journalfs_mount.process.shares import ASKER, OWNER, Share, Shares

LOOK_S: Final = 0.05
"""From one look for signals to the next: a person who pressed Ctrl-C notices no delay."""

LOOKS_SOON: Final = 3
"""Looks after each hint: a signal counts that is pending at two of them."""

LOOK_AGAIN_S: Final = 0.25
"""From one look to the next for those of whom the kernel may not speak again: it tells of one signal to each,
which may have been one that does not ask to stop."""

RECENTLY_S: Final = 1.0
"""A hint may be about somebody who comes to wait so long after it."""

UNKNOWN_S: Final = 0.5
"""Somebody who cannot be seen waits this long at most, and is told to try again as after a signal."""


class Waiting(Protocol):
    """Somebody who waits. Asked in a thread."""

    def is_told_to_stop(self) -> bool: ...

    def is_known(self) -> bool: ...


@dataclass(slots=True, eq=False)
class _Wait:
    who: Waiting
    scope: trio.CancelScope
    since: float
    hinted: bool
    """The kernel may have told of a signal to who waits, and does so once."""


class Interruptions:
    """All waits of one mount. `run` looks after them."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares if shares is not None else Shares({})
        self.descriptors: frozenset[int] = frozenset()
        """By which the kernel is heard."""
        self.told = False
        """Whether `look_soon` is called whenever a signal may have come: then nobody looks without it."""
        self._soon = trio.Event()
        self._hinted_at = float("-inf")
        self._waits: set[_Wait] = set()
        self._some = trio.Event()
        self._over = False

    async def wait(
        self, until: Callable[[], Awaitable[None]], who: Waiting, share: Share = Share.WAITING
    ) -> None:
        """Await `until`. EINTR when a signal asks `who` to stop or the mount ends, EAGAIN when too many wait
        already, or too many of the same user's: each keeps a request of the kernel's waiting, of which there
        are only so many.
        """
        user = OWNER.get()
        if len(self._waits) >= self._shares.room(WAITING_MAX, user):
            raise refuse(errno.EAGAIN)
        self._shares.take(share, user)
        try:
            await self.during(until, who)
        finally:
            self._shares.give_back(share, user)

    async def during(self, until: Callable[[], Awaitable[None]], who: Waiting) -> None:
        """The same for what waits for nobody, but may take long."""
        if self._over:
            raise refuse(errno.EINTR)
        with trio.CancelScope() as scope:
            now = trio.current_time()
            wait = _Wait(who, scope, now, hinted=now - self._hinted_at <= RECENTLY_S)
            self._waits.add(wait)
            self._some.set()
            # A signal may have come before.
            self._soon.set()
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
                if not self.told:
                    await trio.sleep(LOOK_S)
                    await self.look()
                elif await self._is_soon():
                    for _ in range(LOOKS_SOON):
                        await trio.sleep(LOOK_S)
                        await self.look()
                else:
                    await self._look_at([wait for wait in self._waits if wait.hinted])
            self._some = trio.Event()

    async def _is_soon(self) -> bool:
        """Wait for the next hint; False when it is time to look again without one."""
        again_s = LOOK_AGAIN_S if any(wait.hinted for wait in self._waits) else math.inf
        with trio.move_on_after(again_s):
            await self._soon.wait()
            self._soon = trio.Event()
            return True
        return False

    def look_soon(self) -> None:
        """Somebody may have been told to stop, or the kernel may listen no longer."""
        self._hinted_at = trio.current_time()
        for wait in self._waits:
            wait.hinted = True
        self._soon.set()

    def _connected(self) -> bool:
        """Whether the kernel still listens: it has given up none of the descriptors of its device."""
        poll = select.poll()
        for descriptor in self.descriptors:
            poll.register(descriptor, 0)
        return not poll.poll(0)

    async def look(self) -> None:
        """End the waits of those who are told to stop."""
        if self._connected():
            await self._look_at(list(self._waits))
        else:
            self.end()

    async def _look_at(self, waits: Sequence[_Wait]) -> None:
        # With a hint that there was a signal, whoever cannot be seen is taken to be meant.
        since = trio.current_time() - (0.0 if self.told else UNKNOWN_S)
        for wait in await in_a_thread(lambda: [one for one in waits if _is_over(one, since)]):
            wait.scope.cancel()

    def end(self) -> None:
        """The mount is over: nobody waits any longer."""
        self._over = True
        for wait in list(self._waits):
            wait.scope.cancel()


def _is_over(wait: _Wait, since: float) -> bool:
    """Whether somebody is told to stop, or cannot be seen and has waited at this moment already."""
    if wait.who.is_told_to_stop():
        return True
    return not wait.who.is_known() and wait.since <= since


class RenamersPatience:
    """How who renames waits for room: for a moment only. Until it is answered, the kernel keeps the directory
    from everybody else, who can then neither list it nor take away what is in it: nobody could make room.
    """

    def __init__(self, interruptions: Interruptions) -> None:
        self._interruptions = interruptions

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(RENAME_WAIT_S):
            await self._interruptions.wait(until, Caller(ASKER.get().thread))
            return
        raise Refused(errno.EAGAIN, "there is no room yet, and a rename cannot wait for it; try again")
