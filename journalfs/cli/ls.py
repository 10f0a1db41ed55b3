"""`journalfs ls`: addresses and queues of a store, or the messages of a queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli import common

if TYPE_CHECKING:
    from journalfs.api import Listing, Store, View

QUEUE_COLUMNS = {
    "ADDRESS": "address", "QUEUE": "queue", "TYPE": "routingType", "MESSAGES": "messages",
    "SCHEDULED": "scheduledCount", "DELIVERING": "deliveringCount", "PAGED": "pagedCount",
    "BYTES": "lineBytes",
}  # fmt: skip
"""Heading -> key of a queue's status."""

MESSAGE_COLUMNS = {"ID": "id", "PUBLISHED": "timestamp", "BYTES": "bodyBytes", "NAME": "name"}

MS = 1_000_000


@click.command(epilog="Example: journalfs ls /var/lib/artemis/data orders::billing")
@common.store_argument
@common.older_options
@click.argument("target", metavar="[ADDRESS[::QUEUE]]", required=False)
@click.option("--where", "selector", metavar="SELECTOR", help="Only messages that a JMS selector accepts.")
@common.json_option
@common.index_option
def ls(
    *,
    store: Path,
    older: common.Older,
    target: str | None,
    selector: str | None,
    as_json: bool,
    no_index: bool,
) -> None:
    """List the queues of STORE, those of ADDRESS, or the messages of ADDRESS::QUEUE.

    Messages are in delivery order: higher priority first, then as they arrived. In a pipe the rows are
    separated by tabs and have no heading.
    """
    with common.opened(store, index=not no_index, older=older) as found:
        if target is not None and common.SEPARATOR in target:
            _list_messages(common.find_queues(found, target)[0], selector, as_json=as_json)
        elif selector is not None:
            raise click.UsageError("--where needs ADDRESS::QUEUE")
        else:
            _list_queues(found, target, as_json=as_json)


def _list_queues(store: Store, target: str | None, *, as_json: bool) -> None:
    facts = [queue.status() for queue in common.find_queues(store, target)]
    if target is None:
        facts += [_empty(address.status()) for address in store.addresses() if not address.queues()]
        facts.sort(key=lambda status: str(status["address"]))
    if as_json:
        common.write_json(facts)
        return
    rows = [[status.get(key) for key in QUEUE_COLUMNS.values()] for status in facts]
    common.write_table(list(QUEUE_COLUMNS), rows)


def _empty(address: Mapping[str, object]) -> Mapping[str, object]:
    """An address without queues, where queues are listed."""
    kinds = address["routingTypes"]
    assert isinstance(kinds, list)
    return {"address": address["address"], "routingType": ",".join(kinds), "messages": 0, "lineBytes": 0}


def _list_messages(view: View, selector: str | None, *, as_json: bool) -> None:
    if selector is not None:
        common.warn_of_names([view], selector)
    listing = (view if selector is None else view.where(selector)).listing()
    rows = _messages(listing)
    if as_json:
        common.write_json(dict(zip(MESSAGE_COLUMNS.values(), row, strict=True)) for row in rows)
    else:
        common.write_table(
            list(MESSAGE_COLUMNS), ((i, common.when(time_ms), size, name) for i, time_ms, size, name in rows)
        )


def _messages(listing: Listing) -> Iterator[tuple[int, int, int, str]]:
    for index in range(len(listing)):
        time_ms, size_bytes = listing.mtime_ns(index) // MS, listing.size_bytes(index)
        yield listing.message_id(index), time_ms, size_bytes, listing.name(index).decode("ascii")
