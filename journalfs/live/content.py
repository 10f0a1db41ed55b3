"""The current content of a queue: runs of messages in order of arrival, in order of delivery and by state,
and single messages by id.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from journalfs.bindings.model import Queue as QueueModel
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import line_prefix
from journalfs.engine.pages import PageScan, page_listing, page_schedules
from journalfs.engine.state_batch import NOWHERE, file_slots, large_messages, places
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.errors import Gone, StaleView
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.limits import LOOKS_AGAIN_MAX
from journalfs.live.runs import JournalRun, PageRun, Run, pages_of
from journalfs.live.settings import settings_in_force

if TYPE_CHECKING:
    from journalfs.engine.state import LiveState
    from journalfs.engine.state_types import Listing
    from journalfs.live.core import Core
    from journalfs.live.opened import OpenStore
    from journalfs.pages.address import LiveStretch, PagedAddress
    from journalfs.records.files.files import FileSet


# Messages that nobody is to get any more: their time is over, or their attempts are used up.
#
# A broker sends them to the expiry or dead-letter address of their settings, and drops them where there is
# none. So they go where its configuration was read, or where a setting says that they go nowhere. Otherwise
# nobody said that they may be lost: then what cannot be sent on stays in its queue, out of the consumers'
# way.


class Why(Enum):
    """Why messages leave a queue without anybody having asked; the value names the setting of where to."""

    EXPIRED = "expiry"
    KILLED = "dead-letter"

    @property
    def counter(self) -> str:
        """The broker's name for the count of such messages of a queue."""
        return "messagesExpired" if self is Why.EXPIRED else "messagesKilled"

    @property
    def setting(self) -> str:
        return f"{self.value}-address"


def may_be_dropped(core: OpenStore, address: str, why: Why) -> bool:
    """Whether a configuration says that messages go which the settings of `address` send nowhere."""
    return core.layout.broker_xml is not None or settings_in_force(core).value(address, why.setting) == ""


def attempts_max(core: OpenStore, address: str) -> int:
    """Return how often a message is delivered before it stays in its queue undelivered; 0: without limit."""
    if may_be_dropped(core, address, Why.KILLED):
        return 0
    most = settings_in_force(core).value(address, "max-delivery-attempts")
    return max(most, 0) if isinstance(most, int) else 0


