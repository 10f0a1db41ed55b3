"""A screen on which messages can be changed: a plan is made, shown, and done if somebody says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from journalfs.errors import JournalfsError
from journalfs.showing import printable
from journalfs.top.dialogs import Confirm

if TYPE_CHECKING:
    from textual.worker import Worker

    from journalfs.top.actions import Plan
    from journalfs.top.looking import Looking

READ_ONLY = (
    "nothing is changed here: this is only read. A mount for writing can be changed, and with --write a "
    "store that is not mounted"
)


class ActingScreen(Screen[Any]):
    """Of a store that is looked at."""

    def __init__(self, looking: Looking) -> None:
        super().__init__()
        self.looking = looking
        self._begun: dict[str, Worker[None]] = {}

    def tell(self, error: JournalfsError) -> None:
        self.notify(printable(str(error)), severity="error", timeout=10, markup=False)

    def begin(self, work: Callable[[], Coroutine[None, None, None]], group: str) -> None:
        """Do something beside what is shown, in place of what was begun of its group before."""
        self._begun[group] = self.run_worker(work, exclusive=True, group=group)

    def begin_unless_busy(self, work: Callable[[], Coroutine[None, None, None]], group: str) -> None:
        """The same, unless something of the group is being done: what comes each second must not keep that
        from ever ending.
        """
        begun = self._begun.get(group)
        if begun is None or begun.is_finished:
            self.begin(work, group)

    def propose(self, make: Callable[[], Plan]) -> None:
        """Make a plan in a thread, show it, and do it if it is confirmed."""
        if not self.refuses():
            self.begin(partial(self._proposed, make), "act")

    def refuses(self) -> bool:
        """Whether nothing can be changed here; that is said then."""
        if not self.looking.changes:
            self.notify(READ_ONLY, severity="warning", markup=False)
        return not self.looking.changes

    async def _proposed(self, make: Callable[[], Plan]) -> None:
        try:
            plan = await asyncio.to_thread(make)
            if await self.app.push_screen_wait(Confirm(plan)):
                self.notify(printable(await asyncio.to_thread(plan.do)), markup=False)
                self.done()
        except JournalfsError as error:
            self.tell(error)

    def done(self) -> None:
        """Is called after a change."""
