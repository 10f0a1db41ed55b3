"""Messages that nobody is to get any more: their time is over, or their attempts are used up.

A broker sends them to the expiry or dead-letter address of their settings, and drops them where there is
none. So they go where its configuration was read, or where a setting says that they go nowhere. Otherwise
nobody said that they may be lost: then what cannot be sent on stays in its queue, out of the consumers' way.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from journalfs.store.settings import settings_in_force

if TYPE_CHECKING:
    from journalfs.store.settings import SettingsStore


class Why(Enum):
    """Why messages leave a queue without anybody having asked; the value names the setting of where to."""

    EXPIRED = "expiry"
    KILLED = "dead-letter"

    @property
    def counter(self) -> str:
        """What a broker calls the number of such messages of a queue."""
        return "messagesExpired" if self is Why.EXPIRED else "messagesKilled"

    @property
    def setting(self) -> str:
        return f"{self.value}-address"


def may_be_dropped(core: SettingsStore, address: str, why: Why) -> bool:
    """Whether a configuration says that messages go which the settings of `address` send nowhere."""
    return core.layout.broker_xml is not None or settings_in_force(core).value(address, why.setting) == ""


def attempts_max(core: SettingsStore, address: str) -> int:
    """How often a message is delivered before it stays, undelivered; 0: it never does."""
    if may_be_dropped(core, address, Why.KILLED):
        return 0
    most = settings_in_force(core).value(address, "max-delivery-attempts")
    return max(most, 0) if isinstance(most, int) else 0