class QueueContent:
    """One queue's messages in the journal and in pages, looked at as they are now."""

    def __init__(self, core: Core, model: QueueModel) -> None:
        self.core = core
        self.model = model
        self.name = model.name
        self.prefix = line_prefix(model.name)
        self._slot: tuple[int, int] = (-1, -1)
        self._sizes: dict[tuple[int, ...], tuple[object, int]] = {}
        """How long the lines of stretches of pages are, by page, start and end."""

    @property
    def queue_id(self) -> QueueId:
        return self.model.queue_id

    @property
    def state(self) -> LiveState:
        return self.core.loader.state

    @property
    def files(self) -> FileSet:
        return self.core.loader.files

    @property
    def slot(self) -> int:
        epoch, slot = self._slot
        if epoch != self.core.epoch:
            slot = self.state.register_queue(self.queue_id)
            self._slot = (self.core.epoch, slot)
        return slot

    @property
    def now_ms(self) -> int:
        return self.core.clock.now_ms()

    @property
    def paged(self) -> PagedAddress | None:
        return self.core.paged(self.model.address)

    @property
    def version(self) -> tuple[int, int, int]:
        """Changes whenever the queue's messages do."""
        paged = self.paged
        return self.core.epoch, self.state.queue(self.slot).version, paged.version if paged else 0

    def is_settled(self) -> bool:
        """Whether it is known how long every message in the journal is."""
        bodies = self.core.bodies
        return not bodies.postponed or bodies.is_settled(self.slot)

    def settle(self) -> None:
        """Find it out, however long that takes."""
        if self.core.bodies.postponed:
            self.core.bodies.settle(self.slot)

    async def settled(self) -> None:
        """Measure the queue's postponed bodies in threads, so that other requests are served."""
        if self.core.bodies.postponed:
            await self.core.bodies.settled(self.slot)

    def page_scan(self, number: PageNumber) -> PageScan:
        paged = self.paged
        assert paged is not None, "a page run is made from a paged address"
        return paged.scan(number)

    def page_file(self, number: PageNumber) -> MappedFile:
        """A page's bytes, mapped for as long as somebody reads them."""
        paged = self.paged
        assert paged is not None, "a page run is made from a paged address"
        return paged.mapped(number)

    def doubt_page(self, number: PageNumber) -> None:
        """Have a page scanned again: its bytes are not what they were, though its size and time
        are the same.
        """
        if self.paged is not None:
            self.paged.doubt(number)

    def page_columns(self, number: PageNumber, indexes: array[int]) -> Listing:
        return page_listing(self.page_scan(number), indexes)

    def page_runs(self, *, delivering: bool = False) -> list[PageRun]:
        """Live records of all pages, page by page."""
        paged = self.paged
        if paged is None:
            return []
        stretches = [
            paged.stretch(number, self.queue_id, delivering=delivering) for number in paged.numbers()
        ]
        return [PageRun(stretch.number, stretch) for stretch in stretches if len(stretch)]

    def measured(self, stretch: LiveStretch, sealed_ms: int | None, measure: Callable[[], int]) -> int:
        """Return how long the lines of a stretch of a page are: at `sealed_ms`, or now. They are measured
        again only after a change of the page.
        """
        paged = stretch.paged
        if paged.is_void(stretch):
            return 0
        moment_ms = self.now_ms if sealed_ms is None else sealed_ms
        known_bytes = paged.line_bytes(stretch, prefix_bytes=len(self.prefix), moment_ms=moment_ms)
        if known_bytes is not None:
            return known_bytes
        if sealed_ms is None and self.page_due_ms(stretch.number) > moment_ms:
            return measure()  # lines get shorter when their messages become due
        key = stretch.standing, self.core.bodies.version, sealed_ms
        place = (stretch.number, stretch.start, stretch.end)
        known = self._sizes.get(place)
        if known is None or known[0] != key:
            if len(self._sizes) > 2 * len(paged.files) + 64:
                self._sizes = {one: size for one, size in self._sizes.items() if one[0] in paged.files}
            known = self._sizes[place] = key, measure()
        return known[1]

    def live(self) -> list[Run]:
        """Everything live in arrival order: journal, then pages."""
        refs = self.state.refs(self.slot, "arrival", "live")
        return [*([JournalRun(refs)] if refs else []), *self.page_runs()]

    def count(self) -> int:
        return self.state.queue(self.slot).live_count + sum(len(run) for run in self.page_runs())

    def next_due_ms(self) -> int:
        """When the next message becomes due, in milliseconds since 1970; 0: all are."""
        later = self._scheduled()
        return later[0][0] if later else 0

    def scheduled(self) -> list[Run]:
        """Return the messages that are not due yet, by time: journal references and records of pages."""
        return [run for _, run in self._scheduled()]

    def _scheduled(self) -> list[tuple[int, Run]]:
        """Return the messages that are not due yet, with their times in milliseconds since 1970."""
        refs = self.state.scheduled(self.slot, self.now_ms)
        runs: list[tuple[int, Run]] = [
            (self.state.ref(ref).scheduled_ms, JournalRun(array("I", [ref]))) for ref in refs
        ]
        for run in self.page_runs():
            if self.page_due_ms(run.number) <= self.now_ms:
                continue
            times = page_schedules(self.page_scan(run.number), run.indexes, now_ms=self.now_ms)
            runs.extend(
                (time_ms, PageRun(run.number, array("I", [index])))
                for index, time_ms in zip(run.indexes, times, strict=True)
                if time_ms
            )
        known = {_place(run) for _, run in runs}
        runs.extend((time_ms, run) for time_ms, run in self._delayed() if _place(run) not in known)
        runs.sort(key=lambda run: run[0])
        return runs

    def _delayed(self) -> Iterator[tuple[int, Run]]:
        """Return released messages that wait for their next attempt, where only memory knows the delay."""
        for place, due_ms in self.core.in_delivery.delayed(self.queue_id).items():
            run = self._run_at(place) if due_ms > self.now_ms else None
            if run is not None:
                yield due_ms, run

    def _run_at(self, place: MessageId | tuple[PageNumber, int]) -> Run | None:
        """The message at a place, if it is live."""
        if not isinstance(place, tuple):
            ref = self.state.find(self.slot, place)
            return JournalRun(array("I", [ref])) if ref >= 0 and not self.state.ref(ref).delivering else None
        paged, (number, index) = self.paged, place
        if paged is None or number not in paged.files or not paged.standing(number, self.queue_id).has(index):
            return None
        return PageRun(number, array("I", [index]))

    def page_due_ms(self, number: PageNumber) -> int:
        """The latest time that a message of a page says it is due; 0: none does."""
        paged = self.paged
        return paged.summary(number).last_due_ms if paged is not None else 0

    def due_ms(self) -> dict[int, int]:
        """Return when the messages of journal references become due, by id; those that are due
        are left out.
        """
        refs = (self.state.ref(ref) for ref in self.state.scheduled(self.slot, self.now_ms))
        return {ref.message_id: ref.scheduled_ms for ref in refs}

    def failed(self) -> list[Run]:
        """Return the messages that were delivered in vain as often as `max-delivery-attempts` allows. They
        stay in the queue.
        """
        attempts = attempts_max(self.core, self.model.address)
        if not attempts or self.model.binding.internal:
            return []
        refs = self.state.failed(self.slot, attempts)
        found: list[Run] = [JournalRun(refs)] if refs else []
        known = set(refs)
        for message_id in self.core.in_delivery.failed(self.queue_id, attempts):
            run = self.find(message_id)
            if run is not None and not known.intersection(run.references):
                found.append(run)
        return found

    def expired(self) -> list[Run]:
        """Return the messages that are due and expired."""
        now_ms = self.now_ms
        ids = array("q", sorted(self.state.expired(now_ms)))
        there = places(self.state, self.slot, ids, live=True)
        refs = array("I", [ref for ref in there.refs if ref != NOWHERE])
        refs = array("I", [ref for ref in refs if self.state.ref(ref).scheduled_ms <= now_ms])
        found: list[Run] = [JournalRun(refs)] if refs else []
        for run in self.page_runs():
            # Which messages of a page are live is only found out where one may be over.
            if 0 < self._first_expiry_ms(run.number) <= now_ms:
                indexes = self.page_expired(run.number, run.indexes)[0]
                if indexes:
                    found.append(PageRun(run.number, indexes))
        return found

    def page_expired(self, number: PageNumber, live: array[int]) -> tuple[array[int], int]:
        """Return the records of a page that are due and expired, and the time in milliseconds since 1970 at
        which more of the page may be; 0: none by time alone.
        """
        now_ms, first_ms = self.now_ms, self._first_expiry_ms(number)
        if not 0 < first_ms <= now_ms:
            return array("I"), first_ms
        scan = self.page_scan(number)
        expirations_ms = scan.expirations_ms()
        over = array("I", [index for index in live if 0 < expirations_ms[index] <= now_ms])
        later_ms = page_schedules(scan, over, now_ms=now_ms)
        due = array("I", [index for index, time_ms in zip(over, later_ms, strict=True) if not time_ms])
        next_ms = [*filter(None, later_ms), *(time_ms for time_ms in expirations_ms if time_ms > now_ms)]
        return due, min(next_ms, default=0)

    def _first_expiry_ms(self, number: PageNumber) -> int:
        return self.paged.summary(number).first_expiry_ms if self.paged is not None else 0

    def delivery(self) -> list[Run]:
        """The order in which a consumer would get them: journal by priority and arrival, pages, then what is
        not due.
        """
        later = self.scheduled()
        return [*self._without(later), *later]

    def due(self) -> tuple[list[Run], int]:
        """Return the messages that a consumer may get now, in its order, and the time in milliseconds since
        1970 at which there may be more; 0: none by time alone.
        """
        later = self._scheduled()
        aside = [*(run for _, run in later), *self.failed(), *self.expired()]
        return self._without(aside), later[0][0] if later else 0

    def _without(self, aside: Sequence[Run]) -> list[Run]:
        """All in the order of delivery but some."""
        refs = {ref for run in aside for ref in run.references}
        pages: dict[PageNumber, set[int]] = {}
        for run in aside:
            if isinstance(run, PageRun):
                pages.setdefault(run.number, set()).update(run.indexes)
        live = self.state.refs(self.slot, "delivery", "live")
        if refs:
            live = array("I", [ref for ref in live if ref not in refs])
        paged = self.page_runs()
        for at, run in enumerate(paged):
            if run.number in pages:
                left = array("I", [index for index in run.indexes if index not in pages[run.number]])
                paged[at] = PageRun(run.number, left)
        return [*([JournalRun(live)] if live else []), *paged]

    def delivering(self) -> list[Run]:
        refs = self.state.refs(self.slot, "arrival", "delivering")
        return [*([JournalRun(refs)] if refs else []), *self.page_runs(delivering=True)]

    def with_readers(self) -> list[Run]:
        """Messages that are live, and with a reader who has not acknowledged them yet."""
        held = self.core.in_delivery
        found = [self.state.find(self.slot, message_id) for message_id in held.messages(self.queue_id)]
        refs = array("I", [ref for ref in found if ref >= 0])
        paged = [PageRun(number, indexes) for number, indexes in held.paged(self.queue_id).items()]
        return [*([JournalRun(refs)] if refs else []), *(run for run in paged if self.paged is not None)]

    def is_with_reader(self, run: Run) -> bool:
        """Whether a reader has the one message of a run."""
        return self.core.in_delivery.has(self.queue_id, run.places(self)[0])

    def counted(self, run: Run) -> Run:
        """The one message of a run, with the attempts to deliver it that are only in memory."""
        if not self.core.in_delivery.counts(self.queue_id):
            return run
        attempts = self.attempts(run)
        return run.counted(attempts) if attempts else run

    def attempts(self, run: Run) -> int:
        """Return the attempts of the run's one message that are not on disk; 0 if there are none."""
        return self.core.in_delivery.attempts(self.queue_id, MessageId(run.columns(self).ids[0]))

    @property
    def gone(self) -> bool:
        """Whether the queue is bound no longer."""
        return not self.core.knows_queue(self.queue_id)

    def find(self, message_id: MessageId) -> Run | None:
        """A run of the one message, delivering ones included."""
        ref = self.state.find(self.slot, message_id)
        if ref >= 0:
            return JournalRun(array("I", [ref]))
        paged = self.paged
        place = paged.find(self.queue_id, message_id) if paged is not None else None
        return PageRun(place[0], array("I", [place[1]])) if place is not None else None


