"""The limits that settings put on addresses, and on all of them together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from journalfs.config.in_force import SettingsInForce
from journalfs.store.core import Core
from journalfs.store.memory import Held, is_exempt
from journalfs.store.settings import settings_in_force

Policy: TypeAlias = Literal["PAGE", "DROP", "FAIL", "BLOCK"]

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """What is in force for one address. -1: no limit."""

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
    counted: bool = False
    """Whether a limit, its own or that of all addresses, needs to know what it holds."""

    @property
    def limited(self) -> bool:
        """Whether it has a limit of its own on what it holds outside of pages."""
        return max(self.max_size_bytes, self.max_size_messages, self.reject_threshold_bytes) >= 0

    def reached(self, held: Held) -> str | None:
        """Which of its limits `held` has come to."""
        if 0 <= self.max_size_bytes <= held.size_bytes:
            return "max-size-bytes"
        if 0 <= self.max_size_messages <= held.messages:
            return "max-size-messages"
        return None

    def rejects(self, held: Held) -> bool:
        return self.policy == "BLOCK" and 0 <= self.reject_threshold_bytes < held.size_bytes

    def blocks(self, limit: str | None) -> bool:
        """Whether a limit is for those who publish to the address itself: they wait, or give up."""
        return self.policy == "BLOCK" and limit == "max-size-bytes-reject-threshold"

    def pages_reached(self, files: int, messages: int) -> str | None:
        """Which limit on pages is reached by so many files, and messages of the queue that has most."""
        if 0 <= self.page_limit_files < files:
            return "page-limit-bytes"
        if 0 <= self.page_limit_messages <= messages:
            return "page-limit-messages"
        return None


@dataclass(frozen=True, slots=True)
class GlobalLimits:
    """What is in force for all addresses together. -1: no limit."""

    max_size_bytes: int = NO_LIMIT
    max_messages: int = NO_LIMIT

    @property
    def limited(self) -> bool:
        return max(self.max_size_bytes, self.max_messages) >= 0

    def reached(self, held: Held) -> str | None:
        if 0 <= self.max_size_bytes <= held.size_bytes:
            return "global-max-size"
        if 0 <= self.max_messages <= held.messages:
            return "global-max-messages"
        return None


class LimitsInForce:
    """Looks settings up once for as long as they are the same."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._settings: SettingsInForce | None = None
        self._found: dict[str, AddressLimits] = {}
        self._everywhere = GlobalLimits()

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
    def everywhere(self) -> GlobalLimits:
        self._current()
        return self._everywhere

    def _current(self) -> SettingsInForce:
        settings = settings_in_force(self._core)
        if settings is not self._settings:
            self._settings = settings
            self._found.clear()
            values = {setting.name: setting.value for setting in settings.core()}
            self._everywhere = GlobalLimits(
                max_size_bytes=_above_zero(values["global-max-size"]),
                max_messages=_number(values["global-max-messages"]),
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


def _above_zero(value: object) -> int:
    """0 stands for no limit where a broker would work one out."""
    number = _number(value)
    return number if number > 0 else NO_LIMIT
