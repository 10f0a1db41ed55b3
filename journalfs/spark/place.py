"""What a path given to Spark leads to: a store's files, or a mount of one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config.database import DatabaseSettings, DatabaseStore, database_named, kept_text
from journalfs.config.layout import locate_store
from journalfs.errors import JournalfsError, NotAStore, SystemFailure, WrongCall
from journalfs.records.sources import derived_if_older
from journalfs.times import Range

SNAPSHOTS: Final = Path(".journalfs", "snapshots")
WHERE: Final = ".where"
SEPARATOR: Final = "::"
"""Between the names of an address and of a queue."""
STATUS: Final = Path(".journalfs", "status.json")
"""In the root of every mount, and nowhere else."""
_FILE: Final = "file:"
_ELSEWHERE: Final = re.compile(rf"(?!{_FILE})[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """The library opens `store`, a path or a URL; `mount` is where the path lies in a mount, or None."""

    store: Path
    mount: Path | None = None
    address: str | None = None
    queue: str | None = None
    read_only: bool = False
    """Whether it is a mount, or a snapshot in one, that takes no changes."""
    history: Range | None = None
    """It is a range of the history in a mount."""

    def destination(self, queues: Sequence[str]) -> tuple[str, str | None]:
        """The address, and the queue if it is only one, that messages are written to, as far as the path and
        names say; a name alone may be a queue's. Raises `WrongCall`.
        """
        if self.address is not None and not queues:
            return self.address, self.queue
        if len(queues) != 1 or self.address is not None:
            raise WrongCall(
                "writing needs one address or queue: a path in a mount, or option 'queues' (--to of a "
                "replay) with ADDRESS, ADDRESS::QUEUE or a queue's name"
            )
        address, separator, queue = queues[0].partition(SEPARATOR)
        return address, queue if separator else None


def database_of(path: str) -> DatabaseSettings | None:
    """The database that a path leads to, if it is one that has a store."""
    try:
        return require_store(local_path(path))
    except JournalfsError:
        return None


def require_store(path: Path) -> DatabaseSettings | None:
    """The database where the store is in one. Raises `NotAStore` and what else `locate_store` raises."""
    try:
        locate_store(path)
    except DatabaseStore as found:
        return found.settings
    return None


def place_of(path: str, *, reads_history: bool = False) -> Place:
    """Raises `WrongCall` for a path in a mount that is neither its root, an address nor a queue, and unless
    the caller `reads_history` for one in a history.
    """
    given = local_path(path)
    found = _mount_with(given)
    if found is None:
        return Place(derived_if_older(given))
    place = _in_mount(found[0], given.relative_to(found[0]), found[1])
    if "historyFrom" not in found[1]:
        return place
    if not reads_history:
        raise WrongCall(f"{given}: this is a history, which is read as a batch and never written")
    from_ms, to_ms = (int(str(found[1][name])) for name in ("historyFrom", "historyTo"))
    return replace(place, history=Range(from_ms, to_ms, moves=False))


def refuse_mount(path: str) -> None:
    """Raise `NotAStore` for a path in a mount, where the files of its store are not."""
    found = None if is_elsewhere(path) else _mount_with(local_path(path))
    if found is not None:
        give = f'the files of its store, {found[1]["path"]}, or read it with format("journalfs")'
        raise NotAStore(path, f"this is in a mount, {found[0]}, which shows messages", give=give)


def _mount_with(given: Path) -> tuple[Path, dict[str, object]] | None:
    """The root of the mount in which a path lies, or of a snapshot in one, and what it says of itself."""
    for folder in (given, *given.parents):
        # Whatever is looked up in a view is taken for a selector.
        status = _json(folder / STATUS) if WHERE not in folder.parts else None
        if status is not None:
            return folder, status
    return None


def local_path(path: str) -> Path:
    """A path, or a `file:` URI as Spark knows it. Raises `WrongCall` for what is elsewhere."""
    if is_elsewhere(path):
        raise WrongCall(
            f"{path}: format journalfs reads directories that every worker sees under one path; "
            "journalfs.spark.live_messages reads stores elsewhere"
        )
    if path[: len(_FILE)].lower() != _FILE:
        return Path(kept_text(path)).absolute()
    # As Hadoop has it: nothing in it is an escape, a query or a fragment.
    rest = path[len(_FILE) :]
    if not rest.startswith("//"):
        return Path(rest).absolute()
    host, _, inside = rest[2:].partition("/")
    if host:
        raise WrongCall(f"{path}: {host!r} stands where a URI has a host; give file:///{host}/{inside}")
    return Path("/", inside)


def is_elsewhere(path: str) -> bool:
    """Whether only Hadoop gets there."""
    return _ELSEWHERE.match(path) is not None and database_named(path) is None


def _in_mount(root: Path, inside: Path, status: dict[str, object]) -> Place:
    store = Path(str(status.get("derivedAt", status["path"])))
    read_only = bool(status["readOnly"])
    names: Sequence[str] = inside.parts
    if len(names) > 2 or any(name.startswith((".", "_")) for name in names):
        raise WrongCall(f"{root / inside}: {_why_not(root, names)}")
    if not names:
        return Place(store, root, read_only=read_only)
    said = _json(root / inside / ".status")
    if said is None:
        raise WrongCall(f"{root / inside}: there is no such address or queue in this mount")
    queue = said.get("queue")
    return Place(store, root, str(said["address"]), None if queue is None else str(queue), read_only)


def _why_not(root: Path, names: Sequence[str]) -> str:
    """What to give instead of a path in a mount that is none of a store, an address or a queue."""
    if tuple(names[:2]) == SNAPSHOTS.parts:
        there = ", ".join(sorted(name for name in door.names(root / SNAPSHOTS) if name[:1] not in "._"))
        if len(names) == 2:
            return f"give one of the snapshots in it ({there or 'there is none'})"
        return f"there is no snapshot {names[2]!r} in this mount (it has {there or 'none'})"
    if WHERE in names:
        at = names.index(WHERE)
        selector = f" {names[at + 1]!r}" if len(names) > at + 1 else ""
        return (
            f"format journalfs reads no views; give {root.joinpath(*names[:at])}, and the selector{selector} "
            "as option 'selector' (--where of a pipeline)"
        )
    return "give a mount's root, an address's or a queue's directory"


def _json(path: Path) -> dict[str, object] | None:
    """What a small file of a mount says; None where there is none."""
    try:
        found: dict[str, object] = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="look whether it is a mount") from error
    return found
