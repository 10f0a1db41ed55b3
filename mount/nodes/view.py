"""A directory that shows a view: a queue, the messages in one of its states, or what a selector leaves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from journalfs.api import Part, Queue, QueuePath, View
from journalfs_mount.names.grammar import format_part_name, parse_part_name
from journalfs_mount.nodes.base import Directory, MountContext, Selection


class ViewDirectory(Directory):
    """The view's directory as far as its files and directories need it."""

    __slots__ = ("address_name",)

    holds_many: ClassVar[bool] = True
    keeps_parts: ClassVar[bool] = False
    """True for a queue's own parts, which the store knows by name."""

    def __init__(self, context: MountContext, parent_inode: int, address_name: str) -> None:
        super().__init__(context, parent_inode)
        self.address_name = address_name

    @property
    def selection(self) -> Selection | None:
        return self if self.context.store.measures else None

    def is_found(self) -> bool:
        return self.view().is_found()

    async def find_out(self) -> None:
        await self.view().find()

    @abstractmethod
    def view(self) -> View:
        """The view as the store has it now. ESTALE when its queue went."""

    @abstractmethod
    def queue_directory(self) -> Directory:
        """The directory of the queue that the view is of."""

    @abstractmethod
    def queue_path(self) -> QueuePath:
        """Names of the queue's address and of the queue."""

    def selectors(self) -> Sequence[str] | None:
        """The selectors that a message of the queue must satisfy to be in the view; None for views that are
        no selection of a queue, which have no streams.
        """
        return None

    def queue(self) -> Queue:
        return self.context.queue(*self.queue_path())

    def mtime_ns(self) -> int:
        return self.view().mtime_ns

    def concerns(self, address_name: str) -> bool:
        return self.address_name == address_name

    def became(self, name: bytes) -> Part | None:
        """The part of this name, or that what was listed as a tail by it became."""
        part = parse_part_name(name)
        return (
            None
            if part is None
            else self.view().part(format_part_name(replace(part, is_tail=False)).decode())
        )
