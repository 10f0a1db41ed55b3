"""How long the kernel may believe what it was told, by kind of file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONG_S: Final = 300.0
SELDOM_S: Final = 0.5
"""With what it takes to look at the store, less than a second."""


@dataclass(frozen=True, slots=True)
class Caching:
    """Seconds that names and attributes stay valid in the kernel.

    Content never changes under one inode number (see `PartFile`), so its attributes and pages may always
    stay. Names that come and go with messages are asked for again each time. The kernel could be told to drop
    them instead, but takes a lock for that which a caller may hold while it waits for us: if this process was
    killed in that moment, neither would ever end. Where nothing is removed through the mount, what a list of
    messages has just said counts for a moment: `ls -l` would ask once more for each of them.
    """

    content_attributes_s: float
    directory_attributes_s: float
    name_s: float
    """Names of addresses, queues and other things that seldom go."""
    passing_name_s: float
    """Names of parts and messages."""
    listed_message_s: float
    """Names of messages that were listed: under one of them there is never anything else."""
    tail_s: float
    live_s: float

    @property
    def tail_is_fixed(self) -> bool:
        """True when not even the tail of a queue changes while mounted, so that its pages may be kept."""
        return self.tail_s > 0


def caching_for(*, changes: bool, read_only: bool) -> Caching:
    """Times for a store that is watched for changes or changed, or for one that stands still."""
    listed_s = SELDOM_S if read_only else 0.0
    return Caching(
        content_attributes_s=LONG_S,
        directory_attributes_s=SELDOM_S if changes else LONG_S,
        name_s=SELDOM_S if changes else LONG_S,
        passing_name_s=0.0 if changes else LONG_S,
        listed_message_s=listed_s if changes else LONG_S,
        tail_s=0.0 if changes else LONG_S,
        live_s=0.0,
    )
