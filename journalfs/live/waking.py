"""Waking those who wait for a store to change: readers of streams are told, and never ask by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

    from journalfs.api import Believer, Watcher


class Waking:
    """Wakes tasks that wait for a change of the store. A waiter must read `count`, then look at the store,
    then wait for a change beyond that count; so it misses none.
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
        """True if a waiter that is not patient waits."""
        return False in self._waiting

    def watched_by(self, watcher: Watcher) -> None:
        """Set a listener that is called at each change before the waiters wake."""
        self._watcher = watcher

    def leaving_told(self, believer: Believer) -> None:
        """Set a listener that is called, before the waiters wake, at changes by which messages
        may have left.
        """
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
        """Tell of a possible change. It costs nothing without waiters. `patient=False` wakes only
        the impatient ones.
        """
        self.begin()
        self.count += 1
        for one in [False, True] if patient else [False]:
            if one in self._waiting:
                self._waiting.pop(one).set()

    async def beyond(self, count: int, *, patient: bool = False) -> None:
        """Return once a change came after `count`; a `patient` waiter may be told a moment later. Other tasks
        get a turn even if the change is there already: a task that asks again and again may itself be what
        applies the changes.
        """
        import trio  # noqa: PLC0415 - commands that do not wait start faster without it

        if self.count != count:
            await trio.lowlevel.checkpoint()
        while self.count == count:
            if patient not in self._waiting:
                self._waiting[patient] = trio.Event()
            await self._waiting[patient].wait()
