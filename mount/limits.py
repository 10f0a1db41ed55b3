"""Bounds of the mount itself, each with the reason for its number."""

from __future__ import annotations

from typing import Final

HANDLES_MAX: Final = 65_536
"""Open files and directories at once. A process seldom may open more than this; past it open fails with
ENFILE."""

DESCRIPTORS_MIN: Final = 128
"""A mount is not begun with fewer: the store itself has some dozens of files open at times."""

NAME_BYTES_MAX: Final = 255
"""What statfs promises. Only selectors below `.where/` may be longer, up to what the kernel passes on."""

REFUSALS_MAX: Final = 32
"""Refused names and their reasons that `.journalfs/mount.json` remembers."""

WORKERS_MAX: Final = 256
"""Request tasks: so many requests may wait at once, as writers do for the disk, before the mount stands
still. The fast wait lets the pool grow to this at once; each idle one costs a few kilobytes."""

WAITING_MAX: Final = WORKERS_MAX // 2
"""Requests that may wait for something that others do, as for room in a full address: those others need
request tasks, too."""

RENAME_WAIT_S: Final = 1.0
"""How long a rename that publishes waits for room: the directory is locked meanwhile."""

PUBLICATION_WAIT_S: Final = 5.0
"""Longest time a request waits for what was closed before it. Publishing takes milliseconds unless an address
is full, and then those who make room must get through."""

STAGED_AGE_MAX_S: Final = 7 * 24 * 3600.0
"""Staged names that nobody touched for so long are swept at the next mount: long enough for a draft, short
enough that what killed programs left does not fill the disk."""

SETTINGS_BYTES_MAX: Final = 1_048_576
"""Longest text that `.settings` takes: a hundred times what it gives."""

READ_AHEAD_KIB: Final = 1_024
"""What the kernel reads ahead of a sequential reader: the protocol's largest request, which doubles the speed
of cached reads against the default of 128 KiB. More than this gains nothing."""

UNMOUNT_WAIT_S: Final = 30.0
"""How long `journalfs umount` waits for the mount's process to let go of the store after unmounting."""

CLOSED_S: Final = 1.0
"""A reader that closed a stream itself has failed all the same if its process fails within this time: shells
and interpreters close their files before they exit with the code that says so."""

FOLLOWED_SIZE_BYTES: Final = 4093
"""What a followed stream is said to have beyond what was read of it. `tail -f` first reads that much from the
end, expecting to find it there; nobody else reads so odd a number of bytes at first."""

FOLLOWED_MORE_BYTES: Final = 1_073_741_824
"""By how much its size grows when there is something to read: `tail -f` reads no more than that at once."""

UNANSWERED_MAX: Final = 128
"""Messages that one reader of `.take` may have without an answer: each keeps its line open, and nobody else
gets it."""

HOLE_BYTES_MAX: Final = 256 * 2**20
"""Of a file that is one message, how many zeros may be left out where it is written: they are made."""

HOLE_STEP_BYTES: Final = 2**20
"""How many of these are taken at once."""
