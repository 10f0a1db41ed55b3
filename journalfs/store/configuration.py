"""Looks at the configuration of an open store now and then, and takes over what changed in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from journalfs.clock import NS_PER_MS
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.core_settings import AT_ONCE, value_in_force
from journalfs.config.reread import files_of, read_again, stamp_of, taken_over
from journalfs.errors import ConfigError, SystemFailure
from journalfs.live.core import Core


@dataclass(slots=True)
class ConfigurationWatch:
    """`changed` is called when something else is in force. Use from one event loop."""

    core: Core
    changed: Callable[[], None]
    _looked_ns: int = field(init=False)
    _seen: tuple[object, ...] = ()
    """Of the files as they were last read. Not those of when the store was opened: they may have changed
    between being read then and being looked at.
    """
    _told: set[str] = field(default_factory=set)
    """Warnings, each of which is one event."""
    _mistake: str | None = None
    """Why the files could not be read the last time."""
    _later: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._looked_ns = self.core.clock.monotonic_ns()
        self._told.update(self.core.layout.warnings)

    async def look(self) -> None:
        """Look, when it is time (`configuration-file-refresh-period`)."""
        if not self._is_due():
            return
        self._looked_ns = self.core.clock.monotonic_ns()
        seen = tuple(map(stamp_of, files_of(self.core.layout)))
        if seen == self._seen:
            return
        import trio  # noqa: PLC0415 - commands that do not wait start faster without it

        self._seen = seen
        try:
            found = await trio.to_thread.run_sync(read_again, self.core.layout)
        except (ConfigError, SystemFailure) as error:
            if isinstance(error, SystemFailure):
                self._seen = ()  # it may be over with no file having changed
            if str(error) != self._mistake:
                self.core.events.add("configuration", f"{error}; the settings stay as they were")
            self._mistake = str(error)
            return
        self._mistake = None
        self._take(found)

    def _is_due(self) -> bool:
        period_ms = self.core.layout.value_in_force("configuration-file-refresh-period")
        if not isinstance(period_ms, int) or period_ms < 0:
            return False
        return self.core.clock.monotonic_ns() - self._looked_ns >= period_ms * NS_PER_MS

    def _take(self, found: BrokerConfig | None) -> None:
        layout = self.core.layout
        taken = taken_over(layout, found)
        for warning in found.warnings if found is not None else ():
            if warning not in self._told:
                self._told.add(warning)
                self.core.events.add("configuration", warning)
        if taken.later != self._later:
            self._later = taken.later
            if taken.later:
                names = ", ".join(taken.later)
                self.core.events.add("configuration", f"changed, and not before the next mount: {names}")
        self.core.layout = replace(layout, config=taken.config)
        if _said(taken.config) != _said(layout.config):
            message = "the configuration changed; settings that take effect while mounted are in force"
            self.core.events.add("configuration-taken", message, level=logging.INFO)
            self.changed()


def _said(config: BrokerConfig | None) -> object:
    """What is in force by a configuration, wherever in its files that stands, or if it is a default."""
    core = config.core if config is not None else {}
    matches = [
        (match.match, {name: one.value for name, one in match.values.items()})
        for match in (config.address_settings if config is not None else ())
    ]
    return {name: value_in_force(core, name) for name in AT_ONCE}, matches
