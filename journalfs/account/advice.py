"""What to do about each kind of entry, by its stable word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from journalfs.damage import DOUBTFUL, HOLE, MISSING_FILE

PREPARED: Final = "prepared-transaction"
"""Kind of what a prepared transaction sent."""

ACKNOWLEDGED: Final = "prepared-acknowledgement"
"""Kind of what a prepared transaction acknowledged."""

DEEP_ONLY: Final = (
    "duplicate-id",
    "large-message",
    "page-counter",
    "page-record",
    "page-transaction",
    "record",
    "reference",
)
"""Kinds of which some, or all, are found by `check --deep` alone: by a look at each record and body."""

NOTES: Final = frozenset({"orphan", "page-set-aside"})
"""Kinds of what is listed and is no loss: a crash leaves them."""

MENDED: Final = "mended"
"""Kind of what was wrong and is right again: no damage."""

MESSAGE: Final = "message"
"""Kind of a message that cannot be read."""

_REPAIR: Final = "journalfs repair STORE --out NEW makes a store of all that is intact"
_PUT_BACK: Final = "put it back from a copy"
_DECIDE: Final = (
    "commit or roll it back: in a mount, mv .journalfs/transactions/XID to committed/ or rolled-back/ beside "
    "it; or let the broker's transaction manager recover it"
)
_DO: Final[Mapping[str, str]] = {
    "torn": "nothing: a writer was killed here, and a mount for writing overwrites it",
    "checksum": f"{_REPAIR}, or restore a backup: these bytes are not what was written",
    "unreadable": "look at the disk and at the permissions of the file, then check again",
    "denied": "look at the permissions of the file, then check again",
    MISSING_FILE: _PUT_BACK,
    "missing-records": _PUT_BACK,
    "short-file": _PUT_BACK,
    "missing-message": "put the journal file back that had it; a broker drops the reference",
    "incomplete-transaction": f"{_REPAIR}; a broker drops the transaction whole",
    "undecided-transaction": "cat what it sent into an address, from .journalfs/transactions",
    "lost-binding": "put the bindings back, or make the queues anew and move the messages to them",
    "page-folder": "mend address.txt, or move the pages to the folder of their address",
    "large-message": "put the body back from a copy; the message goes on to say what it lacks",
    MESSAGE: "consume it, or send it again from where it came",
    "record": f"{_REPAIR}; a broker may refuse to start on it",
    "binding": f"{_REPAIR}; a broker may refuse to start on it",
    "page-record": "consume the message, or restore a backup",
    "reference": "mount the store for writing and take the message; a broker drops what has no queue",
    "unknown-queue": "put the bindings back, or make the queue anew; a broker drops the references",
    "queue-without-address": "mkdir the address; a broker makes one when it starts",
    "routing-type": "give the address the routing type, or make the queue anew",
    "duplicate-address": "rmdir one of them; a broker takes the first",
    "duplicate-queue": "move the messages of one of them elsewhere and rmdir it",
    "id-generator": "journalfs repair STORE --out NEW: a broker would use ids twice and lose messages",
    "page-complete": "restore a backup: messages of the page are hidden, or come again",
    "page-transaction": "restore a backup: a broker would forget messages of it",
    "page-counter": "nothing: a broker counts anew when it starts",
    "duplicate-id": "nothing: a broker forgets one of them when it starts",
    PREPARED: _DECIDE,
    ACKNOWLEDGED: _DECIDE,
    DOUBTFUL: "look at the messages of the subscription: it may have begun after them, or have been removed",
    "orphan": "journalfs check --set-aside moves it out of the way",
    "page-set-aside": "look at it; then it may be removed",
    "missing-id": f"{_PUT_BACK}; without one, journalfs compact --discard-damage STORE forgets it",
    MENDED: "nothing: it is whole again",
    HOLE: "restore from another backup, or mend this one with journalfs scrub and restore again; "
    "journalfs compact --discard-damage takes this note away",
    "rotten": "restore it from a backup: it changed, and nobody writes to it any more",
}
"""By kind; of every other one, what helps against damage in general."""


def advice_of(kind: str) -> str:
    """What to do about a kind of damage."""
    return _DO.get(kind, _REPAIR)
