"""What is done when messages cannot be rendered as they are known.

A broker may have deleted a file, or used it again, since the last look: then there is a newer state to take
over. Or messages are not as they were measured. Measures come from an index or from an earlier look, and a
disk may give other bytes since: none, or wrong ones, and no time of a file tells. Then what can be to blame
is read anew, so that there is what there is, with the damage listed.

Who opens something has it opened again after such a look. Who was reading gets the error, for what was opened
had another length.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from journalfs.engine.state_batch import file_slots, large_messages
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.errors import Gone, StaleView
from journalfs.limits import LOOKS_AGAIN_MAX
from journalfs.store.runs import JournalRun, Run, pages_of

if TYPE_CHECKING:
    from journalfs.store.content import QueueContent

NOT_AS_MEASURED: Final = (FileTorn, CoreRefused)

OVERTAKEN: Final = (StaleView, Gone)
"""A broker was faster: what was to be read has been consumed, or lies elsewhere by now."""

ShownT = TypeVar("ShownT")


class CloserLook:
    """Remembers what is rendered, and looks at it when that fails."""

    __slots__ = ("_content", "_epoch", "_runs")

    def __init__(self, content: QueueContent) -> None:
        self._content = content
        self._runs: list[Run] = []
        self._epoch = content.core.epoch

    def at(self, runs: Iterable[Run]) -> None:
        """These are rendered next."""
        self._runs = list(runs)

    def __call__(self, error: FileTorn | CoreRefused | StaleView | Gone) -> None:
        """Find out what became of the messages. Takes over what the broker did meanwhile, too."""
        core = self._content.core
        if isinstance(error, NOT_AS_MEASURED) and core.epoch == self._epoch:  # else all was read anew since
            with contextlib.suppress(CoreRefused):  # some of it was acknowledged since
                self._blame(error)
        core.look_again()

    def _blame(self, error: FileTorn | CoreRefused) -> None:
        content = self._content
        core, state = content.core, content.state
        refs = array("I", [ref for run in self._runs if isinstance(run, JournalRun) for ref in run.refs])
        if isinstance(error, FileTorn):
            core.torn.update(file_slots(state, refs, content.files.slot_limit))
        for number in pages_of(self._runs):
            content.doubt_page(number)
        large = set(large_messages(state, refs).values())
        if not core.journal_doubted and core.bodies.doubt(large):
            core.index_void = True
        elif refs and isinstance(error, CoreRefused):
            core.doubt_journal()


def looking_again(content: QueueContent, show: Callable[[CloserLook], ShownT]) -> ShownT:
    """What `show` makes of messages; it chooses them, and tells the look that it is given which ones, before
    it renders them. Where they are not what is known of them that look is taken, and `show` chooses anew from
    what there is by then. Raises what it raises the last time.
    """
    for _ in range(LOOKS_AGAIN_MAX):
        look = CloserLook(content)
        try:
            return show(look)
        except (*NOT_AS_MEASURED, *OVERTAKEN) as error:
            look(error)
    return show(CloserLook(content))
