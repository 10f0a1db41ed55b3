"""`journalfs dlq redrive`: dead letters and expired messages go back to the queues that they came from."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote

import click
import msgspec
import trio

from journalfs.broker.consume.redriving import NAMED_MAX, Redriving
from journalfs.change.routing import Routing
from journalfs.cli.common import (
    SEPARATOR,
    find_queues,
    force_option,
    json_option,
    named_queue,
    opened,
    say,
    store_argument,
    through_option,
    write_json,
)
from journalfs.cli.letters import Chosen, Edited, edit_in_mount, edit_in_store, edited, planned_edit, told
from journalfs.errors import NoOrigin, SystemFailure, WrongCall
from journalfs.exchange.targets import mounted_store
from journalfs.selector import compile_selector
from journalfs.store.write.opening import change, change_in, open_for_writing
from journalfs.views.origins import takes_letters
from journalfs.views.unset_names import refuse_unset_names
from journalfs_mount.names.grammar import encode_name

if TYPE_CHECKING:
    from journalfs.api import QueuePath, Redriven
    from journalfs.ids import MessageId
    from journalfs.store.store import JournalStore
    from journalfs.store.write.store import WritingStore
    from journalfs.views.queues import StoreQueue

_ALL: Final = ".all.jsonl"
_TIME_WAS_OVER: Final = "their time was over; --expired sends them back, too"


class Outcome(NamedTuple):
    """What became of the messages of one queue."""

    queue: str
    sent: Mapping[str, int]
    """By address::queue."""
    stayed: Mapping[str, Sequence[int]]
    """Ids, by why; of many some."""
    staying: Mapping[str, int]
    """How many, by why."""

    def lines(self) -> list[str]:
        went = [f"{self.queue}: {count} sent back to {where}" for where, count in self.sent.items()]
        stay = [
            f"{self.queue}: {self._named(why, ids)} stay: {why}" for why, ids in self.stayed.items() if ids
        ]
        return [*went, *stay] or [f"{self.queue}: nothing to send back"]

    def _named(self, why: str, ids: Sequence[int]) -> str:
        others = self.staying.get(why, 0) - len(ids)
        return ", ".join(map(str, ids)) + f" and {others} others" * (others > 0)


@click.group()
def dlq() -> None:
    """Send dead letters and expired messages back to where they came from, edited if need be."""


@dlq.command(epilog="Example: journalfs dlq redrive /mnt/broker DLQ::DLQ --where \"tenant = 'a'\"")
@store_argument
@click.argument("queue", metavar="[ADDRESS::QUEUE]", required=False)
@click.option("--where", "selector", metavar="SELECTOR", help="Only messages that this selector accepts.")
@click.option("--expired", is_flag=True, help="Expired messages, too; without it they stay.")
@click.option("--dry-run", is_flag=True, help="Change nothing; list the moves.")
@force_option
@through_option
@json_option
def redrive(
    *,
    store: Path,
    queue: str | None,
    selector: str | None,
    expired: bool,
    dry_run: bool,
    through: str | None,
    as_json: bool,
) -> None:
    """Send messages of STORE, or of what is mounted there, back to the queues that they came from.

    Without ADDRESS::QUEUE: those of all queues of dead-letter and expiry addresses. What was noted on them is
    taken away and deliveries count anew. What has no origin any more stays, and is named. Messages whose time
    was over stay, too: without an expiration they would be delivered however late.
    """
    if selector is not None:
        compile_selector(selector)
    chosen = Chosen(selector, expired)
    mounted = mounted_store(store)
    if dry_run:
        outcomes = _planned(mounted or store, queue, chosen)
    elif through is not None:
        outcomes = _through(mounted or store, queue, chosen, through)
    elif mounted is not None:
        outcomes = _in_mount(store, mounted, queue, chosen)
    else:
        outcomes = _in_store(store, queue, chosen)
    if as_json:
        write_json(one._asdict() for one in outcomes)
        return
    for one in outcomes:
        for line in one.lines():
            say(line)


@dlq.command(epilog="Example: journalfs dlq edit /mnt DLQ::DLQ --jq '.body |= ltrimstr(\"x\")' --redrive")
@store_argument
@click.argument("queue", metavar="ADDRESS::QUEUE")
@click.option("--jq", "program", metavar="PROGRAM", required=True, help="Makes of a line the one to be sent.")
@click.option("--where", "selector", metavar="SELECTOR", help="Only messages that this selector accepts.")
@click.option("--redrive", "goes_back", is_flag=True, help="Send them back to where they came from.")
@click.option("--expired", is_flag=True, help="Expired messages, too; without it they stay.")
@click.option("--dry-run", is_flag=True, help="Change nothing; print the lines to be sent.")
@force_option
@json_option
def edit(
    *,
    store: Path,
    queue: str,
    program: str,
    selector: str | None,
    goes_back: bool,
    expired: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change messages of a queue of STORE, or of what is mounted there, by a program of jq: all of them in
    one transaction, or none.

    The program gets each message as its envelope line, and gives one object for it. Edited messages have new
    ids, and no duplicate id. Without --redrive they stay in the queue, behind the others. It needs jq.
    """
    address, name = named_queue(queue)
    if name is None:
        raise WrongCall(f"{queue!r}: say which queue is meant, as ADDRESS::QUEUE")
    if selector is not None:
        compile_selector(selector)
    path, chosen = (address, name), Chosen(selector, expired)

    def make(found: Sequence[bytes], known: Sequence[QueuePath]) -> Edited:
        return edited(path, found, program, redrive=goes_back, known=known)

    if dry_run:
        for lines in planned_edit(store, path, chosen.going, make).lines.values():
            sys.stdout.buffer.writelines(lines)
        return
    if mounted_store(store) is not None:
        done = edit_in_mount(store, path, chosen.going, make)
    else:
        done = change(store, lambda opened: edit_in_store(opened, path, chosen.going, make))
    if as_json:
        write_json([told(path, done)])
        return
    for target, made in done.lines.items():
        where = f"sent back to {SEPARATOR.join(target)}" if goes_back else "edited"
        say(f"{queue}: {len(made)} {where}")
    for why, count in done.stayed.items():
        say(f"{queue}: {count} stay: {why}")
    if not done.lines and not done.stayed:
        say(f"{queue}: nothing to edit")


