"""Sends messages back to the queues they came from: dead letters, expired and moved messages.

It does so as a broker's retry, with two differences: the notes on the message are taken away, and it goes
only to the queue it came from, even if that has the name of its address.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from journalfs.api import QueuePath, Redriven, Require, all_may
from journalfs.bindings.model import Queue as QueueModel
from journalfs.broker.consume.copies import Copies, Restored
from journalfs.broker.consume.leaving import Choice, chosen_runs
from journalfs.change.change import pieces
from journalfs.errors import AddressFull, Damaged, HeldByReaders, NoOrigin, RecordTooLarge
from journalfs.ids import MessageId
from journalfs.live.core import Core
from journalfs.views.origins import Origin, origins_of
from journalfs.views.queues import StoreQueue

TOGETHER_MAX: Final = 8192
"""Messages that go back in one transaction."""

NAMED_MAX: Final = 20
"""Messages that stay and that an event names."""

_STAYS: Final = (AddressFull, Damaged, RecordTooLarge, HeldByReaders)
"""Why some messages stay and others may go."""

Move = Callable[[StoreQueue, QueuePath, Choice, type[Copies], str], Awaitable[int]]
"""Moves messages of a queue to another one: `Leaving.move`."""


class Redriving:
    def __init__(self, core: Core, concerns: Callable[[str, str], bool], move: Move) -> None:
        """`concerns(first, second)`: True if messages sent to the second address may reach
        queues of the first.
        """
        self._core = core
        self._concerns = concerns
        self._move = move

    async def planned(self, source: StoreQueue, message_ids: Sequence[MessageId]) -> Redriven:
        """Return what would happen to messages. Nothing changes."""
        ways = await self._ways(source, message_ids)
        sent: Counter[QueuePath] = Counter()
        for path, _, ids in ways.targets:
            sent[path] += len(ids)
        return Redriven(dict(sent), ways.stayed())

    async def redrive(
        self, source: StoreQueue, message_ids: Sequence[MessageId], require: Require = all_may
    ) -> Redriven:
        """Raises `NoOrigin` where none of them can go, what `require` raises of the queues that they go to,
        and what a move raises where all is at an end.
        """
        ways = await self._ways(source, message_ids)
        require(path for path, _, _ in ways.targets)
        sent: Counter[QueuePath] = Counter()
        try:
            for path, address, ids in ways.targets:
                for some in pieces(ids, TOGETHER_MAX):
                    sent[path] += await self._send(source, path, address, some, ways)
        finally:
            self._tell(source, sent, ways.stayed())
        if ways.stays and not sent.total():
            raise NoOrigin(f"{source.model.address}::{source.name}", "; ".join(ways.stays))
        return Redriven(dict(sent), ways.stayed())

    async def _ways(self, source: StoreQueue, message_ids: Sequence[MessageId]) -> _Ways:
        found: dict[Origin, array[int]] = {}
        async for message_id, origin in origins_of(source.content, chosen_runs(source, message_ids)):
            found.setdefault(origin._replace(expired=False), array("q")).append(message_id)
        ways = _Ways()
        for origin, ids in found.items():
            target, why = self._target(source, origin)
            if target is None or origin.address is None:
                ways.stay(why, ids)
            else:
                ways.targets.append(((target.address, target.name), origin.address, ids))
        return ways

    def _target(self, source: StoreQueue, origin: Origin) -> tuple[QueueModel | None, str]:
        """The queue, or why there is none."""
        if origin.address is None or origin.queue is None:
            return None, "nothing says where they come from"
        shown = f"{origin.address}::{origin.queue}"
        target = self._core.bindings.queue_named(origin.queue)
        if target is None:
            return None, f"there is no queue {shown} any more"
        if not self._concerns(target.address, origin.address):
            return (
                None,
                f"the queue {origin.queue} is one of the address {target.address} now, not of {shown}",
            )
        if target.queue_id == source.content.queue_id:
            return None, f"they are in {shown}, where they come from"
        return target, ""

    async def _send(
        self,
        source: StoreQueue,
        path: QueuePath,
        address: str,
        ids: array[int],
        ways: _Ways,
    ) -> int:
        """Send some in one transaction, or those of them that can be sent, each in one of its own."""
        try:
            wanted = cast("Sequence[MessageId]", ids)
            return await self._move(source, path, lambda found: chosen_runs(found, wanted), Restored, address)
        except _STAYS as error:
            if len(ids) == 1 or isinstance(error, AddressFull):
                ways.stay(str(error), ids)
                return 0
        half = len(ids) // 2
        halves = ids[:half], ids[half:]
        return sum([await self._send(source, path, address, some, ways) for some in halves])

    def _tell(
        self, source: StoreQueue, sent: Counter[QueuePath], stayed: Mapping[str, Sequence[MessageId]]
    ) -> None:
        if not sent and not stayed:
            return
        text = "; ".join(told(Redriven(sent, stayed)))
        self._core.events.add(
            "redriven",
            f"{source.model.address}::{source.name}: {text}",
            level=logging.WARNING if stayed else logging.INFO,
            queue=source.name,
            address=source.model.address,
            sent={"::".join(path): count for path, count in sent.items()},
            stayed={why: [int(one) for one in ids[:NAMED_MAX]] for why, ids in stayed.items()},
            staying={why: len(ids) for why, ids in stayed.items()},
        )


@dataclass(slots=True)
class _Ways:
    """The ways that messages are sent back."""

    targets: list[tuple[QueuePath, str, array[int]]] = field(default_factory=list)
    """A queue, the address that they were sent to, and their ids."""
    stays: dict[str, array[int]] = field(default_factory=dict)
    """Ids of those that stay, by why."""

    def stay(self, why: str, ids: array[int]) -> None:
        self.stays.setdefault(why, array("q")).extend(ids)

    def stayed(self) -> Mapping[str, Sequence[MessageId]]:
        return {why: [MessageId(one) for one in ids] for why, ids in self.stays.items()}


def told(redriven: Redriven) -> Iterator[str]:
    """Return a text that says what happened to messages."""
    for (address, queue), count in redriven.sent.items():
        yield f"{count} sent back to {address}::{queue}"
    for why, ids in redriven.stayed.items():
        some = ", ".join(map(str, ids[:NAMED_MAX])) + (", ..." if len(ids) > NAMED_MAX else "")
        yield f"{len(ids)} stay ({some}): {why}"
