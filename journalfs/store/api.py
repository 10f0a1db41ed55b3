"""What the store shows to those above it: the mount, the commands, Spark.

Everything here is a `Protocol`: the mount is written against these and knows no bytes of any format. All
methods are called on the trio thread; none of them waits (what waits is `async`). Objects are snapshots
unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from journalfs.ids import MessageId

Bytes: TypeAlias = bytes | memoryview


class ByteSource(Protocol):
    """An open file's content, fixed at the moment it was opened."""

    @property
    def size_bytes(self) -> int: ...

    def read(self, offset: int, length: int) -> Bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end.

        Raises `JournalfsError` (its `errno` says which) when the bytes underneath are gone.
        """

    def close(self) -> None: ...


class VirtualFile(Protocol):
    """A file made by journalfs itself (`.status`, a record view, ...)."""

    @property
    def size_bytes(self) -> int:
        """Exact size of what `open` would give now."""

    @property
    def mtime_ns(self) -> int: ...

    @property
    def live(self) -> bool:
        """True when content may change from one open to the next, so nothing of it may be cached."""

    def open(self) -> ByteSource: ...


class VirtualDirectory(Protocol):
    """A directory made by journalfs itself (`.journalfs/journal`, ...)."""

    def names(self) -> Iterator[str]: ...

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None: ...

    @property
    def mtime_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Part:
    """A sealed part file of a view."""

    name: str
    """`part-<generation>-<number>.jsonl`; never used again for other content."""
    number: int
    size_bytes: int
    mtime_ns: int
    messages: int


class Listing(Protocol):
    """The messages of a view in delivery order, frozen when asked for. Index 0..len-1."""

    def __len__(self) -> int: ...

    def name(self, index: int) -> bytes:
        """File name: message id and suffix by content, as `4411.txt`."""

    def message_id(self, index: int) -> MessageId: ...

    def size_bytes(self, index: int) -> int: ...

    def mtime_ns(self, index: int) -> int: ...


class Message(Protocol):
    """One live message in one queue."""

    @property
    def message_id(self) -> MessageId: ...

    @property
    def name(self) -> bytes: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def mtime_ns(self) -> int:
        """The publish time (the message's timestamp)."""

    def attributes(self) -> Mapping[str, bytes]:
        """Extended attributes: `user.journalfs.<header>` and `user.property.<name>`, values as UTF-8 text."""

    def envelope(self) -> Mapping[str, object]:
        """The envelope line, decoded."""

    def open(self) -> ByteSource:
        """The message's own file: its body."""


class View(Protocol):
    """An ordered set of live messages: a queue, or what a selector or a state leaves of one."""

    @property
    def version(self) -> int:
        """Grows whenever the view's content changed."""

    @property
    def mtime_ns(self) -> int: ...

    def __len__(self) -> int: ...

    def parts(self) -> Sequence[Part]: ...

    def part(self, name: str) -> Part | None: ...

    def open_part(self, part: Part) -> ByteSource: ...

    def tail(self) -> Part:
        """`_tail.jsonl`: what no part holds yet. Its size may be 0."""

    def open_tail(self) -> ByteSource: ...

    def all(self) -> Part:
        """`.all.jsonl`: every message, parts first, then the tail."""

    def open_all(self) -> ByteSource: ...

    def listing(self) -> Listing: ...

    def message(self, message_id: MessageId) -> Message | None: ...

    def where(self, selector: str) -> View:
        """The messages that a JMS selector accepts. Raises `SelectorError` with the place of the mistake."""


class Queue(View, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def slot(self) -> int:
        """A small number that stays this queue's as long as the index lives; inode numbers are made from
        it.
        """

    def scheduled(self) -> View:
        """Messages not yet due, by their time."""

    def delivering(self) -> View:
        """Messages that a prepared transaction has acknowledged."""

    def status(self) -> Mapping[str, object]: ...

    def settings_toml(self) -> str: ...

    def attributes(self) -> Mapping[str, bytes]:
        """Settings as extended attributes, `user.journalfs.<name of the setting>`."""


class Address(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def address_id(self) -> int: ...

    @property
    def mtime_ns(self) -> int: ...

    def queues(self) -> Sequence[Queue]: ...

    def queue(self, name: str) -> Queue | None: ...

    def status(self) -> Mapping[str, object]: ...

    def settings_toml(self) -> str: ...

    def attributes(self) -> Mapping[str, bytes]: ...


@dataclass(frozen=True, slots=True)
class Change:
    """What changed since the last call: the mount drops exactly these from the kernel's caches."""

    addresses: bool
    """Addresses or queues came or went."""
    queues: Mapping[tuple[str, str], QueueChange]
    """By (address, queue)."""


@dataclass(frozen=True, slots=True)
class QueueChange:
    parts_gone: Sequence[str]
    parts_changed: Sequence[str]
    """Parts that lost messages."""
    messages_gone: Sequence[tuple[MessageId, bytes]]
    """Message id and file name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """For statfs."""

    total_bytes: int
    free_bytes: int
    messages: int
    messages_max: int


class Store(Protocol):
    @property
    def read_only(self) -> bool: ...

    def addresses(self) -> Sequence[Address]: ...

    def address(self, name: str) -> Address | None: ...

    def control(self) -> VirtualDirectory:
        """The tree under `.journalfs/`."""

    def status(self) -> Mapping[str, object]: ...

    def usage(self) -> Usage: ...

    def subscribe(self, callback: Callable[[Change], None]) -> None: ...

    async def follow(self) -> None:
        """Watch the directory and apply what a live broker writes, until cancelled. Sealing happens here
        too.
        """

    def close(self) -> None:
        """Write the index if it is newer than the stored one, and let go of every file."""