def _queues(store: JournalStore, target: str | None) -> list[StoreQueue]:
    if target is not None:
        return cast("list[StoreQueue]", find_queues(store, target))
    found = [queue for queue in store.queues() if takes_letters(store.core, queue.model.address)]
    if not found:
        raise WrongCall("no settings send dead letters or expired messages to a queue; say which, as A::B")
    return found


def _path(queue: StoreQueue) -> QueuePath:
    return queue.model.address, queue.name


async def _ids(queue: StoreQueue, selector: str | None) -> Sequence[MessageId]:
    if selector is None:
        return queue.message_ids(_ALL)
    await queue.understand(selector)
    await refuse_unset_names(queue, selector)
    view = queue.where(selector)
    await view.find()
    return view.message_ids(_ALL)


async def _expired(queue: StoreQueue, chosen: Chosen) -> Sequence[int]:
    """Ids of the messages that stay since their time was over."""
    if chosen.left_expired is None:
        return ()
    await queue.understand(chosen.left_expired)
    view = queue.where(chosen.left_expired)
    await view.find()
    return [int(one) for one in view.message_ids(_ALL)]


def _with_expired(outcome: Outcome, ids: Sequence[int]) -> Outcome:
    if not ids:
        return outcome
    return outcome._replace(
        stayed={**outcome.stayed, _TIME_WAS_OVER: ids[:NAMED_MAX]},
        staying={**outcome.staying, _TIME_WAS_OVER: len(ids)},
    )


def _outcome(queue: StoreQueue, redriven: Redriven) -> Outcome:
    sent = {SEPARATOR.join(to): count for to, count in redriven.sent.items()}
    stayed = {why: [int(one) for one in ids] for why, ids in redriven.stayed.items()}
    staying = {why: len(ids) for why, ids in stayed.items()}
    return Outcome(SEPARATOR.join(_path(queue)), sent, stayed, staying)


