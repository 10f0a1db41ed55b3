"""The journal being read anew in a thread, while the store goes on answering from what it has."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journalfs.records.files.loader import JournalLoader


class Reloading:
    """One such reading. `load` is called once, or never where nobody wants it any more. `before`: what the
    store has meanwhile.
    """

    __slots__ = ("_load", "_loaded", "before")

    def __init__(self, before: JournalLoader, load: Callable[[], JournalLoader]) -> None:
        self.before = before
        self._load = load
        self._loaded: Future[JournalLoader] = Future()

    def read(self) -> None:
        """What the thread does."""
        if not self._loaded.set_running_or_notify_cancel():
            return
        try:
            self._loaded.set_result(self._load())
        except BaseException as error:  # raised where the result is asked for
            self._loaded.set_exception(error)

    def result(self) -> JournalLoader | None:
        """What was read; whoever cannot do without waits until the thread is through. `None` where the thread
        has not begun: it may not for as long as somebody waits here, and so it has nothing to do any more.
        """
        return None if self._loaded.cancel() else self._loaded.result()
