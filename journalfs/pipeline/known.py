"""What an archive on this machine knows of a store: whether the last run left anything new to a next one.

The last run's `_run.json` has, for each source and its options, a mark of what the store was like, and how
many rows the archive has of what was live. Called by `journalfs pipeline archive` before Spark starts, and
after the run. It never decides what is archived: whatever it does not know for sure is left to a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from journalfs.pipeline.balance import Asked, Rows
from journalfs.pipeline.folders import RUN, LocalFolder, runs
from journalfs.pipeline.mark import sum_of

KNOWN: Final = "known"
"""Key in `_run.json`."""


@dataclass(frozen=True, slots=True)
class Known:
    """What one archive knows of one source with its options."""

    folder: LocalFolder
    asked: Asked
    key: str

    @classmethod
    def of(cls, folder: LocalFolder, asked: Asked, options: Sequence[object]) -> Known:
        """`options` are all that decides which messages are archived, and as what."""
        return cls(folder, asked, sum_of(options)[:16])

    def rows(self) -> Mapping[str, Rows] | None:
        """Return the rows that the archive has of what is live, by queue, where nothing has changed since the
        last run; else None.
        """
        found = self._run().get(KNOWN, {}).get(self.key)
        if not isinstance(found, dict) or found.get("mark") != self._mark():
            return None
        return {name: Rows(*counts) for name, counts in found["rows"].items()}

    def note(self, rows: Mapping[str, Rows], mark: str) -> None:
        """Note what a run found that has ended. `mark`: of the store as it is now. Nothing is noted where it
        has changed meanwhile, for then nobody knows what of it the run has seen.
        """
        said = self._run()
        if not said or mark != self.asked.mark:
            return
        counts = {name: [one.whole, one.damaged] for name, one in rows.items()}
        known = {**said.get(KNOWN, {}), self.key: {"mark": self._mark(), "rows": counts}}
        self.folder.replace(self._name, json.dumps({**said, KNOWN: known}).encode() + b"\n")

    def _mark(self) -> str:
        """With the runs that the archive has: somebody may remove one, so that its messages come again."""
        return sum_of([self.asked.mark, sorted(runs(self.folder))])

    @property
    def _name(self) -> str:
        return f"{RUN}{max(runs(self.folder), default=0):06d}/_run.json"

    def _run(self) -> dict[str, Any]:
        """What the last run says of itself; nothing where there is none, or it cannot be read."""
        try:
            found = json.loads((self.folder.path / self._name).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
