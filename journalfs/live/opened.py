"""Where the bytes of an open store come from, and how more of it comes to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs.live.waking import Waking
from journalfs.pages.cursors import Cursors
from journalfs.pages.folders import PagingDirectory

if TYPE_CHECKING:
    from journalfs.bindings.model import BindingsState
    from journalfs.bodies.directory import LargeDirectory
    from journalfs.clock import Clock
    from journalfs.config.address_settings import Value
    from journalfs.config.broker_config import BrokerConfig
    from journalfs.config.in_force import SettingsInForce
    from journalfs.config.layout import StoreLayout
    from journalfs.damage import Damage
    from journalfs.format.address_settings import StoredAddressSetting
    from journalfs.pages.address import PagedAddress
    from journalfs.records.description import Description
    from journalfs.records.files.loader import JournalLoader

DOUBT_INTERVAL_NS: Final = 60 * 1_000_000_000
"""Least time between two readings of the whole journal because its content is in doubt."""


class Horizon:
    """The limits of what is durable and of what is visible. A store without one never shows more."""

    def look_now(self) -> None:
        """Take over what the broker did since the last look, at once."""

    def was_measured(self, slots: set[int]) -> None:
        """Queues in these slots have a message that has its measure, which was postponed."""

    def take_over(self) -> None:
        """Take over what this process made durable and nobody has asked for since."""


@dataclass(frozen=True, slots=True)
class KnownSettings:
    """Settings, and what they were made of."""

    stored: Mapping[str, StoredAddressSetting]
    config: BrokerConfig | None
    settings: SettingsInForce


@dataclass(slots=True, kw_only=True)
class OpenStore:
    layout: StoreLayout
    clock: Clock
    loaded: JournalLoader
    """The journal as far as it was taken over; ask for `loader`."""
    bindings: BindingsState
    bindings_damage: tuple[Damage, ...] = ()
    large: LargeDirectory
    pages: dict[str, PagedAddress] = field(default_factory=dict)
    """By address, as far as they were taken over; ask `paged`."""
    paging: PagingDirectory = field(init=False)
    cursors: Cursors = field(default_factory=Cursors)
    derived: Description | None = None
    """The description of the source that the store was derived from; None for a broker's own store."""
    epoch: int = 0
    """Grows when the journal was read again from its beginning."""
    live_broker: bool = False
    """True while a broker holds the store's lock: bytes may be overwritten soon after they were read."""
    settings: KnownSettings | None = None
    """The settings at the last call of `settings_in_force`; call that instead of reading this."""
    in_use: Mapping[str, tuple[Value, str]] = field(default_factory=dict)
    """Settings of the journal that are in force though something else is configured, and why."""
    waking: Waking = field(default_factory=Waking)
    """Wakes who waits for a message."""
    horizon: Horizon = field(default_factory=Horizon)
    behind: bool = False
    """Something is durable that is to be taken over before anybody looks."""
    index_void: bool = False
    """A message was not what the index says of it: the index is not to be believed again."""
    journal_doubted: bool = False
    """True: the journal is in doubt, too, and has to be read again from its beginning."""
    _doubted_ns: int | None = None

    def __post_init__(self) -> None:
        self.paging = PagingDirectory(self.layout.paging_dir, self.root)

    @property
    def root(self) -> Path:
        return self.layout.root

    @property
    def shown(self) -> str:
        """The name of the store in texts for people: of a derived store, its source."""
        return str(self.root) if self.derived is None else self.derived.source

    @property
    def loader(self) -> JournalLoader:
        """The journal as it is now. Ask on the store's thread, and again after each wait."""
        if self.behind:
            self.horizon.take_over()
        return self.loaded

    def paged(self, address: str) -> PagedAddress | None:
        """The pages of an address as they are now."""
        if self.behind:
            self.horizon.take_over()
        return self.pages.get(address)

    def doubt_journal(self) -> None:
        """Have the journal read again, since a message is not what it was when it was measured, though no
        file seems changed. This is slow and may not help, so it happens at most once in `DOUBT_INTERVAL_NS`.
        """
        now_ns = self.clock.monotonic_ns()
        if self._doubted_ns is None or now_ns - self._doubted_ns >= DOUBT_INTERVAL_NS:
            self._doubted_ns = now_ns
            self.index_void = self.journal_doubted = True
