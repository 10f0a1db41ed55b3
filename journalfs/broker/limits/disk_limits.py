"""`max-disk-usage` and `min-disk-free`: how full the disks of the store may be before publishers wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.clock import NS_PER_MS, Clock
from journalfs.config.in_force import SettingInForce
from journalfs.config.layout import StoreLayout
from journalfs.live.core import Core
from journalfs.live.events import Events
from journalfs.live.settings import settings_in_force

_PERCENT: Final = 100


class Crowded(NamedTuple):
    """The result of a look at the disks."""

    limited: tuple[Path, Space] | None
    """A directory on whose disk the limit is reached."""
    directories: frozenset[Path]
    """All those on disks where the limit is reached, or where not even a journal file would fit."""


class Space(NamedTuple):
    """Of one disk."""

    total_bytes: int
    usable_bytes: int
    """Bytes that users other than root may still write."""


def space_of(path: Path) -> Space:
    """Raises OSError."""
    found = door.disk_of(path)
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


@dataclass(frozen=True, slots=True)
class DiskLimit:
    """The one that is in force."""

    name: str
    percent_max: int = _PERCENT
    free_bytes_min: int = 0

    def room_bytes(self, space: Space) -> int:
        """How much more may be used before it is reached; 0 or less: it is."""
        if self.name == "min-disk-free":
            return space.usable_bytes - self.free_bytes_min
        # In whole numbers: usable > total * (100 - percent) / 100.
        return space.usable_bytes - space.total_bytes * (_PERCENT - self.percent_max) // _PERCENT


def disk_limit(settings: Iterable[SettingInForce]) -> DiskLimit | None:
    """The limit that settings put in force. `min-disk-free` comes before `max-disk-usage`."""
    values = {setting.name: setting.value for setting in settings}
    free, usage = values["min-disk-free"], values["max-disk-usage"]
    if isinstance(free, int) and free >= 0:
        return DiskLimit("min-disk-free", free_bytes_min=free)
    if isinstance(usage, int) and usage >= 0:
        return DiskLimit("max-disk-usage", percent_max=usage)
    return None


NO_SCAN: Final = -1
SCAN_PERIOD_MS: Final = 5000


@dataclass(slots=True)
class DiskLimits:
    """Looks at the disks every `disk-scan-period`."""

    layout: StoreLayout
    limit: DiskLimit | None
    scan_period_ms: int
    file_size_bytes: int
    """Of the journal."""
    clock: Clock
    events: Events
    besides: tuple[Path, ...] = ()
    """Other directories that what is published goes to."""
    look: Callable[[Path], Space] = space_of
    reached: str | None = None
    """The limit, while it is reached on any of the disks."""
    since_ms: int = 0
    _scanned_ns: int | None = field(default=None)

    @property
    def due(self) -> bool:
        now_ns = self.clock.monotonic_ns()
        return self._scanned_ns is None or now_ns - self._scanned_ns >= self.scan_period_ms * NS_PER_MS

    def look_soon(self) -> None:
        """Something changes: do not wait for the period to pass."""
        self._scanned_ns = None

    def measure(self) -> Crowded:
        """Look at the disks. May be called in a thread."""
        layout = self.layout
        limited: tuple[Path, Space] | None = None
        directories: set[Path] = set()
        for path in dict.fromkeys(
            (layout.journal_dir, layout.bindings_dir, layout.paging_dir, layout.large_dir, *self.besides)
        ):
            try:
                space = self.look(path)
            except OSError:
                continue  # it is made when it is needed, or the store is gone, which is told elsewhere
            if not space.total_bytes:
                continue  # none whose fullness could be told
            reached = self.limit is not None and self.limit.room_bytes(space) <= 0
            if reached and limited is None:
                limited = path, space
            if reached or space.usable_bytes < self.file_size_bytes:
                directories.add(path)
        return Crowded(limited, frozenset(directories))

    def take(self, found: tuple[Path, Space] | None) -> bool:
        """Go by what was measured just now. Returns whether there is room again."""
        self._scanned_ns = self.clock.monotonic_ns()
        was, self.reached = self.reached, None
        if found is None:
            if was is not None:
                self.events.add("disk-limit-released", f"{was}: there is room again; publishers go on")
            return was is not None
        assert self.limit is not None, "without a limit none is reached"
        self.reached = self.limit.name
        if was is None:
            self.since_ms = self.clock.now_ms()
            path, space = found
            free = f"{space.usable_bytes} of {space.total_bytes} bytes are free"
            self.events.add(
                "disk-limit-reached",
                f"{path}: {free}, so {self.reached} is reached: publishers wait until there is room",
            )
        return False


def disk_limits(core: Core, besides: tuple[Path, ...] = ()) -> DiskLimits:
    """The limits that the configuration of a store puts on its disks, and on those of other directories."""
    limit = disk_limit(settings_in_force(core).core())
    period, file_size = map(core.layout.value_in_force, ("disk-scan-period", "journal-file-size"))
    assert isinstance(period, int), "it has a default"
    assert isinstance(file_size, int), "it has a default"
    if period == NO_SCAN:  # a broker never looks then; here the room for the next file is looked at
        limit, period = None, SCAN_PERIOD_MS
    return DiskLimits(core.layout, limit, period, file_size, core.clock, core.events, besides)
