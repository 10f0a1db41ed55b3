"""The folder of one transaction that was begun and has not ended, `journalfs/staging/transactions/NAME`.

`staged` holds what it is to publish, as the mount laid it out; `holds.jsonl` says, a line each, who it is and
which messages it holds. A line counts once its newline is durable. A folder whose name begins with a dot is
being made, or has ended.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from journalfs import door
from journalfs.engine.links import append, write_durably
from journalfs.errors import NameTaken
from journalfs.store.api import QueuePath
from journalfs.store.snapshot_folder import decoded_name, encoded_name, folder_name

TRANSACTIONS: Final = "transactions"
STAGED: Final = "staged"
HOLDS: Final = "holds.jsonl"
_MAKING: Final = ".making-"
_ENDED: Final = ".ended-"

Way: TypeAlias = tuple[QueuePath, QueuePath | None]
"""The queue that messages are in, and the one that they go to; None: they are acknowledged."""


_Int64 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Begun(msgspec.Struct, frozen=True, tag="begun", tag_field="what"):
    transaction: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    """Of no other: the journal knows by it whether this one was committed."""
    name: str
    begun_ms: _Int64


class Holds(msgspec.Struct, frozen=True, tag="hold", tag_field="what", omit_defaults=True):
    """`ended`: it holds them no more."""

    source: tuple[str, str]
    ids: list[_Int64]
    target: tuple[str, str] | None = None
    ended: bool = False


_decode = msgspec.json.Decoder(Begun | Holds).decode


@dataclass(slots=True)
class DraftFolder:
    path: Path
    transaction: str
    name: str
    begun_ms: int
    sync: bool
    held: dict[Way, dict[int, None]] = field(default_factory=dict)
    """What it said when it was read: ids in their order."""

    @property
    def staged(self) -> Path:
        return self.path / STAGED

    @classmethod
    def make(cls, place: Path, name: str, begun_ms: int, *, sync: bool) -> DraftFolder:
        """Durable on return. Raises OSError and `NameTaken`."""
        path, transaction = place / folder_name(name), secrets.token_hex(16)
        if door.exists(path):
            raise NameTaken(f"there is a transaction {name}")
        making = place / (_MAKING + transaction)
        door.make_folders(making / STAGED)
        write_durably(making / HOLDS, _line(Begun(transaction, encoded_name(name), begun_ms)))
        door.rename(making, path)
        folder = cls(path, transaction, name, begun_ms, sync)
        folder._sync_place()
        return folder

    @classmethod
    def read(cls, path: Path, begun_ms: int, *, sync: bool) -> DraftFolder:
        """One that may be of a process that was killed: half a line at the end was never answered. Raises
        OSError, and ValueError for a line that is damaged.
        """
        content = door.read(path / HOLDS)
        whole = content[: content.rfind(b"\n") + 1]
        try:
            begun, *lines = [_decode(line) for line in whole.split(b"\n")[:-1] or [b""]]
        except RecursionError as error:
            raise ValueError(f"{error}") from None
        if not isinstance(begun, Begun) or folder_name(decoded_name(begun.name)) != path.name:
            raise ValueError("the first line does not say which transaction this is")
        folder = cls(path, begun.transaction, decoded_name(begun.name), begun.begun_ms or begun_ms, sync)
        if len(whole) != len(content):
            door.truncate(path / HOLDS, len(whole))
        for line in lines:
            if isinstance(line, Holds):
                ids = folder.held.setdefault((_path(line.source), line.target and _path(line.target)), {})
                for one in line.ids:
                    if line.ended:
                        ids.pop(one, None)
                    else:
                        ids[one] = None
        return folder

    def note(self, way: Way, ids: array[int], *, ended: bool = False) -> None:
        """That messages are held, or no more: durable on return. Raises OSError, and then it is not noted."""
        source, target = way
        line = _line(Holds(_encoded(source), list(ids), target and _encoded(target), ended))
        append(self.path / HOLDS, line, sync=self.sync)

    def end(self) -> Path:
        """Nobody finds it any more, whatever happens. Returns where it is, to be removed. Raises OSError."""
        ended = self.path.with_name(_ENDED + self.transaction)
        door.rename(self.path, ended)
        self._sync_place()
        return ended

    def _sync_place(self) -> None:
        if self.sync:
            door.sync(self.path.parent)


def folders_in(place: Path) -> Iterator[Path]:
    """Of transactions that have not ended; what is left of others is removed. Raises OSError."""
    for name in sorted(door.names_if_there(place)):
        if name.startswith((_MAKING, _ENDED)):
            door.remove_tree(place / name)
        elif door.is_folder(place / name):
            yield place / name


def _encoded(path: QueuePath) -> tuple[str, str]:
    return encoded_name(path[0]), encoded_name(path[1])


def _path(encoded: tuple[str, str]) -> QueuePath:
    return decoded_name(encoded[0]), decoded_name(encoded[1])


def _line(what: Begun | Holds) -> bytes:
    return msgspec.json.encode(what) + b"\n"
