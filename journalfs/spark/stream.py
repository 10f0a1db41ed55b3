"""`readStream.format("journalfs")`: each message once, however often the query is stopped and started."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource

from journalfs.clock import Clock, SystemClock
from journalfs.engine.columns import Array
from journalfs.errors import JournalfsError, ReadOnlyStore, WrongCall
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId
from journalfs.selector import compile_selector
from journalfs.spark.changing import acknowledge
from journalfs.spark.options import Options
from journalfs.spark.pieces import Pieces
from journalfs.spark.place import place_of
from journalfs.spark.plan import chosen_queues, plan
from journalfs.spark.reading import Wanted, read_pieces
from journalfs.store import open_store
from journalfs.store.node_lock import node_id_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from journalfs.store.store import JournalStore
    from journalfs.views.queues import StoreQueue


# Positions of a stream: exactly which messages have been taken, in a few kilobytes.
#
# Ids of messages rise, and none is used twice. But a message may become live after others with higher ids:
# those of a transaction that commits late, and, by moments, those of clients that send at the same time. So
# a position is the highest id taken, which of the ids shortly before it are taken, and which older ones may
# still come because a transaction that is not decided holds them.

WINDOW_IDS: Final = 65_536
"""How many ids before the highest one are remembered one by one. Ids are drawn when a message is sent; while
one is on its way into the journal, not nearly as many others are.
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which store a position is of: ids mean nothing in another. A copy or a backup is the same one."""

    node: str | None
    """The broker's id of its node; None before its first start."""
    path: str
    """Says which it is where there is no such id."""

    def as_json(self) -> dict[str, Any]:
        return {"node": self.node, "path": self.path}

    def check(self, said: Mapping[str, Any]) -> None:
        """Raise `WrongCall` if an offset is of another store. Older ones do not tell."""
        other = said.get("store")
        if not isinstance(other, Mapping):
            return
        node, path = other.get("node"), other.get("path")
        same = node == self.node if node is not None and self.node is not None else path == self.path
        if not same:
            raise WrongCall(
                f"this checkpoint is of another store, {path} (node {node}), and not of {self.path} (node "
                f"{self.node}): give the query a checkpointLocation of its own"
            )


