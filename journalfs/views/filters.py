"""Filters that choose some messages of a run."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from journalfs.engine.select import ASK, YES, Judge, Stop, Verdicts, chosen, verdict_room
from journalfs.engine.waiting import FairLock, in_slices
from journalfs.errors import StaleView
from journalfs.live.read_ahead import checked
from journalfs.live.runs import HeldFile, JournalRun, PageRun, Run, check_all
from journalfs.message.envelope import Judged, decoder_for

if TYPE_CHECKING:
    from journalfs.engine.lines import LineBatch
    from journalfs.live.content import QueueContent
    from journalfs.selector import Selector

PIECE_MESSAGES: Final = 8192
"""Messages that are judged in one go: to lay them out takes a millisecond and half a megabyte."""

ASKED_MESSAGES: Final = 256
"""Messages judged at a time if their lines must be decoded."""

SLICE_NS: Final = 5_000_000
"""How long the core judges at a time before others have the thread."""

ASKED_SLICE_NS: Final = 1_000_000
"""Nanoseconds of judging at a time while the interpreter's lock is held."""

FORGOTTEN_MIN: Final = 65_536
"""Verdicts on messages that may have gone are kept up to here, and as many as there are messages."""


class Filter(Protocol):
    lasting: bool
    """True if the filter's answer for a message never changes."""

    def apply(self, run: Run) -> Run: ...

    async def learn(self, run: Run) -> None:
        """Find out, while others are served, what `apply` has to know of a run."""

    def moment(self) -> Hashable:
        """Changes when the outcome may change although the queue did not."""

    def forget(self) -> None:
        """Give back memory: facts about messages are found out again when they are needed."""

    @property
    def size_bytes(self) -> int:
        """Memory for what is known."""


class SelectorFilter:
    """Messages that a selector accepts. The facts that a selector sees never change, so each message is
    judged once: by the core where that can tell, else by its line.
    """

    def __init__(self, content: QueueContent, selector: Selector, inner: Filter | None) -> None:
        self._content = content
        self._inner = inner
        self._turn = FairLock()
        self._judge = Judge(selector.program) if selector.program is not None else None
        self._accepts = selector.accepts
        self._decode = decoder_for(selector)
        self._verdicts = Verdicts()
        self.lasting = inner is None or inner.lasting

    def moment(self) -> Hashable:
        return self._inner.moment() if self._inner is not None else 0

    def forget(self) -> None:
        self._verdicts = Verdicts()

    @property
    def size_bytes(self) -> int:
        return self._verdicts.size_bytes

    def forget_gone(self, live: int) -> None:
        """`live`: how many messages the queue has."""
        if len(self._verdicts) > 2 * live + FORGOTTEN_MIN:
            self.forget()

    def apply(self, run: Run) -> Run:
        if self._inner is not None:
            run = self._inner.apply(run)
        numbers = run.numbers
        if not numbers:
            return run
        ids, said = run.ids(self._content), verdict_room(len(numbers))
        if self._verdicts.of(ids, said):
            for piece in run.of(chosen(said, numbers, ASK)).split(PIECE_MESSAGES):
                judging = self._judging(piece)
                while judging.goes_on():
                    judging.work(0)
                self._verdicts.note(judging.ids, judging.said)
            self._verdicts.of(ids, said)
        return run.of(chosen(said, numbers, YES))

    async def learn(self, run: Run) -> None:
        """Judge messages. Raises the errors of rendering them, or `CoreRefused` if they left meanwhile."""
        if self._inner is not None:
            await self._inner.learn(run)
            run = self._inner.apply(run)
        for piece in run.split(PIECE_MESSAGES):
            async with self._turn:
                numbers, ids = piece.numbers, piece.ids(self._content)
                said = verdict_room(len(numbers))
                if not self._verdicts.of(ids, said):
                    continue
                judging = self._judging(piece.of(chosen(said, numbers, ASK)))
                while judging.goes_on():
                    await in_slices(judging.work, judging.stop.set)
                self._verdicts.note(judging.ids, judging.said)

    def _judging(self, piece: Run) -> _Judging:
        return _Judging(self._content, piece, self._judge, self._accepts, self._decode)


