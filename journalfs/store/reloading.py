"""Reads the journal again in a thread, while the store goes on answering from its present state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journalfs.records.files.loader import JournalLoader


class Reloading:
    """One reading. `load` is called once, or never if the reading is cancelled before. `before`: the present
    state of the store.
    """

    __slots__ = ("_load", "_loaded", "before")

    def __init__(self, before: JournalLoader, load: Callable[[], JournalLoader]) -> None:
        self.before = before
        self._load = load
        self._loaded: Future[JournalLoader] = Future()

    def read(self) -> None:
        """Read the journal; runs in the thread."""
        if not self._loaded.set_running_or_notify_cancel():
            return
        try:
            self._loaded.set_result(self._load())
        except BaseException as error:  # raised where the result is asked for
            self._loaded.set_exception(error)

    def result(self) -> JournalLoader | None:
        """Return the new state, waiting for the thread if need be. `None` if the thread has not begun: it
        cannot while the caller waits here, and its work is cancelled.
        """
        return None if self._loaded.cancel() else self._loaded.result()
