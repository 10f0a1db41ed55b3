"""The files of envelope lines in a view: sealed parts, the tail, and everything at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyfuse3 import EntryAttributes

from journalfs.store.api import Part
from journalfs_mount.context import MountContext
from journalfs_mount.errnos import gone
from journalfs_mount.nodes.base import Node, OpenedFile
from journalfs_mount.nodes.tail import TailSource

if TYPE_CHECKING:
    from journalfs_mount.nodes.view import ViewDirectory


def part_version(part: Part) -> bytes:
    """A part only ever loses lines, so its size tells each of its contents from every other."""
    return b"%x.%x" % (part.size_bytes, part.mtime_ns)


class PartFile(Node):
    """One content of one part.

    When a part loses messages its name leads to a new number, as if a file had been renamed over it. The
    kernel keeps pages by number: with one number for both contents, a reader that opened the old one and a
    reader of the new one would get each other's lines. So pages and attributes of a number may be kept for
    ever.
    """

    __slots__ = ("_directory", "_part")

    def __init__(self, context: MountContext, directory: ViewDirectory, part: Part) -> None:
        super().__init__(context)
        self._directory = directory
        self._part = part

    def attributes(self) -> EntryAttributes:
        return self.context.present.file(
            self.inode,
            size_bytes=self._part.size_bytes,
            mtime_ns=self._part.mtime_ns,
            name_s=self._directory.part_name_s(),
            attributes_s=self.context.caching.content_attributes_s,
        )

    def open(self) -> OpenedFile:
        view = self._directory.view()
        part = view.part(self._part.name)
        if part is None or part_version(part) != part_version(self._part):
            raise gone()
        return OpenedFile(self.inode, part.mtime_ns, view.open_part(part), direct_io=False, keep_cache=True)


class TailFile(Node):
    """`_tail.jsonl`. What it holds moves, so it is read past the kernel's cache."""

    __slots__ = ("_directory",)

    def __init__(self, context: MountContext, directory: ViewDirectory) -> None:
        super().__init__(context)
        self._directory = directory

    def attributes(self) -> EntryAttributes:
        lasting_s = self.context.caching.tail_s
        now = self._now()
        return self.context.present.file(
            self.inode,
            size_bytes=now.size_bytes,
            mtime_ns=now.mtime_ns,
            name_s=lasting_s,
            attributes_s=lasting_s,
        )

    def open(self) -> OpenedFile:
        fixed = self.context.caching.tail_is_fixed
        view = self._directory.view()
        source = view.open_tail() if fixed else TailSource(self._directory)
        return OpenedFile(self.inode, view.mtime_ns, source, direct_io=not fixed, keep_cache=fixed)

    def _now(self) -> Part:
        return self._directory.view().tail()


class AllFile(TailFile):
    """`.all.jsonl`: every message of the view in one read."""

    __slots__ = ()

    def open(self) -> OpenedFile:
        fixed = self.context.caching.tail_is_fixed
        view = self._directory.view()
        return OpenedFile(self.inode, view.mtime_ns, view.open_all(), direct_io=not fixed, keep_cache=fixed)

    def _now(self) -> Part:
        return self._directory.view().all()
