"""Joins large messages with their body files: measures them, gives them to the renderer, and finds missing
ones.

A line is as long as it was when its message was measured, with the body file of that time. So the state of
each body file is remembered, also by the index. A changed or missing body is noticed before a line is
rendered with it: then the broker's changes are applied, and messages that are still live are measured again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from journalfs.bodies.directory import BodyUnreadable, LargeDirectory
from journalfs.bodies.inflated import Counting, Inflated
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MENDS_MAX, MappedFile
from journalfs.engine.lines import MESSAGE_MISNAMED, LineBatch, Measure
from journalfs.engine.pages import PageScan
from journalfs.engine.state_types import Operation, Unmeasured
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.engine.waiting import FairLock, in_thread
from journalfs.errors import Damaged, StaleView
from journalfs.format.large_file import format_large_name
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.limits import MEASURED_AT_ONCE_BYTES
from journalfs.message.envelope import decode_envelope

if TYPE_CHECKING:
    from journalfs.live.opened import OpenStore

UNDECODABLE = "the large message cannot be decoded with its body file"


@dataclass(frozen=True, slots=True)
class BodyFile:
    """The file of a body at one moment: its name, and its state; `None`: it was not there."""

    named: MessageId
    stamp: FileStamp | None


@dataclass(slots=True, eq=False)
class Postponed:
    """A message of the journal that is still to be measured."""

    message_id: MessageId
    unmeasured: Unmeasured = field(init=False)
    queues: set[int] = field(default_factory=set)
    """Slots of those that have it."""
    counting: Counting | None = None
    turn: FairLock = field(default_factory=FairLock)
    """One at a time measures it."""


@dataclass(slots=True)
class LargeBodies:
    core: OpenStore
    measured: bool = True
    """All that was taken over is measured; False after that failed."""
    _damage: dict[MessageId, Damage] = field(default_factory=dict)
    _refused: set[MessageId] = field(default_factory=set)
    """Messages whose bodies could not be opened: their lines were measured without a body."""
    _torn: set[MessageId] = field(default_factory=set)
    """Messages whose bodies could be read in part only: their lines were measured with zeros for the rest."""
    _measured_with: dict[MessageId, BodyFile] = field(default_factory=dict)
    _suspects: set[MessageId] = field(default_factory=set)
    """Messages whose bodies are not what they were measured with."""
    _in_pages_then: tuple[object, Mapping[MessageId, bool]] = None, MappingProxyType({})
    """The last result of `_in_pages`, behind the key of what it was made of."""
    version: int = 0
    """Grows when messages are measured with other bodies than before, or later than others."""
    postponed: dict[MessageId, Postponed] = field(default_factory=dict)
    """Messages of the journal that have no measure, since to find out how long they are takes long."""
    postpones: bool = False
    """True: bodies are measured when they are asked for, or in the background (`run`)."""

    @property
    def unreadable(self) -> bool:
        """Something could not be read, which may be otherwise without any file changing."""
        return bool(self._refused or self._torn)

    def known_inflated(self) -> Iterable[Inflated]:
        """The inflated sizes of bodies with which messages were measured."""
        names = {format_large_name(body.named) for body in self._measured_with.values()}
        return self.core.large.inflated.known(names)

    def damage(self) -> list[Damage]:
        """Return the damage of bodies that are needed. Bodies of consumed messages are left out: of a paged
        message a broker deletes the body with the last acknowledgement, and the page later. Nor does a
        message of an uncommitted transaction need one.
        """
        if not self._damage:
            return []
        in_pages, in_journal = self._in_pages(), self._in_journal()
        needed = {one for one, is_needed in in_pages.items() if is_needed} | in_journal
        return [damage for message_id, damage in self._damage.items() if message_id in needed]

    def _in_pages(self) -> Mapping[MessageId, bool]:
        """Of the damaged messages, those that are in pages, and whether a queue has them there."""
        pages = self.core.pages
        key = (tuple(self._damage), tuple((address, paged.version) for address, paged in pages.items()))
        if self._in_pages_then[0] != key:
            found: dict[MessageId, bool] = {}
            for paged in pages.values():
                for message_id, is_needed in paged.needed(key[0]).items():
                    found[message_id] = is_needed or found.get(message_id, False)
            self._in_pages_then = key, found
        return self._in_pages_then[1]

    def _in_journal(self) -> set[MessageId]:
        """The damaged messages that a queue has, or a prepared transaction brings."""
        state = self.core.loader.state
        found = {one for one in self._damage if state.message_refs(one)}
        if len(found) < len(self._damage):
            operations = (operation for tx in state.transactions() for operation in tx.operations)
            found |= self._damage.keys() & {MessageId(one.record_id) for one in operations}
        return found

    def resume(
        self, damage: Sequence[tuple[MessageId, Damage]], measured_with: Mapping[MessageId, BodyFile]
    ) -> None:
        """Go on from an index. The body files it was made with are compared, and `remeasure`
        mends what differs.
        """
        self._damage.update(damage)
        self._measured_with.update(measured_with)
        self._suspects.update(
            message_id for message_id, body in measured_with.items() if self._now(body) != body
        )

    def known_damage(self) -> list[tuple[MessageId, Damage]]:
        """That of messages that are still there."""
        if not self._damage:
            return []
        there = self._in_pages().keys() | self._in_journal()
        return sorted((one, damage) for one, damage in self._damage.items() if one in there)

    def known_bodies(self) -> list[tuple[MessageId, BodyFile]]:
        """The body files with which the large messages of the journal were measured."""
        live = map(MessageId, self.core.loader.state.large_ids())
        return sorted((one, self._measured_with[one]) for one in live if one in self._measured_with)

    def _now(self, body: BodyFile) -> BodyFile:
        return BodyFile(body.named, self.core.large.stamp(body.named))

    def _file_of(self, batch: LineBatch, index: int, message_id: MessageId) -> BodyFile:
        """The file that the body of a message would be read from now."""
        found = self._now(BodyFile(message_id, None))
        if found.stamp is None:
            origin = _properties(batch, index).get("_AMQ_ORIG_MESSAGE_ID")
            copied = self._now(BodyFile(MessageId(origin), None)) if isinstance(origin, int) else found
            found = copied if copied.stamp is not None else found
        return found

    @property
    def changed(self) -> bool:
        """Something is to be measured again."""
        return bool(self._suspects)

    def remeasure(self) -> None:
        """Measure again what is still live of the messages whose bodies are not as they were."""
        if not self._suspects:
            return
        while self._suspects:
            message_id = next(iter(self._suspects))
            self._remeasure(message_id)
            self._suspects.discard(message_id)
        self.version += 1
        for paged in self.core.pages.values():
            paged.forget_scans()

    def doubt(self, message_ids: Iterable[MessageId]) -> bool:
        """Measure messages of the journal again although their files seem to be what they were. Returns
        whether one is another than before.
        """
        doubted = sorted(message_ids)
        before = [self._lengths(message_id) for message_id in doubted]
        self._suspects.update(doubted)
        self.measure_added()
        return before != [self._lengths(message_id) for message_id in doubted]

    def _lengths(self, message_id: MessageId) -> tuple[int, int]:
        state = self.core.loader.state
        refs = state.message_refs(message_id)
        if not refs:
            return 0, 0  # it was consumed meanwhile
        info = state.ref(refs[0])
        return info.tail_bytes, info.file_bytes

    def _remeasure(self, message_id: MessageId) -> None:
        state = self.core.loader.state
        self._refused.discard(message_id)
        self._torn.discard(message_id)
        self._damage.pop(message_id, None)
        refs = state.message_refs(message_id)
        if not refs:
            # Gone, or in a page, which is scanned again.
            self._measured_with.pop(message_id, None)
            return
        info = state.ref(refs[0])
        place = (info.file_slot, info.offset, info.body_bytes, info.source)
        measure = self.measure_record(Unmeasured(info.message_index, message_id, *place))
        state.set_measure(info.message_index, message_id, measure.pointer)

    def measure_added(self) -> None:
        """Measure what was added; afterwards sizes of lines and files are known without reading."""
        self.measured = False
        for attempt in range(MENDS_MAX):
            loader = self.core.loader
            loader.mark_unreadable()
            try:
                self.measure(loader.state.measure())
                self.remeasure()
            except FileTorn:
                if attempt + 1 == MENDS_MAX:
                    raise
                loader.mend()
            else:
                self.measured = True
                return

    # -- measuring -------------------------------------------------------------------------------------------

    def measure(self, found: Sequence[Unmeasured]) -> None:
        """Measure messages of the journal, but for what would take long: that is postponed."""
        state, left_bytes = self.core.loader.state, MEASURED_AT_ONCE_BYTES
        before, self.postponed = self.postponed, {}
        for unmeasured in found:
            message_id = MessageId(unmeasured.message_id)
            batch = self._batch(unmeasured)
            if self.postpones and message_id not in self._measured_with:  # else its part is known by name
                one = before.get(message_id) or Postponed(message_id)
                one.unmeasured = unmeasured
                if message_id not in before:
                    left_bytes -= self._length(one, batch, left_bytes)
                if left_bytes < 0 or message_id in before:
                    one.queues = {state.ref(ref).queue_slot for ref in state.message_refs(message_id)}
                    self.postponed[message_id] = one
                    continue
            measure = self._measured_together(batch, message_id)
            state.set_measure(unmeasured.message_index, message_id, measure.pointer)

    def _length(self, one: Postponed, batch: LineBatch, at_most: int) -> int:
        """How long the body of a message is, inflated; more than `at_most` where it is longer than that."""
        stamp = self._file_of(batch, 0, one.message_id).stamp
        if stamp is None or at_most < 0:
            return 0
        counting = self._counting(one, batch)
        if counting is None:
            return stamp.size_bytes
        if counting.inflating.size_bytes <= at_most and counting.step(at_most):
            return self.core.large.inflated.counted(counting).size_bytes
        return at_most + 1

    def _batch(self, unmeasured: Unmeasured) -> LineBatch:
        file = self.core.loader.files[unmeasured.file_slot]
        payload = file.copy(unmeasured.offset, unmeasured.body_bytes)
        return LineBatch.of_payloads(
            [payload], queue=None, sources=[unmeasured.source], record_ids=[unmeasured.message_id]
        )

    def is_settled(self, slot: int) -> bool:
        """Whether every message of a queue has its measure."""
        return not self.postponed or all(slot not in one.queues for one in self.postponed.values())

    def settle(self, slot: int | None = None) -> None:
        """Measure what was postponed, of one queue or of all, however long that takes."""
        for one in [one for one in self.postponed.values() if slot is None or slot in one.queues]:
            for work in self._steps(one):
                work()

    def settle_those(self, message_ids: Iterable[int]) -> None:
        """Measure the postponed bodies of some messages now."""
        for message_id in message_ids if self.postponed else ():
            one = self.postponed.get(MessageId(message_id))
            for work in self._steps(one) if one is not None else ():
                work()

    async def run(self) -> None:
        """Measure what was postponed while nobody asks for it, until cancelled."""
        while True:
            seen = self.core.waking.count
            await self.settled()
            await self.core.waking.beyond(seen, patient=True)

    async def settled(self, slot: int | None = None) -> None:
        """Measure postponed bodies in threads, so that other requests are served. A cancellation keeps the
        bytes counted so far.
        """
        for one in [one for one in self.postponed.values() if slot is None or slot in one.queues]:
            async with one.turn:
                for work in self._steps(one):
                    await in_thread(work)

    def _steps(self, one: Postponed) -> Iterator[Callable[[], object]]:
        """Yield the calls that measure a message, each to be run in any thread. Only they may run elsewhere:
        the code between them changes shared state.
        """
        if self.postponed.get(one.message_id) is not one:
            return
        batch = self._batch(one.unmeasured)
        counting = self._counting(one, batch)
        if counting is not None:
            while counting.found is None:
                yield counting.step
            self.core.large.inflated.counted(counting)
        file = self._file_of(batch, 0, one.message_id)
        self.attach(batch, [0])
        yield partial(_measure_ahead, batch)
        if self.postponed.pop(one.message_id, None) is not one:
            return  # it was consumed meanwhile, or the journal was read anew
        self._measured_with[one.message_id] = file
        measure = self._measured(batch)
        index, state = one.unmeasured.message_index, self.core.loader.state
        state.set_measure(index, one.message_id, measure.pointer)
        self.version += 1
        self.core.horizon.was_measured(one.queues)
        self.core.waking.ring()

    def _counting(self, one: Postponed, batch: LineBatch) -> Counting | None:
        """How far it was counted to what its body inflates, if that has to be counted."""
        file = self._file_of(batch, 0, one.message_id)
        if file.stamp is None or not batch.measure(0).compressed:
            return None
        if one.counting is None or one.counting.stamp != file.stamp:
            path, inflated = self.core.large.path / format_large_name(file.named), self.core.large.inflated
            try:
                one.counting = None if inflated.is_known(path) else inflated.counting(path)
            except OSError:
                return None  # whoever opens it says why
        return one.counting

    def measure_record(self, unmeasured: Unmeasured) -> Measure:
        """Measure a message of the journal together with its body file."""
        return self._measured_together(self._batch(unmeasured), MessageId(unmeasured.message_id))

    def _measured_together(self, batch: LineBatch, message_id: MessageId) -> Measure:
        self._measured_with[message_id] = self._file_of(batch, 0, message_id)
        self.attach(batch, [0])
        return self._measured(batch)

    def measure_page(self, scan: PageScan) -> bool:
        """Measure the large messages of a page that was just scanned. Returns whether a body is another than
        when the page was scanned before.
        """
        undecoded = set(scan.undecoded())
        changed = False
        for index, _ in scan.large():
            if index in undecoded:
                continue
            batch = scan.fill_lines([index], queue=None, now_ms=0)
            message_id = MessageId(batch.measure(0).message_id)
            file = self._file_of(batch, 0, message_id)
            if self._measured_with.setdefault(message_id, file) != file:
                self._measured_with[message_id] = file
                self._suspects.add(message_id)  # other scans of the page hold the measure it had
                changed = True
            self.attach(batch, [0])
            scan.set_measure(index, self._measured(batch))
        return changed

    def _measured(self, batch: LineBatch) -> Measure:
        """Measure a message with its body, and list a body that is there but cannot be decoded to its end."""
        try:
            found = batch.measure(0)
        except FileTorn:
            # The record is a copy or was just scanned, so it is the body.
            batch.set_large(0, None)
            self.core.large.inflated.forget(self.core.large.path / format_large_name(self._named(batch)))
            self._torn.add(MessageId(batch.measure(0).message_id))
            self.attach(batch, [0])
            found = batch.measure(0)
        message_id = MessageId(found.message_id)
        if not found.damaged:
            self._damage.pop(message_id, None)
        elif message_id not in self._damage:
            self._report(message_id, 0, UNDECODABLE)
        return found

    def _named(self, batch: LineBatch) -> MessageId:
        message_id = MessageId(batch.measure(0).message_id)
        return self._file_of(batch, 0, message_id).named

    def batch_of(self, operation: Operation) -> LineBatch:
        """Return the line of a message that an open transaction adds: it is in no queue, so nothing has
        measured it.
        """
        file = self.core.loader.files[operation.file_slot]
        payload = file.copy(operation.body_offset, operation.body_bytes)
        source = 1 if operation.user_type == MessageType.LARGE_MESSAGE else 0
        ids = [operation.record_id]
        batch = LineBatch.of_payloads([payload], queue=None, sources=[source], record_ids=ids)
        if batch.measure(0).large:
            self.attach(batch, [0])
            self._measured(batch)
        return batch

    def attach(self, batch: LineBatch, large: Iterable[int]) -> None:
        """Give the large messages of a batch, those at the positions in `large`, their bodies."""
        for index in large:
            body, missing = self._body(batch, index)
            batch.set_large(index, body)
            if missing and body is not None:
                batch.lines[index].large_missing = 1

    def _was_misnamed(self, message_id: MessageId) -> bool:
        """Whether its record said another id already when it was measured."""
        state = self.core.loader.state
        refs = state.message_refs(message_id)
        return bool(refs) and bool(state.ref(refs[0]).flags & MESSAGE_MISNAMED)

    def attach_as_measured(self, batch: LineBatch, large: Mapping[int, MessageId]) -> None:
        """Attach body files to lines whose lengths are known; `large` has the messages' ids by position.
        Raises `StaleView` if a body is not the one its message was measured with; the current one is looked
        at then. Raises CoreRefused if the record itself changed.
        """
        for index, message_id in large.items():
            found = batch.measure(index)
            if found.message_id != message_id or (found.misnamed and not self._was_misnamed(message_id)):
                self.core.doubt_journal()
                raise CoreRefused(f"the record of large message {message_id} is another one now")
            before = self._measured_with.get(message_id)
            if before is not None and self._file_of(batch, index, message_id) == before:
                self.attach(batch, [index])
                if self._now(before) == before:
                    continue
            self._suspects.add(message_id)
        if self._suspects:
            self.core.horizon.look_now()
            raise StaleView(self.core.large.path.name)

    def _body(self, batch: LineBatch, index: int) -> tuple[MappedFile | None, bool]:
        """The body file, and whether it is missing or shorter than its message says."""
        message_id = MessageId(batch.measure(index).message_id)
        if message_id in self._refused:
            return None, True
        try:
            body, expected = body_of(self.core.large, batch, index)
        except Damaged as error:
            if isinstance(error, BodyUnreadable):
                self._refused.add(message_id)
            self._report(message_id, error.offset, error.reason)
            return None, True
        if body is None:
            self._report(message_id, 0, "the large message's body file is missing")
            return None, True
        body.detach()
        if message_id in self._torn and body.mend():
            hole = body.unreadable[0]
            self._report(message_id, hole.offset, f"cannot be read: {hole.reason}")
            return body, True
        if expected is not None and body.size_bytes < expected:
            self._report(
                message_id, body.size_bytes, f"the body ends after {body.size_bytes} of {expected} bytes"
            )
            return body, True
        known = self._damage.get(message_id)
        if known is not None and known.reason != UNDECODABLE:
            del self._damage[message_id]
        return body, False

    def _report(self, message_id: MessageId, offset: int, reason: str) -> None:
        name = name_of(self.core.large.path / format_large_name(message_id), self.core.root)
        self._damage[message_id] = Damage(name, offset, 0, "large-message", reason, id=message_id)


def _measure_ahead(batch: LineBatch) -> None:
    """Measure a batch in advance and keep the result in it. A failure is raised to the caller that asks for
    the measure.
    """
    with contextlib.suppress(FileTorn):
        batch.measure(0)


def body_of(directory: LargeDirectory, batch: LineBatch, index: int) -> tuple[MappedFile | None, int | None]:
    """The body of a large message, which may be in the file of the one that it was copied from, and how long
    its message says that it is. `None`: there is no file, or nothing is said. Raises `Damaged`.
    """
    measure = batch.measure(index)
    properties = {} if measure.amqp else _properties(batch, index)
    large_size = properties.get("_AMQ_LARGE_SIZE")
    expected = large_size if isinstance(large_size, int) else None
    body = directory.body(MessageId(measure.message_id), compressed=measure.compressed)
    if body is None:
        origin = (properties or _properties(batch, index)).get("_AMQ_ORIG_MESSAGE_ID")
        if isinstance(origin, int):
            body = directory.body(MessageId(origin), compressed=measure.compressed)
    return body, expected


def _properties(batch: LineBatch, index: int) -> dict[str, object]:
    """The message's properties, which its record holds without the body."""
    return cast(
        "dict[str, object]",
        decode_envelope(LineBatch(batch.lines + index, 1, queue=None).line(0)).get("properties") or {},
    )
