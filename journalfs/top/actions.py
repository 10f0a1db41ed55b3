"""What can be done with messages, each said before it is done.

A `Plan` is made by asking the store and changing nothing; `do` changes it, and says in one line what came of
it. Nothing here knows a screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from journalfs.errors import NoMessage, WrongCall
from journalfs.python.message import Message
from journalfs.python.store import Queue, Store
from journalfs.showing import printable

IDS_NAMED: Final = 5
EDITED: Final = ("text", "bytes")
"""Types of messages whose bodies can be edited as text, or as hex."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The messages that something is to be done with."""

    queue: Queue
    count: int
    ids: Sequence[int] | None = None
    """None: all of the queue, or all that its selector accepts."""
    selector: str | None = None
    """As it was typed."""

    @property
    def those(self) -> Queue:
        return self.queue if self.ids is None else self.queue.those(self.ids)

    def __str__(self) -> str:
        name = printable(self.queue.name)
        if self.ids is not None:
            some = ", ".join(map(str, self.ids[:IDS_NAMED])) + ", …" * (len(self.ids) > IDS_NAMED)
            return f"{_messages(len(self.ids))} of {name} ({some})"
        if self.selector:
            return f"the {_messages(self.count)} of {name} where {printable(self.selector)}"
        return f"all {_messages(self.count)} of {name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is about to be done."""

    title: str
    effects: Sequence[str]
    """What it does, a sentence a line."""
    do: Callable[[], str]
    """Does it, and says what was done. Raises `JournalfsError`."""


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def remove(chosen: Chosen) -> Plan:
    """Acknowledge messages."""
    _refuse_none(chosen)
    effects = [
        f"{chosen} are acknowledged, in one transaction."
        if chosen.ids is None
        else f"{chosen} are acknowledged.",
        "u brings them back, for as long as their room is not used again (`removed-keep-s`).",
    ]
    return Plan("Remove", effects, lambda: f"{_messages(chosen.those.remove())} removed; u brings them back")


def move(chosen: Chosen, store: Store, target: str) -> Plan:
    """Send messages to another queue. Raises `NoSuchName` and `WrongCall` for what is none."""
    _refuse_none(chosen)
    goal = store[target]
    found = goal.queues()
    if len(found) != 1:
        raise WrongCall(f"{target} has {len(found)} queues; say which one, as address::queue")
    (goal,) = found
    if goal.name == chosen.queue.name:
        raise WrongCall(f"the messages are in {goal.name} already; name another queue")
    there = int(goal.status()["messageCount"])
    effects = [
        f"{chosen} leave their queue.",
        f"They arrive last in {printable(goal.name)}, which has {_messages(there)}.",
        "Their bodies, properties and priorities stay; each has a new id.",
    ]
    return Plan("Move", effects, lambda: f"{_messages(chosen.those.move(goal))} moved to {goal.name}")


def redrive(chosen: Chosen) -> Plan:
    """Send messages back to the queues that they came from."""
    _refuse_none(chosen)
    found = chosen.those.redrive(dry_run=True)
    if not found.sent:
        raise WrongCall("; ".join(f"{_messages(n)} stay: {why}" for why, n in found.stayed.items()))
    return Plan("Send back", _sentences(found.sent, found.stayed), lambda: _redriven(chosen))


def _sentences(sent: Mapping[str, int], stayed: Mapping[str, int]) -> list[str]:
    went = [f"{_messages(count)} go back to {printable(where)}." for where, count in sent.items()]
    stay = [f"{_messages(count)} stay: {printable(why)}." for why, count in stayed.items()]
    return [*went, *stay, "What was noted on them is taken away, and deliveries count again from 0."]


def _redriven(chosen: Chosen) -> str:
    found = chosen.those.redrive()
    stay = f"; {_messages(sum(found.stayed.values()))} stayed" if found.stayed else ""
    return f"{_messages(sum(found.sent.values()))} sent back{stay}"


def edit(queue: Queue, message: Message, text: str) -> Plan:
    """Replace a message by a copy with another body. Raises `WrongCall` for a body that cannot be edited."""
    body = edited_body(message, text)
    before, after = message.body, body
    effects = [
        f"Message {message.id} of {printable(queue.name)} is removed.",
        "A copy with all of its headers and properties and the new body comes last, with a new id.",
        f"Its body has {len(after):,} {_unit(after)}; it had {len(before or ''):,}.",
        "Both happen in one transaction, or neither.",
    ]

    def do() -> str:
        queue.replace(message, body)
        return f"message {message.id} was replaced"

    return Plan("Edit", effects, do)


def _unit(body: str | bytes) -> str:
    return "bytes" if isinstance(body, bytes) else "characters"


def edited_text(message: Message) -> str:
    """A body as it is edited. Raises `WrongCall`."""
    if message.protocol == "AMQP" or message.type not in EDITED or message.damage is not None:
        kind = "damaged" if message.damage is not None else f"of type {message.type} ({message.protocol})"
        raise WrongCall(
            f"message {message.id} is {kind}: bodies of text and bytes of core messages are edited"
        )
    body = message.body
    return body.hex(" ") if isinstance(body, bytes) else body or ""


def edited_body(message: Message, text: str) -> str | bytes:
    """The body that an edited text stands for. Raises `WrongCall` for hex that is none."""
    edited_text(message)
    if message.type != "bytes":
        return text
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise WrongCall(f"no hexadecimal bytes: {error}") from error


def undo(store: Store) -> Plan:
    """Bring back what was removed last. Raises `NoMessage` where nothing can be brought back."""
    back = store.undo(dry_run=True)
    if not any(back.values()):
        raise NoMessage("nothing was removed that can be brought back")
    effects = [f"{_messages(n)} come back to {printable(where)}." for where, n in back.items() if n]
    return Plan("Undo", effects, lambda: f"{_messages(sum(store.undo().values()))} are back")


def _refuse_none(chosen: Chosen) -> None:
    if not (chosen.count if chosen.ids is None else len(chosen.ids)):
        raise NoMessage(f"{printable(chosen.queue.name)} has no such message")
