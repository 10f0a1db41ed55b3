"""What the store shows to those above it: the mount, the commands, Spark.

Everything here is a `Protocol`: the mount is written against these and knows no bytes of any format. All
methods are called on the trio thread; none of them waits (what waits is `async`). Objects are snapshots
unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from journalfs.engine import waiting
from journalfs.errors import JournalfsError
from journalfs.ids import MessageId

Bytes: TypeAlias = bytes | memoryview

QueuePath: TypeAlias = tuple[str, str]
"""Names of an address and of a queue bound to it."""

REST: Final = waiting.REST

in_a_thread = waiting.in_a_thread

REMOVER: Final[ContextVar[int]] = ContextVar("remover", default=0)
"""The process group that asks for what is done; 0: nobody can say."""


class ByteSource(Protocol):
    """An open file's content, fixed at the moment it was opened."""

    @property
    def size_bytes(self) -> int: ...

    def read(self, offset: int, length: int) -> Bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end.

        Raises `JournalfsError` (its `errno` says which) when the bytes underneath are gone.
        """

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        """What is to be called in a thread before this is read, since rendering it takes long; `None`: it
        does not.
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


class SlowFile(VirtualFile, Protocol):
    """One whose content takes long to make: first `prepare`, and then it is there."""

    async def prepare(self) -> None:
        """Make it as it is now, while others go on."""

    @property
    def prepared_bytes(self) -> int:
        """The size of what was made last; 0: nothing was."""


class VirtualDirectory(Protocol):
    """A directory made by journalfs itself (`.journalfs/journal`, ...)."""

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        """All that is listed, by name."""

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None: ...

    @property
    def mtime_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Part:
    """A sealed part file of a view."""

    name: str
    """`part-<generation>-<queue id>-<number>.jsonl`: unique in the store, never used for other content."""
    number: int
    size_bytes: int
    mtime_ns: int
    messages: int
    edition: int = 0
    """Moves on when bytes of the store turn out to have changed in place: nothing else tells then that the
    part has other content.
    """


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

    @property
    def edition(self) -> int:
        """As that of a part."""

    def attributes(self) -> Mapping[str, bytes]:
        """Extended attributes: `user.journalfs.<header>` and `user.property.<name>`, values as UTF-8 text."""

    def envelope(self) -> Mapping[str, object]:
        """The envelope line, decoded."""

    def open(self) -> ByteSource:
        """The message's own file: its body."""


class Follower(Protocol):
    """A reader's position among the messages that come to a view. Takes nothing."""

    @property
    def ended(self) -> bool:
        """The queue is gone, so nothing will come."""

    def is_found(self) -> bool:
        """Whether `ready` and `take` need no time, since it is known which messages are for it."""

    async def find(self) -> None:
        """Find that out, while others are served."""

    def ready(self) -> bool:
        """Whether there is a line."""

    def take(self) -> ByteSource | None:
        """The next envelope line; None when there is none yet."""

    async def next(self) -> ByteSource | None:
        """The next line, waited for; None when the queue is gone."""


class Delivery(Protocol):
    """A message that a consumer has, until one of the two methods is called."""

    @property
    def line(self) -> ByteSource:
        """Its envelope line."""

    async def acknowledge(self) -> None:
        """It was consumed: returns when that is durable."""

    async def give_back(self, *, failed: bool) -> None:
        """It was not consumed. `failed`: and that counts as an attempt to deliver it."""


class Consumer(Protocol):
    """One of those who compete for the messages of a view."""

    @property
    def ended(self) -> bool:
        """The queue is gone, so nothing will come."""

    def is_found(self) -> bool:
        """Whether `ready` and `take` need no time, since it is known which messages are for it."""

    async def find(self) -> None:
        """Find that out, while others are served."""

    def ready(self) -> bool:
        """Whether there is a message for this consumer at this moment."""

    def take(self) -> Delivery | None:
        """The next message that is this consumer's; None when there is none now."""

    def due_s(self) -> float:
        """Seconds until time alone may bring a message; infinite where it does not."""

    async def next(self) -> Delivery | None:
        """The next message, waited for; None when the queue is gone."""

    async def close(self) -> None:
        """It consumes no longer. What it has is not touched."""