class _Judging:
    """Some messages that are being judged: `goes_on` on the store's thread, `work` in any."""

    def __init__(
        self, content: QueueContent, piece: Run, judge: Judge | None, accepts: Any, decode: Judged
    ) -> None:
        self.ids = piece.ids(content)
        self.said = verdict_room(len(self.ids))
        self.stop = Stop()
        self._content = content
        self._piece = piece
        self._judge = judge
        self._accepts = accepts
        self._decode = decode
        self._held: list[HeldFile] = []
        if judge is not None:
            self._lines, self._keep, self._held = piece.headers(content)
        self._done = 0
        self._asked: array[int] | None = None if judge is not None else array("I", range(len(self.ids)))
        self._batch: LineBatch | None = None
        self._batch_held: list[HeldFile] = []

    def goes_on(self) -> bool:
        """Whether there is anything left to do; prepares that."""
        if self._asked is None and self._done < len(self.ids):
            return True
        if self._asked is None:
            self._asked = chosen(self.said, array("I", range(len(self.ids))), ASK)
            self._done = 0
        if self._done == len(self._asked):
            return False
        if self._batch is None or self._done % ASKED_MESSAGES == 0:
            numbers, places = self._piece.numbers, self._asked[self._done : self._done + ASKED_MESSAGES]
            asked = self._piece.of(array("I", [numbers[place] for place in places]))
            if asked.ids(self._content) != array("q", [self.ids[place] for place in places]):
                raise StaleView("messages that were being judged")  # others have their references by now
            self._batch, self._batch_held = asked.opened(self._content)
        return True

    def work(self, scale: int = 1) -> None:
        """`scale` 0: to the end, as far as it is prepared."""
        if self._asked is None:
            checked(lambda: self._work_in_core(scale * SLICE_NS), lambda: check_all(self._held))
        else:
            checked(lambda: self._work_on_lines(scale * ASKED_SLICE_NS), lambda: check_all(self._batch_held))

    def _work_in_core(self, budget_ns: int) -> None:
        assert self._judge is not None
        left = len(self.ids) - self._done
        lines, said = self._lines + self._done, self.said + self._done
        self._done += self._judge.judge(lines, left, said, budget_ns=budget_ns, stop=self.stop)

    def _work_on_lines(self, budget_ns: int) -> None:
        assert self._asked is not None
        assert self._batch is not None
        end_ns = monotonic_ns() + budget_ns
        end = min(self._done - self._done % ASKED_MESSAGES + ASKED_MESSAGES, len(self._asked))
        while self._done < end and not (budget_ns and monotonic_ns() >= end_ns):
            envelope = self._decode(self._batch, self._done % ASKED_MESSAGES)
            self.said[self._asked[self._done]] = bool(self._accepts(envelope))
            self._done += 1


class StateFilter:
    """Messages that are in a state by time, settings and attempts, as `choose` finds them."""

    lasting = False
    size_bytes = 0

    def __init__(self, content: QueueContent, choose: Callable[[], Sequence[Run]]) -> None:
        self._content = content
        self._choose = choose
        self._seen: Hashable = None
        self._refs: set[int] = set()
        self._records: set[tuple[int, int]] = set()
        self._pages: set[int] = set()

    def moment(self) -> Hashable:
        return self._content.now_ms // 1000

    def forget(self) -> None:
        self._seen = None

    async def learn(self, run: Run) -> None:
        """The state knows it."""

    def apply(self, run: Run) -> Run:
        now = (self._content.version, self._content.core.in_delivery.version, self.moment())
        if now != self._seen:
            self._look()
            self._seen = now
        if isinstance(run, JournalRun):
            return run.of(array("I", [ref for ref in run.refs if ref in self._refs]))
        assert isinstance(run, PageRun), "there are two kinds of runs"
        if run.number not in self._pages:
            return run.of(array("I"))
        return run.of(array("I", [index for index in run.indexes if (run.number, index) in self._records]))

    def _look(self) -> None:
        self._refs = set()
        self._records = set()
        self._pages = set()
        for run in self._choose():
            if isinstance(run, JournalRun):
                self._refs.update(run.refs)
            elif isinstance(run, PageRun):
                self._records.update((run.number, index) for index in run.indexes)
                self._pages.add(run.number)
