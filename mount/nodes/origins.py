"""`.by-origin/`, `.by-reason/` and `.redrive/`: where dead letters come from, why they are there, and the way
back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from journalfs.errors import NameRefused
from journalfs.store.api import Origins, QueuePath
from journalfs_mount.context import MountContext
from journalfs_mount.names import NameTable, encode_name
from journalfs_mount.nodes.base import Entry, Node
from journalfs_mount.nodes.view import ViewDirectory
from journalfs_mount.nodes.where import SelectionDirectory, SelectionsDirectory

_SEPARATOR = "::"


class OriginsDirectory(SelectionsDirectory):
    """What these have in common."""

    __slots__ = ()

    def find(self, name: bytes) -> Node | None:
        return None

    def _origins(self) -> Origins:
        return self._of.view().origins()

    def _selected(self, name: bytes, selector: Callable[[], str]) -> Node:
        make = partial(SelectionDirectory, self.context, self.inode, self._of, selector)
        return self.enter(name, make)


class ByOriginDirectory(OriginsDirectory):
    """`<address>::<queue>/`: the messages that were there before."""

    __slots__ = ("_long",)

    takes_long_names: ClassVar[bool] = True
    lists_ahead: ClassVar[bool] = True

    def __init__(self, context: MountContext, of: ViewDirectory) -> None:
        super().__init__(context, of)
        self._long = NameTable()

    async def list_ahead(self) -> None:
        await self._origins().find()

    def entries(self) -> Sequence[Entry]:
        places = self._origins().places()
        return [(self._name(place), partial(self._from, self._name(place), place)) for place in places]

    def _name(self, place: QueuePath) -> bytes:
        address, queue = (self._long.add(one) for one in place)
        return address + _SEPARATOR.encode() + queue

    def _from(self, name: bytes, place: QueuePath) -> Node:
        return self._selected(name, lambda: self._origins().selector_of_place(place))

    def find(self, name: bytes) -> Node | None:
        """Any origin is found, also one that nothing comes from; of long names those that were listed."""
        spelled = name.replace(encode_name(_SEPARATOR), _SEPARATOR.encode())
        address, separator, queue = spelled.partition(_SEPARATOR.encode())
        try:
            place = self._long.decode(address), self._long.decode(queue)
        except NameRefused:
            return None
        return self._from(spelled, place) if separator else None


class ByReasonDirectory(OriginsDirectory):
    """`expired/`, `max-deliveries/`, `moved/`, `sent/`: the messages that are there for that."""

    __slots__ = ()

    lists_ahead: ClassVar[bool] = True

    async def list_ahead(self) -> None:
        await self._origins().find()

    def entries(self) -> Sequence[Entry]:
        reasons = self._origins().reasons()
        return [(reason.encode(), partial(self._for, reason)) for reason in sorted(reasons)]

    def find(self, name: bytes) -> Node | None:
        reason = name.decode(errors="replace")
        return None if self._origins().selector_of_reason(reason) is None else self._for(reason)

    def _for(self, reason: str) -> Node:
        return self._selected(reason.encode(), lambda: self._origins().selector_of_reason(reason) or "FALSE")


class RedriveDirectory(OriginsDirectory):
    """Messages that are moved into it go back to the queues that they came from. It is always empty."""

    __slots__ = ()

    redrives: ClassVar[bool] = True
