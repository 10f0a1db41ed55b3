"""Makes staged records durable: decides when a flush happens, and which task performs it.

The first task that waits for a position leads: it lets every other runnable task stage its records, then
flushes all of them at once. Tasks that come during the flush wait and share the next one, which one of them
leads. So a lone writer is flushed at once and a crowd shares flushes, without a timer. The timer (`run`)
flushes records that no task waits for, at the latest after the buffer timeout.

A failed flush is final, since the content of the disk is unknown and a repeated sync could succeed without
meaning anything: nothing may be staged afterwards. A flush that only takes too long (`goes_on`) suspends the
journal: waiters get an error, nothing is accepted, and all goes on when the flush has ended.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from journalfs.clock import Clock
from journalfs.engine.backend import LEFT, Backend, OpenFile
from journalfs.engine.stage import Stage
from journalfs.engine.tail import Tail
from journalfs.engine.waiting import Crowd
from journalfs.errors import StoreAway, WriteFailed
from journalfs.ids import FileId
from journalfs.limits import (
    INLINE_FLUSH_BYTES_MAX,
    INLINE_FLUSH_NS_MAX,
    JOURNAL_BUFFERS_WAITING_MAX,
    STALL_NS,
    STALL_REMEMBERED_NS,
)

# Whether a flush waits until others have staged what they have, to share it.

IN_VAIN_MIN: Final = 4
"""So many times in a row nobody came: the next flushes wait for nobody."""

LEFT_OUT_MAX: Final = 16
"""So many of them, before it is tried again: a crowd loses that many shared flushes at most."""


class Gathering:
    """Lets other tasks stage records before a flush. The leader asks `is_needless`, and awaits `gather` if it
    is False.

    Requests that wait to be read need not stage anything: a kernel sends FORGET requests beside those of a
    lone writer, and a turn of the scheduler for each would slow it down.
    """

    __slots__ = ("_in_vain", "_left_out", "crowd")

    def __init__(self) -> None:
        self.crowd: Crowd | None = None
        """None: everything that can run gets one turn."""
        self._in_vain = 0
        self._left_out = 0

    def is_needless(self) -> bool:
        if self.crowd is None:
            return False
        if self.crowd.is_quiet():
            return True
        if self._in_vain < IN_VAIN_MIN or self._left_out >= LEFT_OUT_MAX:
            self._left_out = 0
            return False
        self._left_out += 1
        return True

    async def gather(self) -> None:
        """Let other tasks stage their records."""
        await (trio.lowlevel.checkpoint() if self.crowd is None else self.crowd.quiet())

    def brought(self, others: int) -> None:
        """Learn how many other tasks came while `gather` was awaited."""
        self._in_vain = 0 if others else self._in_vain + 1


BLOCKING_WAIT_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Flush:
    """A sealed buffer and the positions that are reached when it is written."""

    file: OpenFile
    file_id: FileId
    stage: Stage
    length: int
    position: int
    done: bool = False


@dataclass(slots=True)
class CommitCounts:
    """Counts since the journal was opened. `flush_ns` is a moving average of one flush's duration."""

    flushes: int = 0
    bytes_written: int = 0
    flush_ns: int = 0


