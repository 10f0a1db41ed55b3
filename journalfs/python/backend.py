"""What does the work below the Python interface: a store of this process, or the files of a mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from journalfs.api import QueuePath
from journalfs.python.message import Message

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.python.disk import DiskUse
    from journalfs.python.glimpses import Glimpsing
    from journalfs.python.letters import SentBack
    from journalfs.store.queue_counts import QueueCounts
    from journalfs.store.store import JournalStore

Place: TypeAlias = tuple[str, str | None]
"""An address, and a queue of it or None."""


class Lines(Protocol):
    """Envelope lines of one queue, as they were when it was opened."""

    async def more(self) -> Sequence[bytes]:
        """The next lines, without their newlines; empty at the end."""

    def close(self) -> None: ...


class Batch(Protocol):
    """Messages of one queue that follow each other."""

    @property
    def messages(self) -> Sequence[Message]: ...

    def end(self) -> None:
        """Is called once they were looked at: those that somebody keeps stay whole."""


class Messages(Protocol):
    """The same as `Lines`, as messages."""

    async def more(self) -> Batch | None:
        """The next ones; None at the end."""

    def close(self) -> None: ...


class LineMessages:
    """Messages, each made of its line."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.messages: Sequence[Message] = list(map(Message, lines))

    def end(self) -> None:
        """They are whole."""


class MadeOfLines:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def more(self) -> LineMessages | None:
        found = await self._lines.more()
        return LineMessages(found) if found else None

    def close(self) -> None:
        self._lines.close()


class Taken(Protocol):
    """A message that nobody else gets until one of the two methods is called."""

    @property
    def line(self) -> bytes: ...

    async def acknowledge(self) -> None: ...

    async def give_back(self) -> None:
        """Count an attempt that failed, and let others have it."""


class Arrivals(Protocol):
    """Messages that come to a queue from when this was made."""

    async def next(self, timeout_s: float | None) -> bytes | None:
        """The next line; None after so many seconds without one, or once the queue is gone."""

    def close(self) -> None: ...


class Backend(Protocol):
    """Raises `JournalfsError` and nothing else."""

    @property
    def source(self) -> str:
        """What was opened, as it was named."""

    @property
    def writes(self) -> bool: ...

    async def addresses(self) -> Sequence[str]: ...

    async def queues(self) -> Sequence[QueuePath]: ...

    async def status(self, place: Place | None) -> Mapping[str, object]: ...

    async def count(self, queue: QueuePath, selector: str | None) -> int: ...

    async def lines(self, queue: QueuePath, selector: str | None) -> Lines: ...

    async def messages(self, queue: QueuePath, selector: str | None) -> Messages: ...

    async def arrivals(self, queue: QueuePath, selector: str | None) -> Arrivals: ...

    async def overview(self) -> Sequence[QueueCounts]: ...

    async def glimpses(self, queue: QueuePath, selector: str | None) -> Glimpsing: ...

    async def events(self) -> Sequence[Mapping[str, Any]]: ...

    async def reasons(self, queue: QueuePath) -> Mapping[str, int]: ...

    async def disk(self) -> DiskUse: ...

    async def publish(self, place: Place, lines: bytes) -> None: ...

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None: ...

    async def remove(self, queue: QueuePath, selector: str | None) -> int: ...

    async def move(self, queue: QueuePath, selector: str | None, target: QueuePath) -> int: ...

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int: ...

    async def move_those(self, queue: QueuePath, ids: Sequence[int], target: QueuePath) -> int: ...

    async def redrive(
        self, queue: QueuePath, selector: str | None, ids: Sequence[int] | None, *, plans: bool
    ) -> SentBack:
        """Of all that the selector accepts, or of these messages. `plans`: nothing is changed."""

    async def create(self, place: Place) -> None: ...

    async def begin(self) -> Transaction: ...

    async def undo(self, since: str | None, *, plans: bool = False) -> Mapping[str, int]: ...

    async def snapshot(self, name: str) -> None: ...

    async def snapshots(self) -> Sequence[str]: ...

    async def drop_snapshot(self, name: str) -> None: ...

    async def of_snapshot(self, name: str) -> Backend: ...

    async def of_history(self, name: str) -> Backend: ...

    async def account(self) -> Account: ...

    async def metrics(self) -> bytes:
        """What Prometheus is told of the store, as text."""

    def moment(self) -> JournalStore:
        """What never changes, in any thread. Raises `WrongCall` where that is not known here."""


class Transaction(Protocol):
    """Nothing of it happens before `commit`, and nothing after `roll_back`."""

    async def publish(self, place: Place, lines: bytes) -> None: ...

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None: ...

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        """Remove messages at the commit; how many there are."""

    async def commit(self) -> None: ...

    async def roll_back(self) -> None: ...
