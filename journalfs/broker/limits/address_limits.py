"""The limits that settings put on addresses, and on all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from journalfs.bindings.model import Queue
from journalfs.change.paging import Paging
from journalfs.config.in_force import SettingsInForce
from journalfs.engine.tail import UNLIMITED
from journalfs.live.core import Core
from journalfs.live.memory import Footprint, is_exempt
from journalfs.live.settings import settings_in_force
from journalfs.pages.address import PagedAddress

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """The limits in force for one address. -1: no limit."""

    policy: str = "PAGE"
    max_size_bytes: int = NO_LIMIT
    max_size_messages: int = NO_LIMIT
    reject_threshold_bytes: int = NO_LIMIT
    """With BLOCK: above this publishing fails instead of waiting."""
    page_full_policy: str | None = None
    page_limit_files: int = NO_LIMIT
    page_limit_messages: int = NO_LIMIT
    exempt: bool = False
    """A broker's management: nothing is counted and nothing held up."""
    names: tuple[str, str] = ("max-size-bytes", "max-size-messages")
    counted: bool = False
    """Whether a limit, its own or that of all addresses, needs to know what it holds."""

    @property
    def limited(self) -> bool:
        """Whether it has a limit of its own on what it holds outside of pages."""
        return max(self.max_size_bytes, self.max_size_messages, self.reject_threshold_bytes) >= 0

    def reached(self, held: Footprint) -> str | None:
        """Which of its limits `held` has come to."""
        size, messages = self.names
        if 0 <= self.max_size_bytes <= held.size_bytes:
            return size
        return messages if 0 <= self.max_size_messages <= held.messages else None

    def room(self, held: Footprint) -> tuple[int, int]:
        """How many bytes and messages there may be more, as far as there are limits."""
        most = [self.max_size_bytes, self.reject_threshold_bytes if self.policy == "BLOCK" else NO_LIMIT]
        room_bytes = min((one - held.size_bytes for one in most if one >= 0), default=UNLIMITED)
        messages = self.max_size_messages
        return room_bytes, messages - held.messages if messages >= 0 else UNLIMITED

    def rejects(self, held: Footprint) -> bool:
        return self.policy == "BLOCK" and 0 <= self.reject_threshold_bytes < held.size_bytes

    def blocks(self, limit: str | None) -> bool:
        """True if the limit makes publishers of the address itself wait or give up."""
        return self.policy == "BLOCK" and limit == "max-size-bytes-reject-threshold"

    def pages_reached(self, files: int, messages: int) -> str | None:
        """Which limit on pages is reached by so many files, and messages of the queue that has most."""
        if 0 <= self.page_limit_files < files:
            return "page-limit-bytes"
        if 0 <= self.page_limit_messages <= messages:
            return "page-limit-messages"
        return None


class LimitsInForce:
    """Looks settings up once for as long as they are the same."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._settings: SettingsInForce | None = None
        self._found: dict[str, AddressLimits] = {}
        self._everywhere = AddressLimits()

    def of(self, address: str) -> AddressLimits:
        settings = self._current()
        limits = self._found.get(address)
        if limits is None:
            limits = _limits(settings, address)
            if not limits.exempt and (limits.limited or self._everywhere.limited):
                limits = replace(limits, counted=True)
            self._found[address] = limits
        return limits

    @property
    def everywhere(self) -> AddressLimits:
        """The limits on all addresses together."""
        self._current()
        return self._everywhere

    def _current(self) -> SettingsInForce:
        settings = settings_in_force(self._core)
        if settings is not self._settings:
            self._settings = settings
            self._found.clear()
            values = {setting.name: setting.value for setting in settings.core()}
            self._everywhere = AddressLimits(
                max_size_bytes=_number(values["global-max-size"]) or NO_LIMIT,  # where a broker works one out
                max_size_messages=_number(values["global-max-messages"]),
                names=("global-max-size", "global-max-messages"),
            )
        return settings


def _limits(settings: SettingsInForce, address: str) -> AddressLimits:
    if is_exempt(address):
        return AddressLimits(exempt=True)

    def number(name: str) -> int:
        return _number(settings.value(address, name))

    page_full = settings.value(address, "page-full-policy")
    limit_bytes = number("page-limit-bytes")
    pages_limited = isinstance(page_full, str)
    return AddressLimits(
        policy=str(settings.value(address, "address-full-policy")),
        max_size_bytes=number("max-size-bytes"),
        max_size_messages=number("max-size-messages"),
        reject_threshold_bytes=number("max-size-bytes-reject-threshold"),
        page_full_policy=page_full if isinstance(page_full, str) else None,
        page_limit_files=(
            limit_bytes // number("page-size-bytes") if pages_limited and limit_bytes >= 0 else NO_LIMIT
        ),
        page_limit_messages=number("page-limit-messages") if pages_limited else NO_LIMIT,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else NO_LIMIT


# How much more an address that pages may take, by the limits on what it has in pages.
#
# What is known of pages is as of the last look. What was written to them since, and what is about to be,
# counts as if it were there; only where that could come to a limit somebody looks. So publications of one
# message each come to the limit exactly, however many publish at the same time.


@dataclass(frozen=True, slots=True, eq=False)
class _Most:
    """How many messages the queue has in pages that has most of them there, and of what that is true."""

    paged: PagedAddress
    version: int
    queues: Sequence[Queue]
    messages: int

    def is_of(self, paged: PagedAddress, queues: Sequence[Queue]) -> bool:
        return self.paged is paged and self.version == paged.version and self.queues is queues


class PageRoom:
    """Use from one event loop."""

    def __init__(self, core: Core, paging: Paging) -> None:
        self.pages_now = paging.pages_now
        """Returns True while pages of an address are not consumed."""
        self.takes_pages = paging.takes_pages
        """Whether an address goes on paging, or can begin to."""
        self._core = core
        self._paging = paging
        self._entering: Counter[str] = Counter()
        """Publications that were taken and are not staged yet, by address."""
        self._most: dict[str, _Most] = {}

    def enters(self, address: str) -> None:
        """A publication was taken, of at least one message; `entered` once it is staged, or will not be."""
        self._entering[address] += 1

    def entered(self, address: str) -> None:
        self._entering[address] -= 1
        if not self._entering[address]:
            del self._entering[address]

    def reached(self, address: str, limits: AddressLimits) -> str | None:
        """Which limit on its pages an address has come to."""
        if self._by(address, limits) is None:
            return None
        self._paging.current()
        return self._by(address, limits)

    def _by(self, address: str, limits: AddressLimits) -> str | None:
        messages = 0
        if limits.page_limit_messages >= 0:
            on_its_way = self._paging.messages_unknown(address, self._entering[address])
            messages = self._most_known(address) + on_its_way
        return limits.pages_reached(self._paging.page_count(address), messages)

    def _most_known(self, address: str) -> int:
        """How many messages the queue has in pages that has most of them there, as of the last look."""
        paged = self._core.pages.get(address)
        if paged is None:
            return 0
        known, queues = self._most.get(address), self._core.bindings.queues_of(address)
        if known is None or not known.is_of(paged, queues):
            counts = (
                sum(paged.count(number, queue.queue_id) for number in paged.numbers()) for queue in queues
            )
            known = _Most(paged, paged.version, queues, max(counts, default=0))
            self._most[address] = known
        return known.messages
