"""A store that a mount holds, by the mount's files: what a shell does with them."""

from __future__ import annotations

import errno
import os
import select
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from journalfs import door
from journalfs.api import QueuePath
from journalfs.clock import SystemClock
from journalfs.errors import (
    HeldByReaders,
    JournalfsError,
    MountRefused,
    NoSuchName,
    NotEmpty,
    ReadOnlyStore,
    TooManyConsumers,
    WrongCall,
)
from journalfs.python.backend import MadeOfLines, Place
from journalfs.python.disk import DiskUse, disk_use_at
from journalfs.python.glimpses import MountedGlimpses
from journalfs.python.letters import SentBack, planned
from journalfs.python.links import drive
from journalfs.python.message import Message
from journalfs.store.queue_counts import QueueCounts
from journalfs.times import moment_ms
from journalfs.views.message import SUFFIXES
from journalfs_mount.names.grammar import encode_name

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.store.store import JournalStore

READ_BYTES: Final = 1 << 20
WAIT_S: Final = 0.2
"""How often who waits looks whether it is to wait on: nobody else can end a system call in a thread."""
ANSWER_BYTES_MAX: Final = 64 << 20
_decode_counts: Final = msgspec.json.Decoder(QueueCounts).decode_lines
LINES_NAME: Final = "python.jsonl"
_CONTROL: Final = ".journalfs"
_KINDS: Final[Mapping[int, type[JournalfsError]]] = {
    errno.EROFS: ReadOnlyStore, errno.ENOENT: NoSuchName, errno.ESTALE: NoSuchName, errno.EINVAL: WrongCall,
    errno.EBUSY: HeldByReaders, errno.EUSERS: TooManyConsumers, errno.ENOTEMPTY: NotEmpty,
}  # fmt: skip
"""Errors that stand for an errno of a mount."""


def folder_name(name: str) -> str:
    return os.fsdecode(encode_name(name))


def selector_name(selector: str) -> str:
    """The name below `.where` that stands for a selector."""
    return selector.replace("%", "%25").replace("/", "%2F")


