"""`journalfs xa`: prepared transactions of a store, and deciding one by hand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from journalfs.cli.common import SEPARATOR, force_option, json_option, opened, say, store_argument, write_json
from journalfs.errors import NoSuchName, SystemFailure, WrongCall
from journalfs.exchange.targets import mounted_store

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore
    from journalfs.store.write.store import WritingStore

_FOLDERS = {"commit": "committed", "rollback": "rolled-back"}


@click.command(epilog="Example: journalfs xa /var/lib/artemis/data rollback AAAAAAAAAAEAAA")
@store_argument
@click.argument("decision", metavar="[commit|rollback", required=False, type=click.Choice([*_FOLDERS]))
@click.argument("xid", metavar="XID]", required=False)
@force_option
@json_option
def xa(*, store: Path, decision: str | None, xid: str | None, as_json: bool) -> None:
    """List the prepared transactions of STORE, or of what is mounted there; or commit or roll one back.

    XID is as it is listed. The decision is kept in the store as that of an administrator (a heuristic
    completion), which its transaction manager is told by the broker. Listing works beside a broker; to decide
    there, use the broker's console.
    """
    if decision is None:
        _list(store, as_json)
        return
    if xid is None:
        raise WrongCall(f"xa {decision}: say which XID; journalfs xa STORE lists them")
    mounted = mounted_store(store)
    if mounted is None:
        _decide(store, xid, committed=decision == "commit")
    else:
        _decide_in_mount(store, xid, _FOLDERS[decision])
    done = "committed" if decision == "commit" else "rolled back"
    if as_json:
        write_json([{"xid": xid, "decision": done}])
    else:
        say(f"{xid}: {done}")


def _list(path: Path, as_json: bool) -> None:
    from journalfs.views.transactions import prepared_transactions  # noqa: PLC0415 - takes long

    with opened(path) as store:
        found = [
            {**one.status(), "xid": one.name, **_counted(one.operations())}
            for one in prepared_transactions(cast("JournalStore", store).core)
        ]
    if as_json:
        write_json(found)
        return
    for one in found:
        sends, acks = (cast("Mapping[str, int]", one[key]) for key in ("sends", "acknowledges"))
        parts = [f"sends {count} to {queue}" for queue, count in sends.items()]
        parts += [f"acknowledges {count} of {queue}" for queue, count in acks.items()]
        say(f"{one['xid']}\t{', '.join(parts) or 'does nothing to messages'}")
    if not found:
        say("no prepared transactions", to_people=True)


def _counted(operations: list[dict[str, Any]]) -> dict[str, object]:
    """How many messages of each queue a transaction sends and acknowledges."""
    found: dict[str, Counter[str]] = {"send": Counter(), "ack": Counter()}
    for one in operations:
        known = "queue" in one
        queue = f"{one['address']}{SEPARATOR}{one['queue']}" if known else f"queue {one['queueId']}"
        found[one["operation"]][queue] += 1
    return {"sends": dict(found["send"]), "acknowledges": dict(found["ack"])}


def _decide(path: Path, xid: str, *, committed: bool) -> None:
    from journalfs.store.write.opening import change  # noqa: PLC0415 - takes long

    async def decide(store: WritingStore) -> None:
        await store.prepared.decide(xid, committed=committed)

    change(path, decide)


def _decide_in_mount(mount: Path, xid: str, folder: str) -> None:
    transactions = mount / ".journalfs" / "transactions"
    if "/" in xid or not (transactions / xid).is_dir():
        raise NoSuchName(f"{xid}: there is no such prepared transaction; journalfs xa {mount} lists them")
    try:
        os.rename(transactions / xid, transactions / folder / xid)
    except OSError as error:
        raise SystemFailure.from_os(error, transactions / xid, doing="decide a transaction") from error
