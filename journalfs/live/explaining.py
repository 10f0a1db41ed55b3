"""Explains what keeps each journal file from being freed: as facts for programs, as text for people, and as
files of the control tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from journalfs import door
from journalfs.api import VirtualDirectory, VirtualFile
from journalfs.config.older import AMQ
from journalfs.engine.state import (
    QueueShare,
    TransactionShare,
    other_records,
    queue_shares,
    transaction_shares,
)
from journalfs.engine.waiting import Slices
from journalfs.errors import DecodeError, SystemFailure
from journalfs.format.record_types import user_type_name
from journalfs.format.xid import decode_xid
from journalfs.ids import QueueId
from journalfs.live.virtual import SlicedFile, made_at_once
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.records.files.reports import FileReport, JournalAccount
from journalfs.showing import shown

if TYPE_CHECKING:
    from journalfs.live.core import Core

SUFFIX: Final = ".explain"
LINES_SUFFIX: Final = ".jsonl"
"""Of the record views beside them."""


class QueueFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Messages of one queue in the file. `address` and `queue` are null where no binding names the queue."""

    id: int
    address: str | None
    queue: str | None
    messages: int
    delivering: int
    body_bytes: int
    oldest_timestamp: int | None
    oldest_age_ms: int | None


class TransactionFacts(msgspec.Struct, frozen=True, rename="camel"):
    id: int
    prepared: bool
    operations: int
    xid: str | None = None
    """The transaction manager's id as brokers print it; null without one."""
    keeps_logs_of: str | None = None
    """The AMQ message store whose data logs all stay while this one is prepared; null for other stores."""


class FileFacts(msgspec.Struct, frozen=True, rename="camel"):
    """One journal file. Sizes in bytes."""

    file: str
    file_id: int
    bytes: int
    state: str
    """`current`, `kept`, `reclaimable`, or `free` for a file without records."""
    freed_by: str | None
    """`reclaim` or `compaction`; null for a free one."""
    needed_records: int
    live_bytes: int
    live_messages: int
    queueless_messages: int
    queues: list[QueueFacts]
    other_records: Mapping[str, int]
    transactions: list[TransactionFacts]
    deletes_in: list[str]
    """Earlier files that stay and hold records that this file deletes."""
    waits_for: str | None = None
    """The file that is written now, where nothing of this one is needed any more because of what that one
    deletes: a file is set free only once those are full in which its records are deleted.
    """


