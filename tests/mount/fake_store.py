"""A store in memory, made for tests of the kernel's side: names, caches, handles and signals.

It keeps the promises of `journalfs.api` and nothing else: what a message is, is a line of text here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from journalfs.api import (
    Address,
    Answering,
    Bytes,
    ByteSource,
    Follower,
    Listing,
    LoopLag,
    Origins,
    Part,
    Queue,
    SlowFile,
    Usage,
    View,
    VirtualDirectory,
    VirtualFile,
)
from journalfs.errors import JournalfsError, SelectorError
from journalfs.ids import MessageId
from journalfs.live.waking import Waking
from journalfs.store.permissions import KeptPermissions

PUBLISHED_NS = 1_700_000_000 * 1_000_000_000
SEALED_NS = 1_710_000_000 * 1_000_000_000
TAIL_NUMBER = 1000
"""Of the part that a tail is going to be."""


class FakeSource:
    """Content in memory. Counts how many are open."""

    opened = 0

    def __init__(self, content: bytes) -> None:
        self._content = content
        FakeSource.opened += 1

    @property
    def size_bytes(self) -> int:
        return len(self._content)

    def ahead(self, offset: int, length: int) -> None:
        """It is there."""

    def read(self, offset: int, length: int) -> Bytes:
        return memoryview(self._content)[offset : offset + length]

    def close(self) -> None:
        FakeSource.opened -= 1


@dataclass(slots=True)
class FakeMessage:
    """A text message. `part` is 0 for the tail."""

    message_id: MessageId
    body: bytes
    color: str
    part: int
    state: str = "live"
    properties: dict[str, bytes] = field(default_factory=dict)
    edition: int = 0

    @property
    def name(self) -> bytes:
        return b"%d.txt" % self.message_id

    @property
    def size_bytes(self) -> int:
        return len(self.body)

    @property
    def mtime_ns(self) -> int:
        return PUBLISHED_NS + self.message_id % 1_000_000 * 1_000_000

    @property
    def line(self) -> bytes:
        content = {"id": self.message_id, "color": self.color, "body": self.body.decode()}
        return json.dumps(content).encode() + b"\n"

    def attributes(self) -> Mapping[str, bytes]:
        plain = {"user.journalfs.id": b"%d" % self.message_id, "user.property.color": self.color.encode()}
        return {**plain, **self.properties}

    def envelope(self) -> Mapping[str, object]:
        return dict(json.loads(self.line))

    def open(self) -> ByteSource:
        return FakeSource(self.body)


class FakeListing:
    """Frozen messages."""

    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def name(self, index: int) -> bytes:
        return self._messages[index].name

    def message_id(self, index: int) -> MessageId:
        return self._messages[index].message_id

    def size_bytes(self, index: int) -> int:
        return self._messages[index].size_bytes

    def mtime_ns(self, index: int) -> int:
        return self._messages[index].mtime_ns


class ManyListing:
    """A listing of any length that exists only as numbers."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def name(self, index: int) -> bytes:
        return b"%d.txt" % (index + 1)

    def message_id(self, index: int) -> MessageId:
        return MessageId(index + 1)

    def size_bytes(self, index: int) -> int:
        return index

    def mtime_ns(self, index: int) -> int:
        return PUBLISHED_NS


class FakeFollower:
    """A reader to whom nothing comes."""

    ended = False

    def is_found(self) -> bool:
        return True

    async def find(self) -> None:
        """There is nothing to find."""

    def ready(self) -> bool:
        return False

    def take(self) -> ByteSource | None:
        return None

    async def next(self) -> ByteSource | None:
        await trio.sleep_forever()
        return None


class FakeLag:
    """Keeps nothing."""

    front: Answering | None = None

    def turn(self, took_s: float) -> bool:
        return False

    def was_slow(self, took_s: float, busy_s: float, what: str) -> None:
        """Nobody asks."""


