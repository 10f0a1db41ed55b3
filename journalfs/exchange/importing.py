"""Puts messages of a file into a store: JSON lines, XML or Parquet."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from journalfs import caller_files
from journalfs.account.books import Books, NotCarried, not_asked_for
from journalfs.account.entries import Account, Standing, Totals, exactly
from journalfs.account.filters import EVERYTHING, Wanted
from journalfs.broker.queues.making import NewQueue
from journalfs.config.database import database_named
from journalfs.engine.lines import SOURCE_PERSISTER, LineBatch
from journalfs.errors import BadEnvelope, JournalfsError, SystemFailure, WrongCall, failing
from journalfs.exchange.targets import LEFT_OUT, Target, mounted_store, opened_target
from journalfs.exchange.xml_in import BoundAddress, BoundQueue, XmlReader
from journalfs.message.envelope import envelope_decoder

# How far an import came, noted beside its file: one that failed or was killed goes on there.

NOTE: Final = ".{}.importing"


class _Note(msgspec.Struct):
    target: str
    done: int = 0
    """Messages that are published, for good."""
    digest: str = ""
    """Of their lines."""
    pending: int = 0
    """Messages that are being published, or were when the import ended."""
    pending_digest: str = ""
    """Of all lines up to these."""
    queue: str = ""
    """Where to, and how many messages it had before."""
    before: int = 0


class Progress:
    """The note of one file. Nothing but this import may change the queue between two calls: what of a batch
    came through is told from how many messages it has.
    """

    def __init__(self, file: Path, target: Path) -> None:
        """Raises `WrongCall` where a note is there of another import, `SystemFailure`."""
        self._path = file.with_name(NOTE.format(file.name))
        self._seen = 0
        self._is_noted = True
        """Whether the file says what is known here."""
        self._hash = hashlib.blake2b(digest_size=16)
        database = database_named(target)
        place = target.resolve() if database is None else database.shown
        where = os.fsencode(place).decode("utf-8", "backslashreplace")
        self._note = self._read() or _Note(where)
        if self._note.target != where:
            raise WrongCall(
                f"{file}: its import into {self._note.target} is not at its end: repeat that, or remove "
                f"{self._path} to begin anew"
            )

    def _read(self) -> _Note | None:
        try:
            return msgspec.convert(json.loads(caller_files.read_note(self._path)), _Note)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SystemFailure.from_os(error, self._path, doing="read") from error
        except (ValueError, RecursionError) as error:
            raise WrongCall(
                f"{self._path}: no note of an import ({error}): remove it to begin anew"
            ) from error

    @property
    def unsettled(self) -> str | None:
        """The queue of the batch that was being published."""
        return self._note.queue if self._note.pending else None

    @property
    def done(self) -> int:
        return self._note.done

    def settle(self, count: int) -> None:
        """`count`: how many messages that queue has now. Raises `WrongCall` where it tells nothing."""
        note = self._note
        came = count - note.before
        if not 0 <= came <= note.pending:
            raise WrongCall(
                f"{self._path}: {note.queue} was changed since, so nothing tells whether its last "
                f"{note.pending} messages came: set `done` there to their number, `pending` to 0, and repeat"
            )
        if came:
            note.digest = note.pending_digest if came == note.pending else ""
        note.done, note.pending = note.done + came, 0
        self._is_noted = False

    def seen(self, line: bytes) -> bool:
        """Whether this message, the next one of the file, is there already. Raises `WrongCall` where what was
        published is not what the file begins with.
        """
        self._hash.update(line)
        self._seen += 1
        note = self._note
        if self._seen == note.done and note.digest not in ("", self._hash.hexdigest()):
            raise WrongCall(f"{self._path}: the file begins otherwise now; remove this note to begin anew")
        return self._seen <= note.done

    def begin(self, count: int, queue: str, before: int) -> None:
        """That many messages are about to be published into a queue that has `before`."""
        self._note.pending, self._note.queue, self._note.before = count, queue, before
        self._note.pending_digest = self._hash.hexdigest()
        self._write()

    def end(self) -> None:
        """They are published."""
        self.settle(self._note.before + self._note.pending)

    def _write(self) -> None:
        doing, new = "note how far the import is", f"{self._path.name}.new"
        with failing(doing, self._path), caller_files.replacing(self._path, new) as file:
            # Names may have halves of characters, which the standard library alone takes.
            file.write(json.dumps(msgspec.to_builtins(self._note)).encode())
        self._is_noted = True

    def keep(self) -> None:
        """The import fails: note what is published. After a kill that is told from the queue's messages, so
        it is not noted after each batch, which would take as many syncs again.
        """
        if not self._is_noted:
            self._write()

    def remove(self) -> None:
        """The import is at its end."""
        caller_files.remove(self._path)


BATCH_BYTES: Final = 4 << 20
BATCH_LINES: Final = 8192
WINDOW_LINES: Final = 16_384
"""So many lines at most are read ahead to make their queues together."""
SEPARATOR: Final = "::"
FORMATS: Final = ("jsonl", "xml", "parquet")

Advance = Callable[[int], None]


class Line(NamedTuple):
    """An envelope line for one queue."""

    address: str
    queue: str
    line: bytes
    damaged: bool = False
    """The line says so: it does not have all of its message."""


@dataclass(slots=True)
class Imported:
    """What became of the messages of a file: counts by `ADDRESS::QUEUE`."""

    forget: Callable[[], None]
    """Removes the note. It goes last, after the store is closed: whoever repeats an import that was killed
    without its note publishes all again.
    """
    messages: int = 0
    """Published by this call."""
    queues: int = 0
    read: Counter[str] = field(default_factory=Counter)
    """All of the file."""
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those that are not in their queue, with why: `FILTERED`, `DAMAGED_LINE`, or a key of `LEFT_OUT`."""

    came: Counter[str] = field(default_factory=Counter)
    """Messages that the queues themselves have more than before, and those of a call that was killed."""

    def books(self, file: str, wanted: Wanted) -> Books:
        """Return balanced books: the file is the source. Raises `BooksDoNotBalance`."""
        totals = {name: Totals(live=count) for name, count in self.read.items()}
        account = Account(file, (), totals, sum(totals.values(), Totals()))
        rows = [_row(name, why, count, wanted) for (name, why), count in sorted(self.left.items()) if count]
        books = Books.of(account, self.came, rows, made="STORE")
        books.balance()
        return books


