"""Changing a store from Spark: through its mount if the path lies in one, else by the library."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journalfs.errors import JournalfsError, NoSuchName, SystemFailure
from journalfs.ids import MessageId
from journalfs.store.message import SUFFIXES
from journalfs.store.write.opening import open_for_writing

if TYPE_CHECKING:
    from journalfs.store.queues import StoreQueue
    from journalfs.store.write.store import WritingStore

MESSAGES: Final = ".messages"
EVENTS: Final = Path(".journalfs", "events.jsonl")
"""In the root of a mount: what happened, a line each, oldest first."""


def change(store: Path, action: Callable[[WritingStore], Awaitable[None]]) -> None:
    """Do something to a store that nobody else writes. Raises `StoreBusy`, and what `action` raises."""

    async def run() -> None:
        opened = open_for_writing(store)
        refused: JournalfsError | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.run)
                try:
                    await action(opened)
                except JournalfsError as error:
                    refused = error  # raised outside, where it is itself and no part of a group
                nursery.cancel_scope.cancel()
        finally:
            opened.close()
        if refused is not None:
            raise refused

    trio.run(run)


def directory_of(mount: Path, address: str, queue: str | None) -> Path:
    """The directory of an address or a queue in a mount, whatever its name looks like there."""
    folder = _named(mount, "address", address)
    return folder if queue is None else _named(folder, "queue", queue)


def _named(folder: Path, key: str, name: str) -> Path:
    plain = folder / name
    if "/" not in name and _said(plain).get(key) == name:
        return plain
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if _said(Path(entry.path)).get(key) == name:
            return Path(entry.path)
    raise NoSuchName(f"{folder}: there is no {key} {name!r}")


def _said(directory: Path) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads((directory / ".status").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SystemFailure.from_os(error, directory, doing="look what it is") from error
    return found


def refusal_in(mount: Path, name: str) -> str | None:
    """Why a mount refused to change what has that name; None if it does not tell."""
    try:
        lines = (mount / EVENTS).read_bytes().splitlines()
    except OSError:
        return None  # the mount is gone, or shows this to its owner only: whoever asks has the errno
    said = (json.loads(line) for line in reversed(lines))
    reasons = (one["reason"] for one in said if one["event"] == "refused" and name in one["what"])
    return next(reasons, None)


def acknowledge(
    store: Path, mount: Path | None, taken: Sequence[tuple[StoreQueue, Sequence[MessageId]]]
) -> None:
    """Remove messages from queues. Those that are gone already are fine."""
    taken = [(queue, ids) for queue, ids in taken if ids]
    if mount is not None:
        for queue, ids in taken:
            _remove(directory_of(mount, queue.model.address, queue.name) / MESSAGES, queue, ids)
        return

    async def remove(opened: WritingStore) -> None:
        for queue, ids in taken:
            await opened.acknowledge((queue.model.address, queue.name), ids)

    if taken:
        change(store, remove)


def _remove(folder: Path, queue: StoreQueue, ids: Sequence[MessageId]) -> None:
    """Remove messages' files, which acknowledges the messages."""
    wanted = set(ids)
    for run in queue.content.live():
        columns = run.columns(queue.content)
        for one, suffix in zip(columns.ids, columns.suffixes, strict=True):
            if one in wanted:
                (folder / f"{one}{os.fsdecode(SUFFIXES[suffix])}").unlink(missing_ok=True)
