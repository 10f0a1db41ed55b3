"""What is done when messages cannot be rendered as they were measured.

Measures come from an index or from an earlier look, and a disk may give other bytes since: none, or wrong
ones, and no time of a file tells. Who was reading gets the error, for what was opened had another length.
Then what can be to blame is read anew, so that the next one gets what there is, with the damage listed.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from journalfs.engine.state_batch import file_slots, large_messages
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.store.runs import JournalRun, Run, pages_of

if TYPE_CHECKING:
    from journalfs.store.content import QueueContent

NOT_AS_MEASURED: Final = (FileTorn, CoreRefused)


class CloserLook:
    """Remembers what is rendered, and looks at it when that fails."""

    __slots__ = ("_content", "_epoch", "_runs")

    def __init__(self, content: QueueContent, runs: Iterable[Run]) -> None:
        self._content = content
        self._runs = list(runs)
        self._epoch = content.core.epoch

    def __call__(self, error: FileTorn | CoreRefused) -> None:
        """Find out what became of the messages. Takes over what the broker did meanwhile, too."""
        core = self._content.core
        if core.epoch == self._epoch:  # else all was read anew since
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