class Watcher(Protocol):
    """Keeps what the store said."""

    def revoke(self, *, only_messages: bool = False) -> None:
        """Forget it: the store may say something else from here on; only of messages, it may be."""


class Believer(Protocol):
    """Lets somebody go on with what the store said until something goes."""

    def left(self) -> None:
        """Messages may have left the queues they were in."""


class Waking(Protocol):
    """Tells that a store changed."""

    def watched_by(self, watcher: Watcher) -> None:
        """It is told of each change before anybody else is."""

    def leaving_told(self, believer: Believer) -> None:
        """The same, of changes with which messages may have left."""

    @property
    def count(self) -> int:
        """Changes so far."""

    @property
    def awaited(self) -> bool:
        """Whether somebody waits who is to hear of each at once."""

    async def beyond(self, count: int) -> None:
        """Return once there was a change after `count`."""


class Origins(Protocol):
    """Where the messages of a view come from: what is noted on dead letters, expired and moved ones."""

    async def find(self) -> None:
        """Find that out, for the counts, while others are served."""

    def places(self) -> Mapping[tuple[str, str], int]:
        """Address and queue, and how many come from there."""

    def reasons(self) -> Mapping[str, int]:
        """`expired`, `max-deliveries`, `moved` or `sent`, and how many are there for that."""

    def selector_of_place(self, place: tuple[str, str]) -> str:
        """What leaves the messages that come from there."""

    def selector_of_reason(self, reason: str) -> str | None:
        """What leaves the messages that are there for that; None for what is no reason."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of messages that were to go back to where they came from."""

    sent: Mapping[tuple[str, str], int]
    """By address and queue."""
    stayed: Mapping[str, Sequence[MessageId]]
    """Those that stay where they are, by why."""


class Memory(NamedTuple):
    """What an open file or directory holds in memory, roughly."""

    shared: object
    """A list of messages that other openings may hold as well; None: there is none."""
    shared_bytes: int
    own_bytes: int
    """What this opening alone holds."""


NO_MEMORY: Final = Memory(None, 0, 0)


def memory_of(opened: object) -> Memory:
    """Return what a source or a listing holds; of others it is little."""
    held = getattr(opened, "memory", NO_MEMORY)
    assert isinstance(held, Memory)
    return held


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

    def is_laid_out(self, part: Part) -> bool:
        """Whether a part that was opened is opened again without looking at any file. A page, or a body in a
        file of its own, may be gone meanwhile without anybody being told.
        """

    def tails(self) -> Sequence[Part]:
        """What no part holds yet, as listed: `_tail-<...>.jsonl` becomes `part-<...>.jsonl`, which has all
        that it held when it was listed. An empty one where there is nothing else.
        """

    def tail(self, name: str = ...) -> Part:
        """`_tail.jsonl`: what no part holds yet, or of it what is listed by `name`. Its size may be 0."""

    def open_tail(self, name: str = ...) -> ByteSource: ...

    def all(self) -> Part:
        """`.all.jsonl`: every message, parts first, then the tail."""

    def open_all(self) -> ByteSource: ...

    def listing(self) -> Listing: ...

    def message_ids(self, name: str) -> Sequence[MessageId]:
        """Of the messages that a part, a tail (or the part that it became) or `.all.jsonl` holds now, by the
        file's name.
        """

    def message(self, message_id: MessageId) -> Message | None: ...

    def where(self, selector: str) -> View:
        """The messages that a JMS selector accepts: the same view again for the same selector, within limits.
        Raises `SelectorError` with the place of the mistake.
        """

    async def understand(self, selector: str) -> None:
        """Read a selector while others are served, so that `where` takes no time. Raises the same."""

    def origins(self) -> Origins:
        """Where its messages come from."""

    def is_found(self) -> bool:
        """Whether what is in the view is known, so that asking for it takes no time."""

    async def find(self) -> None:
        """Find out what is in the view while others are served: before it is asked for by whoever must not
        keep others waiting. When cancelled, what was found out so far stays known.
        """

    def follow(self) -> Follower:
        """A reader of what comes from now on, in the order in which it arrives."""


