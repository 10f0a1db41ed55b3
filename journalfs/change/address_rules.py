"""The settings of an address that writers obey, looked up once and again after a change of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from journalfs.config.address_settings import Value
from journalfs.config.in_force import SettingsInForce
from journalfs.live.core import Core
from journalfs.live.settings import settings_in_force
from journalfs.message.outgoing import Outgoing


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """When messages expire that are sent to an address: `expiry-delay`, `min-expiry-delay`,
    `max-expiry-delay` in milliseconds, -1 where they say nothing, and `no-expiry`.
    """

    never: bool
    delay_ms: int
    min_ms: int
    max_ms: int

    def expiration_ms(self, stated_ms: int, now_ms: int) -> int:
        """The expiration of a message that states this one, 0: none."""
        if self.never:
            return 0
        if self.delay_ms >= 0:
            return stated_ms or now_ms + self.delay_ms
        if stated_ms == 0:
            given_ms = self.max_ms if self.max_ms != -1 else self.min_ms
            return now_ms + given_ms if given_ms != -1 else 0
        if self.max_ms != -1 and stated_ms > now_ms + self.max_ms:
            return now_ms + self.max_ms
        if self.min_ms != -1 and stated_ms < now_ms + self.min_ms:
            return now_ms + self.min_ms
        return stated_ms

    def delay_of_new_ms(self) -> int:
        """How long after it came a message expires that states no expiration; -1: never."""
        return self.expiration_ms(0, 0) or (-1 if self.expiration_ms(0, 1) == 0 else 0)


AS_STATED: Final = ExpiryRule(never=False, delay_ms=-1, min_ms=-1, max_ms=-1)
"""The rules of an address without any setting."""


@dataclass(slots=True)
class AddressRules:
    core: Core
    _settings: SettingsInForce | None = None
    _values: dict[tuple[str, str], Value | None] = field(default_factory=dict)
    _expiry: dict[str, ExpiryRule] = field(default_factory=dict)

    def _in_force(self) -> SettingsInForce:
        settings = settings_in_force(self.core)
        if settings is not self._settings:
            self._settings = settings
            self._values.clear()
            self._expiry.clear()
        return settings

    def value(self, address: str, name: str) -> Value | None:
        settings = self._in_force()
        key = (address, name)
        if key not in self._values:
            self._values[key] = settings.value(address, name)
        return self._values[key]

    def text(self, address: str, name: str) -> str:
        """A setting that is text; empty where there is none."""
        value = self.value(address, name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> Sequence[str]:
        """All that a setting that is text is for any address; addresses that share it are named once."""
        return self._in_force().texts(name)

    def number(self, address: str, name: str) -> int:
        """A setting that is a number; -1 where there is none."""
        value = self.value(address, name)
        return value if isinstance(value, int) else -1

    def expiring(self, address: str, messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
        """Messages that are sent to an address, as its settings let them expire."""
        rule = self.expiry(address)
        if rule == AS_STATED:
            return messages
        now_ms = self.core.clock.now_ms()
        return [self._ruled(message, rule, now_ms) for message in messages]

    def _ruled(self, message: Outgoing, rule: ExpiryRule, now_ms: int) -> Outgoing:
        stated_ms = message.expires_ms(now_ms)
        time_ms = rule.expiration_ms(stated_ms, now_ms)
        return message if time_ms == stated_ms else message.expiring_at(time_ms)

    def expiry(self, address: str) -> ExpiryRule:
        self._in_force()
        rule = self._expiry.get(address)
        if rule is None:
            rule = self._expiry[address] = ExpiryRule(
                bool(self.value(address, "no-expiry")),
                self.number(address, "expiry-delay"),
                self.number(address, "min-expiry-delay"),
                self.number(address, "max-expiry-delay"),
            )
        return rule