class MountedLines:
    """Lines of an open file: what it had when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with failing("read", path):
            self._file = path.open("rb", buffering=0)
        self._rest = b""

    async def more(self) -> Sequence[bytes]:
        with failing("read", self._path):
            while piece := self._file.read(READ_BYTES):
                whole, newline, rest = piece.rpartition(b"\n")
                if newline:
                    lines, self._rest = self._rest + whole, rest
                    return lines.split(b"\n")
                self._rest += rest
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def close(self) -> None:
        self._file.close()


class Stream:
    """An open `.take` or `.follow`, from which one line is read at a time."""

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._closing = threading.Event()
        with failing("open", path):
            self.descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)

    def line(self, timeout_s: float | None) -> bytes | None:
        """The next line, without its newline; None after so many seconds, or once the queue is gone."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        line = b""
        with failing("read", self.path):
            while not line.endswith(b"\n"):
                try:
                    piece = os.read(self.descriptor, READ_BYTES)
                except BlockingIOError:
                    if not self._wait(end):
                        return None
                    continue
                if not piece:
                    return None
                line += piece
        return line[:-1]

    def _wait(self, end: float | None) -> bool:
        """Whether there may be something."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while not self._closing.is_set():
            left_s = WAIT_S if end is None else min(WAIT_S, end - time.monotonic())
            if left_s <= 0:
                return False
            if poll.poll(left_s * 1000):
                return True
        return False

    def close(self) -> None:
        """Once; a thread that waits for a line gets none."""
        self._closing.set()
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


class MountedArrivals:
    def __init__(self, path: Path) -> None:
        self._stream = Stream(path, os.O_RDONLY)

    async def next(self, timeout_s: float | None) -> bytes | None:
        return self._stream.line(timeout_s)

    def close(self) -> None:
        self._stream.close()


class MountedTaken:
    """A message that was read from `.take`; nothing but the answer acknowledges it."""

    def __init__(self, stream: Stream, line: bytes) -> None:
        self._stream = stream
        self.line = line

    async def acknowledge(self) -> None:
        self._answer(b"ack\n")

    async def give_back(self) -> None:
        self._answer(b"nack\n")

    def _answer(self, word: bytes) -> None:
        try:
            with failing("acknowledge a message of", self._stream.path):
                os.write(self._stream.descriptor, word)
        finally:
            self._stream.close()


class MountedBackend:
    """Its calls block. `root` is the mount point, or a directory that is laid out like one."""

    def __init__(self, root: Path, *, moment: bool = False) -> None:
        """`moment`: it is a snapshot or a history of the mount, which never changes."""
        self._root = root
        self._moment = moment
        self.source = str(root)

    @property
    def writes(self) -> bool:
        return not self._moment

    def _folder(self, place: Place, selector: str | None = None) -> Path:
        folder = self._root / folder_name(place[0])
        if place[1] is not None:
            folder = folder / folder_name(place[1])
        if not folder.is_dir():
            what = "address" if place[1] is None else "queue"
            raise NoSuchName(f"{self._root}: no {what} {'::'.join(filter(None, place))}")
        return folder if selector is None else folder / ".where" / selector_name(selector)

    # -- looking ---------------------------------------------------------------------------------------------

    async def addresses(self) -> Sequence[str]:
        return [name for name, _ in self._named(self._root)]

    async def queues(self) -> Sequence[QueuePath]:
        return [(a, q) for a, folder in self._named(self._root) for q, _ in self._named(folder)]

    def _named(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Addresses or queues: a name that stands for a long one is known by its status."""
        with failing("list", folder):
            entries = [Path(one.path) for one in os.scandir(folder) if one.is_dir()]
        for entry in sorted(entries):
            if not entry.name.startswith((".", "_")):
                status = self._json(entry / ".status")
                yield str(status["queue" if "queue" in status else "address"]), entry

    def _json(self, file: Path) -> dict[str, Any]:
        with failing("read", file):
            found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        return found

    async def status(self, place: Place | None) -> Mapping[str, object]:
        if place is None:
            return self._json(self._root / _CONTROL / "status.json")
        return self._json(self._folder(place) / ".status")

    async def count(self, queue: QueuePath, selector: str | None) -> int:
        if selector is None:
            return int(self._json(self._folder(queue) / ".status")["messageCount"])
        lines = await self.lines(queue, selector)
        try:
            found = 0
            while some := await lines.more():
                found += len(some)
        finally:
            lines.close()
        return found

    async def lines(self, queue: QueuePath, selector: str | None) -> MountedLines:
        return MountedLines(self._folder(queue, selector) / ".all.jsonl")

    async def messages(self, queue: QueuePath, selector: str | None) -> MadeOfLines:
        return MadeOfLines(await self.lines(queue, selector))

    async def arrivals(self, queue: QueuePath, selector: str | None) -> MountedArrivals:
        return MountedArrivals(self._folder(queue, selector) / ".follow")

    async def overview(self) -> Sequence[QueueCounts]:
        file = self._root / _CONTROL / "queues.jsonl"
        with failing("read", file):
            return _decode_counts(file.read_bytes())

    async def glimpses(self, queue: QueuePath, selector: str | None) -> MountedGlimpses:
        return MountedGlimpses(self._folder(queue, selector) / ".all.jsonl", _opened)

    async def events(self) -> Sequence[Mapping[str, Any]]:
        file = self._root / _CONTROL / "events.jsonl"
        with failing("read", file):
            return [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]

    async def reasons(self, queue: QueuePath) -> Mapping[str, int]:
        folder = self._folder(queue) / ".by-reason"
        with failing("list", folder):
            return {name: len(os.listdir(folder / name / ".messages")) for name in os.listdir(folder)}

    async def disk(self) -> DiskUse:
        return disk_use_at(Path(str((await self.status(None))["path"])))

    # -- changing --------------------------------------------------------------------------------------------

    def _refuse_moment(self) -> None:
        if self._moment:
            raise ReadOnlyStore(f"{self._root}: this never changes; change the mount that it is in")

    async def publish(self, place: Place, lines: bytes) -> None:
        self._refuse_moment()
        file = self._folder(place) / f"python-{uuid.uuid4().hex}.jsonl"
        with failing("publish", file), file.open("xb", buffering=0) as out:
            door.write_all(out.fileno(), lines)

    async def take(
        self, queue: QueuePath, selector: str | None, timeout_s: float | None
    ) -> MountedTaken | None:
        self._refuse_moment()
        stream = Stream(self._folder(queue, selector) / ".take", os.O_RDWR)
        try:
            line = stream.line(timeout_s)
        except BaseException:
            stream.close()
            raise
        if line is None:
            stream.close()
            return None
        return MountedTaken(stream, line)

    async def remove(self, queue: QueuePath, selector: str | None) -> int:
        self._refuse_moment()
        return self._all_of(queue, selector, lambda file: file.unlink())

    async def move(self, queue: QueuePath, selector: str | None, target: QueuePath) -> int:
        self._refuse_moment()
        goal = self._folder(target) / f"python-{uuid.uuid4().hex}.jsonl"
        return self._all_of(queue, selector, lambda file: file.rename(goal))

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        self._refuse_moment()
        return sum(_with_suffix(self._message(queue, one), os.unlink) is not None for one in ids)

    async def move_those(self, queue: QueuePath, ids: Sequence[int], target: QueuePath) -> int:
        self._refuse_moment()
        return self._renamed(queue, ids, self._folder(target))

    def _message(self, queue: QueuePath, number: int) -> Path:
        return self._folder(queue) / ".messages" / str(number)

    def _renamed(self, queue: QueuePath, ids: Sequence[int], target: Path) -> int:
        found = 0
        for one in ids:
            found += _with_suffix(self._message(queue, one), partial(_rename_into, target)) is not None
        return found

    async def redrive(
        self, queue: QueuePath, selector: str | None, ids: Sequence[int] | None, *, plans: bool
    ) -> SentBack:
        if plans:
            return await self._planned(queue, selector, ids)
        self._refuse_moment()
        before = len(await self.events())
        goal = self._folder(queue) / ".redrive"
        if ids is not None:
            self._renamed(queue, ids, goal)
        elif os.listdir((folder := self._folder(queue, selector)) / ".messages"):
            with failing("send messages back from", folder):
                (folder / ".all.jsonl").rename(goal / ".all.jsonl")
        sent: Counter[str] = Counter()
        stayed: Counter[str] = Counter()
        for event in (await self.events())[before:]:
            if event["event"] == "redriven" and (event["address"], event["queue"]) == queue:
                sent.update(event["sent"])
                stayed.update(event["staying"])
        return SentBack(dict(sent), dict(stayed))

    async def _planned(self, queue: QueuePath, selector: str | None, ids: Sequence[int] | None) -> SentBack:
        wanted = None if ids is None else set(ids)
        lines = MountedLines(self._folder(queue, selector) / ".all.jsonl")
        chosen: list[bytes] = []
        try:
            while some := await lines.more():
                chosen += some if wanted is None else [one for one in some if Message(one).id in wanted]
        finally:
            lines.close()
        return planned(chosen, set(await self.queues()), queue)

    def _all_of(self, queue: QueuePath, selector: str | None, change: Any) -> int:
        folder = self._folder(queue, selector)
        with failing("change", folder):
            there = len(os.listdir(folder / ".messages"))
            if there:
                change(folder / ".all.jsonl")
        return there

    async def create(self, place: Place) -> None:
        self._refuse_moment()
        folder = self._root / folder_name(place[0])
        with failing("make", folder):
            folder.mkdir(exist_ok=True)
            if place[1] is not None:
                (folder / folder_name(place[1])).mkdir(exist_ok=True)

    async def begin(self) -> MountedTransaction:
        self._refuse_moment()
        folder = self._root / _CONTROL / "transactions" / f"python-{uuid.uuid4().hex}"
        with failing("begin a transaction", folder):
            folder.mkdir()
        return MountedTransaction(self, folder)

    async def undo(self, since: str | None, *, plans: bool = False) -> Mapping[str, int]:
        self._refuse_moment()
        file = self._root / _CONTROL / "removed" / ".undo"
        asked = "last" if since is None else f"since {moment_ms(since, SystemClock().now_ms())}"
        with failing("bring removed messages back", file):
            descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.write(descriptor, f"{'dry-run ' * plans}{asked}".encode())
                answer = os.pread(descriptor, ANSWER_BYTES_MAX, 0)
            finally:
                os.close(descriptor)
        queues = msgspec.json.decode(answer)["queues"]
        return {f"{one['address']}::{one['queue']}": int(one["messages"]) for one in queues}

    # -- moments ---------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> Path:
        return self._root / _CONTROL / "snapshots"

    async def snapshot(self, name: str) -> None:
        self._refuse_moment()
        with failing("make a snapshot", self._kept / name):
            (self._kept / name).mkdir()

    async def snapshots(self) -> Sequence[str]:
        with failing("list", self._kept):
            return sorted(name for name in os.listdir(self._kept) if (self._kept / name).is_dir())

    async def drop_snapshot(self, name: str) -> None:
        self._refuse_moment()
        with failing("remove a snapshot", self._kept / name):
            (self._kept / name).rmdir()

    async def of_snapshot(self, name: str) -> MountedBackend:
        return self._inside(self._kept / name, f"no snapshot {name}")

    async def of_history(self, name: str) -> MountedBackend:
        folder = self._root / _CONTROL / "history" / name
        return self._inside(folder, "no history is kept; set journal-retention-directory")

    def _inside(self, folder: Path, otherwise: str) -> MountedBackend:
        if not folder.is_dir():
            raise NoSuchName(f"{self._root}: {otherwise}")
        return MountedBackend(folder, moment=True)

    def moment(self) -> JournalStore:
        raise WrongCall(
            f"{self.source}: columns are read from a store's own files; for those of a snapshot or "
            "a history, open the store and not its mount"
        )

    async def metrics(self) -> bytes:
        file = self._root / _CONTROL / "metrics"
        if not os.access(file, os.R_OK):
            file = self._root / ".metrics"  # of queues that this user may read
        with failing("read", file):
            return file.read_bytes()

    async def account(self) -> Account:
        """From the store's own files, which are read beside the mount."""
        from journalfs.account.taking import account_of  # noqa: PLC0415 - few ask
        from journalfs.store import open_store  # noqa: PLC0415 - as above

        path = Path(str((await self.status(None))["path"]))
        store = open_store(path, index=False)
        try:
            return account_of(store)
        finally:
            store.close()