class Committer:
    """Writes sealed buffers in order. It calls `seal` when there is room for a flush; `seal` calls `push` if
    records are staged. It calls `while_waiting` whenever the disk has just got work.
    """

    def __init__(
        self, backend: Backend, clock: Clock, *, seal: Callable[[], None], while_waiting: Callable[[], None]
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._seal, self._while_waiting = seal, while_waiting
        self._queue: deque[Flush] = deque()
        self._under_way: deque[Flush] = deque()
        self._by_tag: dict[int, Flush] = {}
        self._next_tag = 0
        self._waiting: list[tuple[int, int, trio.lowlevel.Task]] = []
        self._arrivals = 0
        self._leading = False
        self._submitted_ns = 0
        self._stalled_ns: int | None = None
        self._own_flushes = 0
        self._spare: list[Stage] = []
        self._timer: trio.lowlevel.Task | None = None
        self.reached_position = 0
        """Everything up to here is durable, or in the kernel's hands where `journal-datasync` is off."""
        self.reached_end = FileId(0), 0
        """The durable end as a place: the file, and the offset behind its last flushed byte. The owner of the
        journal sets it before the first write, and when that file leaves the journal.
        """
        self.failure: WriteFailed | None = None
        self._broke_off = WriteFailed("the journal", "a write broke off", system_errno=errno.ENOMEM)
        """Made before it is needed: then there may be no memory for it."""
        self.suspended = False
        """`failure` is over once all that was accepted is written."""
        self.counts = CommitCounts()
        self._token: trio.lowlevel.TrioToken | None = None
        self._lent: Tail | None = None
        self.gathering = Gathering()

    # ---- buffers ----

    def take_stage(self, buffer_bytes: int) -> Stage:
        """An empty buffer, a used one if there is one."""
        return self._spare.pop() if self._spare else Stage(buffer_bytes)

    def break_off(self) -> None:
        """Accept nothing more: an exception that nobody foresaw, as where memory runs out, broke off a flush.
        Later flushes would count as if all before them were written. Needs no memory.
        """
        self.suspended = False
        if self.failure is None:
            self.failure = self._broke_off

    def push(self, flush: Flush) -> None:
        """Queue a sealed buffer. Blocks while too many wait: only a caller that never awaits gets there."""
        try:
            while len(self._queue) >= JOURNAL_BUFFERS_WAITING_MAX and self.failure is None:
                self._submit_queued()
                self._collect_blocking()
            self._queue.append(flush)
        except BaseException:
            self.break_off()
            raise

    def drain(self) -> None:
        """Write everything that was pushed, holding the event loop up: for the few moments that nothing may
        change in.

        Raises WriteFailed.
        """
        while not self.idle and self.failure is None:
            self._submit_queued()
            self._collect_blocking()
        if self.failure is not None:
            raise self.failure

    def _collect_blocking(self) -> None:
        self._collect(BLOCKING_WAIT_NS)
        if self._leading:
            # The leader waits for an event that was taken from it here.
            self._backend.ring()

    def submit_full(self) -> None:
        """Start what is queued, without waiting, if the disk is free."""
        if self.failure is None:
            self._submit_queued()

    def refuse_suspended(self) -> None:
        """Raises the `StoreAway` that passes."""
        if self.suspended and self.failure is not None:
            raise self.failure

    @property
    def idle(self) -> bool:
        return not self._queue and not self._under_way

    # ---- lent ----

    def lend(self, tail: Tail, *, is_empty: bool) -> bool:
        """Whether flushes may be performed elsewhere: none is under way, waited for or begun, and they are
        quick. Or whether the backend has them left to this.
        """
        if self.failure is not None:
            return False
        waits = self._leading or self._waiting or not self.idle
        tail.is_left = bool(waits or not is_empty or not self._quick())
        if tail.is_left and not self._backend.defers:
            return False
        fields = tail.fields
        fields.flush_ns, fields.quick_ns_max, fields.stall_ns = (
            self.counts.flush_ns,
            INLINE_FLUSH_NS_MAX,
            STALL_NS,
        )
        self._lent = tail
        return True

    def take_back(self, file_id: FileId, position: int) -> None:
        """Take over the flushes that C performed, up to `position`."""
        assert self._lent is not None
        fields, counts, self._lent = self._lent.fields, self.counts, None
        if fields.flushes:
            counts.flushes += fields.flushes
            counts.bytes_written += fields.written_bytes
            counts.flush_ns = fields.flush_ns
            self.reached_position, self.reached_end = position, (file_id, int(fields.end))
            if fields.slowest_ns >= STALL_NS:
                self._stalled_ns = self._clock.monotonic_ns()

    # ---- waiting ----

    async def reached(self, position: int) -> None:
        """Return when everything up to `position` is flushed; a checkpoint, if `gathering` is one.

        Raises WriteFailed when it cannot be any more. Cancelled before the call, nothing was waited for;
        cancelled during it, the flush goes on and cancellation is delivered when its outcome is known.
        """
        if self.reached_position >= position:
            await trio.lowlevel.checkpoint()
            return
        if self._leading:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await self._gathered(position)
            if self.reached_position >= position:
                return
        await self._waited_for(position)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def reached_unbroken(self, position: int) -> None:
        """Wait until `position` is flushed, without delivering a cancellation, and without a checkpoint if it
        is flushed already. Raises WriteFailed.
        """
        if self._reached_alone(position):
            return
        if not self._leading:
            # Who only follows cannot be cancelled, so that most of a crowd need no scope.
            with trio.CancelScope(shield=True):
                await self._gathered(position)
        await self._waited_for(position)

    def _reached_alone(self, position: int) -> bool:
        """Reach a position by a flush in this call, where a lone writer would do nothing else. False where
        that takes waiting, or where it failed.
        """
        waits_for_nobody = self.reached_position < position and not self._leading
        if waits_for_nobody and self._quick() and self.gathering.is_needless():
            self._start()
        return self.reached_position >= position

    async def _waited_for(self, position: int) -> None:
        """Lead or follow until a position is reached; no cancellation is delivered."""
        while self.reached_position < position and self.failure is None:
            if self._leading:
                await self._follow(position)
            else:
                with trio.CancelScope(shield=True):
                    await self._lead(position)
        if self.reached_position < position and self.failure is not None:
            raise self.failure

    async def _gathered(self, position: int) -> None:
        """Lead, once everybody who can has staged what there is, if the flush is a quick one: that is mostly
        all there is to do, and then nothing is waited for that a shield would have to protect.
        """
        self._leading = True
        before = self._arrivals
        try:
            await self.gathering.gather()
            self.gathering.brought(self._arrivals - before)
            if self.reached_position < position and self._quick():
                self._start()
        finally:
            self._leading = False
            self._appoint()

    async def _lead(self, position: int) -> None:
        self._leading = True
        try:
            while self.reached_position < position and self.failure is None:
                self._start()
                if self.reached_position < position and self.failure is None:
                    self._while_waiting()
                    await self._until_event()
                    self._collect(0)
        except BaseException:
            self.break_off()  # nobody else could wait for what is under way, or learn of it
            raise
        finally:
            self._leading = False
            self._appoint()

    async def _follow(self, position: int) -> None:
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
        task = trio.lowlevel.current_task()
        self._arrivals += 1
        heapq.heappush(self._waiting, (position, self._arrivals, task))
        # The record is staged and will be written whatever happens here, so there is nothing to give up.
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    def _appoint(self) -> None:
        """Wake the one who has waited for the earliest position, to lead the next flush."""
        if self.failure is not None:
            self._wake()
        elif self._waiting:
            trio.lowlevel.reschedule(heapq.heappop(self._waiting)[2])

    def _wake(self) -> None:
        while self._waiting and (self.failure is not None or self._waiting[0][0] <= self.reached_position):
            trio.lowlevel.reschedule(heapq.heappop(self._waiting)[2])

    async def _until_event(self) -> None:
        if self._backend.event_fd is None or not self._under_way:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self._backend.event_fd)

    def _quick(self) -> bool:
        """Whether a flush is likely to end before threads could have been changed a few times."""
        if self._stalled_ns is not None:
            if self._clock.monotonic_ns() - self._stalled_ns < STALL_REMEMBERED_NS:
                return False
            # What it took then says nothing of now; the next flush, in a thread, will.
            self._stalled_ns, self.counts.flush_ns = None, 0
        return self._backend.performs and 0 < self.counts.flush_ns <= INLINE_FLUSH_NS_MAX

    # ---- writing ----

    def _start(self) -> None:
        """Start the next flush, unless one is under way: records staged during that one share the next."""
        self._submit_queued()
        if not self._queue and not self._under_way and self.failure is None:
            self._seal()
            if (
                self.failure is None
                and len(self._queue) == 1
                and self._queue[0].length <= INLINE_FLUSH_BYTES_MAX
                and self._quick()
            ):
                self._perform(self._queue.popleft())
            self._submit_queued()

    def _submit_queued(self) -> None:
        try:
            self._submit_some()
        except BaseException:
            self.break_off()
            raise

    def _submit_some(self) -> None:
        while self._queue and len(self._under_way) < self._backend.depth and not self._has_failed():
            flush = self._queue[0]
            # A file must be whole before the next one gets anything: nothing else tells a reader that records
            # of a transaction are missing in an earlier file.
            if self._under_way and self._under_way[-1].file is not flush.file:
                break
            self._queue.popleft()
            self._submit(flush)

    def _has_failed(self) -> bool:
        """For good."""
        return self.failure is not None and not self.suspended

    def _submit(self, flush: Flush) -> None:
        self._next_tag += 1
        self._submitted_ns = self._clock.monotonic_ns()
        try:
            self._backend.submit(flush.file, flush.stage, flush.length, durable=True, tag=self._next_tag)
        except OSError as error:
            self._fail(flush, error.errno or 0)
            return
        self._under_way.append(flush)
        self._by_tag[self._next_tag] = flush

    def _collect(self, timeout_ns: int) -> None:
        try:
            self._collected(timeout_ns)
        except BaseException:
            self.break_off()
            raise

    def _collected(self, timeout_ns: int) -> None:
        if not self._under_way:
            return
        try:
            completions = self._backend.completed(timeout_ns)
        except OSError as error:
            self._fail(self._under_way[0], error.errno or 0)
            return
        for completion in completions:
            if completion.goes_on is not None:
                self._suspend(completion.goes_on)
                continue
            flush = self._by_tag.pop(completion.tag)
            if completion.error:
                # It stays first of what is under way, so that whoever collects next reaches nothing by it.
                self._fail(flush, completion.error)
                return
            flush.done = True
            self._measure(flush)
        self._finish()
        if self.suspended:
            self._go_on()

    def _perform(self, flush: Flush) -> None:
        self._submitted_ns = self._clock.monotonic_ns()
        try:
            error = self._backend.perform(flush.file, flush.stage, flush.length)
            if error == LEFT:
                self._submit(flush)
                return
            if error:
                self._fail(flush, error)
                return
            flush.done = True
            self._measure(flush)
            self._under_way.append(flush)
            self._finish()
        except BaseException:  # nobody knows what was done, and what comes next would count as all before it
            self.break_off()
            raise

    def _finish(self) -> None:
        """Advance the durable position over flushes that are done, in their order. If the file was removed or
        replaced meanwhile, give up: no reader would find the records.
        """
        while self._under_way and self._under_way[0].done:
            flush = self._under_way[0]
            # P-2: a flush into a file that was removed or replaced succeeds. Without this look the lines are
            # answered as durable for ever, and nobody finds them.
            lost = self._backend.lost(flush.file)
            if lost is not None:
                self.give_up(flush.file.name, lost)
                break
            end = flush.file_id, flush.stage.file_offset + flush.length
            self._under_way.popleft()
            self.reached_position, self.reached_end = flush.position, end
            self._spare.append(flush.stage)
        self._wake()

    def _measure(self, flush: Flush) -> None:
        took = self._backend.took_ns() or self._clock.monotonic_ns() - self._submitted_ns
        counts = self.counts
        self._own_flushes += 1
        counts.flushes += 1
        counts.bytes_written += flush.length
        counts.flush_ns = took if counts.flush_ns == 0 else (7 * counts.flush_ns + took) // 8
        if took >= STALL_NS:
            self._stalled_ns = self._submitted_ns + took

    def _suspend(self, reason: StoreAway) -> None:
        if self.failure is None:
            self.failure, self.suspended = reason, True
            self.armed()
        self._wake()

    def _go_on(self) -> None:
        """Write the rest of the accepted records before anything new: their waiters were told that they
        count, and would repeat them otherwise.
        """
        self._seal()
        self._submit_queued()
        if self.idle:
            self._resume()

    def _resume(self) -> None:
        if self.suspended:
            self.failure, self.suspended = None, False

    def _fail(self, flush: Flush, system_errno: int) -> None:
        self._resume()
        if self.failure is None:
            self.failure = WriteFailed(flush.file.name, os.strerror(system_errno), system_errno=system_errno)
        self._wake()

    def give_up(self, name: str, error: OSError) -> None:
        """Something else went wrong that leaves in doubt what is on the disk: accept nothing more. May be
        called in any thread.
        """
        self._resume()
        if self.failure is None:
            self.failure = WriteFailed(name, error.strerror or str(error), system_errno=error.errno or 0)
        if (lent := self._lent) is not None:
            lent.stop()
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake)

    async def flush_all(self) -> None:
        """Write all that is staged and wait for it."""
        await trio.lowlevel.checkpoint()
        with trio.CancelScope(shield=True):
            self._seal()
            if self._under_way or self._queue:
                last = self._queue[-1] if self._queue else self._under_way[-1]
                await self.reached(last.position)

    # ---- records that nobody waits for ----

    def armed(self) -> None:
        """Something was staged in an empty buffer: the timer begins to count."""
        if self._timer is not None:
            task, self._timer = self._timer, None
            trio.lowlevel.reschedule(task)

    async def run(self, *, timeout_ns: int, staged_since_ns: Callable[[], int | None]) -> None:
        """Flush what has been staged for `timeout_ns` without anybody waiting for it; until cancelled, or
        failed.
        """
        flushes = 0
        while self.failure is None or self.suspended:
            if self.suspended:
                if self._leading:
                    # Who leads is about to be told, and nothing else would wake this.
                    await trio.sleep(timeout_ns / 1e9)
                else:
                    await self._until_resumed()
                continue
            since = staged_since_ns()
            if since is None:
                if flushes == self._own_flushes:
                    await self._until_armed()
                else:
                    # Whoever stages flushes it himself, again and again, and would wake this each time.
                    flushes = self._own_flushes
                    await trio.sleep(timeout_ns / 1e9)
                continue
            left_ns = since + timeout_ns - self._clock.monotonic_ns()
            if left_ns > 0:
                await trio.sleep(left_ns / 1e9)
                continue
            if self._leading:
                await trio.sleep(timeout_ns / 1e9)
                continue
            with contextlib.suppress(WriteFailed):  # it ends the loop
                await self.flush_all()

    async def _until_resumed(self) -> None:
        """Wait until the suspended flush has ended. Its waiters have got their error, so no other task waits
        for it.
        """
        self._leading = True
        try:
            while self.suspended:
                await self._until_event()
                self._collect(0)
        finally:
            self._leading = False
            self._appoint()

    async def _until_armed(self) -> None:
        self._timer = trio.lowlevel.current_task()

        def forget(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._timer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(forget)
