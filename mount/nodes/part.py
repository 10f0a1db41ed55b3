"""The files of envelope lines in a view: sealed parts, the tail, and everything at once."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from pyfuse3 import EntryAttributes, SetattrFields

from journalfs.api import ByteSource, Part, View
from journalfs.ids import MessageId
from journalfs_mount.errnos import COMES_BACK, Refused, gone, refuse
from journalfs_mount.names.grammar import ALL_NAME, TAIL_NAME
from journalfs_mount.nodes.base import Directory, MountContext, Node, OpenedFile, Selection, move_messages
from journalfs_mount.nodes.view import ViewDirectory
from journalfs_mount.nodes.written import NOT_EMPTIED, Destination, WritingFile

_PART_IS_THERE: Final = (
    "a part of this name is there already, and parts do not change: write under a new name; all messages of "
    "a queue are copied by cp FROM/.all.jsonl TO/copy.jsonl"
)

EMPTIED: Final = f"all that it held is removed, and the name stays{COMES_BACK}"

_REMOVED_AS_ONE: Final = (
    "files of a selection or state are not removed one by one: rm DIR/.all.jsonl acknowledges all messages, "
    "rm DIR/.messages/ID.txt one"
)


def part_version(part: Part) -> bytes:
    """A part only ever loses lines, so its size tells each of its contents from every other, as long as the
    store's bytes stay what they were.
    """
    return b"%x.%x.%x" % (part.size_bytes, part.mtime_ns, part.edition)


class EnvelopesFile(Node):
    """The common base of files of envelopes: a change of such a file changes the messages in it."""

    __slots__ = ("_directory",)

    holds_many: ClassVar[bool] = True

    def __init__(self, context: MountContext, directory: ViewDirectory) -> None:
        super().__init__(context)
        self._directory = directory

    @property
    def selection(self) -> Selection | None:
        return self._directory.selection

    @property
    def steady(self) -> bool:
        return self._directory.steady

    def concerns(self, address_name: str) -> bool:
        return self._directory.concerns(address_name)

    async def remove(self) -> None:
        self._refuse_listed()
        store, queue = self.context.removing(), self._directory.queue_path()
        if self._directory.keeps_parts:
            await store.acknowledge_part(queue, self._name_in_store())
        else:
            await store.acknowledge(queue, self._message_ids())

    async def move(self, target: Directory, name: bytes) -> None:
        directory = self._directory
        part = self._name_in_store() if directory.keeps_parts else None
        await move_messages(self.context, directory.queue_path(), self._message_ids, target, part)

    def _refuse_listed(self) -> None:
        """Refuse to remove a listed file of a view that is not the queue's own: a program that deletes all
        that a directory lists, to fill it again, takes the directory for its own.
        """
        if not self._directory.keeps_parts and self._name_in_store() != ALL_NAME.decode():
            raise Refused(errno.EPERM, _REMOVED_AS_ONE)

    def _message_ids(self) -> Sequence[MessageId]:
        return self._directory.view().message_ids(self._name_in_store())

    @abstractmethod
    def _name_in_store(self) -> str:
        """The name by which the store knows the file."""


class PartFile(EnvelopesFile):
    """One content of one part.

    When a part loses messages its name leads to a new number, as if a file had been renamed over it. The
    kernel keeps pages by number: with one number for both contents, a reader that opened the old one and a
    reader of the new one would get each other's lines. So pages and attributes of a number may be kept for
    ever.
    """

    __slots__ = ("_part",)

    def __init__(self, context: MountContext, directory: ViewDirectory, part: Part) -> None:
        super().__init__(context, directory)
        self._part = part

    def _name_in_store(self) -> str:
        return self._part.name

    def attributes(self) -> EntryAttributes:
        caching, part = self.context.caching, self._part
        name_s, content_s = caching.passing_name_s, caching.content_attributes_s
        return self.shown(part.size_bytes, part.mtime_ns, name_s, content_s)

    def opens_alike(self) -> bool:
        """Whether it is opened again as it was, until something changes of which the store tells."""
        return self.steady and self.selection is None and self._directory.view().is_laid_out(self._part)

    def open(self) -> OpenedFile:
        view = self._directory.view()
        part = view.part(self._part.name)
        if part is None or part_version(part) != part_version(self._part):
            raise gone()
        source = view.open_part(part)
        now = view.part(part.name)
        if now is None or part_version(now) != part_version(part):
            # Found out while it was opened, and opened as it is now: that has another number.
            source.close()
            raise gone()
        return OpenedFile(self.inode, part.mtime_ns, source, direct_io=False, keep_cache=True)

    def open_to_write(self, flags: int) -> OpenedFile:
        raise Refused(errno.EPERM, _PART_IS_THERE)


class TailFile(EnvelopesFile):
    """`_tail.jsonl`, or the share of it that is listed under the name of its future part. Its content moves,
    so it is read past the kernel's cache.
    """

    __slots__ = ("_name",)

    def __init__(self, context: MountContext, directory: ViewDirectory, name: bytes = TAIL_NAME) -> None:
        super().__init__(context, directory)
        self._name = name

    def open_to_write(self, flags: int) -> OpenedFile:
        """Open for writing new messages, which appear in the tail first. So a copy of a queue's directory can
        be copied back as a whole.
        """
        if not self._directory.keeps_parts:
            return super().open_to_write(flags)
        address_name, queue_name = self._directory.queue_path()
        opened = Destination(address_name, queue_name).publish(self, self._name, flags)
        # Whether more than that is wanted shows when something is written: `cp` empties what it writes to.
        opened.empties = bool(flags & os.O_TRUNC and self._now().size_bytes)
        return opened

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        if not fields.update_size:
            # Without effect, as for any name that is written to: who copies a file sets them in the end.
            if not self._is_written_to():
                super().change_attributes(wanted, fields, opened)
        elif not isinstance(opened, WritingFile):
            super().change_attributes(wanted, fields, opened)
        else:
            if not wanted.st_size and not opened.size_bytes and self._now().size_bytes:
                raise Refused(errno.EPERM, NOT_EMPTIED)
            opened.truncate(wanted.st_size)

    def _is_written_to(self) -> bool:
        return self._directory.keeps_parts

    def holds_nothing(self) -> bool:
        return not self._now().size_bytes

    async def remove(self) -> None:
        self._refuse_became_part()
        held = not self.holds_nothing()
        if self._is_written_to() and not held:
            # It is gone until another of its name is made, or there is something in it.
            self.context.making_way[self._directory.queue_path()] = self._directory.view().all().messages
        await super().remove()
        if held and self._name in (TAIL_NAME, ALL_NAME):
            # A name that stays tells nobody that what he removed to replace it is gone.
            self.context.changing().emptied(self.path(), EMPTIED)

    async def move(self, target: Directory, name: bytes) -> None:
        self._refuse_became_part()
        await super().move(target, name)

    def _refuse_became_part(self) -> None:
        """Raise ENOENT for an empty tail whose messages are in a part now: a process that means these would
        believe them removed.
        """
        if self._name == TAIL_NAME and self.holds_nothing() and self._directory.view().parts():
            raise refuse(errno.ENOENT)

    def _name_in_store(self) -> str:
        return self._name.decode()

    def attributes(self) -> EntryAttributes:
        now = self._now()
        return self.shown(now.size_bytes, now.mtime_ns, self.context.caching.tail_s)

    def open(self) -> OpenedFile:
        if self._became() is not None:
            raise gone()  # a part since it was looked up, which has another number
        view, fixed = self._directory.view(), self.context.caching.tail_is_fixed
        source = self._content(view)
        return OpenedFile(self.inode, view.mtime_ns, source, direct_io=not fixed, keep_cache=fixed)

    def _content(self, view: View) -> ByteSource:
        return view.open_tail(self._name_in_store())

    def _now(self) -> Part:
        return self._became() or self._directory.view().tail(self._name_in_store())

    def _became(self) -> Part | None:
        """The part that has all of it by now."""
        if self._name == TAIL_NAME or self._directory.view().tail(self._name_in_store()).messages:
            return None
        return self._directory.became(self._name)


class AllFile(TailFile):
    """`.all.jsonl`: every message of the view in one read."""

    __slots__ = ()

    def __init__(self, context: MountContext, directory: ViewDirectory) -> None:
        super().__init__(context, directory, ALL_NAME)

    def _content(self, view: View) -> ByteSource:
        return view.open_all()

    def open_to_write(self, flags: int) -> OpenedFile:
        return Node.open_to_write(self, flags)

    def _is_written_to(self) -> bool:
        return False

    def _became(self) -> None:
        """Return None: this file never becomes a part."""

    def _now(self) -> Part:
        return self._directory.view().all()