@dataclass(frozen=True, slots=True)
class Position:
    """Everything that a stream has taken."""

    highest: int = -1
    """No higher id was taken."""
    taken: bytes = b""
    """A bit for each id of the window, which ends with the highest: whether it was taken."""
    awaited: tuple[int, ...] = ()
    """Ids before the window that are not taken and may come. All others there are taken, or never come."""
    skipped: int = -1
    """Up to this id nothing belongs to the stream: it began with what came later."""

    @property
    def floor(self) -> int:
        """First id of the window."""
        return self.highest + 1 - 8 * len(self.taken)

    def has(self, ids: Array) -> Array:
        """Of each id, whether it was taken."""
        bits = np.unpackbits(np.frombuffer(self.taken, "u1")).astype("?")
        within = (ids >= self.floor) & (ids <= self.highest)
        found = ids < self.floor
        if len(bits):
            found |= within & bits[np.clip(ids - self.floor, 0, len(bits) - 1)]
        if self.awaited:
            found &= ~np.isin(ids, np.array(self.awaited, "i8"))
        return np.asarray(found)

    def with_ids(self, ids: Array, may_come: Collection[int]) -> Self:
        """The position once `ids` were taken too. `may_come` are those that are not taken now and may be
        later: those that are not decided, and those that are left for another time.
        """
        highest = max(self.highest, int(ids.max(initial=-1)))
        size = (min(WINDOW_IDS, highest + 1) + 7) // 8 * 8
        floor = highest + 1 - size
        window = np.arange(floor, highest + 1, dtype="i8")
        taken = self.has(window) & (window >= 0)
        taken[ids[ids >= floor] - floor] = True
        missed = {one for one in may_come if one < floor and not self._took(one)} - set(ids.tolist())
        return type(self)(highest, np.packbits(taken).tobytes(), tuple(sorted(missed)), self.skipped)

    def _took(self, one: int) -> bool:
        return bool(self.has(np.array([one], "i8"))[0])

    # ---- as Spark keeps it ----

    def as_json(self) -> dict[str, Any]:
        packed = base64.b64encode(zlib.compress(self.taken, 9)).decode()
        return {
            "highest": self.highest,
            "taken": packed,
            "awaited": list(self.awaited),
            "skipped": self.skipped,
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises `WrongCall` for what is no position."""
        try:
            taken = zlib.decompress(base64.b64decode(said["taken"], validate=True))
            awaited = tuple(map(int, said["awaited"]))
            return cls(int(said["highest"]), taken, awaited, int(said["skipped"]))
        except (KeyError, ValueError, TypeError, zlib.error):
            raise WrongCall(f"a checkpoint that no stream of format journalfs wrote: {said!r:.200}") from None


SETTLE_NS: Final = 200_000_000
"""A message of a broker that is at work is taken when it was there this long before: by then its references
in other queues are there too, and so are messages with lower ids that were on their way at the same time.
"""

_MESSAGES: Final = (MessageType.MESSAGE, MessageType.LARGE_MESSAGE)


class StreamReader(DataSourceStreamReader, datasource.SupportsTriggerAvailableNow):
    """Lives in a process of its own beside the driver, as long as the query runs."""

    def __init__(self, options: Options, schema: StructType, clock: Clock | None = None) -> None:
        self.options = options
        self.schema = schema
        self._clock = clock
        self._view: LiveView | None = None
        self._target: Position | None = None
        self._acknowledged: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, object]:
        """What tasks get: they read, and follow nothing."""
        return {**self.__dict__, "_view": None, "_target": None, "_clock": None}

    @property
    def view(self) -> LiveView:
        if self._view is None:
            self._view = LiveView(self.options, self._clock or SystemClock())
        return self._view

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        if self.options.starting == "earliest":
            return self._said(Position())
        self.view.look()
        ids = self.view.ids()
        start = Position().with_ids(ids, self.view.undecided())
        return self._said(Position(start.highest, start.taken, start.awaited, start.highest))

    def _said(self, position: Position) -> dict[str, Any]:
        return {**position.as_json(), "store": self.view.identity.as_json()}

    def _position(self, said: Mapping[str, Any]) -> Position:
        """Raises `WrongCall` for the checkpoint of something else."""
        self.view.identity.check(said)
        return Position.of_json(said)

    def getDefaultReadLimit(self) -> datasource.ReadLimit:  # noqa: N802
        most = self.options.max_messages
        return datasource.ReadAllAvailable() if most is None else datasource.ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take all that is there now, in as many batches as it needs, and nothing that comes later."""
        self.view.look(settled=True)
        self._target = Position().with_ids(self.view.ids(), self.view.undecided())

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any], limit: datasource.ReadLimit
    ) -> dict[str, Any]:
        # Spark plans from where its last batch ended once that is in its log of commits. It calls `commit`
        # only when there is another batch, which after the last one may be never.
        self.commit(start)
        position = self._position(start)
        self.view.look()
        ids = self.view.ids()
        new = ids[~position.has(ids)]
        ready = self.view.settled(new)
        if self._target is not None:
            ready = new[self._target.has(new)]
        taken, rest = _limited(ready, new, limit)
        if not len(taken):
            return dict(start)
        return self._said(position.with_ids(taken, {*self.view.undecided(), *rest.tolist()}))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        before, after = self._position(start), self._position(end)
        return self.view.plan(lambda ids: after.has(ids) & ~before.has(ids))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Pieces), "partitions are pieces"
        wanted = Wanted(self.schema, self.options.batch_bytes, selector=self.options.selector)
        return read_pieces(wanted, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark has what comes before `end`, and asks for none of it again."""
        if self.options.acknowledge and end != self._acknowledged:
            self.view.acknowledge(self._position(end))
            self._acknowledged = dict(end)

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None


class RefusedReader(DataSourceStreamReader, datasource.SupportsTriggerAvailableNow):
    """A stream that was asked for wrongly. What `streamReader()` raises PySpark answers with an error of its
    own, about a variable; what the first call of a reader raises it shows.
    """

    def __init__(self, error: JournalfsError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def getDefaultReadLimit(self) -> datasource.ReadLimit:  # noqa: N802
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        raise self._error

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any], limit: datasource.ReadLimit
    ) -> dict[str, Any]:
        raise self._error

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error


def _limited(ready: Array, new: Array, limit: datasource.ReadLimit) -> tuple[Array, Array]:
    """The ids to take now, and those to leave for later. A message counts once for each of its queues."""
    chosen, rows = np.unique(ready, return_counts=True)
    if isinstance(limit, datasource.ReadMaxRows):
        count = int(np.searchsorted(np.cumsum(rows), limit.max_rows, side="right"))
        chosen = chosen[: max(count, 1)]
    return chosen, np.setdiff1d(new, chosen)


class LiveView:
    """The store of a stream, followed as it changes."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._place = place_of(options.path)
        if options.acknowledge and self._place.read_only:
            raise ReadOnlyStore(
                f"{options.path}: option 'acknowledge' changes the store, and this is a snapshot or mounted "
                "read-only"
            )
        self._store: JournalStore = open_store(self._place.store, index=False)
        layout = self._store.core.layout
        node_id = node_id_of(layout)
        self.identity = Identity(None if node_id is None else str(node_id), str(layout.root))
        self._queues: list[StoreQueue] = []
        self._looked_ns: int | None = None
        self._older: Array = np.zeros(0, "i8")
        self._newer: Array = np.zeros(0, "i8")
        self._ids: Array | None = None

    def look(self, *, settled: bool = False) -> None:
        """Take over what changed. `settled`: what is there now is to count as having been there for long."""
        self._store.look_now()
        self._queues = chosen_queues(self._store, self._place, self._options.queues)
        self._ids = None
        now_ns = self._clock.monotonic_ns()
        if settled:
            self._older = self._newer = self.ids()
            self._looked_ns = now_ns
        elif self._looked_ns is None or now_ns - self._looked_ns >= SETTLE_NS:
            self._older, self._newer = self._newer, self.ids()
            self._looked_ns = now_ns

    def ids(self) -> Array:
        """Ids of the messages in the chosen queues, one that is in several of them as often."""
        if self._ids is None:
            found = [
                np.frombuffer(run.columns(queue.content).ids, "i8")
                for queue in self._queues
                for run in queue.content.live()
            ]
            self._ids = np.concatenate(found) if found else np.zeros(0, "i8")
        return self._ids

    def settled(self, ids: Array) -> Array:
        """Those of the ids that were there long enough. Where nobody writes, all were."""
        if not self._store.core.live_broker:
            return ids
        return ids[np.isin(ids, self._older)]

    def undecided(self) -> Collection[int]:
        """Ids of messages that may become live, again or for the first time, after higher ones."""
        core = self._store.core
        found = {
            operation.record_id
            for transaction in core.loader.state.open_transactions()
            for operation in transaction.operations
            if operation.kind == RecordKind.ADD and operation.user_type in _MESSAGES
        }
        for queue in self._queues:
            for run in queue.content.delivering():
                found.update(run.columns(queue.content).ids)
        for paged in core.pages.values():
            for number in paged.numbers():
                if paged.summary(number).has_transactions:
                    scan = paged.scan(number)
                    ids = zip(scan.message_ids(), scan.tx_ids(), strict=True)
                    found.update(one for one, tx in ids if not core.cursors.counts(tx))
        return found

    def plan(self, choose: Any) -> list[Pieces]:
        if self._looked_ns is None:
            self.look()
        return plan(self._store, self._queues, self._options, choose)

    def acknowledge(self, taken: Position) -> None:
        """Acknowledge what a stream has taken of the chosen queues, and its selector accepts."""
        self.look()
        found = [(queue, self._to_acknowledge(queue, taken)) for queue in self._queues]
        acknowledge(self._place.store, self._place.mount, found)

    def _to_acknowledge(self, queue: StoreQueue, taken: Position) -> list[MessageId]:
        selector = self._options.selector
        compile_selector(selector)
        listing = (queue.where(selector) if selector.strip() else queue).listing()
        ids = np.fromiter((listing.message_id(at) for at in range(len(listing))), "i8", len(listing))
        return [MessageId(one) for one in ids[taken.has(ids) & (ids > taken.skipped)].tolist()]

    def close(self) -> None:
        self._store.close()
