"""How durable a store is that is open for writing."""

from __future__ import annotations

from enum import StrEnum


class SyncMode(StrEnum):
    """When a caller is told that what it wrote is published."""

    ALWAYS = "always"
    """When it is durable, at every write: as `journal-sync-non-transactional` and `-transactional` say."""
    CLOSE = "close"
    """At the last close of a file; writes return at once."""
    NONE = "none"
    """When the kernel has it: a power cut can lose it, the end of the process cannot."""
