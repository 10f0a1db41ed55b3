"""Waking those who wait for a store to change: readers of streams are told, and never ask by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

    from journalfs.api import Believer, Watcher


class Waking:
    """Whoever waits looks at `count`, then at the store, and then waits for what came after that count: so
    nothing that happens in between is missed.
    """

    __slots__ = ("_believer", "_waiting", "_watcher", "count")

    def __init__(self) -> None:
        self.count = 0
        self._waiting: dict[bool, trio.Event] = {}
        """By whether they are patient."""
        self._watcher: Watcher | None = None
        self._believer: Believer | None = None

    @property
    def awaited(self) -> bool:
        """Whether somebody waits who is not patient."""
        return False in self._waiting

    def watched_by(self, watcher: Watcher) -> None:
        """It is told of each change before anybody else is."""
        self._watcher = watcher

    def leaving_told(self, believer: Believer) -> None:
        """It is told of changes with which messages may have left, before anybody else is."""
        self._believer = believer

    def left(self) -> None:
        """Messages may have left the queues they were in."""
        if self._believer is not None:
            self._believer.left()
        self.ring()

    def begin(self, *, only_messages: bool = False) -> None:
        """Something is about to be shown otherwise, for which nobody has to be woken."""
        if self._watcher is not None:
            self._watcher.revoke(only_messages=only_messages)

    def ring(self, *, patient: bool = True) -> None:
        """Something in the store may be otherwise. Costs nothing where nobody waits. Who is `patient` is not
        woken by everything.
        """
        self.begin()
        self.count += 1
        for one in [False, True] if patient else [False]:
            if one in self._waiting:
                self._waiting.pop(one).set()

    async def beyond(self, count: int, *, patient: bool = False) -> None:
        """Return once there was a change after `count`; who is `patient` may hear of it a moment
        later. Others have their turn even if there was one already: whoever asks again and again may be what
        brings changes to light, by looking at the store.
        """
        import trio  # noqa: PLC0415 - commands that do not wait start faster without it

        if self.count != count:
            await trio.lowlevel.checkpoint()
        while self.count == count:
            if patient not in self._waiting:
                self._waiting[patient] = trio.Event()
            await self._waiting[patient].wait()
