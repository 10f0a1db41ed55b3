"""Writers that wait for room in a mount that was detached.

Who makes room comes by way of the mount. Once it is detached nobody can, and it lives on for those who have
files open: they would wait for ever, and it with them.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from journalfs_mount.errnos import Refused
from journalfs_mount.process.mount_table import MOUNT_TABLE, places_of

LOOK_S: Final = 0.5
"""From one look to the next, while somebody waits: each asks the kernel only whether its table changed."""


class Detachment:
    """Whether a mount was detached, as far as it matters to those who wait. `run` looks after them."""

    def __init__(self) -> None:
        self.device: str | None = None
        """The mount's, in the kernel's table; None until that is known."""
        self._waits: set[trio.CancelScope] = set()
        self._some = trio.Event()
        self._over = False

    async def during(self, until: Callable[[], Awaitable[None]]) -> None:
        """Await `until`. ENOTCONN once the mount is detached: EINTR would have tools try again and again."""
        with trio.CancelScope() as scope:
            if self._over:
                scope.cancel()
            self._waits.add(scope)
            self._some.set()
            try:
                await until()
            finally:
                self._waits.discard(scope)
        if scope.cancelled_caught:
            raise Refused(errno.ENOTCONN, "the mount is detached, and nobody can make room by way of it")

    async def run(self) -> None:
        """Look as long as somebody waits, until cancelled."""
        while True:
            await self._some.wait()
            with MOUNT_TABLE.open("rb") as table:
                changes = select.poll()
                changes.register(table, select.POLLPRI)
                self._look()
                while self._waits:
                    await trio.sleep(LOOK_S)
                    if changes.poll(0):
                        self._look()
            self._some = trio.Event()

    def _look(self) -> None:
        if self.device is None or places_of(self.device):
            return
        self._over = True
        for scope in list(self._waits):
            scope.cancel()