def _through(path: Path, target: str | None, chosen: Chosen, url: str) -> list[Outcome]:
    """The running broker sends each to where its own properties say that it came from."""
    from journalfs.through.opening import change_through  # noqa: PLC0415 - few do
    from journalfs.through.store import ThroughStore  # noqa: PLC0415 - few do

    async def retry(store: ThroughStore) -> list[Outcome]:
        redriving = Redriving(store.core, Routing(store.core, lambda *_: False).concerns, _changes_nothing)
        outcomes: list[Outcome] = []
        for queue in _queues(store, target):
            planned = await redriving.planned(queue, await _ids(queue, chosen.going))
            stays = {int(one) for ids in planned.stayed.values() for one in ids}
            going = [one for one in await _ids(queue, chosen.going) if int(one) not in stays]
            await store.redrive(_path(queue), going)
            outcomes.append(_with_expired(_outcome(queue, planned), await _expired(queue, chosen)))
        return outcomes

    return change_through(path, url, retry)


def _planned(path: Path, target: str | None, chosen: Chosen) -> list[Outcome]:
    async def plan(store: JournalStore) -> list[Outcome]:
        routing = Routing(store.core, lambda *_: False)
        redriving = Redriving(store.core, routing.concerns, _changes_nothing)
        return [
            _with_expired(
                _outcome(queue, await redriving.planned(queue, await _ids(queue, chosen.going))),
                await _expired(queue, chosen),
            )
            for queue in _queues(store, target)
        ]

    with opened(path) as store:
        return trio.run(plan, cast("JournalStore", store))


async def _changes_nothing(*_: object) -> int:
    raise AssertionError("what is planned is not done")


def _in_store(path: Path, target: str | None, chosen: Chosen) -> list[Outcome]:
    async def redrive_all(store: WritingStore) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for queue in _queues(store, target):
            at, ids, stay = _path(queue), await _ids(queue, chosen.going), await _expired(queue, chosen)
            with suppress(NoOrigin):  # what it says is told as what becomes of the others
                await store.redrive(at, ids)
            told = [dict(one) for one in store.core.events if one["event"] == "redriven"]
            outcomes.append(_with_expired(_from_events(at, told), stay))
        return outcomes

    store = open_for_writing(path)
    return trio.run(change_in, store, redrive_all, store.journals.run)


def _in_mount(mount: Path, path: Path, target: str | None, chosen: Chosen) -> list[Outcome]:
    """By what a shell would do. What became of it is told by the mount's events."""

    async def expired(store: JournalStore) -> dict[QueuePath, Sequence[int]]:
        return {_path(queue): await _expired(queue, chosen) for queue in _queues(store, target)}

    with opened(path, index=False) as store:
        paths = trio.run(expired, cast("JournalStore", store))
    selector, outcomes = chosen.going, []
    for at, stay in paths.items():
        folder = mount.joinpath(*(os.fsdecode(encode_name(name)) for name in at))
        from_ = folder if selector is None else folder / ".where" / quote(selector, safe=" =<>()'\"")
        before = _told(mount)
        try:
            os.rename(from_ / _ALL, folder / ".redrive" / _ALL)
        except OSError as error:
            if error.errno not in (errno.EDESTADDRREQ, errno.ENOENT):
                raise SystemFailure.from_os(error, folder, doing="send messages back") from error
        told = [one for one in _told(mount) if one not in before]
        outcomes.append(_with_expired(_from_events(at, told), stay))
    return outcomes


def _from_events(at: QueuePath, told: Sequence[Mapping[str, Any]]) -> Outcome:
    """What events said last of a queue."""
    of_queue = [one for one in told if (one["address"], one["queue"]) == at]
    facts = ("sent", "stayed", "staying")
    sent, stayed, staying = (of_queue[-1].get(one, {}) if of_queue else {} for one in facts)
    return Outcome(SEPARATOR.join(at), sent, stayed, staying)


def _told(mount: Path) -> list[dict[str, Any]]:
    lines = (mount / ".journalfs" / "events.jsonl").read_bytes().splitlines()
    events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines if b"redriven" in line]
    return [one for one in events if one.get("event") == "redriven"]
