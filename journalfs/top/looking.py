"""What is seen of a store: asked of `import journalfs`, in any thread, and kept until the next look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from journalfs.errors import JournalfsError, NoSuchName
from journalfs.python.store import Store, open_store
from journalfs.top.rates import Rates

if TYPE_CHECKING:
    from journalfs.python.disk import DiskUse
    from journalfs.store.queue_counts import QueueCounts

DETAILS_S: Final = 2.0
"""So long a queue's details count as known."""
INTERVAL_S: Final = 1.0
SHARE_MAX: Final = 0.1
"""Of the time that looking may take: a look that takes long is followed by a long pause."""
REFUSALS: Final = frozenset({"refused", "dropped", "limit-reached", "disk-limit-reached", "not-taken"})
"""Events that tell of what was not done."""


class Details(NamedTuple):
    """What takes a look at one queue alone."""

    delivering: int
    due_later: int
    failed: int
    expired: int
    paused: bool


class Limit(NamedTuple):
    """What limits do to an address."""

    size_bytes: int
    limit: str | None
    action: str | None
    blocked_writers: int
    dropped_messages: int
    paging: bool


@dataclass(frozen=True, slots=True)
class Look:
    """One look at all queues."""

    queues: Sequence[QueueCounts]
    status: Mapping[str, Any]
    took_s: float


class Looking:
    """A store that is looked at. `now_s` never goes back; use `close` in the end."""

    def __init__(self, path: Path, *, write: bool, now_s: Callable[[], float]) -> None:
        """`write`: open a store for writing that no mount has; a mount for writing is one anyway."""
        self._store = open_store(path, write=write)
        self._now_s = now_s
        self.path = path
        self.rates: Final = Rates()
        self.last: Look | None = None
        self._details: dict[str, tuple[float, Details | None]] = {}
        self._limits: dict[str, tuple[float, Limit | None]] = {}

    @property
    def store(self) -> Store:
        return self._store

    def close(self) -> None:
        self._store.close()

    @property
    def changes(self) -> bool:
        """Whether messages can be changed: in a mount for writing, or a store that was opened for that."""
        return self.last is not None and not self.last.status.get("readOnly", True)

    def look(self) -> Look:
        """Ask for all queues. Raises `JournalfsError`."""
        began = self._now_s()
        queues = self._store.overview()
        status = self._store.status()
        ended = self._now_s()
        self.rates.feed(ended, queues)
        self.last = Look(queues, status, ended - began)
        return self.last

    def pause_s(self) -> float:
        """How long to wait for the next look."""
        return INTERVAL_S if self.last is None else max(INTERVAL_S, self.last.took_s / SHARE_MAX)

    def details(self, name: str) -> Details | None:
        """Of one queue, `address::queue`, as last asked for; None: not yet, or it is gone."""
        known = self._details.get(name)
        return None if known is None else known[1]

    def ask_details(self, names: Sequence[str]) -> None:
        """Ask for the details of some queues, those that are seen, and forget others that were asked for long
        ago.
        """
        now_s = self._now_s()
        self._details = _young(self._details, now_s)
        for name in names:
            known = self._details.get(name)
            if known is None or known[0] <= now_s - DETAILS_S:
                self._details[name] = now_s, self._details_of(name)

    def _details_of(self, name: str) -> Details | None:
        try:
            facts = self._store[name].status()
        except NoSuchName:
            return None
        return Details(
            delivering=int(facts["deliveringCount"]),
            due_later=int(facts["scheduledCount"]),
            failed=int(facts["failedCount"]),
            expired=int(facts["expiredCount"]),
            paused=bool(facts["paused"]),
        )

    def limit(self, address: str) -> Limit | None:
        known = self._limits.get(address)
        return None if known is None else known[1]

    def ask_limits(self, addresses: Sequence[str]) -> None:
        """The same of what limits do to addresses."""
        now_s = self._now_s()
        self._limits = _young(self._limits, now_s)
        for address in addresses:
            known = self._limits.get(address)
            if known is None or known[0] <= now_s - DETAILS_S:
                self._limits[address] = now_s, self._limit_of(address)

    def _limit_of(self, address: str) -> Limit | None:
        try:
            facts = self._store[address].status()
        except NoSuchName:
            return None
        return Limit(
            size_bytes=int(facts["addressSize"]),
            limit=facts.get("limit"),
            action=facts.get("limitAction"),
            blocked_writers=int(facts.get("blockedWriters") or 0),
            dropped_messages=int(facts.get("droppedMessages") or 0),
            paging=bool(facts["paging"]),
        )

    def disk(self) -> DiskUse:
        return self._store.disk()

    def refusals(self) -> Sequence[Mapping[str, Any]]:
        """Events of what was refused, the newest first."""
        return [one for one in reversed(self._store.events()) if one["event"] in REFUSALS]

    def letters(self) -> Sequence[tuple[str, str, int]]:
        """Queue, reason and how many, of all queues that dead letters and expired messages are sent to."""
        found: list[tuple[str, str, int]] = []
        for one in () if self.last is None else self.last.queues:
            if one.letters and one.messages:
                try:
                    reasons = self._store[one.name].reasons()
                except JournalfsError as error:
                    reasons = {str(error): one.messages}
                found += [(one.name, reason, count) for reason, count in reasons.items() if count]
        return sorted(found, key=lambda letter: -letter[2])


def _young(kept: Mapping[str, tuple[float, Any]], now_s: float) -> dict[str, tuple[float, Any]]:
    """What was asked for lately: the others were scrolled past."""
    return {name: one for name, one in kept.items() if one[0] > now_s - 10 * DETAILS_S}
