"""`journalfs take`: messages for a command, each acknowledged when the command that got it ended well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from journalfs.cli.common import (
    EXIT_READER_LEFT,
    NAMES_SHOWN_MAX,
    GivenPath,
    act_as_owner,
    config_option,
    force_option,
    name_in_warnings,
    named_queue,
    through_option,
)
from journalfs.cli.mounts import mount_of, refused_by
from journalfs.errors import EXIT_OK, WrongCall
from journalfs.store.write.opening import change
from journalfs_mount.start.mountpoint import resolved

if TYPE_CHECKING:
    from journalfs.api import QueuePath
    from journalfs.store.write.store import WritingStore
    from journalfs.through.store import ThroughStore

READ_BYTES = 1 << 20
TAKE = ".take"
KILLED = 128
"""And the number of the signal that ended a command: what shells make of it."""

Handle = Callable[[bytes], int]
"""Does something with a line; what it ended with."""


@click.command(epilog="Example: journalfs take /mnt/orders/billing --no-wait --exec 'jq .body >> bills'")
@click.argument("path", metavar="MNT/ADDRESS/QUEUE | STORE", type=GivenPath())
@click.argument("queue", metavar="[ADDRESS::QUEUE]", required=False)
@click.option("--max", "count", metavar="N", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--no-wait", is_flag=True, help="End when there is none, instead of waiting.")
@click.option("--exec", "command", metavar="CMD", help="Give each to this shell command, on its input.")
@config_option
@force_option
@through_option
def take(
    *,
    path: Path,
    queue: str | None,
    count: int | None,
    no_wait: bool,
    command: str | None,
    through: str | None,
) -> None:
    """Take messages of a queue in a mount, or of ADDRESS::QUEUE in a STORE that nobody has open.

    Each is an envelope line, for CMD or on the output. It is acknowledged when CMD ended with 0, or the line
    was written. If CMD ends otherwise, or this is killed, the message goes back to the queue with a delivery
    count one higher, and take ends as CMD did. From a STORE, take ends when there is no message.
    """
    handle: Handle = _write if command is None else partial(_run, command)
    root = mount_of(path)
    if root is not None and through is not None:
        raise WrongCall(f"{path}: lies in a mount, which knows how it is written; --through is for a store")
    if root is not None:
        if queue is not None:
            give = root.joinpath(*(one for one in named_queue(queue) if one))
            raise WrongCall(f"{path}: lies in a mount: the path says which queue is meant; give {give}")
        _refuse_other_than_queue(root, path)
        sys.exit(_take_from_mount(root, path, count, no_wait, handle))
    address, name = ("", None) if queue is None else named_queue(queue)
    if name is None:
        of = f", {queue} is an address" if queue else ""
        raise WrongCall(f"{path}: lies in no mount; of a store, say which ADDRESS::QUEUE is meant{of}")
    sys.exit(_take_from_store(path, (address, name), count, handle, through))


def _refuse_other_than_queue(root: Path, path: Path) -> None:
    """Raise `WrongCall` for a path in a mount that is no queue, saying what would be one."""
    place = resolved(path)
    queue = place.parent if place.name == TAKE else place
    names = queue.relative_to(root).parts
    if len(names) == 1 and queue.is_dir():
        queues = [one for one in sorted(os.listdir(queue)) if (queue / one / TAKE).exists()]
        some = ", ".join(str(queue / one) for one in queues[:NAMES_SHOWN_MAX]) or "none yet"
        raise WrongCall(f"{path}: is an address; give one of its queues: {some}")
    if len(names) > 1 and os.path.lexists(queue / TAKE):
        return
    if not names:
        raise WrongCall(f"{path}: is the whole mount; give a queue of it: {root}/ADDRESS/QUEUE")
    above = root.joinpath(*names[:2])
    if len(names) > 2 and (above / TAKE).exists():
        raise WrongCall(f"{path}: is no queue, and lies in one; give {above}")
    raise WrongCall(f"{path}: there is no such queue; the mount has those that ls {root}/* lists")


def _write(line: bytes) -> int:
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's own flush
        return EXIT_READER_LEFT
    return EXIT_OK


def _run(command: str, line: bytes) -> int:
    done = subprocess.run(["/bin/sh", "-c", command], input=line, check=False)
    return done.returncode if done.returncode >= 0 else KILLED - done.returncode


def _take_from_mount(root: Path, path: Path, count: int | None, no_wait: bool, handle: Handle) -> int:
    """What was read last is given back or acknowledged by how this process ends, so it stays open."""
    stream = path if path.name == TAKE else path / TAKE
    taken, ended = 0, EXIT_OK
    with refused_by(root, path, "take messages"):
        descriptor = os.open(stream, os.O_RDONLY | (os.O_NONBLOCK if no_wait else 0))
        while ended == EXIT_OK and (count is None or taken < count):
            line = _line(descriptor)
            if not line:
                break
            ended = handle(line)
            taken += 1
    return ended


def _line(descriptor: int) -> bytes:
    """The next line, whole; nothing where none is there, or will be."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            piece = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return b""
        if not piece:
            return b""
        line += piece
    return line


def _take_from_store(
    path: Path, queue: QueuePath, count: int | None, handle: Handle, through: str | None
) -> int:
    async def take_all(store: WritingStore | ThroughStore) -> int:
        taken, ended = 0, EXIT_OK
        consumer = store.consumer(queue)
        while ended == EXIT_OK and (count is None or taken < count):
            if not consumer.is_found():
                await consumer.find()
            delivery = consumer.take()
            if delivery is None:
                break
            source = delivery.line
            ended = await trio.to_thread.run_sync(handle, bytes(source.read(0, source.size_bytes)))
            if ended == EXIT_OK:
                await delivery.acknowledge()
            else:
                await delivery.give_back(failed=True)
            taken += 1
        await consumer.close()
        return ended

    name_in_warnings()
    act_as_owner()
    if through is not None:
        from journalfs.through.opening import change_through  # noqa: PLC0415 - few do

        return change_through(path, through, take_all)
    return change(path, take_all)