@dataclass(slots=True)
class Explanations:
    """Of one open store."""

    core: Core
    of_writer: Callable[[], Sequence[FileReport]] | None = None
    """Where this process writes the journal, its writer counts."""
    _account: tuple[int, JournalAccount] = field(default_factory=lambda: (-1, JournalAccount()))

    def facts(self) -> list[FileFacts]:
        """Every file of the message journal, in reading order. Raises SystemFailure."""
        reports = {report.name: report for report in self._reports()}
        return [
            made_at_once(self._facts(read.slot, reports, Slices.none()))
            for read in self.core.loader.files.read_files()
        ]

    def states(self) -> Counter[str]:
        """How many files of the message journal are in each state. Raises SystemFailure."""
        loader, reports = self.core.loader, self._reports()
        found = Counter(map(_state_name, reports))
        try:
            there = sum(name.endswith(f".{loader.extension}") for name in door.names(loader.directory))
        except OSError as error:
            raise SystemFailure.from_os(error, loader.directory, doing="list") from error
        found["free"] = max(0, there - len(reports))
        return found

    async def fact(self, name: str, slices: Slices) -> FileFacts | None:
        """One file; None if there is none of that name."""
        for read in self.core.loader.files.read_files():
            if shown(read.file.name) == shown(name):
                reports = {report.name: report for report in self._reports()}
                return await self._facts(read.slot, reports, slices)
        loader = self.core.loader
        # What its writer makes ahead is nothing to read for who reads what it wrote.
        listed = read_directory(loader.directory, extension=loader.extension, relative_to=self.core.root)
        return next((_free(file) for file in listed.files if shown(file.name) == shown(name)), None)

    def _reports(self) -> Sequence[FileReport]:
        if self.of_writer is not None:
            return self.of_writer()
        if self._account[0] != self.core.epoch:
            self._account = self.core.epoch, JournalAccount()
        try:
            return self._account[1].reports(self.core.loader.files)
        except OSError as error:
            raise SystemFailure.from_os(error, self.core.layout.journal_dir, doing="explain") from error

    async def _facts(self, slot: int, reports: Mapping[str, FileReport], slices: Slices) -> FileFacts:
        file = self.core.loader.files.read_file(slot).file
        report = reports.get(file.name)
        if report is None:
            return _free(file)
        state = self.core.loader.state
        shares, referenced = queue_shares(state, slot)
        others = other_records(state, slot)
        messages = max(0, report.live_adds - sum(others.values()))
        transactions = list(self._transactions(transaction_shares(state, slot)))
        queues = await self._queues(shares, slices)
        return FileFacts(
            file=shown(file.name),
            file_id=report.file_id,
            bytes=report.size_bytes,
            state=_state_name(report),
            freed_by="reclaim" if report.reclaimable else "compaction",
            needed_records=report.uncancelled,
            live_bytes=report.live_bytes,
            live_messages=messages,
            queueless_messages=max(0, messages - referenced),
            queues=queues,
            other_records={user_type_name(kind): n for kind, n in others.items()},
            transactions=transactions,
            deletes_in=list(report.cancels_earlier),
            waits_for=_waits_for(report, reports),
        )

    def _transactions(self, shares: Sequence[TransactionShare]) -> Iterator[TransactionFacts]:
        core = self.core
        files, derived = core.loader.files, core.derived
        keeps = derived.source if derived is not None and derived.kind == AMQ else None
        is_any = any(share.prepared for share in shares)
        known = {one.tx_id: one for one in core.loader.state.transactions()} if is_any else {}
        for share in shares:
            found = TransactionFacts(share.tx_id, share.prepared, share.operations)
            if share.prepared:
                info, xid = known[share.tx_id], None
                if info.extra_bytes:
                    with suppress(DecodeError):
                        xid = decode_xid(files[info.file_slot].copy(info.extra_offset, info.extra_bytes))
                found = replace(found, xid=None if xid is None else xid.base64(), keeps_logs_of=keeps)
            yield found

    async def _queues(self, shares: Iterator[QueueShare], slices: Slices) -> list[QueueFacts]:
        now_ms = self.core.clock.now_ms()
        queues = []
        for one in shares:
            age_ms = max(0, now_ms - one.oldest_ms) if one.oldest_ms else None
            names = self._names(QueueId(one.queue_id))
            queues.append(
                QueueFacts(
                    one.queue_id,
                    *names,
                    one.messages,
                    one.delivering,
                    one.body_bytes,
                    one.oldest_ms or None,
                    age_ms,
                )
            )
            await slices.pause()
        return queues

    def _names(self, queue: QueueId) -> tuple[str | None, str | None]:
        model = self.core.bindings.queues.get(queue) or self.core.lost.queues.get(queue)
        return (model.address, model.name) if model is not None else (None, None)


def _state_name(report: FileReport) -> str:
    return "current" if report.current else "reclaimable" if report.reclaimable else "kept"


def _free(file: JournalFile) -> FileFacts:
    name, size_bytes = shown(file.name), file.stamp.size_bytes
    return FileFacts(name, file.file_id, size_bytes, "free", None, 0, 0, 0, 0, [], {}, [], [])


def _waits_for(report: FileReport, reports: Mapping[str, FileReport]) -> str | None:
    if report.uncancelled or not report.cancelled_by_current or report.reclaimable:
        return None
    return next(shown(name) for name, one in reports.items() if one.current)


