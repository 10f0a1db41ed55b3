"""Which backups stay when old ones are removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from journalfs.backup.contents import created_ms
from journalfs.errors import WrongCall

Period = tuple[int, ...]

_PERIODS: Final[dict[str, Callable[[datetime], Period]]] = {
    "daily": lambda made: (made.year, made.month, made.day),
    "weekly": lambda made: made.isocalendar()[:2],
    "monthly": lambda made: (made.year, made.month),
}
"""What tells one day, week or month from another, in UTC as in the names of backups."""


@dataclass(frozen=True, slots=True)
class Keep:
    """So many of the newest, and the newest backup of so many days, weeks and months that have one."""

    newest: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0

    def chosen(self, names: Sequence[str]) -> set[str]:
        """Return the names that stay, of names that rise with time. Raises WrongCall where none would."""
        if max(self.newest, self.daily, self.weekly, self.monthly) < 1:
            raise WrongCall("at least one backup stays: say --keep N, --keep-daily N or another of them")
        kept = set(names[-self.newest :]) if self.newest > 0 else set()
        for period, of in _PERIODS.items():
            seen: dict[Period, str] = {}
            for name in reversed(names):
                made = datetime.fromtimestamp(created_ms(name) / 1000, UTC)
                seen.setdefault(of(made), name)
            kept.update(list(seen.values())[: getattr(self, period)])
        return kept
