"""Tracks what the kernel was told and caches until a message goes.

A mount for writing lets the kernel cache the names of messages that it listed, so that `ls -l` does not ask
for each of them again. When a message leaves, one notice has the kernel ask for all of them. Unlike notices
for single names it takes no lock, so no process waits for it (FUSE_NOTIFY_INC_EPOCH, Linux 6.16).

The kernel caches a listing a moment after it was told. A message that left within that moment would be cached
as present, so the notice is sent again.
"""

from __future__ import annotations

import logging
import os
import struct
from dataclasses import dataclass
from time import monotonic
from typing import Final

import trio

# How long the kernel may believe what it was told, by kind of file.

LONG_S: Final = 300.0
SELDOM_S: Final = 0.5
"""Seconds between looks. With the time of a look at the store they stay below one second."""


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


log = logging.getLogger("journalfs.mount")

BELIEVED_S: Final = 10.0
"""Seconds that the kernel caches names: the time of `ls -l` of a million messages."""

AGAIN_S: Final = (0.002, 0.02, 0.2)
"""Pauses before the notice is given again, where something was listed shortly before a message left."""

SHORTLY_S: Final = 1.0

_NOTICE: Final = struct.pack("=IiQ", 16, 8, 0)
"""fuse_out_header: its length, FUSE_NOTIFY_INC_EPOCH, no request."""


class Believed:
    """The names that one mount told its kernel."""

    def __init__(self) -> None:
        self._fuse_fd = -1
        self._live = False
        """Something may be believed."""
        self._given_s = -SHORTLY_S
        self._entering = trio.Event()
        self.left_count = 0
        """How often something may have left."""

    def begin(self, fuse_fd: int) -> None:
        """Use this descriptor, where the kernel knows the notice."""
        self._fuse_fd = fuse_fd
        self._notify()

    def end(self) -> None:
        """The descriptor is about to be closed."""
        self._fuse_fd = -1

    def name_s(self, left_count: int) -> float:
        """How long a name may be believed that was there as of `left_count`."""
        if self._fuse_fd < 0 or left_count != self.left_count:
            return 0.0
        self._live = True
        self._given_s = monotonic()
        return BELIEVED_S

    def left(self) -> None:
        """Something may have left, or is about to: when this returns, the kernel asks."""
        self.left_count += 1
        if not self._live:
            return
        self._live = False
        self._notify()
        if monotonic() - self._given_s < SHORTLY_S:
            self._entering.set()

    async def run(self) -> None:
        """Give notices again, until cancelled."""
        while True:
            await self._entering.wait()
            self._entering = trio.Event()
            for pause_s in AGAIN_S:
                await trio.sleep(pause_s)
                self._notify()

    def _notify(self) -> None:
        if self._fuse_fd < 0:
            return
        try:
            os.write(self._fuse_fd, _NOTICE)
        except OSError as error:
            # A kernel without it, or a mount that is over: nothing is to be believed any more.
            log.debug("the kernel asks for each name again: %s", error)
            self._fuse_fd = -1