class FakeView:
    """What a filter leaves of a queue's messages. Only selectors `color = '<value>'` parse."""

    def __init__(self, queue: FakeQueue, accepts: Callable[[FakeMessage], bool]) -> None:
        self._queue = queue
        self._accepts = accepts

    @property
    def version(self) -> int:
        return self._queue.changes

    @property
    def mtime_ns(self) -> int:
        return SEALED_NS + self._queue.changes

    def _messages(self) -> list[FakeMessage]:
        return [message for message in self._queue.messages.values() if self._accepts(message)]

    def __len__(self) -> int:
        return len(self._messages())

    def parts(self) -> Sequence[Part]:
        numbers = sorted({message.part for message in self._messages() if message.part})
        return [self._part(number) for number in numbers]

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts() if part.name == name), None)

    def open_part(self, part: Part) -> ByteSource:
        return FakeSource(self._lines(lambda number: number == part.number))

    def is_laid_out(self, part: Part) -> bool:
        return part in self.parts()

    def tails(self) -> Sequence[Part]:
        tail = self.tail(f"_tail-0001-{self._queue.slot}-{TAIL_NUMBER:010}.jsonl")
        return [tail] if tail.messages or not self.parts() else []

    def tail(self, name: str = "_tail.jsonl") -> Part:
        lines = self._lines(lambda number: number == 0)
        return Part(name, 0, len(lines), self.mtime_ns, lines.count(b"\n"))

    def open_tail(self, name: str = "_tail.jsonl") -> ByteSource:
        del name
        return FakeSource(self._lines(lambda number: number == 0))

    def all(self) -> Part:
        lines = self._all()
        return Part(".all.jsonl", 0, len(lines), self.mtime_ns, lines.count(b"\n"))

    def open_all(self) -> ByteSource:
        return FakeSource(self._all())

    def listing(self) -> Listing:
        return FakeListing(self._messages())

    def message_ids(self, name: str) -> Sequence[MessageId]:
        parts = {part.name: part.number for part in self.parts()} | {"_tail.jsonl": 0}
        parts |= {tail.name: 0 for tail in self.tails()}
        return [
            message.message_id
            for message in self._messages()
            if name == ".all.jsonl" or message.part == parts[name]
        ]

    def message(self, message_id: MessageId) -> FakeMessage | None:
        message = self._queue.messages.get(message_id)
        return message if message is not None and self._accepts(message) else None

    def where(self, selector: str) -> View:
        if not selector.startswith("color = '"):
            raise SelectorError(selector, 0, "only colors can be asked for")
        color = selector.removeprefix("color = '").removesuffix("'")
        return FakeView(self._queue, lambda message: self._accepts(message) and message.color == color)

    async def understand(self, selector: str) -> None:
        self.where(selector)

    def origins(self) -> Origins:
        raise AssertionError("nobody asks a fake queue where its letters came from")

    def is_found(self) -> bool:
        return True

    async def find(self) -> None:
        """It is known."""

    def follow(self) -> Follower:
        return FakeFollower()

    def _all(self) -> bytes:
        return self._lines(lambda number: number > 0) + self._lines(lambda number: number == 0)

    def _lines(self, wanted: Callable[[int], bool]) -> bytes:
        return b"".join(message.line for message in self._messages() if wanted(message.part))

    def _part(self, number: int) -> Part:
        lines = self._lines(lambda part: part == number)
        name = f"part-0001-{self._queue.slot}-{number:010}.jsonl"
        return Part(name, number, len(lines), SEALED_NS + number, lines.count(b"\n"))


class FakeQueue(FakeView):
    """A queue. Tests change `messages` and `changes` through `FakeStore`."""

    def __init__(self, name: str, slot: int) -> None:
        super().__init__(self, lambda message: message.state == "live")
        self.messages: dict[MessageId, FakeMessage] = {}
        self.changes = 0
        self._name = name
        self._slot = slot

    @property
    def name(self) -> str:
        return self._name

    @property
    def slot(self) -> int:
        return self._slot

    @property
    def content_version(self) -> int:
        return self.changes

    def scheduled(self) -> View:
        return FakeView(self, lambda message: message.state == "scheduled")

    def delivering(self) -> View:
        return FakeView(self, lambda message: message.state == "delivering")

    def failed(self) -> View:
        return FakeView(self, lambda message: message.state == "failed")

    def expired(self) -> View:
        return FakeView(self, lambda message: message.state == "expired")

    def status(self) -> Mapping[str, object]:
        return {"queue": self._name, "messages": len(self)}

    def settings_toml(self) -> str:
        return "max-delivery-attempts = 10\n"

    def attributes(self) -> Mapping[str, bytes]:
        return {"user.journalfs.max-delivery-attempts": b"10"}


class ManyQueue(FakeQueue):
    """A queue of very many messages that are only listed."""

    def __init__(self, name: str, slot: int, count: int) -> None:
        super().__init__(name, slot)
        self._count = count

    def listing(self) -> Listing:
        return ManyListing(self._count)

    def message(self, message_id: MessageId) -> FakeMessage | None:
        """Of a name that the kernel has forgotten, as it may when memory is short."""
        if not 1 <= message_id <= self._count:
            return None
        return FakeMessage(message_id, bytes(message_id - 1), "grey", part=0)


class BrokenQueue(FakeQueue):
    """A queue on which everything fails in a way nobody foresaw."""

    def message(self, message_id: MessageId) -> FakeMessage | None:
        raise ZeroDivisionError("a mistake in the program")

    def listing(self) -> Listing:
        raise OSError(28, "a failure that was not wrapped")

    def status(self) -> Mapping[str, object]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a mistake in the program")


