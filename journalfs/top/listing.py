"""The list of queues: which are shown, in which order, and the text of one row when it is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from journalfs.showing import printable
from journalfs.top import figures

if TYPE_CHECKING:
    from journalfs.store.queue_counts import QueueCounts
    from journalfs.top.looking import Looking

HEADER: Final = (
    "Queue", "Messages", "In/s", "Out/s", "Oldest", "Delivering", "Due later", "Paged", "Bodies", "Limit",
)  # fmt: skip
SORTS: Final = ("messages", "in", "out", "oldest", "bytes", "name")
"""Keys that queues are sorted by, in the order in which a key press goes through them."""
_NEVER_MS: Final = 1 << 62


class QueueList:
    """Queues by a sort and a filter. `show` after each look; a row is made when it is asked for."""

    def __init__(self, looking: Looking, now_ms: Callable[[], int]) -> None:
        self._looking = looking
        self._now_ms = now_ms
        self.sort = SORTS[0]
        self.reverse = False
        """The other way round than what is first by nature: most, fastest, oldest, or the alphabet."""
        self.filter = ""
        self._shown: Sequence[QueueCounts] = ()
        self._made_of: tuple[Sequence[QueueCounts], str, bool, str] = (), "", False, ""
        """What is shown follows from these, where nothing moves."""

    def __len__(self) -> int:
        return len(self._shown)

    def show(self) -> None:
        """Choose and sort, of the last look."""
        look = self._looking.last
        chosen: Sequence[QueueCounts] = () if look is None else look.queues
        made_of = chosen, self.sort, self.reverse, self.filter
        if self._made_of[1:] == made_of[1:] and self._made_of[0] is chosen and not self._looking.rates.moving:
            return
        self._made_of = made_of
        if self.filter:
            chosen = list(filter(_accepts(self.filter), chosen))
        self._shown = sorted(chosen, key=self._key(), reverse=self._descends() != self.reverse)

    def _descends(self) -> bool:
        return self.sort not in ("name", "oldest")

    def _key(self) -> Callable[[QueueCounts], Any]:
        rates = self._looking.rates
        keys: Mapping[str, Callable[[QueueCounts], Any]] = {
            "messages": attrgetter("messages"),
            "in": lambda one: (rates.of(one.id).came, one.messages),
            "out": lambda one: (rates.of(one.id).left, one.messages),
            "oldest": lambda one: one.oldest_timestamp or _NEVER_MS,
            "bytes": attrgetter("body_bytes"),
            "name": attrgetter("address", "queue"),
        }
        return keys[self.sort]

    def at(self, index: int) -> QueueCounts | None:
        return self._shown[index] if 0 <= index < len(self._shown) else None

    def index_of(self, name: str) -> int | None:
        return next((at for at, one in enumerate(self._shown) if one.name == name), None)

    def names(self, begin: int, end: int) -> list[str]:
        return [one.name for one in self._shown[max(0, begin) : end]]

    def row(self, index: int) -> tuple[str, ...]:
        one = self._shown[index]
        details = self._looking.details(one.name)
        rate = self._looking.rates.of(one.id) if self._looking.rates.known else None
        oldest = "-" if one.oldest_timestamp is None else figures.age(self._now_ms() - one.oldest_timestamp)
        return (
            printable(one.name),
            f"{one.messages:,}",
            figures.rate(None if rate is None else rate.came),
            figures.rate(None if rate is None else rate.left),
            oldest,
            "…" if details is None else f"{details.delivering:,}",
            "…" if details is None else f"{details.due_later:,}",
            f"{one.paged:,}",
            figures.size(one.body_bytes),
            one.limit or ("paused" if details is not None and details.paused else ""),
        )

    def facts(self, index: int) -> dict[str, object]:
        """A row for programs. Times in milliseconds since 1970."""
        one = self._shown[index]
        details, rate = self._looking.details(one.name), self._looking.rates.of(one.id)
        return {
            "queue": one.name,
            "messages": one.messages,
            "inPerSecond": round(rate.came, 3),
            "outPerSecond": round(rate.left, 3),
            "oldestTimestamp": one.oldest_timestamp,
            "delivering": None if details is None else details.delivering,
            "dueLater": None if details is None else details.due_later,
            "failed": None if details is None else details.failed,
            "expired": None if details is None else details.expired,
            "paged": one.paged,
            "bodyBytes": one.body_bytes,
            "limit": one.limit,
            "letters": one.letters,
        }


def _accepts(text: str) -> Callable[[QueueCounts], bool]:
    """Part of a name, in any case; with `*` or `?` a pattern of the whole name."""
    wanted = text.casefold()
    if any(one in wanted for one in "*?["):
        return lambda one: fnmatchcase(one.name.casefold(), wanted)
    return lambda one: wanted in one.name.casefold()
