"""How long the kernel may believe what it was told, by kind of file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONG_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Caching:
    """Seconds that names and attributes stay valid in the kernel.

    Content never changes under one inode number (see `PartFile`), so its attributes and pages may always
    stay. Names are dropped one by one when the store says what went (`invalidate.py`). Only what is made on
    the spot, or belongs to a view whose changes nobody reports, must be asked for again each time.
    """

    content_attributes_s: float
    directory_attributes_s: float
    name_s: float
    """Names of addresses, queues, parts and other things whose end is reported."""
    message_name_s: float
    """Reported too, but not beyond a number; so they end by themselves soon."""
    derived_name_s: float
    """Names of parts in a view made by a selector or state."""
    tail_s: float
    live_s: float

    @property
    def tail_is_fixed(self) -> bool:
        """True when not even the tail of a queue changes while mounted, so that its pages may be kept."""
        return self.tail_s > 0


def caching_for(*, changes: bool) -> Caching:
    """Times for a store that is watched for changes or changed, or for one that stands still."""
    return Caching(
        content_attributes_s=LONG_S,
        directory_attributes_s=1.0 if changes else LONG_S,
        name_s=LONG_S,
        message_name_s=1.0 if changes else LONG_S,
        derived_name_s=0.0 if changes else LONG_S,
        tail_s=0.0 if changes else LONG_S,
        live_s=0.0,
    )