@dataclass
class FakeAddress:
    """An address and its queues."""

    name: str
    address_id: int
    bound: dict[str, FakeQueue] = field(default_factory=dict)

    @property
    def mtime_ns(self) -> int:
        return SEALED_NS

    def queues(self) -> Sequence[Queue]:
        return list(self.bound.values())

    def queue(self, name: str) -> Queue | None:
        return self.bound.get(name)

    def status(self) -> Mapping[str, object]:
        return {"address": self.name, "queues": len(self.bound)}

    def settings_toml(self) -> str:
        return "max-size-bytes = -1\n"

    def attributes(self) -> Mapping[str, bytes]:
        return {"user.journalfs.max-size-bytes": b"-1"}


@dataclass
class FakeFile:
    """A made file."""

    content: bytes
    live: bool = False

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    @property
    def mtime_ns(self) -> int:
        return SEALED_NS

    def open(self) -> ByteSource:
        return FakeSource(self.content)


@dataclass
class FakeDirectory:
    """A made directory."""

    entries: dict[str, VirtualDirectory | VirtualFile]

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        yield from list(self.entries.items())

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None:
        return self.entries.get(name)

    @property
    def mtime_ns(self) -> int:
        return SEALED_NS


class FakeStore:
    """The store. `following` is what `follow` does: a test changes the store there."""

    read_only = True

    def __init__(self) -> None:
        self.by_name: dict[str, FakeAddress] = {}
        self.closed = False
        self.refusals: list[tuple[str, str]] = []
        self.doubts: list[tuple[str, str]] = []
        self.waking = Waking()
        self.following: Callable[[], Awaitable[None]] = trio.sleep_forever
        self._slots = 0
        self.root = FakeDirectory({"status.json": FakeFile(b"{}\n", live=True), "damaged": FakeDirectory({})})

    def user_limits(self) -> Mapping[str, int]:
        return {}

    def add_queue(self, address: str, queue: FakeQueue | str) -> FakeQueue:
        made = FakeQueue(queue, self.next_slot()) if isinstance(queue, str) else queue
        owner = self.by_name.setdefault(address, FakeAddress(address, len(self.by_name) + 1))
        owner.bound[made.name] = made
        return made

    def next_slot(self) -> int:
        self._slots += 1
        return self._slots

    def add_messages(self, queue: FakeQueue, ids: Sequence[int], *, part: int, state: str = "live") -> None:
        for number in ids:
            body = f"body of {number}".encode()
            color = ("red", "green", "blue")[number % 3]
            queue.messages[MessageId(number)] = FakeMessage(MessageId(number), body, color, part, state)
        queue.changes += 1

    def remove_messages(self, queue: FakeQueue, ids: Sequence[int]) -> None:
        """Acknowledge."""
        for number in ids:
            del queue.messages[MessageId(number)]
        queue.changes += 1

    def remove_queue(self, address: str, queue: str) -> None:
        owner = self.by_name[address]
        del owner.bound[queue]
        if not owner.bound:
            del self.by_name[address]

    # journalfs.api.Store

    @property
    def snapshots(self) -> None:
        return None

    @property
    def history(self) -> None:
        return None

    def addresses(self) -> Sequence[Address]:
        return list(self.by_name.values())

    @property
    def addresses_mtime_ns(self) -> int:
        return max((address.mtime_ns for address in self.by_name.values()), default=0)

    def address(self, name: str) -> Address | None:
        return self.by_name.get(name)

    def control(self) -> VirtualDirectory:
        return self.root

    def status(self) -> Mapping[str, object]:
        return {"addresses": len(self.by_name)}

    def orphaned_bodies(self) -> Sequence[str]:
        return ()

    def pages_set_aside(self) -> Sequence[str]:
        return ()

    def missing_journal_files(self) -> Sequence[str]:
        return ()

    def references_to_unknown(self) -> Mapping[str, int]:
        return {}

    def prepared_sends(self) -> Iterator[tuple[str, ByteSource]]:
        return iter(())

    def hidden_bits(self, group: int) -> int:
        return 0

    def usage(self) -> Usage:
        return Usage(
            total_bytes=1 << 30, free_bytes=1 << 29, available_bytes=1 << 28, messages=7, messages_max=1000
        )

    @property
    def permissions(self) -> KeptPermissions:
        return KeptPermissions(Path("/nowhere"), lambda reason: self.refused("permissions", reason))

    @property
    def loop_lag(self) -> LoopLag:
        return FakeLag()

    def refused(self, what: str, reason: str) -> None:
        self.refusals.append((what, reason))

    def metrics_for(self, shown: Callable[[str, str | None], bool]) -> SlowFile:
        raise AssertionError("no test asks")

    def doubted(self, what: str, doubt: JournalfsError) -> None:
        self.doubts.append((what, str(doubt)))

    async def follow(self) -> None:
        await self.following()

    measures = False

    async def measure(self) -> None:
        """Everything is measured."""

    def close(self) -> None:
        self.closed = True
