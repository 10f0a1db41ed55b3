"""Which dead letters a command is about, and `journalfs dlq edit`: changing them by a program of jq."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from journalfs.cli.common import SEPARATOR
from journalfs.errors import DependencyMissing, JournalfsError, NoSuchName, WrongCall
from journalfs.format.core_message import ACTUAL_EXPIRY, NOTES, annotation_of
from journalfs.ids import MessageId
from journalfs.python.links import drive
from journalfs.python.message import Message
from journalfs.python.mounted import MountedBackend
from journalfs.views.origins import origin_in

if TYPE_CHECKING:
    from journalfs.api import QueuePath
    from journalfs.python.backend import Backend
    from journalfs.store.write.store import WritingStore

_OF_PLACE: Final = ("id", "address", "queue", "deliveryCount")
"""Keys of a line that say where its message was."""
_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"


class Chosen(NamedTuple):
    """Which messages of a queue are to go."""

    selector: str | None
    expired: bool

    @property
    def going(self) -> str | None:
        """The selector of those that go; None: all."""
        return self.selector if self.expired else self._and(f"{ACTUAL_EXPIRY} IS NULL")

    @property
    def left_expired(self) -> str | None:
        """The selector of those that stay since their time was over; None: none do."""
        return None if self.expired else self._and(f"{ACTUAL_EXPIRY} IS NOT NULL")

    def _and(self, condition: str) -> str:
        return condition if self.selector is None else f"{condition} AND ({self.selector})"


@dataclass(slots=True)
class Edited:
    """What is to become of the messages of a queue."""

    ids: list[MessageId] = field(default_factory=list)
    """Those that are edited."""
    lines: dict[QueuePath, list[bytes]] = field(default_factory=dict)
    """What takes their place, by the queue that it goes to."""
    stayed: Counter[str] = field(default_factory=Counter)
    """How many stay as they are, by why."""


def edited(
    queue: QueuePath, found: Sequence[bytes], program: str, *, redrive: bool, known: Sequence[QueuePath]
) -> Edited:
    """Return what a program of jq makes of envelope lines. `known`: the queues that there are. Raises
    WrongCall where the program fails, or gives anything but one object for a message.
    """
    done = Edited()
    going: list[tuple[bytes, QueuePath]] = []
    for line in found:
        target, why = _target(queue, line, known) if redrive else (queue, "")
        if target is None:
            done.stayed[why] += 1
        else:
            going.append((line, target))
    for (line, target), made in zip(going, _by_jq([line for line, _ in going], program), strict=True):
        number = Message(line).id
        assert number is not None, "a line of a queue has the id of its message"
        done.ids.append(MessageId(number))
        done.lines.setdefault(target, []).append(_to_publish(made, redrive=redrive))
    return done


def _target(queue: QueuePath, line: bytes, known: Sequence[QueuePath]) -> tuple[QueuePath | None, str]:
    """The queue that a letter came from, or why it stays."""
    origin = origin_in(line)
    if origin.address is None or origin.queue is None:
        return None, "nothing says where they come from"
    target = origin.address, origin.queue
    if target == queue:
        return None, f"they are in {SEPARATOR.join(target)}, where they come from"
    if target not in known:
        return None, f"there is no queue {SEPARATOR.join(target)} any more"
    return target, ""


def _by_jq(lines: Sequence[bytes], program: str) -> list[dict[str, Any]]:
    """Run the program once over all lines. Within an array its results are one line for each message."""
    if not lines:
        return []
    try:
        # The newlines end a comment of the program.
        command = ["jq", "-c", f"[\n{program}\n]"]
        done = subprocess.run(command, input=b"\n".join(lines), capture_output=True, check=False)
    except FileNotFoundError:
        raise DependencyMissing(
            "dlq edit --jq", package="the program jq", install="apt install jq, or dnf install jq"
        ) from None
    if done.returncode:
        raise WrongCall(f"--jq: {done.stderr.decode(errors='replace').strip()}; nothing was changed")
    results: list[Any] = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    if len(results) != len(lines) or not all(len(one) == 1 and isinstance(one[0], dict) for one in results):
        raise WrongCall("--jq: the program is to give one object for each message; nothing was changed")
    return [one[0] for one in results]


def _to_publish(envelope: dict[str, Any], *, redrive: bool) -> bytes:
    """The line that publishes an edited message: with a new id, and without the duplicate id under which its
    address remembers it. `redrive`: without the notes on where it was.
    """
    for key in (*_OF_PLACE, "duplicateId", "duplicateId_base64"):
        envelope.pop(key, None)
    names = {_DUPLICATE_ID, *(NOTES if redrive else ())}
    for key in ("properties", "propertyTypes", "extraProperties"):
        if isinstance(envelope.get(key), dict):
            envelope[key] = {name: value for name, value in envelope[key].items() if name not in names}
    annotations = {annotation_of(name) for name in names}
    amqp = envelope.get("amqp")
    if isinstance(amqp, dict) and isinstance(amqp.get("messageAnnotations"), list):
        kept = [one for one in amqp["messageAnnotations"] if one[0].get("v") not in annotations]
        envelope["amqp"] = {**amqp, "messageAnnotations": kept}
    return msgspec.json.encode(envelope) + b"\n"


Edit = Callable[[Sequence[bytes], Sequence["QueuePath"]], Edited]
"""Makes of the lines of a queue, and of all queues, what is to become of them."""


def planned_edit(store: Path, queue: QueuePath, selector: str | None, edit: Edit) -> Edited:
    """Do as the next two do, and change nothing: the store is opened for reading, beside whoever has it."""
    from journalfs.python.store import open_store  # noqa: PLC0415 - takes long

    async def plan(backend: Backend) -> Edited:
        return edit(await _lines(backend, queue, selector), await backend.queues())

    with open_store(store) as opened:
        return opened.run(plan)


async def _lines(backend: Backend, queue: QueuePath, selector: str | None) -> list[bytes]:
    lines = await backend.lines(queue, selector)
    try:
        found: list[bytes] = []
        while some := await lines.more():
            found += (one for one in some if one)
    finally:
        lines.close()
    return found


async def edit_in_store(store: WritingStore, queue: QueuePath, selector: str | None, edit: Edit) -> Edited:
    """Edit the messages of a queue in one transaction of an open store. Raises JournalfsError with nothing
    changed.
    """
    from journalfs.python.own import OwnBackend, OwnTransaction  # noqa: PLC0415 - takes long

    backend = OwnBackend(store.core.shown, store)
    done = edit(await _lines(backend, queue, selector), await backend.queues())
    if done.ids:
        name = f"edit-{uuid.uuid4().hex}"
        await store.transactions.begin(name)
        transaction = OwnTransaction(backend, store, name)
        try:
            await store.transactions.hold(name, queue, done.ids, None)
            for target, made in done.lines.items():
                await transaction.publish(target, b"".join(made))
            await transaction.commit()
        except BaseException:
            await transaction.roll_back()
            raise
    return done


def edit_in_mount(mount: Path, queue: QueuePath, selector: str | None, edit: Edit) -> Edited:
    """The same by the files of a mount."""
    backend = MountedBackend(mount)
    found = drive(lambda: _lines(backend, queue, selector))
    done = edit(found, drive(backend.queues))
    if not done.ids:
        return done
    transaction = drive(backend.begin)
    try:
        _hold(mount, queue, transaction.folder, done.ids)
        for target, made in done.lines.items():
            drive(lambda target=target, made=made: transaction.publish(target, b"".join(made)))  # type: ignore[misc]
        drive(transaction.commit)
    except BaseException:
        with suppress(JournalfsError):
            drive(transaction.roll_back)
        raise
    return done


def _hold(mount: Path, queue: QueuePath, transaction: Path, ids: Sequence[MessageId]) -> None:
    """Move messages into a transaction: nobody else gets them meanwhile."""
    from journalfs.python.mounted import failing, folder_name  # noqa: PLC0415 - takes long

    messages = mount.joinpath(*map(folder_name, queue), ".messages")
    with failing("edit messages", messages):
        names = {int(name.partition(".")[0]): name for name in os.listdir(messages)}
        for one in ids:
            if one not in names:
                raise NoSuchName(
                    f"{messages}: message {one} left meanwhile; nothing was changed, run it again"
                )
            (messages / names[one]).rename(transaction / names[one])


def told(queue: QueuePath, done: Edited) -> Mapping[str, object]:
    """What became of the messages, for programs."""
    sent = {SEPARATOR.join(target): len(made) for target, made in done.lines.items()}
    return {"queue": SEPARATOR.join(queue), "edited": len(done.ids), "to": sent, "stayed": dict(done.stayed)}