FILTERED: Final = "filtered"
DAMAGED_LINE: Final = "damaged-line"


def _row(name: str, why: str, count: int, wanted: Wanted) -> NotCarried:
    if why == FILTERED:
        return not_asked_for(name, count, f"{wanted.told_queues()} {wanted.told()}".strip())
    if why == DAMAGED_LINE:
        reason = "their lines say `damage`: they were not whole when they were exported"
        return NotCarried(name, Standing.DAMAGED, reason, exactly(count), why, asked=False)
    return NotCarried(name, why, LEFT_OUT[why], exactly(count), why, asked=why == "replaced")


async def import_file(
    path: Path, target: Path, file_format: str, advance: Advance, *, wanted: Wanted = EVERYTHING
) -> Imported:
    """Publish what a file holds into the store or mount at `target`, queue by queue as they come, and make
    addresses and queues that are not there. What was published before something fails stays, and is not
    published again when the call is repeated.
    """
    progress = Progress(path, mounted_store(target) or target)
    async with opened_target(target) as opened:
        filling = _Filling(opened, progress, wanted)
        try:
            await _fill(filling, path, file_format, advance)
        except BaseException:
            progress.keep()
            raise
    filling.done.queues = len(filling.known)
    return filling.done


async def _fill(filling: _Filling, path: Path, file_format: str, advance: Advance) -> None:
    await filling.settle()
    with caller_files.opened(path) as file:
        if file_format == "xml":
            await _from_xml(file, filling, advance)
        else:
            read = json_lines if file_format == "jsonl" else parquet_lines
            for some in _windows(read(file, advance)):
                await filling.make_queues(some)
                for one in some:
                    await filling.add(one)
    await filling.flush()


