"""`journalfs replay`: what the history holds of a range of time, in queues once more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click
import trio

from journalfs.account.books import NOT_ASKED_FOR, Books, NotCarried
from journalfs.account.entries import UNKNOWN, Account, Standing, Totals, exactly
from journalfs.cli.books import end_with
from journalfs.cli.common import (
    SEPARATOR,
    force_option,
    json_option,
    named_queue,
    say,
    store_argument,
    write_json,
)
from journalfs.cli.mounts import ask
from journalfs.clock import SystemClock
from journalfs.config.layout import locate_store
from journalfs.errors import BooksDoNotBalance, WrongCall
from journalfs.exchange.targets import mounted_store
from journalfs.showing import advancing
from journalfs.store.history import KEEP_HISTORY, history_of
from journalfs.store.replay_plan import DAMAGED, FILTERED, ONCE, Asked, Replayed, planned
from journalfs.store.write.opening import change_in, open_for_writing
from journalfs.times import range_between

if TYPE_CHECKING:
    from journalfs.api import QueuePath
    from journalfs.store.write.store import WritingStore


PERCENT: Final = 100
REPLAY: Final = ".journalfs/history/.replay"


@click.command(
    epilog='Example: journalfs replay /var/lib/artemis/data --from -2h --where "n > 5" --to-queue a::again'
)
@store_argument
@click.argument("sources", metavar="[ADDRESS[::QUEUE]]...", nargs=-1)
@click.option("--from", "begin", metavar="TIME", help="The first: 2026-01-31T14:30, yesterday, -2h.")
@click.option("--to", "end", metavar="TIME", help="The last; a day or a minute is all of it.")
@click.option("--where", "selector", metavar="SELECTOR", help="Only messages that this selector accepts.")
@click.option("--to-queue", "target", metavar="ADDRESS::QUEUE", help="Where to; else where they were.")
@click.option("--name", metavar="NAME", help="What the same replay is known by; else by its options.")
@click.option("--again", is_flag=True, help="Although it was done before.")
@click.option("--dry-run", is_flag=True, help="Change nothing; count.")
@force_option
@json_option
def replay(
    *,
    store: Path,
    sources: tuple[str, ...],
    begin: str | None,
    end: str | None,
    selector: str | None,
    target: str | None,
    name: str | None,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Publish once more what STORE's history has of some queues, or of all: consumed or not.

    A replay that was killed goes on where it was when it is called again by the same options, and sends
    nothing twice. STORE may be where it is mounted.
    """
    asked = Asked(begin, end, selector, sources, None if target is None else _target(target), name)
    mounted = mounted_store(store)
    if dry_run:
        told = _planned(mounted or store, asked).told()
    elif mounted is not None:
        told = _in_mount(store, asked, again=again)
    else:
        told = _done(store, asked, again=again).told()
    queues, before = cast("list[dict[str, str]]", told["queues"]), told["before"]
    books = books_of_replay(told)
    if as_json:
        write_json(queues)
        end_with(books, json_to="stderr")
        return
    went = "would be replayed" if dry_run else "replayed"
    for one in queues:
        say(f"{one['address']}{SEPARATOR}{one['queue']}: {one['messages']} {went}")
    if before:
        say(f"{before} had been replayed before this was called again", to_people=True)
    if told["undecided"]:
        said = "transactions are left out: no journal file near them says how they ended"
        say(f"{told['undecided']} {said}", to_people=True)
    if told["damaged"]:
        said = "messages are left out: they are damaged, or their large bodies are not kept"
        say(f"{told['damaged']} {said}", to_people=True)
    if told["unread"]:
        said = "places: messages whose records lay there are left out"
        say(f"the history is damaged in {told['unread']} {said}", to_people=True)
    if not queues and not before:
        say("nothing of this range is in the history", to_people=True)
    end_with(books)


_REASONS: Final = {
    FILTERED: "an option left them out",
    ONCE: "they went from another queue that they were in: all go to one",
    DAMAGED: "they are damaged, or their large bodies are not kept",
}


def books_of_replay(told: Mapping[str, object]) -> Books:
    """Return balanced books of a replay: the history is the source. Raises `BooksDoNotBalance`."""
    kept = cast("dict[str, dict[str, int] | list[dict[str, object]]]", told["books"])
    source = cast("dict[str, int]", kept["source"])
    rows = [
        NotCarried(
            str(one["queue"]),
            Standing.DAMAGED if one["why"] == DAMAGED else NOT_ASKED_FOR,
            _REASONS[str(one["why"])],
            exactly(cast("int", one["messages"])),
            str(one["why"]),
            asked=one["why"] != DAMAGED,
        )
        for one in cast("list[dict[str, object]]", kept["left"])
        if one["messages"]
    ]
    left = Counter[str]()
    for row in rows:
        left[str(row.queue)] += row.messages.messages or 0
    carried = {name: count - left[name] for name, count in source.items()}
    sent = sum(one["messages"] for one in cast("list[dict[str, int]]", told["queues"]))
    if sent != sum(carried.values()):
        raise BooksDoNotBalance("the history", sum(source.values()), sent + left.total(), "the queues")
    if told["undecided"]:
        reason = f"{told['undecided']} transactions: no journal file near them says how they ended"
        rows.append(NotCarried(None, Standing.UNDECIDED, reason, UNKNOWN, "undecided", asked=False))
    if told["unread"]:
        reason = f"the history is damaged in {told['unread']} places: `journalfs check` lists them"
        rows.append(NotCarried(None, Standing.MISSING, reason, UNKNOWN, "unread", asked=False))
    totals = {name: Totals(live=count) for name, count in source.items()}
    account = Account("the history", (), totals, sum(totals.values(), Totals()))
    books = Books.of(account, carried, rows, made="the queues")
    books.balance()
    return books


@dataclass(slots=True)
class _Shown:
    """What the bar shows, of `PERCENT`."""

    advance: Callable[[int], None]
    now: int = 0

    def tell(self, done_bytes: int, total_bytes: int) -> None:
        then, self.now = self.now, PERCENT * done_bytes // total_bytes if total_bytes else PERCENT
        self.advance(self.now - then)


def _target(text: str) -> QueuePath:
    address, queue = named_queue(text)
    if queue is None:
        raise WrongCall(f"--to-queue {text}: say ADDRESS::QUEUE")
    return address, queue


def _in_mount(mount: Path, asked: Asked, *, again: bool) -> dict[str, object]:
    line = json.dumps({"asked": asdict(asked), "again": again})
    why = f"it keeps no history, or is mounted read-only; for a history {KEEP_HISTORY}, and mount it again"
    return ask(mount / REPLAY, line, doing="replay", else_why=why)


def _planned(path: Path, asked: Asked) -> Replayed:
    history = history_of(locate_store(path), SystemClock())
    wanted = range_between(asked.begin, asked.end, history.clock.now_ms())
    try:
        return trio.run(planned, history, asked, wanted)
    finally:
        history.close()


def _done(path: Path, asked: Asked, *, again: bool) -> Replayed:
    async def run(store: WritingStore) -> Replayed:
        with advancing("replaying", PERCENT) as advance:
            return await store.history.publish(asked, again=again, progress=_Shown(advance).tell)

    # Before a folder of it is made, as whoever writes does.
    history_of(locate_store(path), SystemClock()).close()
    store = open_for_writing(path)
    return trio.run(change_in, store, run, store.journals.run)