def _place(run: Run) -> tuple[int, int]:
    """Return the key that identifies a message within its queue."""
    return -1 if run.page is None else run.page, run.numbers[0]


def total_messages(runs: Sequence[Run]) -> int:
    return sum(len(run) for run in runs)


# What is done when messages cannot be rendered as they are known.
#
# A broker may have deleted a file, or used it again, since the last look: then there is a newer state to take
# over. Or messages are not as they were measured. Measures come from an index or from an earlier look, and a
# disk may give other bytes since: none, or wrong ones, and no time of a file tells. Then what can be to blame
# is read anew, so that there is what there is, with the damage listed.
#
# Who opens something has it opened again after such a look. Who was reading gets the error, for what was
# opened had another length.

NOT_AS_MEASURED: Final = (FileTorn, CoreRefused)

OVERTAKEN: Final = (StaleView, Gone)
"""Errors of a look that came too late: a broker has consumed the message, or moved it."""

ShownT = TypeVar("ShownT")


class CloserLook:
    """Remembers what is rendered, and looks at it when that fails."""

    __slots__ = ("_content", "_epoch", "_runs")

    def __init__(self, content: QueueContent) -> None:
        self._content = content
        self._runs: list[Run] = []
        self._epoch = content.core.epoch

    def at(self, runs: Iterable[Run]) -> None:
        """These are rendered next."""
        self._runs = list(runs)

    def __call__(self, error: FileTorn | CoreRefused | StaleView | Gone) -> None:
        """Find out what became of the messages, applying what the broker changed."""
        core = self._content.core
        if isinstance(error, NOT_AS_MEASURED) and core.epoch == self._epoch:  # else all was read anew since
            with contextlib.suppress(CoreRefused):  # some of it was acknowledged since
                self._blame(error)
        core.horizon.look_now()

    def _blame(self, error: FileTorn | CoreRefused) -> None:
        content = self._content
        core, state = content.core, content.state
        refs = array("I", [ref for run in self._runs for ref in run.references])
        if isinstance(error, FileTorn):
            core.torn.update(file_slots(state, refs, content.files.slot_limit))
        for number in pages_of(self._runs):
            content.doubt_page(number)
        large = set(large_messages(state, refs).values())
        if not core.journal_doubted and core.bodies.doubt(large):
            core.index_void = True
        elif refs and isinstance(error, CoreRefused):
            core.doubt_journal()


def looking_again(content: QueueContent, show: Callable[[CloserLook], ShownT]) -> ShownT:
    """Return what `show` makes of messages. `show` chooses them, and names them to the look that it is given
    before it renders them. If their bytes are not the known ones, that look is taken, and `show` chooses
    again from what is live then. Raises what the last attempt raises.
    """
    # P-8: while a broker rewrites files, what was measured a moment ago is elsewhere. Without a second look
    # each compaction of the broker fails the readers beside it.
    for _ in range(LOOKS_AGAIN_MAX):
        look = CloserLook(content)
        try:
            return show(look)
        except (*NOT_AS_MEASURED, *OVERTAKEN) as error:
            look(error)
    return show(CloserLook(content))