def _windows(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """As many lines as are read before queues are made for all of them at once. Raises what reading raises,
    behind the lines before it.
    """
    refused: JournalfsError | None = None
    while refused is None:
        some: list[Line] = []
        size_bytes = 0
        try:
            for one in lines:
                some.append(one)
                size_bytes += len(one.line)
                if size_bytes >= BATCH_BYTES or len(some) >= WINDOW_LINES:
                    break
        except JournalfsError as error:
            refused = error
        if some:
            yield some
        elif refused is None:
            return
    raise refused


class _Filling:
    """Publishes in batches, each of one queue."""

    def __init__(self, target: Target, progress: Progress, wanted: Wanted) -> None:
        self.target = target
        self._progress = progress
        self._wanted = wanted
        self.done = Imported(progress.remove)
        self._older: dict[str, int] = {}
        """How many messages each queue had before, that were not replaced since."""
        self.known: set[tuple[str, str]] = set()
        self._lines: list[bytes] = []
        self._of: tuple[str, str] | None = None
        self._bytes = 0

    def wants(self, address: str, queue: str) -> bool:
        return self._wanted.wants_queue(address, queue)

    def wants_address(self, name: str) -> bool:
        """True unless only queues are wanted, and none of this address."""
        of = [queue.partition(SEPARATOR)[0] for queue in self._wanted.queues]
        return not of or name in of

    async def settle(self) -> None:
        """Find out what of a batch came through that was being published when the last call ended."""
        if self._progress.unsettled is not None:
            address, _, queue = self._progress.unsettled.partition(SEPARATOR)
            self._progress.settle(self.target.message_count(address, queue))

    async def make_queues(self, lines: Iterable[Line]) -> None:
        """Make those that get something of these lines."""
        self.known |= await self._made(
            NewQueue(one.address, one.queue)
            for one in lines
            if not one.damaged
            and (one.address, one.queue) not in self.known
            and self._wanted.wants_queue(one.address, one.queue)
            and self._wanted.accepts(one.line)
        )

    async def make(self, queues: Iterable[NewQueue]) -> None:
        self.known |= await self._made(queues)

    async def _made(self, queues: Iterable[NewQueue]) -> set[tuple[str, str]]:
        wanted = {one.path: one for one in queues}
        if wanted:
            await self.target.queues(list(wanted.values()))
        return set(wanted)

    async def add(self, one: Line) -> None:
        of = one.address, one.queue
        name = SEPARATOR.join(of)
        self.done.read[name] += 1
        if not self._wanted.wants_queue(*of) or not self._wanted.accepts(one.line):
            self.done.left[name, FILTERED] += 1
            return
        if one.damaged:
            self.done.left[name, DAMAGED_LINE] += 1
            return
        if of != self._of or self._bytes >= BATCH_BYTES or len(self._lines) >= BATCH_LINES:
            await self.flush()
            self._of = of
        if self._progress.seen(one.line):
            self.done.came[name] += 1
            return
        self._lines.append(one.line)
        self._bytes += len(one.line)

    def _count(self, name: str, before: int, left: Counter[str]) -> None:
        """Count what a batch brought into its queue, and what did not stay there. Messages that were there
        before the import are replaced first.
        """
        expected = len(self._lines) - left.total()
        found = self.target.message_count(*name.split(SEPARATOR, 1)) - before
        older = self._older.setdefault(name, before)
        of_older = min(older, left["replaced"])
        self._older[name] -= of_older
        left["replaced"] -= of_older
        self.done.came[name] += (found if self.target.is_alone else expected) + of_older
        for why, count in left.items():
            self.done.left[name, why] += count

    async def flush(self) -> None:
        if self._of is not None and self._lines:
            before, left_before = self.target.message_count(*self._of), self.target.left_out(*self._of)
            self._progress.begin(len(self._lines), SEPARATOR.join(self._of), before)
            await self.target.publish(*self._of, b"".join(self._lines))
            self._progress.end()
            self.done.messages += len(self._lines)
            self._count(SEPARATOR.join(self._of), before, self.target.left_out(*self._of) - left_before)
        self._lines, self._bytes = [], 0


def json_lines(file: BinaryIO, advance: Advance) -> Iterator[Line]:
    """Envelopes that say which queue they are of. Raises `BadEnvelope`."""
    return _placed(file, file.name, advance)


class _Head(msgspec.Struct):
    queue: str
    address: str | None = None
    damage: str | None = None


def _placed(lines: Iterable[bytes], name: str, advance: Advance) -> Iterator[Line]:
    decode = envelope_decoder(frozenset(("queue", "address", "damage")))
    for number, line in enumerate(lines, 1):
        advance(len(line))
        if not line.strip():
            continue
        try:
            head = msgspec.convert(decode(line), _Head)
        except (ValueError, RecursionError) as error:
            raise BadEnvelope(f"line {number} of {name}: {error}") from error
        ended = line if line.endswith(b"\n") else line + b"\n"
        yield Line(head.address or head.queue, head.queue, ended, head.damage is not None)


def parquet_lines(file: BinaryIO, advance: Advance) -> Iterator[Line]:
    """Rows that `journalfs export --format parquet` wrote: each has its envelope. Raises `WrongCall`."""
    pq = parquet_module()
    table = pq.ParquetFile(file)
    wanted = ["address", "queue", "envelope"]
    if missing := [name for name in wanted if name not in table.schema_arrow.names]:
        raise WrongCall(f"{file.name}: it has no column {missing[0]!r}; only files of export can be imported")
    for batch in table.iter_batches(BATCH_LINES, columns=["envelope"]):
        lines = (line.encode() for line in batch.column("envelope").to_pylist())
        yield from _placed(lines, file.name, lambda _: None)
        advance(batch.nbytes)


def parquet_module() -> Any:
    """PyArrow's. Raises `WrongCall` where it is not installed."""
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415 - few need it
    except ImportError as error:
        raise WrongCall("Parquet needs PyArrow: pip install 'journalfs[spark]'") from error
    return pq


async def _from_xml(file: BinaryIO, filling: _Filling, advance: Advance) -> None:
    addresses: dict[str, str] = {}
    bound: list[NewQueue] = []
    for one in XmlReader(file, advance):
        if isinstance(one, BoundAddress):
            if filling.wants_address(one.name):
                await filling.target.address(one.name)
        elif isinstance(one, BoundQueue):
            addresses[one.name] = one.address
            if filling.wants(one.address, one.name):
                settings = {"routing-type": one.routing_type.name, "filter": one.filter}
                given = {name: value for name, value in settings.items() if value is not None}
                bound.append(NewQueue(one.address, one.name, given))
        else:
            await filling.make(bound)
            bound = []
            _, payload = one.message.record(0, "", 0)
            line = LineBatch.of_payloads([payload], queue=None, sources=[SOURCE_PERSISTER]).line(0)
            for queue in one.queues:
                found = Line(addresses.get(queue, queue), queue, bytes(line))
                await filling.make_queues((found,))
                await filling.add(found)
    await filling.make(bound)
