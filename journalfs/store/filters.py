"""What lets some messages of a run through."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from journalfs.store.judged import decoder_for
from journalfs.store.read_ahead import checked
from journalfs.store.runs import JournalRun, PageRun, Run, check_all

if TYPE_CHECKING:
    from journalfs.selector import Selector
    from journalfs.store.content import QueueContent


class Filter(Protocol):
    def apply(self, run: Run) -> Run: ...

    def moment(self) -> Hashable:
        """Changes when the outcome may change although the queue did not."""


def kept(run: Run, chosen: list[int]) -> Run:
    """The run of the positions in `chosen`."""
    if isinstance(run, JournalRun):
        return JournalRun(array("I", [run.refs[i] for i in chosen]), run.sealed)
    assert isinstance(run, PageRun), "there are two kinds of runs"
    indexes = run.indexes
    return PageRun(run.number, array("I", [indexes[i] for i in chosen]), run.sealed_ms)


class SelectorFilter:
    """Messages that a selector accepts. Each message is looked at once: what a selector sees of it never
    changes.
    """

    def __init__(self, content: QueueContent, selector: Selector, inner: Filter | None) -> None:
        self._content = content
        self._selector = selector
        self._inner = inner
        self._verdicts: dict[int, bool] = {}

    def moment(self) -> Hashable:
        return self._inner.moment() if self._inner is not None else 0

    def apply(self, run: Run) -> Run:
        if self._inner is not None:
            run = self._inner.apply(run)
        if not len(run):
            return run
        ids = run.columns(self._content).ids
        unknown = [i for i, message_id in enumerate(ids) if message_id not in self._verdicts]
        if unknown:
            self._judge(kept(run, unknown), [ids[i] for i in unknown])
        return kept(run, [i for i, message_id in enumerate(ids) if self._verdicts[message_id]])

    def _judge(self, run: Run, ids: list[int]) -> None:
        at = 0
        for piece in run.split(4096):
            self._verdicts.update(zip(ids[at : at + len(piece)], self._judged(piece), strict=True))
            at += len(piece)

    def _judged(self, piece: Run) -> list[bool]:
        accepts, decode = self._selector.accepts, decoder_for(self._selector)
        batch, held = piece.opened(self._content)
        return checked(
            lambda: [accepts(decode(batch, index)) for index in range(len(piece))],
            lambda: check_all(held),
        )


class StateFilter:
    """Messages that are in a state by time, settings and attempts, as `choose` finds them."""

    def __init__(self, content: QueueContent, choose: Callable[[], Sequence[Run]]) -> None:
        self._content = content
        self._choose = choose
        self._seen: Hashable = None
        self._refs: set[int] = set()
        self._records: set[tuple[int, int]] = set()
        self._pages: set[int] = set()

    def moment(self) -> Hashable:
        return self._content.now_ms // 1000

    def apply(self, run: Run) -> Run:
        now = (self._content.version, self._content.core.in_delivery.version, self.moment())
        if now != self._seen:
            self._look()
            self._seen = now
        if isinstance(run, JournalRun):
            return kept(run, [i for i, ref in enumerate(run.refs) if ref in self._refs])
        assert isinstance(run, PageRun), "there are two kinds of runs"
        if run.number not in self._pages:
            return PageRun(run.number, array("I"))
        return kept(run, [i for i, index in enumerate(run.indexes) if (run.number, index) in self._records])

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
