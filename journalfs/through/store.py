"""A store beside its running broker that can be changed: read by its files, changed through the broker.

What the mount asks of a `WritableStore` goes to the broker, and returns when the broker has said that it is
durable; then the files are looked at once, so that whoever made the change sees it. What a broker cannot do
whole, or at all, is refused with a sentence (`NotThrough`), and nothing is half done.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Final, Never

import trio

from journalfs.api import Patience, QueuePath, Redriven, Removed, Require, Store, Undone, all_may
from journalfs.broker.publish.publication import messages_in
from journalfs.errors import NoSuchName, NotEmpty
from journalfs.ids import MessageId
from journalfs.message.outgoing import Outgoing
from journalfs.store.reading import ReadingStore
from journalfs.store.snapshots import Snapshots
from journalfs.through.broker import Broker, Send
from journalfs.through.consuming import ThroughConsumer
from journalfs.through.errors import NotThrough
from journalfs.through.publisher import ThroughPublisher
from journalfs.through.transactions import NoPrepared, ThroughTransactions

PAUSED: Final = "user.journalfs.paused"


class ThroughStore(ReadingStore):
    """Made by `open_through`, which gives it its broker."""

    broker: Broker

    @property
    def read_only(self) -> bool:
        return False

    async def run(self) -> None:
        """Follow the files, and keep the connection to the broker."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.broker.keep)
            await self.follow()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """What the broker did is in the files when it says so: they are looked at before anybody is told."""
        yield
        await self.look()

    def status(self) -> Mapping[str, object]:
        return {**super().status(), "readOnly": False, "through": str(self.broker.url)}

    @cached_property
    def snapshots(self) -> Snapshots:
        return self.closed_with_it(_SnapshotsToRead(self.core.layout))

    # -- publishing ------------------------------------------------------------------------------------------

    def publisher(
        self, address: str, queue: str | None, file_name: str, patience: Patience
    ) -> ThroughPublisher:
        self._see(address, queue)
        return ThroughPublisher(self._publish, address, queue, file_name)

    def _see(self, address: str, queue: str | None) -> None:
        """Raise `NoSuchName` where there is no such place: the broker would make it, or drop what comes."""
        found = self.address(address)
        if found is None or (queue is not None and found.queue(queue) is None):
            raise NoSuchName(
                f"there is no {'queue' if queue else 'address'} {'::'.join(filter(None, (address, queue)))}"
            )

    async def _publish(self, address: str, queue: str | None, messages: Sequence[Outgoing]) -> None:
        async with self.changing():
            await self.broker.publish([Send.to(address, queue, messages)])

    async def publish_files(
        self, address: str, queue: str | None, files: Sequence[tuple[Path, str]], patience: Patience
    ) -> None:
        await self.publish_sends([(address, queue, files)])

    async def publish_sends(
        self, sends: Sequence[tuple[str, str | None, Sequence[tuple[Path, str]]]]
    ) -> None:
        """All of them in one transaction of the broker."""
        encoded: list[Send] = []
        for address, queue, files in sends:
            self._see(address, queue)
            messages = [one async for some in messages_in(files) for one in some]
            encoded.append(Send.to(address, queue, messages))
        if any(one.messages for one in encoded):
            async with self.changing():
                await self.broker.publish(encoded)

    # -- taking away -----------------------------------------------------------------------------------------

    async def acknowledge(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        async with self.changing():
            return await self.broker.remove(queue, message_ids)

    async def acknowledge_part(self, queue: QueuePath, part_name: str) -> int:
        return await self.acknowledge(queue, self._ids(queue, part_name))

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        self._see(*target)
        async with self.changing():
            return await self.broker.move(source, message_ids, target)

    async def move_part(self, source: QueuePath, part_name: str, target: QueuePath) -> int:
        return await self.move(source, self._ids(source, part_name), target)

    async def redrive(
        self, source: QueuePath, message_ids: Sequence[MessageId], require: Require = all_may
    ) -> Redriven:
        """The broker sends each to where its own properties say that it came from."""
        async with self.changing():
            sent = await self.broker.retry(source, message_ids)
        return Redriven(sent={source: sent}, stayed={})

    def _ids(self, path: QueuePath, part_name: str) -> Sequence[MessageId]:
        self._see(*path)
        address = self.address(path[0])
        found = None if address is None else address.queue(path[1])
        assert found is not None, "it was seen"
        return found.message_ids(part_name)

    def consumer(self, queue: QueuePath, selectors: Sequence[str] = ()) -> ThroughConsumer:
        self._see(*queue)
        return ThroughConsumer(
            self.broker, queue, " AND ".join(f"({one})" for one in selectors) or None, self.look
        )

    def keep_removed(self) -> Removed:
        return _NothingKept()

    # -- addresses and queues --------------------------------------------------------------------------------

    async def create_address(self, name: str) -> None:
        async with self.changing():
            await self.broker.create(name, None)

    async def create_queue(self, address: str, name: str) -> None:
        async with self.changing():
            await self.broker.create(address, name)

    async def delete_address(self, name: str) -> None:
        found = self.address(name)
        if found is not None and found.queues():
            raise NotEmpty(f"{name}: queues are bound to it")
        async with self.changing():
            await self.broker.delete(name, None)

    async def delete_queue(self, address: str, name: str) -> None:
        self._see(address, name)
        if self._ids((address, name), ".all.jsonl"):
            raise NotEmpty(f"{address}::{name}: it holds messages")
        async with self.changing():
            await self.broker.delete(address, name)

    def was_deleted(self, address: str, queue: str | None) -> bool:
        return False

    # -- settings --------------------------------------------------------------------------------------------

    async def set_attribute(self, address: str, queue: str | None, name: str, value: bytes) -> None:
        if name != PAUSED or queue is None or value not in (b"0", b"1"):
            raise NotThrough(f"{name}: through a broker only {PAUSED} of a queue can be set, to 0 or 1")
        async with self.changing():
            await self.broker.pause(queue, paused=value == b"1")

    async def remove_attribute(self, address: str, queue: str | None, name: str) -> None:
        if name != PAUSED or queue is None:
            raise NotThrough(f"{name}: cannot be taken back through a broker")
        async with self.changing():
            await self.broker.pause(queue, paused=False)

    def check_settings(self, address: str, queue: str | None, text: bytes) -> None:
        _refuse("settings are changed in the broker's broker.xml, or by its console")

    async def write_settings(self, address: str, queue: str | None, text: bytes) -> None:
        self.check_settings(address, queue, text)

    async def set_message_attribute(
        self, queue: QueuePath, message_id: MessageId, name: str, value: bytes
    ) -> None:
        _refuse("a broker changes no message that lies in a queue")

    # -- transactions ----------------------------------------------------------------------------------------

    @cached_property
    def transactions(self) -> ThroughTransactions:
        return ThroughTransactions(self.publish_sends, self.staging_directory, self.core.clock)

    @property
    def prepared(self) -> NoPrepared:
        return NoPrepared()

    # -- what is staged --------------------------------------------------------------------------------------

    @cached_property
    def _staging(self) -> Path:
        """Of this mount alone: nothing is written beside the files of a running broker."""
        return Path(tempfile.mkdtemp(prefix="journalfs-through-"))

    def staging_directory(self) -> Path:
        return self._staging

    def left_unpublished(self) -> Sequence[str]:
        return ()

    async def publish_left(self) -> None:
        """Nothing is left: what a broker has not accepted was not taken."""

    def emptied(self, what: str, reason: str) -> None:
        self.core.events.add("emptied", f"{what}: {reason}", what=what, reason=reason)

    def set_aside(self, what: str, files: Sequence[Path]) -> None:
        names = ", ".join(file.name for file in files)
        self.dropped(what, f"{names}: not published")

    def dropped(self, what: str, reason: str) -> None:
        self.core.events.add("dropped", f"{what}: {reason}", what=what, reason=reason)

    def gather_with(self, crowd: object) -> None:
        """The broker gathers what is made durable at once."""

    def close(self) -> None:
        try:
            super().close()
        finally:
            if "_staging" in self.__dict__:
                shutil.rmtree(self._staging, ignore_errors=True)


class _SnapshotsToRead(Snapshots):
    """A snapshot is made of files that nobody writes meanwhile."""

    async def create(self, name: str, maker: int = -1) -> None:
        _refuse("a snapshot is made by whoever writes the journal, and that is the broker")

    async def delete(self, name: str) -> None:
        _refuse("a snapshot is removed by whoever writes the journal, and that is the broker")


class _NothingKept:
    """`Removed`: the broker keeps nothing of what it removed."""

    def status(self) -> Mapping[str, object]:
        return {"messages": 0}

    async def opened(self) -> Store:
        _refuse("the broker keeps nothing of what it removed")

    async def undo_last(self, *, plans: bool = False, require: Require = all_may) -> Undone:
        _refuse("the broker keeps nothing of what it removed")

    async def undo_since(self, time_ms: int, *, plans: bool = False, require: Require = all_may) -> Undone:
        _refuse("the broker keeps nothing of what it removed")

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        _refuse("the broker keeps nothing of what it removed")


def _refuse(reason: str) -> Never:
    raise NotThrough(reason)