class MountedTransaction:
    """A directory in `.journalfs/transactions`; what it publishes lies in a file for each run of lines."""

    def __init__(self, backend: MountedBackend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder
        self._number = 0

    @property
    def folder(self) -> Path:
        """Its directory in the mount."""
        return self._folder

    async def publish(self, place: Place, lines: bytes) -> None:
        folder = self._folder / folder_name(place[0])
        if place[1] is not None:
            folder = folder / folder_name(place[1])
        self._number += 1
        file = folder / f"{self._number:09d}.jsonl"
        with failing("publish", file), file.open("xb", buffering=0) as out:
            door.write_all(out.fileno(), lines)

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> _Held | None:
        """Move the first message that nobody has into the transaction."""
        folder = self._backend._folder(queue, selector)
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = self._first(folder, queue)
            if found is not None or (end is not None and time.monotonic() >= end):
                return found
            time.sleep(WAIT_S if end is None else max(0.0, min(WAIT_S, end - time.monotonic())))

    def _first(self, folder: Path, queue: QueuePath) -> _Held | None:
        with failing("take a message of", folder):
            for name in os.listdir(folder / ".messages"):
                source = folder / ".messages" / name
                try:
                    line = _line_of(folder, source)
                    source.rename(self._folder / name)
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.EBUSY, errno.ESTALE):
                        continue  # somebody else has it
                    raise
                held = self._folder / folder_name(queue[0]) / folder_name(queue[1]) / name
                return _Held(held, line)
        return None

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        folder = self._backend._folder(queue) / ".messages"
        take = partial(_rename_into, self._folder)
        return sum(_with_suffix(folder / str(one), take) is not None for one in ids)

    async def commit(self) -> None:
        with failing("commit", self._folder):
            self._folder.rename(self._folder.parent / "committed" / self._folder.name)

    async def roll_back(self) -> None:
        with failing("roll back", self._folder), suppress(FileNotFoundError):
            shutil.rmtree(self._folder)


