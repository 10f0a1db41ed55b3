"""Changing a store from Spark: through its mount if the path lies in one, else by the library."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from journalfs.errors import NoRoute, NoSuchName, SystemFailure
from journalfs.ids import MessageId
from journalfs.limits import NAME_BYTES_MAX
from journalfs.live.bindings import read_bindings
from journalfs.records.sources import locate_readable
from journalfs.spark.place import Place
from journalfs.store.write.opening import change
from journalfs.views.message import SUFFIXES

if TYPE_CHECKING:
    from journalfs.store.write.store import WritingStore
    from journalfs.views.queues import StoreQueue

_MAKE: Final = "make one with mkdir in the directory of the address in a mount"
MESSAGES: Final = ".messages"
EVENTS: Final = Path(".journalfs", "events.jsonl")
"""In the root of a mount: what happened, a line each, oldest first."""


def destination_of(place: Place, names: Sequence[str]) -> tuple[str, str | None]:
    """The address, and the queue if it is only one, that messages are written to. A name alone is that of an
    address or, where none has it, of a queue. Raises `WrongCall`, and `NoSuchName` where nothing has it.
    """
    address, queue = place.destination(names)
    if place.address is not None:
        return address, queue
    if queue is not None:
        if queue not in _queues(place, address):
            where = place.mount or place.store
            raise NoSuchName(f"option 'queues': no queue '{address}::{queue}' in {where}; {_MAKE}")
        return address, queue
    name, owner = address, None
    for address, queues in _addresses(place, name):
        if address == name:
            return name, None
        if name in queues:
            owner = address
    if owner is None:
        raise NoSuchName(f"option 'queues': no address or queue {name!r} in {place.mount or place.store}")
    return owner, name


def require_route(place: Place, names: Sequence[str]) -> None:
    """Raises what `destination_of` raises, and `NoRoute` where it is an address without queues."""
    address, queue = destination_of(place, names)
    if queue is None and not _queues(place, address):
        raise NoRoute(address, f"no queue is bound to it; {_MAKE}")


def _queues(place: Place, address: str) -> Sequence[str]:
    return next((queues for name, queues in _addresses(place, address) if name == address), ())


def _addresses(place: Place, name: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Names of addresses and of their queues; of a mount, who may see it alone, that of `name` first."""
    if place.mount is None:
        layout, _ = locate_readable(place.store)
        state, _ = read_bindings(layout.bindings_dir, relative_to=layout.root)
        bound: dict[str, list[str]] = {address: [] for address in state.addresses}
        for queue in state.queues.values():
            bound.setdefault(queue.address, []).append(queue.name)
        yield from bound.items()
        return
    plain = [place.mount / name] if _is_file_name(name) else []
    for folder in (*plain, *(Path(entry.path) for entry in os.scandir(place.mount))):
        said = _said(folder)
        if "queues" in said:
            yield said["address"], tuple(said["queues"])


def directory_of(mount: Path, address: str, queue: str | None) -> Path:
    """The directory of an address or a queue in a mount, whatever its name looks like there."""
    folder = _named(mount, "address", address)
    return folder if queue is None else _named(folder, "queue", queue)


def _named(folder: Path, key: str, name: str) -> Path:
    plain = folder / name
    if _is_file_name(name) and _said(plain).get(key) == name:
        return plain
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if _said(Path(entry.path)).get(key) == name:
            return Path(entry.path)
    raise NoSuchName(f"{folder}: there is no {key} {name!r}")


def _is_file_name(name: str) -> bool:
    """Whether a file may have that name. A mount spells others differently, as its `.status` says."""
    try:
        return "/" not in name and "\0" not in name and len(os.fsencode(name)) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _said(directory: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / ".status").read_bytes())
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