class Queue(View, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def slot(self) -> int:
        """A small number that stays this queue's as long as the index lives; inode numbers are made from
        it.
        """

    @property
    def content_version(self) -> Hashable:
        """Another one as soon as messages came or left."""

    def scheduled(self) -> View:
        """Messages not yet due, by their time."""

    def delivering(self) -> View:
        """Messages that a prepared transaction has acknowledged, and those that consumers have."""

    def failed(self) -> View:
        """Messages whose attempts are used up and that stay, since nothing says where they go."""

    def expired(self) -> View:
        """Messages whose time is over."""

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
class Usage:
    """For statfs."""

    total_bytes: int
    free_bytes: int
    available_bytes: int
    """What may still be published before a limit is reached."""
    messages: int
    messages_max: int


class Snapshot(Protocol):
    """The store as it was at one moment."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """Another one for each snapshot, whatever its name."""

    @property
    def mtime_ns(self) -> int:
        """When it was made."""

    async def status(self) -> Mapping[str, object]:
        """What it is and how much room it takes, which is measured on the disk meanwhile."""

    async def opened(self) -> Store:
        """What it holds, which never changes; the same object each time. The first call reads it."""


class KeptSnapshot(Snapshot, Protocol):
    """One that lies on the disk until somebody removes it."""

    @property
    def maker(self) -> int:
        """The user who made it; -1: whoever has the mount, or it is not known."""

    def held_alone(self) -> tuple[int, int]:
        """Bytes and files on the disk that would be free without it. Asked in a thread. Raises OSError."""


class Snapshots(Protocol):
    """The snapshots of a store, as they are at the moment of each call."""

    @property
    def mtime_ns(self) -> int: ...

    def all(self) -> Sequence[KeptSnapshot]: ...

    def named(self, name: str) -> KeptSnapshot | None: ...

    async def status(self) -> Mapping[str, object]:
        """The same of all together."""

    async def create(self, name: str, maker: int = -1) -> None:
        """Make one of this moment: returns when it is durable. EROFS for a store that is only read. `maker`:
        the user whose it is; -1: whoever has the mount.
        """

    async def delete(self, name: str) -> None:
        """Remove one; what was opened of it can be read no longer."""


Require: TypeAlias = Callable[[Iterable[QueuePath]], None]
"""Told of queues that are about to get messages; raises where whoever asked may not write to one."""


def all_may(targets: Iterable[QueuePath]) -> None:
    """Whoever has the store may write to every queue."""


RequireCopy: TypeAlias = Callable[[Iterable[QueuePath], Iterable[QueuePath]], None]
"""Told of queues whose messages are about to be copied, and of those that get the copies; raises where
whoever asked may not read one of the former, or write to one of the latter.
"""


def all_may_copy(looked_at: Iterable[QueuePath], targets: Iterable[QueuePath]) -> None:
    """Whoever has the store may read every queue, and write to it."""


class History(Protocol):
    """What was sent, as far as the store keeps it."""

    def __bool__(self) -> bool:
        """Whether it keeps any."""

    @property
    def mtime_ns(self) -> int: ...

    async def days(self) -> Sequence[str]:
        """The days of it, as names of ranges."""

    def named(self, name: str) -> Snapshot:
        """What was sent in the range that this names, read like a snapshot. Where the range moves, or is not
        over, `Snapshot.opened` has what came meanwhile. Raises `WrongCall`.
        """

    async def replay(self, asked: bytes, require: RequireCopy = all_may_copy) -> Mapping[str, object]:
        """Publish some of it once more, as `journalfs replay` asks in JSON; what went where. A cancelled one
        goes on when the same is asked for once more. Raises `WrongCall`, and what `require` raises.
        """


class Undone(NamedTuple):
    back: Mapping[QueuePath, int]
    """How many messages came back to which queue."""
    gone: int = 0
    """How many did not: their room is used again."""


class Removed(Protocol):
    """What was removed through a store since it was opened, as far as its bytes are still there."""

    def status(self) -> Mapping[str, object]:
        """What it is by command, and how much room is kept for it."""

    async def opened(self) -> Store:
        """All of it, the newest first, as it is now."""

    async def undo_last(self, *, plans: bool = False, require: Require = all_may) -> Undone:
        """Bring back what the last command removed, to the queues that it came from. All in one transaction;
        queues that are gone are made again. `plans`: only say it.
        """

    async def undo_since(self, time_ms: int, *, plans: bool = False, require: Require = all_may) -> Undone:
        """The same of all that was removed since then."""

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        """Bring back messages that were in `source`, to any queue; how many were there."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """Who may do what with something. -1: whoever has the mount."""

    mode: int
    uid: int = -1
    gid: int = -1


OWNER_ALONE: Final = Permissions(0o700)


class KeptPermissions(Protocol):
    """What was said of who may do what with addresses and queues."""

    def __bool__(self) -> bool:
        """Whether anything was."""

    def of(self, address: str, queue: str | None) -> Permissions | None:
        """None: as the mount says."""

    def give(self, address: str, queue: str | None, given: Permissions | None) -> None:
        """Keep it over the end of the mount. Raises OSError."""


class Answering(Protocol):
    """What answers requests beside the loop."""

    def counts(self) -> Mapping[str, int]:
        """Requests that it answered, and why it did not answer others."""


class LoopLag(Protocol):
    """Keeps how long the turns of a loop take, in seconds, and makes events of long ones."""

    front: Answering | None
    """Set by who serves requests."""

    def turn(self, took_s: float) -> bool:
        """One is over. True: say what it was, by `was_slow`."""

    def was_slow(self, took_s: float, busy_s: float, what: str) -> None:
        """`busy_s`: how much of it the processor worked on it."""


class Store(Protocol):
    @property
    def read_only(self) -> bool: ...

    def addresses(self) -> Sequence[Address]: ...

    @property
    def addresses_mtime_ns(self) -> int:
        """When an address or a queue came or went last."""

    def address(self, name: str) -> Address | None: ...

    @property
    def waking(self) -> Waking: ...

    @property
    def snapshots(self) -> Snapshots | None:
        """None for what is itself of one moment, or of a range of time."""

    @property
    def history(self) -> History | None:
        """The same."""

    def control(self) -> VirtualDirectory:
        """The tree under `.journalfs/`."""

    def status(self) -> Mapping[str, object]: ...

    def user_limits(self) -> Mapping[str, int]:
        """How much one user may hold of what is shared, by the names of the settings that say so."""

    def metrics_for(self, shown: Callable[[str, str | None], bool]) -> SlowFile:
        """What Prometheus is told of the store, of addresses (None) and queues alone that are `shown`."""

    def refused(self, what: str, reason: str) -> None:
        """Note a refused change for `.journalfs/events.jsonl`."""

    def doubted(self, what: str, doubt: JournalfsError) -> None:
        """Note there what was not refused, and is hardly what its asker meant."""

    @property
    def permissions(self) -> KeptPermissions: ...

    @property
    def loop_lag(self) -> LoopLag:
        """Is told how long turns of the loop take that serves requests."""

    def usage(self) -> Usage: ...

    def hidden_bits(self, group: int) -> int:
        """Permission bits of others, and of a group, whom the store's own files are not shown to."""

    def orphaned_bodies(self) -> Sequence[str]:
        """Names of files of large bodies that no message has. Not looked for while a broker is at work."""

    def pages_set_aside(self) -> Sequence[str]:
        """Names of the files that pages were renamed to which are needed no more, but may be had back."""

    def missing_journal_files(self) -> Sequence[str]:
        """Ids, and ranges of them as `3-5`, that journal files must have had which are not there, and whose
        absence nothing explains that a broker or this product does. Not looked for while somebody writes.
        """

    def references_to_unknown(self) -> Mapping[str, int]:
        """How many records refer to messages that no record has, by the full name of the queue."""

    def prepared_sends(self) -> Iterator[tuple[str, ByteSource]]:
        """What prepared transactions sent, which is in no queue yet: the name of a transaction, and an open
        file with lines of its messages.
        """

    async def follow(self) -> None:
        """Watch the directory and apply what a live broker writes, until cancelled. Sealing happens here
        too.
        """

    async def measure(self) -> None:
        """Find out how long messages are where that takes long, beside everything else, until cancelled."""

    @property
    def measures(self) -> bool:
        """Whether that has to be found out of some: then `View.is_found` may be false of any view."""

    def close(self) -> None:
        """Write the index if it is newer than the stored one, and let go of every file."""


class Patience(Protocol):
    """How somebody waits for room in a full address."""

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        """Await `until`, or raise to give up: nothing has been taken then."""


def nothing_follows() -> bool:
    """What was written to a file is all there is to be."""
    return True


@dataclass(frozen=True, slots=True)
class LentEnd:
    """The end of the journal, for code that publishes lines without Python (`native/include/jfs_tail.h`):
    addresses in memory, and what the first function returns where the second may make room, and where lines
    are left to Python.
    """

    stage: int
    flush: int
    full: int
    unfit: int
    tail: int


class LinesWay(Protocol):
    """Where the lines of a file go."""

    @property
    def pointer(self) -> int:
        """In memory."""


class Lending(Protocol):
    """Lets others publish lines in C while nothing of the store runs."""

    @property
    def end(self) -> LentEnd: ...

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be published any more."""

    @property
    def defers(self) -> bool:
        """As it is lent, what is published is durable once `settled` returns, and not before."""

    @property
    def needs_python(self) -> bool:
        """For a moment, to publish."""

    async def settled(self) -> None:
        """Raises `JournalfsError` where it can never be."""

    def way(self, address: str, queue: str | None) -> LinesWay:
        """One that nothing is published by yet."""

    def lend(self, ways: Iterable[LinesWay]) -> bool:
        """Before others wait: look at what must not be decided in C. Whether anything may be published."""

    def take_back(self, ways: Iterable[LinesWay]) -> bool:
        """After that, before anything else is asked of the store: whether anything was."""


class Publisher(Protocol):
    """A file that is being written: what its bytes say becomes messages."""

    @property
    def size_bytes(self) -> int:
        """Bytes taken so far."""

    @property
    def unfinished_bytes(self) -> int:
        """How many of them are in no message that is published."""

    async def write(self, data: bytes) -> None:
        """Take more bytes; returns when the messages that they complete are published, and durable if the
        store's settings ask for it. Raises `JournalfsError` with nothing of this call published.
        """

    @property
    def is_whole(self) -> bool:
        """Whether its file is one message, so that any byte of it may be a zero that nobody wrote."""

    def leaves_gap(self, data: bytes) -> bool:
        """Whether what comes next would begin inside of something, if `data` is not taken."""

    async def flush(self, *, unfinished: bool = True, is_last: Callable[[], bool] = nothing_follows) -> bool:
        """Make durable what was taken. What is not published yet survives the end of the process then, unless
        `unfinished` is False: a write failed, and it is not going to be published. Returns whether it could
        be if it ended here; where it could not, and `is_last` says that nothing is to follow, raises what the
        last close would fail with.
        """

    async def finish(self) -> None:
        """The last close: publish the rest, which is an unfinished last line or the whole file."""

    async def finish_flushed(self) -> None:
        """The last close of a file that was not flushed since it was written: publish what was flushed before
        that.
        """

    @property
    def lines_to(self) -> tuple[str, str | None] | None:
        """Address and queue whose `LinesWay` whole lines may be published by at this moment."""

    def lines_published(self, size_bytes: int, lines: int) -> None:
        """They were, as if they had been written."""

    async def forget(self) -> int:
        """Its name was removed: drop what is not published, and all that is written to it from now on, as a
        file system does once the last descriptor is closed. How many bytes were dropped.
        """

    def abandon(self) -> None:
        """Forget what is not published."""


@dataclass(frozen=True, slots=True)
class Send:
    """What a transaction publishes in one place; `queue` is None: it is routed."""

    address: str
    queue: str | None
    files: Sequence[tuple[Path, str]]
    """With the names that say what one message is."""


class HeldInDraft(Protocol):
    """A message that a transaction takes out of a queue when it is committed."""

    @property
    def source(self) -> QueuePath: ...


class Draft(Protocol):
    """A transaction that was begun and has not ended."""

    @property
    def name(self) -> str: ...

    @property
    def begun_ms(self) -> int: ...

    @property
    def maker(self) -> tuple[int, int]:
        """The user whose it is, and the user's group; -1: whoever has the mount."""

    @property
    def staged(self) -> Path:
        """A folder for what it is to publish, laid out by whoever commits it."""

    @property
    def places(self) -> Mapping[QueuePath, Mapping[int, HeldInDraft]]:
        """The messages that it holds, by the queue that they go to, or where they are acknowledged."""

    def status(self) -> Mapping[str, object]: ...

    def operations(self) -> Sequence[Mapping[str, object]]:
        """The messages that it holds, as prepared transactions list theirs."""


class Transactions(Protocol):
    """Those that are made here, each named as its directory. Raises `NoSuchName` for one that is not there
    any more.
    """

    def drafts(self) -> Sequence[Draft]: ...

    def draft(self, name: str) -> Draft | None: ...

    async def begin(self, name: str, uid: int = -1, gid: int = -1) -> None:
        """`uid`, `gid`: whose it is; -1: whoever has the mount."""

    async def hold(
        self, name: str, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath | None
    ) -> int:
        """Let nobody else have messages of a queue until the transaction ends; how many were there. EBUSY
        where readers, or other transactions, have all of them.
        """

    async def give_back(self, name: str, place: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """Hold messages of a place of it no more; how many were held."""

    async def commit(self, name: str, sends: Sequence[Send], patience: Patience) -> None:
        """Do all of it in one transaction of the journal, or raise and do nothing."""

    async def prepare(self, name: str, xid: str, sends: Sequence[Send], patience: Patience) -> None:
        """The same, decided later: from here on it is a prepared transaction of that name."""

    async def roll_back(self, name: str) -> None:
        """Forget it, and give back what it holds."""


class PreparedTransactions(Protocol):
    """What becomes of prepared transactions, each named as its directory, where nobody asks who began it.
    Raises `NoSuchName` for one that is not there.
    """

    async def decide(self, name: str, *, committed: bool) -> None:
        """Commit a prepared transaction, or roll it back, and note that this was done by hand."""

    def decided(self, *, committed: bool) -> Mapping[str, int]:
        """Those that were decided by hand, with the records that say so."""

    def decision(self, name: str, *, committed: bool) -> int | None:
        """The record of one, by any of its names."""

    async def forget(self, name: str, *, committed: bool) -> None:
        """Let go of the note, as a transaction manager does once it knows."""


class WritableStore(Store, Protocol):
    """A store that may be changed. Whatever returns is durable if the store's settings ask for it; whatever
    raises (`JournalfsError`, whose `errno` says which) changed nothing.
    """

    @property
    def snapshots(self) -> Snapshots: ...

    @property
    def history(self) -> History: ...

    def publisher(self, address: str, queue: str | None, file_name: str, patience: Patience) -> Publisher:
        """A new file in an address (`queue` is None: routed to its queues) or in one queue. The name's suffix
        says what one message is; `patience` is how its writes wait where the address is full.
        """

    async def publish_files(
        self, address: str, queue: str | None, files: Sequence[tuple[Path, str]], patience: Patience
    ) -> None:
        """Publish staged files, given with the names that say what one message is, in one transaction.
        However much that is, others are served meanwhile. Cancelled before all of it is staged, nothing
        happened; from then on it is done to its end. So it is with what follows.
        """

    async def acknowledge(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """Remove messages from a queue; how many were there. EBUSY where all that are left of them are with
        readers or held by prepared transactions.
        """

    async def acknowledge_part(self, queue: QueuePath, part_name: str) -> int:
        """Remove all that a part, the tail or `.all.jsonl` holds now; how many messages that were."""

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        """Send to one queue and acknowledge in another, in one transaction; how many were there."""

    async def move_part(self, source: QueuePath, part_name: str, target: QueuePath) -> int: ...

    async def redrive(
        self, source: QueuePath, message_ids: Sequence[MessageId], require: Require = all_may
    ) -> Redriven:
        """Send messages back to the queues that they came from, as they were: some at a time, each time in
        one transaction. Raises where none can go, naming why. `require` is told of all these queues before
        anything changes.
        """

    def consumer(self, queue: QueuePath, selectors: Sequence[str] = ()) -> Consumer:
        """A new consumer of a queue, or of what selectors leave of it. Raises `TooManyConsumers`."""

    def keep_removed(self) -> Removed:
        """What is removed from here on, kept as settings say."""

    @property
    def transactions(self) -> Transactions: ...

    @property
    def prepared(self) -> PreparedTransactions: ...

    async def create_address(self, name: str) -> None: ...

    async def delete_address(self, name: str) -> None:
        """ENOTEMPTY while queues are bound to it."""

    async def create_queue(self, address: str, name: str) -> None:
        """One that was deleted in the last `removed-keep-s` is what it was."""

    def was_deleted(self, address: str, queue: str | None) -> bool:
        """Whether there was a queue of this name in an address, or the address (`queue` is None), that was
        deleted in the last `removed-keep-s`.
        """

    async def delete_queue(self, address: str, name: str) -> None:
        """ENOTEMPTY while it holds messages."""

    async def set_attribute(self, address: str, queue: str | None, name: str, value: bytes) -> None:
        """Change a setting; `name` is that of the extended attribute."""

    async def remove_attribute(self, address: str, queue: str | None, name: str) -> None:
        """Take back what was set: an address inherits the setting again, a queue has what a new one would
        have. EPERM for what was not set here.
        """

    def check_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Raise what `write_settings` would raise as the settings are now. Nothing changes."""

    async def write_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Take over what differs in an edited `.settings`, all of it or nothing. What is not named in it
        stays as it is.
        """

    async def set_message_attribute(
        self, queue: QueuePath, message_id: MessageId, name: str, value: bytes
    ) -> None:
        """Change what a queue knows of a message: `user.journalfs.deliveryCount` or `.scheduledTime`."""

    def gather_with(self, crowd: waiting.Crowd) -> None:
        """Before anything is made durable, it is awaited. Not called, all that can run gets one turn."""

    @property
    def lending(self) -> Lending: ...

    def left_unpublished(self) -> Sequence[str]:
        """Addresses of what was flushed and not published when the store was last left."""

    async def publish_left(self) -> None:
        """Publish it. What cannot be is said in an event, and kept."""

    def staging_directory(self) -> Path:
        """Where names that begin with a dot or an underscore wait for a plain one. Disposable."""

    def emptied(self, what: str, reason: str) -> None:
        """Note there that all was removed that a name stood for which stays."""

    def set_aside(self, what: str, files: Sequence[Path]) -> None:
        """Keep files of a staged directory that was published and that are not, and note there where."""

    def dropped(self, what: str, reason: str) -> None:
        """Note there that something that was written is not going to be published, as its writer wanted."""

    async def run(self) -> None:
        """The store's own work (flushing, compaction, sealing), until cancelled; in place of `follow`."""