@dataclass(slots=True)
class ExplainedJournal:
    """The directory of a journal's record views, with an explanation beside each."""

    journal: VirtualDirectory
    explanations: Explanations
    _explained: dict[str, SlicedFile] = field(default_factory=dict)
    """Of the files that are listed, by name, once somebody asked."""

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        views = list(self.journal.children())
        yield from views
        files = [lines.removesuffix(LINES_SUFFIX) for lines, _ in views]
        for gone in self._explained.keys() - files:
            del self._explained[gone]
        for file in files:
            yield file + SUFFIX, self._explanation(file)

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None:
        file = name.removesuffix(SUFFIX)
        if file == name or self.journal.child(file + LINES_SUFFIX) is None:
            return self.journal.child(name)
        return self._explanation(file)

    @property
    def mtime_ns(self) -> int:
        return self.journal.mtime_ns

    def _explanation(self, file: str) -> VirtualFile:
        explanations, known = self.explanations, self._explained.get(file)
        core = explanations.core
        if known is None:
            known = self._explained[file] = SlicedFile(
                lambda slices: _explained(explanations, file, slices),
                lambda: core.clock.now_ms() * 1_000_000,
                lambda: (core.epoch, core.waking.count),
            )
        return known


async def _explained(explanations: Explanations, file: str, slices: Slices) -> bytes:
    """Of a file that went since it was listed nothing is left to be said."""
    facts = await explanations.fact(file, slices)
    lines = []
    for line in () if facts is None else _lines(facts):
        lines.append(line.encode() + b"\n")
        await slices.pause()
    return b"".join(lines)


def as_text(facts: FileFacts) -> str:
    """A few lines for people."""
    return "\n".join([*_lines(facts), ""])


def _lines(facts: FileFacts) -> Iterator[str]:
    yield f"{facts.file}: file id {facts.file_id}, {facts.bytes} bytes"
    if facts.state == "free":
        yield "free: it holds no records, and is there to be written next"
        return
    yield _state(facts)
    if facts.live_messages or facts.queues:
        yield f"  {_count(facts.live_messages, 'message')}"
    for queue in facts.queues:
        yield f"    {_queue(queue)}"
    if facts.queueless_messages:
        yield f"    {facts.queueless_messages} in no queue"
    for name, count in facts.other_records.items():
        yield f"  {_count(count, f'{name} record')}"
    for tx in facts.transactions:
        how = "prepared" if tx.prepared else "open"
        named = f"{tx.id} ({tx.xid})" if tx.xid is not None else f"{tx.id}"
        yield f"  transaction {named}, {how}: {_count(tx.operations, 'record')} in this file"
        if tx.keeps_logs_of is not None:
            yield (
                f"    it keeps every data log of {tx.keeps_logs_of}: none is deleted or archived until its "
                "transaction manager, or ActiveMQ, ends it"
            )
    if facts.deletes_in:
        yield f"  deletes of records in {', '.join(facts.deletes_in)}, which would come back without them"
        if facts.state != "current" and not facts.needed_records:
            yield "    nothing else in it is needed: it is set free when these files are"


def _state(facts: FileFacts) -> str:
    needed = f"{_count(facts.needed_records, 'needed record')}, {facts.live_bytes} bytes"
    match facts.state:
        case "current":
            return f"current: records are appended to it; {needed}"
        case "reclaimable":
            return "reclaimable: nothing needs it; it is set free when the journal is next looked after"
        case _ if facts.waits_for is not None:
            return (
                f"kept: nothing in it is needed, since {facts.waits_for}, which is written now, deletes what "
                "was; once that one is full and another is begun it is set free, or by compaction at once"
            )
        case _:
            moved = f"would move {facts.live_bytes} bytes" if facts.live_bytes else "would move nothing"
            return f"kept: {needed}; compaction would free it, and {moved}"


def _queue(queue: QueueFacts) -> str:
    name = f"queue {queue.id}, which has no binding" if queue.queue is None else _quoted(queue)
    parts = [f"{name}: {_count(queue.messages, 'message')}, {queue.body_bytes} bytes"]
    if queue.delivering:
        parts.append(f"{queue.delivering} held by a prepared transaction")
    if queue.oldest_age_ms is not None:
        parts.append(f"the oldest {_age(queue.oldest_age_ms)} old")
    return ", ".join(parts)


def _quoted(queue: QueueFacts) -> str:
    name = f"{queue.address}::{queue.queue}"
    return name if name.isprintable() else ascii(name)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _age(age_ms: int) -> str:
    """The two largest units, which is what people compare."""
    seconds = age_ms // 1000
    for unit, name, smaller, smaller_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // smaller} {smaller_name}"
    return f"{seconds} s"
