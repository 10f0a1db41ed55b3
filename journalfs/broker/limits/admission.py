"""Decides whether a publication is accepted, by the limits of its address, of all addresses and of the disk.

A publication is judged as a whole, before any of it is staged: below its limits an address accepts it,
however large it is, so it may pass the limit by one publication of each publisher. The rules are a broker's
(docs/use/full.md).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journalfs.api import Patience, Usage
from journalfs.broker.limits.address_limits import AddressLimits, LimitsInForce, PageRoom
from journalfs.broker.limits.disk_limits import DiskLimits, Space
from journalfs.change.journals import Journals
from journalfs.engine.tail import UNLIMITED
from journalfs.engine.waiting import in_a_thread
from journalfs.errors import AddressFull
from journalfs.live.memory import NOTHING, ActingLimit, Footprint, held_at_most, held_in_queues

if TYPE_CHECKING:
    from journalfs.live.core import Core
    from journalfs.message.outgoing import Outgoing


# What an address holds, kept as publishing goes on: looked up in the live state only when it may matter.


@dataclass(slots=True)
class Account:
    """The memory held at the last look, and an upper bound of what was staged since."""

    measure: Callable[[], Footprint]
    """Takes over what is durable, and says what is held then."""
    looks: Callable[[], int]
    """Grows whenever something may have changed what any account says."""
    _held: Footprint = NOTHING
    _staged: deque[tuple[int, Footprint]] = field(default_factory=deque)
    """Position behind the records, and what they bring."""
    _together: Footprint = NOTHING
    _looked: int = -1

    def stage(self, position: int, brought: Footprint) -> None:
        self._staged.append((position, brought))
        self._together += brought

    def outdate(self) -> None:
        """Something else than what was staged here may have changed it."""
        self._looked = -1

    def at_most(self) -> Footprint:
        """Return an upper bound of what is held, without a look."""
        return self._held + self._together

    def look(self, reached: int) -> Footprint:
        """Return what is held; for records beyond `reached`, which are not durable, an upper bound."""
        self._held = self.measure()
        while self._staged and self._staged[0][0] <= reached:
            self._staged.popleft()
        self._together = sum((brought for _, brought in self._staged), NOTHING)
        self._looked = self.looks()
        return self.at_most()

    @property
    def fresh(self) -> bool:
        return self._looked == self.looks()


class Action(Enum):
    """The fate of a publication."""

    STORE = "store"
    """It is written to the journal."""
    PAGE = "page"
    """The address pages: it goes into pages."""
    DROP = "drop"
    """It is accepted and dropped."""
    FAIL = "fail"
    BLOCK = "block"
    """It waits for room."""


@dataclass(frozen=True, slots=True)
class Decision:
    action: Action
    limit: str | None = None
    """The setting that brought it about."""


STORE: Final = Decision(Action.STORE)


class Forever:
    """The patience of who waits as long as it takes, or until cancelled."""

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        await until()


FOREVER: Final = Forever()


class Admitted:
    """An accepted publication. The caller must call `done` once it is staged or given up: then the next one
    that waits is let in.
    """

    __slots__ = ("_next", "decision", "late")

    def __init__(
        self, decision: Decision, following: Callable[[], None] | None = None, *, late: bool = False
    ) -> None:
        """`late=True`: a refusal would reach no caller any more."""
        self.decision = decision
        self.late = late
        self._next = following

    @property
    def action(self) -> Action:
        return self.decision.action

    def done(self) -> None:
        following, self._next = self._next, None
        if following is not None:
            following()

    def __enter__(self) -> Admitted:
        return self

    def __exit__(self, *failure: object) -> None:
        self.done()


_STORED: Final = Admitted(STORE)
"""Nothing follows it, so there need be only one."""


@dataclass(slots=True, eq=False)
class _Waiter:
    let_in: trio.Event = field(default_factory=trio.Event)
    admitted: Admitted | None = None


@dataclass(slots=True)
class _Line:
    """The publications that wait for room in one address, in order of arrival."""

    waiting: deque[_Waiter] = field(default_factory=deque)
    entering: bool = False
    """True while one that was let in has not staged yet."""


@dataclass(slots=True)
class _Noted:
    """A limit that acts on an address."""

    decision: Decision
    since_ms: int
    told: bool
    """Whether there is an event of it."""


class Admission:
    """Decides, and keeps those who wait. `catch_up` takes over what is durable; False: not at this moment."""

    def __init__(
        self,
        core: Core,
        disk: DiskLimits,
        journals: Journals,
        catch_up: Callable[[], bool],
        pages: PageRoom,
    ) -> None:
        self.disk = disk
        self.in_force = LimitsInForce(core)
        self.dropped: Counter[str] = Counter()
        """Messages, by address."""
        self._core = core
        self._catch_up = catch_up
        self._pages = pages
        self._journals = journals
        self._accounts: dict[str, Account] = {}
        self._ticks = 0
        self._everything = Account(core.totals.held, self._looks)
        self._lines: dict[str, _Line] = {}
        self._noted: dict[str, _Noted] = {}
        self._told_ms: dict[str, int] = {}
        self._touched: set[str] = set()
        """Addresses that something was published to since the last tick."""

    @property
    def waiting(self) -> int:
        """How many wait, everywhere."""
        return sum(len(line.waiting) for line in self._lines.values())

    # ---- deciding ----

    def decide(self, address: str) -> Decision:
        """Return the fate of a publication that begins now."""
        limits = self.in_force.of(address)
        if limits.exempt or self._is_free(address, limits):
            return STORE
        if self.disk.reached is None:
            decision = self._by_limits(address, limits)
        else:
            fails = limits.policy == Action.FAIL.name
            decision = Decision(Action.FAIL if fails else Action.BLOCK, self.disk.reached)
        self._note(address, decision)
        return decision

    def _is_free(self, address: str, limits: AddressLimits) -> bool:
        """Return True if no limit can act, as for most addresses all the time. False also when nothing can be
        published any more, so that waiting publications learn of it.
        """
        limited = limits.counted or self.disk.reached is not None
        if not (limited or address in self._core.pages or address in self._noted):
            return True
        return self._journals.failure is not None

    def decide_late(self, address: str) -> Decision:
        """Return the fate of a publication whose first bytes were accepted, so that a refusal would reach no
        caller.
        """
        limits = self.in_force.of(address)
        decision = STORE if limits.exempt else self._by_limits(address, limits)
        return _taken(limits, decision) if decision.action in (Action.FAIL, Action.BLOCK) else decision

    def decide_beside(self, address: str, *, late: bool) -> Decision:
        """Return the fate of the part of a publication that goes to queues of a wildcard address. It never
        waits: the publisher waits for the address that it sends to. Raises `AddressFull`, but not for a
        `late` one.
        """
        limits = self.in_force.of(address)
        if limits.exempt or self._is_free(address, limits):
            return STORE
        decision = self._by_limits(address, limits)
        if decision is STORE or (decision.action is not Action.BLOCK and not limits.blocks(decision.limit)):
            self._note(address, decision)
            if decision.action is not Action.FAIL:
                return decision
            if not late:
                raise self._full(address, decision)
        return _taken(limits, decision)

    def _by_limits(self, address: str, limits: AddressLimits) -> Decision:
        """Return the fate by the limits. An address that has begun to page pages until its pages are
        consumed; one that cannot page has no limit.
        """
        pages = limits.policy == Action.PAGE.name
        pages_now = pages and self._pages.pages_now(address)
        held = self._held(self._account(address), limits, about=pages_now) if limits.limited else NOTHING
        if limits.rejects(held):
            return Decision(Action.FAIL, "max-size-bytes-reject-threshold")
        everywhere, reached = self.in_force.everywhere, limits.reached(held)
        if reached is None and everywhere.limited:
            reached = everywhere.reached(self._held(self._everything, everywhere, about=pages_now))
        if not pages:
            return STORE if reached is None else Decision(Action[limits.policy], reached)
        if not pages_now and (reached is None or not self._pages.takes_pages(address)):
            return STORE
        too_much = self._pages.reached(address, limits) if limits.page_full_policy is not None else None
        if limits.page_full_policy is not None and too_much is not None:
            return Decision(Action[limits.page_full_policy], too_much)
        return Decision(Action.PAGE, reached)

    def _held(self, account: Account, limits: AddressLimits, *, about: bool) -> Footprint:
        """Return what an address holds. `about=True`: the last answer, plus what was staged
        since, will do.
        """
        held = account.at_most()
        if account.fresh and (about or (limits.reached(held) is None and not limits.rejects(held))):
            return held
        reached = self._journals.messages.committer.reached_position
        return account.look(reached) if self._catch_up() else account.at_most()

    def _account(self, address: str) -> Account:
        account = self._accounts.get(address)
        if account is None:
            measure = partial(self._measure, address)
            account = self._accounts[address] = Account(measure, self._looks)
        return account

    def _looks(self) -> int:
        return self._ticks

    def _measure(self, address: str) -> Footprint:
        queues = self._core.bindings.queues_of(address)
        return held_in_queues(self._core, address, [queue.queue_id for queue in queues])

    def room(self, address: str) -> tuple[int, int] | None:
        """How many bytes and messages an address takes before any of its limits has to be looked at again;
        none where one acts, or others wait.
        """
        if address in self._lines or address in self._noted or self.decide(address) != STORE:
            return None
        limits = self.in_force.of(address)
        if limits.exempt or not limits.limited:
            return UNLIMITED, UNLIMITED
        return limits.room(self._account(address).at_most())

    def room_everywhere(self) -> tuple[int, int] | None:
        """Return the room under the limits on all addresses together; None without such limits."""
        limits = self.in_force.everywhere
        return limits.room(self._everything.at_most()) if limits.limited else None

    # ---- being taken ----

    def at_once(self, address: str) -> Admitted | None:
        """A publication that is taken without waiting; None: it has to wait. Raises `AddressFull`."""
        decision = self.decide(address)
        if decision.action is Action.FAIL:
            raise self._full(address, decision)
        if decision.action is Action.BLOCK:
            return None
        if address in self._lines and decision.action is not Action.DROP:
            return None  # who came before goes first
        return _STORED if decision is STORE else Admitted(decision, self._staged_next(address, decision))

    def _staged_next(self, address: str, decision: Decision) -> Callable[[], None] | None:
        """Accept a publication, and return what has to run once it is staged or given up."""
        if decision.action is not Action.PAGE or self.in_force.of(address).page_limit_messages < 0:
            return None
        self._pages.enters(address)
        return partial(self._pages.entered, address)

    async def enter(self, address: str, patience: Patience = FOREVER) -> Admitted:
        """Return when a publication is accepted. Raises `AddressFull` and the errors of `patience`; then
        nothing was accepted.
        """
        admitted = self.at_once(address)
        return admitted if admitted is not None else await self._wait(address, patience)

    async def _wait(self, address: str, patience: Patience) -> Admitted:
        line, waiter = self._lines.setdefault(address, _Line()), _Waiter()
        line.waiting.append(waiter)
        try:
            await patience.wait(waiter.let_in.wait)
        except BaseException:
            if waiter.admitted is None:
                line.waiting.remove(waiter)
                self._serve(address)
            else:
                waiter.admitted.done()
            raise
        assert waiter.admitted is not None, "only who was let in has waited to the end"
        if waiter.admitted.action is Action.FAIL:
            raise self._full(address, waiter.admitted.decision)
        return waiter.admitted

    def _serve(self, address: str) -> None:
        """Let in who waits, one after the other, as long as there is room."""
        line = self._lines.get(address)
        if line is None:
            return
        while line.waiting and not line.entering:
            decision = self.decide(address)
            if decision.action is Action.BLOCK:
                return
            waiter = line.waiting.popleft()
            staged = self._staged_next(address, decision)
            waiter.admitted = Admitted(decision, partial(self._entered, address, staged))
            line.entering = decision.action in (Action.STORE, Action.PAGE)
            waiter.let_in.set()
        if not line.waiting and not line.entering:
            del self._lines[address]

    def _entered(self, address: str, staged: Callable[[], None] | None) -> None:
        """Note that a publication that had waited has staged, or was given up."""
        if staged is not None:
            staged()
        line = self._lines.get(address)
        if line is not None:
            line.entering = False
            self._serve(address)

    def weigh(self, address: str, messages: Sequence[Outgoing]) -> Footprint:
        """Return an upper bound of what messages for an address take, as far as a limit counts it."""
        limits = self.in_force.of(address)
        if not limits.counted:
            return NOTHING
        return held_at_most(address, messages, max(1, len(self._core.bindings.queues_of(address))))

    def staged(self, address: str, position: int, held: Footprint) -> None:
        """Note that messages were staged for an address; they count with `position`."""
        if held == NOTHING:
            return
        limits, everywhere = self.in_force.of(address), self.in_force.everywhere.limited
        self._touched.add(address)
        if limits.limited:
            self._account(address).stage(position, held)
        if everywhere:
            self._everything.stage(position, held)

    def decide_move(self, source: str, address: str) -> Action:
        """Return the fate of messages that are moved to an address; a move within one holds as much as
        before. Moves never wait, since they make room. Raises `AddressFull` if the messages would be refused
        or lost.
        """
        decision = self.decide(address) if source != address else STORE
        if decision.action in (Action.FAIL, Action.DROP):
            raise self._full(address, decision)
        return decision.action

    def moved(self, address: str) -> None:
        """Messages came to an address that were not weighed."""
        self._touched.add(address)
        self._account(address).outdate()

    def drop(self, address: str, messages: int) -> None:
        """So many messages were taken, and nothing becomes of them."""
        self.dropped[address] += messages

    def _full(self, address: str, decision: Decision) -> AddressFull:
        assert decision.limit is not None, "nothing is refused without a limit"
        return AddressFull(address, decision.limit)

    # ---- room again ----

    def look_again(self) -> None:
        """Look again whether waiting publications may be let in: messages left, or settings changed."""
        for address in list(self._lines):
            self._serve(address)

    def tick(self) -> None:
        """Look now and then, for what nobody told of."""
        self._ticks += 1  # no account is up to date
        for address in self._touched | self._noted.keys():
            self.decide(address)
        self._touched.clear()
        self.look_again()

    async def scan_disk(self) -> None:
        """Look at the disks, when it is time."""
        if not self.disk.due:
            return
        found = await in_a_thread(self.disk.measure)
        if self.disk.take(found.limited):
            self.look_again()
        # Files that hold nothing are kept for use where there is room, and are room where there is none.
        layout, journals = self._core.layout, self._journals
        places = ((journals.messages, layout.journal_dir), (journals.bindings, layout.bindings_dir))
        going = [writer.upkeep.crowd(crowded=directory in found.directories) for writer, directory in places]
        if any(going):
            self.disk.look_soon()

    # ---- telling ----

    def _note(self, address: str, decision: Decision) -> None:
        noted = self._noted.get(address)
        if (decision is STORE and noted is None) or (noted is not None and noted.decision == decision):
            return
        now_ms = self._core.clock.now_ms()
        if decision.limit is None:
            if self._noted.pop(address, None) is not None and noted is not None and noted.told:
                message = f"{address}: {noted.decision.limit} is not reached any more"
                self._core.events.add("limit-released", message, level=logging.INFO)
            return
        told = now_ms - self._told_ms.get(address, now_ms - TELL_INTERVAL_MS) >= TELL_INTERVAL_MS
        told = told and decision.limit != self.disk.reached
        if told:
            self._told_ms[address] = now_ms
            message = f"{address}: {decision.limit} is reached: {_CONSEQUENCES[decision.action]}"
            self._core.events.add("limit-reached", message)
        self._noted[address] = _Noted(decision, now_ms, told or (noted is not None and noted.told))

    def limited(self, usage: Usage) -> Usage:
        """How large and full a store is for those who publish: as all its limits together say."""
        everywhere, limit = self.in_force.everywhere, self.disk.limit
        if limit is not None:
            space = Space(usage.total_bytes, usage.available_bytes)
            usage = replace(usage, available_bytes=max(0, limit.room_bytes(space)))
        if everywhere.max_size_bytes >= 0:
            free = max(0, everywhere.max_size_bytes - self._core.totals.held().size_bytes)
            available = min(free, usage.available_bytes)
            usage = replace(
                usage, total_bytes=everywhere.max_size_bytes, free_bytes=free, available_bytes=available
            )
        if everywhere.max_size_messages >= 0:
            usage = replace(usage, messages_max=everywhere.max_size_messages)
        return usage

    def status_of_all(self) -> Mapping[str, object]:
        disk, everywhere = self.disk, self.in_force.everywhere
        held = self._core.totals.held()
        return {
            "globalSize": held.size_bytes,
            "globalMessages": held.messages,
            "globalLimit": everywhere.reached(held),
            "diskLimit": disk.reached,
            "diskLimitSince": disk.since_ms if disk.reached is not None else None,
            "blockedWriters": self.waiting,
            "droppedMessages": sum(self.dropped.values()),
        }

    def acting(self, address: str) -> ActingLimit:
        """Which limit acts on an address, and since when."""
        for account in (self._account(address), self._everything):
            account.outdate()
        decision = self.decide(address)
        noted = self._noted.get(address) if decision.limit is not None else None
        line = self._lines.get(address)
        return ActingLimit(
            limit=decision.limit,
            action=decision.action.value if decision.limit is not None else None,
            since_ms=noted.since_ms if noted is not None else None,
            blocked_writers=len(line.waiting) if line is not None else 0,
            dropped_messages=self.dropped[address],
        )


def _taken(limits: AddressLimits, decision: Decision) -> Decision:
    """Return the decision for a publication that is accepted though a limit would refuse it."""
    return Decision(Action.PAGE if limits.policy == Action.PAGE.name else Action.STORE, decision.limit)


TELL_INTERVAL_MS: Final = 60_000
"""An address that hovers at its limit has one event in so long."""

_CONSEQUENCES: Final = {
    Action.PAGE: "it pages",
    Action.DROP: "what is published is dropped",
    Action.FAIL: "publishing fails",
    Action.BLOCK: "publishers wait for room",
}
