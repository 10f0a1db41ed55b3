"""What goes wrong between this process and a running broker."""

# ruff: noqa: N818 - they are named for what happened, as all of journalfs.errors are

from __future__ import annotations

import errno

from journalfs.errors import EXIT_BUSY, EXIT_SYSTEM, EXIT_WRONG_CALL, JournalfsError


class BrokerAway(JournalfsError, identifier="broker-away", exit_code=EXIT_SYSTEM, errno=errno.EIO):
    """A broker cannot be reached, or the connection to it ended. The message says what is known."""


class BrokerRefused(JournalfsError, identifier="broker-refused", exit_code=EXIT_SYSTEM, errno=errno.EIO):
    """A broker said no, in its own words. Nothing of what was asked was done."""


class BrokerForbids(BrokerRefused, identifier="broker-forbids", errno=errno.EACCES):
    """What the broker's user may not do."""


class BrokerFull(BrokerRefused, identifier="broker-full", errno=errno.ENOSPC):
    """An address of the broker takes no more, by its settings."""


class OutcomeUnknown(BrokerAway, identifier="outcome-unknown"):
    """The connection ended while the broker was to end a transaction: it did, or did not, do all of it."""


class OtherBroker(JournalfsError, identifier="other-broker", exit_code=EXIT_BUSY, errno=errno.EBUSY):
    """A broker that is not the one whose store this is."""


class NotThrough(JournalfsError, identifier="not-through", exit_code=EXIT_WRONG_CALL, errno=errno.EPERM):
    """What cannot be done while a broker has the store. Without one, the store can be mounted for writing."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; stop the broker and mount the store for writing to do this")
