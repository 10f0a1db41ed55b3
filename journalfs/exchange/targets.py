"""Where imported messages go: a store that is closed, or one that is mounted for writing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from journalfs.errors import JournalfsError, failing

if TYPE_CHECKING:
    from journalfs.api import Publisher
    from journalfs.broker.queues.making import NewQueue
    from journalfs.store.write.store import WritingStore

LINES_NAME = "import.jsonl"


LEFT_OUT: Final = {
    "duplicate": "the address remembers their duplicate ids",
    "dropped": "the address is full, and its address-full-policy is DROP",
    "replaced": "the ring or the last values of the queue have room for no more",
}
"""Why messages that were published are not in their queue."""


def _left_out(of_address: Mapping[str, object], of_queue: Mapping[str, object]) -> Counter[str]:
    """Return the counters that statuses of an address and a queue have."""
    found = {
        "duplicate": of_address.get("duplicateMessages"),
        "dropped": of_address.get("droppedMessages"),
        "replaced": of_queue.get("messagesReplaced"),
    }
    return Counter({name: int(str(count or 0)) for name, count in found.items()})


class Target(Protocol):
    is_alone: bool
    """True where nobody else can add or take messages meanwhile."""

    async def queues(self, wanted: Sequence[NewQueue]) -> None:
        """Make queues, with their addresses, unless they are there."""

    async def address(self, name: str) -> None:
        """Make an address unless it is there."""

    def message_count(self, address: str, queue: str) -> int:
        """Of a queue; 0 where it is not there."""

    def left_out(self, address: str, queue: str) -> Counter[str]:
        """Return how many messages of a queue were left out since the store was opened, by why: a key of
        `LEFT_OUT`.
        """

    async def publish(self, address: str, queue: str, lines: bytes) -> None:
        """Put messages, as envelope lines, into one queue. Raises `JournalfsError`."""


class StoreTarget:
    """A store that this process has opened for writing."""

    is_alone = True

    def __init__(self, store: WritingStore) -> None:
        self._store = store

    async def address(self, name: str) -> None:
        if self._store.address(name) is None:
            await self._store.create_address(name)

    async def queues(self, wanted: Sequence[NewQueue]) -> None:
        await self._store.create_queues(wanted)

    def message_count(self, address: str, queue: str) -> int:
        found = self._store.address(address)
        there = None if found is None else found.queue(queue)
        return 0 if there is None else there.message_count

    def left_out(self, address: str, queue: str) -> Counter[str]:
        found = self._store.address(address)
        there = None if found is None else found.queue(queue)
        return Counter() if found is None or there is None else _left_out(found.status(), there.status())

    async def publish(self, address: str, queue: str, lines: bytes) -> None:
        publisher: Publisher = self._store.publisher(address, queue, LINES_NAME)
        await publisher.write(lines)
        await publisher.finish()


class MountTarget:
    """A store that somebody has mounted: it is changed by what a shell has."""

    is_alone = False

    def __init__(self, mountpoint: Path) -> None:
        self._root = mountpoint

    def _folder(self, address: str, queue: str | None = None) -> Path:
        from journalfs_mount.names.grammar import encode_name  # noqa: PLC0415 - few import into a mount

        folder = self._root / os.fsdecode(encode_name(address))
        return folder if queue is None else folder / os.fsdecode(encode_name(queue))

    async def address(self, name: str) -> None:
        with failing("make an address", self._root, found=True):
            self._folder(name).mkdir(exist_ok=True)

    async def queues(self, wanted: Sequence[NewQueue]) -> None:
        for one in wanted:
            await self.address(one.address)
            folder = self._folder(*one.path)
            if folder.is_dir():
                continue
            with failing("make a queue", self._root, found=True):
                folder.mkdir()
                for name, value in one.settings.items():
                    os.setxattr(folder, f"user.journalfs.{name}", value.encode())

    def message_count(self, address: str, queue: str) -> int:
        import msgspec  # noqa: PLC0415 - takes longer than the help text

        path = self._folder(address, queue) / ".status"
        if not path.parent.is_dir():
            return 0
        with failing("read", self._root, found=True):
            return int(msgspec.json.decode(path.read_bytes())["messageCount"])

    def left_out(self, address: str, queue: str) -> Counter[str]:
        import msgspec  # noqa: PLC0415 - takes longer than the help text

        folder = self._folder(address, queue)
        if not folder.is_dir():
            return Counter()
        with failing("read", self._root, found=True):
            statuses = [
                msgspec.json.decode((one / ".status").read_bytes()) for one in (folder.parent, folder)
            ]
        return _left_out(*statuses)

    async def publish(self, address: str, queue: str, lines: bytes) -> None:
        with failing("publish", self._root, found=True):
            (self._folder(address, queue) / LINES_NAME).write_bytes(lines)


@asynccontextmanager
async def opened_target(path: Path) -> AsyncIterator[Target]:
    """The mount at a path, or the closed store. Raises `JournalfsError`."""
    import trio  # noqa: PLC0415 - takes long

    if mounted_store(path) is not None:
        yield MountTarget(path)
        return
    from journalfs.store.write.opening import open_for_writing  # noqa: PLC0415

    store = open_for_writing(path)
    refused: JournalfsError | OSError | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            try:
                yield StoreTarget(store)
            except (JournalfsError, OSError) as error:
                refused = error  # raised outside, where it is itself and no part of a group
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    if refused is not None:
        raise refused


def mounted_store(path: Path) -> Path | None:
    """The store that is mounted at a path; None where no mount is."""
    import msgspec  # noqa: PLC0415 - takes longer than the help text

    try:
        status = msgspec.json.decode((path / ".journalfs" / "status.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    found = status.get("derivedAt", status.get("path"))
    return Path(found) if os.path.ismount(path) and found is not None else None