class _Held:
    """A message in a transaction's directory."""

    def __init__(self, place: Path, line: bytes) -> None:
        self._place = place
        self.line = line

    async def acknowledge(self) -> None:
        """The commit does it."""

    async def give_back(self) -> None:
        with failing("give a message back", self._place):
            self._place.unlink()


def _line_of(folder: Path, message: Path) -> bytes:
    """The envelope line of one message of a queue or selection."""
    number = int(message.name.partition(".")[0])
    lines = MountedLines(folder / ".all.jsonl")
    try:
        while some := drive(lines.more):
            for line in some:
                if Message(line).id == number:
                    return line
    finally:
        lines.close()
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(message))


def _opened(path: Path) -> int:
    with failing("read", path):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _rename_into(folder: Path, file: Path) -> None:
    file.rename(folder / file.name)


def _with_suffix(message: Path, act: Callable[[Path], None]) -> Path | None:
    """Do something with a message's file, which one of four suffixes completes. None: there is none."""
    for suffix in SUFFIXES:
        file = message.with_name(message.name + suffix.decode())
        with failing("change", file), suppress(FileNotFoundError):
            act(file)
            return file
    return None


@contextmanager
def failing(doing: str, path: Path) -> Iterator[None]:
    """What the mount refuses is raised with the reason that it noted, and what to do."""
    try:
        yield
    except OSError as error:
        raise refusal(error, path, doing) from error


def refusal(error: OSError, path: Path, doing: str) -> JournalfsError:
    """The error that an errno of the mount stands for."""
    number = error.errno or errno.EIO
    message = f"{path}: cannot {doing}: {error.strerror}{_reason(path)}"
    kind = _KINDS.get(number)
    return MountRefused(message, number) if kind is None else kind(message)


def _reason(path: Path) -> str:
    """What the mount noted of the last refusal of a file, as the end of a sentence."""
    parents = reversed([path, *path.parents])
    root = next((one for one in parents if os.path.isdir(one / _CONTROL)), None)
    if root is None:
        return ""
    try:
        lines = (root / _CONTROL / "events.jsonl").read_bytes().splitlines()
    except OSError:
        return ""
    for line in reversed(lines[-50:]):
        event = msgspec.json.decode(line)
        if event.get("event") == "refused":
            place, _, _ = str(event.get("what", "")).rpartition(": ")
            asked = str(path.relative_to(root))
            concerns = asked.startswith(place) or place.startswith(asked)
            return f": {event['reason']}" if concerns else ""
    return ""
