"""Names of queues, and of times, as Python callers give them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime

from journalfs.api import QueuePath
from journalfs.errors import NoSuchName, WrongCall
from journalfs.python.backend import Backend, Place

SEPARATOR = "::"


def named(name: str) -> Place:
    """What `"address::queue"` or `"address"` means. Raises `WrongCall`.

    >>> named("orders::billing"), named("orders")
    (('orders', 'billing'), ('orders', None))
    """
    address, separator, queue = name.partition(SEPARATOR)
    if not address or (separator and not queue):
        raise WrongCall(f"{name!r}: say 'address::queue', or 'address'")
    return address, queue if separator else None


async def queue_of(backend: Backend, place: Place, *, many: bool) -> Sequence[QueuePath]:
    """The queues of a place; of an address, where not `many` are wanted, its only one. Raises `NoSuchName`
    and `WrongCall`.
    """
    address, queue = place
    known = await backend.queues()
    found = [one for one in known if one[0] == address and queue in (None, one[1])]
    if not found and (queue is not None or address not in await backend.addresses()):
        names = [SEPARATOR.join(one) for one in known]
        wanted = SEPARATOR.join(filter(None, place))
        near = difflib.get_close_matches(wanted, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise NoSuchName(f"{backend.source}: no {'address' if queue is None else 'queue'} {wanted}{hint}")
    if not many and len(found) != 1:
        some = ", ".join(SEPARATOR.join(one) for one in found[:5]) or "none"
        raise WrongCall(f"{address} has {len(found)} queues ({some}); say which one, as 'address::queue'")
    return found


def check_selector(selector: str) -> None:
    """Raises `SelectorError`."""
    from journalfs.selector import compile_selector  # noqa: PLC0415 - few select

    compile_selector(selector)


def moment_text(given: str | datetime) -> str:
    """A time as the commands take it.

    >>> from datetime import UTC
    >>> moment_text(datetime(2026, 1, 31, 14, 30, tzinfo=UTC)), moment_text("10m")
    ('2026-01-31T14:30:00.000Z', '10m')
    """
    if isinstance(given, str):
        return given
    from datetime import UTC  # noqa: PLC0415 - few give one

    moment = given.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def range_name(since: str | datetime | None, until: str | datetime | None) -> str:
    """The name of a range of time, as below `.journalfs/history`."""
    if since is None and until is None:
        return "all"
    return "..".join("" if one is None else moment_text(one) for one in (since, until))
