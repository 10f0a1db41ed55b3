"""Directories of the store that names can be written in: the root, addresses and queues."""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from pyfuse3 import EntryAttributes, SetattrFields

from journalfs import door
from journalfs.api import Permissions
from journalfs.errors import JournalfsError
from journalfs_mount.errnos import COMES_BACK, Refused, bad_content
from journalfs_mount.front.hot_writes import MadeFile
from journalfs_mount.names.being_written import FOR_GOOD
from journalfs_mount.names.fates import Fate, fate_of, is_backup, is_temporary, packed_name
from journalfs_mount.names.grammar import SETTINGS_NAME, TAIL_NAME, is_reserved, is_tail_name
from journalfs_mount.nodes.base import WAS_REMOVED, Directory, Node, OpenedFile
from journalfs_mount.nodes.staged import ReceivingDirectory, Staged, StagedFolder
from journalfs_mount.nodes.staging import JOB_DIRECTORY, PlaceName, is_left, note_maker
from journalfs_mount.nodes.written import Destination, WritingFile, WrittenFile, made_file, written_file
from journalfs_mount.process.interruptions import RenamersPatience
from journalfs_mount.process.shares import ASKER

KEPT_BITS: Final = 0o1777
"""The bits of a mode that are kept."""

_SINK_LOG_REASON = (
    "a Spark file sink would make its log the only truth about this directory; "
    "write batches instead, from foreachBatch"
)

_NAME_IS_THERE = (
    "this name is there already, and messages do not change: publish new ones under a new name, and remove "
    "the old ones"
)
_PACKED = (
    "packed, the file would be one message, and removing it would acknowledge those in it: pack a copy of it "
    "elsewhere, as gzip < FILE > ELSEWHERE/FILE.gz does"
)
_IN_PLACE = (
    "settings are written in place and no other file takes their name: echo 'paused = true' > .settings "
    "changes one and leaves the others"
)
_NO_PARTITIONS = (
    "a queue has no partitions, so that each overwrite would add its messages to those of the one before: "
    "leave partitionBy out, or write to an address, where each partition is a queue"
)
_KEEP_NAMES = (
    "addresses and queues keep their names: make new ones with mkdir, move the messages from queue to queue "
    "with mv OLD/*.jsonl NEW/, and remove the old ones with rmdir"
)


class DestinationDirectory(ReceivingDirectory):
    """A directory in which files can be written: a plain name is published, other names are
    staged beside it.
    """

    __slots__ = ()

    @abstractmethod
    def place_name(self) -> PlaceName:
        """By which what is staged here is kept."""

    def destination(self) -> Destination | None:
        """Return where content written here is published; None: nowhere."""
        return None

    def permissions(self) -> Permissions | None:
        destination = self.destination()
        return (
            None
            if destination is None
            else self.context.permissions(destination.address_name, destination.queue_name)
        )

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        """Keep the permissions set for an address or queue. Times have no effect."""
        destination, now = self.destination(), self.permissions() or self.context.present.usual
        if destination is None:
            return
        given = Permissions(
            wanted.st_mode & KEPT_BITS if fields.update_mode else now.mode,
            wanted.st_uid if fields.update_uid else now.uid,
            wanted.st_gid if fields.update_gid else now.gid,
        )
        if given != now:
            self.context.kept_permissions.give(destination.address_name, destination.queue_name, given)

    def note_maker(self, destination: Destination) -> None:
        """Note that an address or queue was made: it belongs to its maker, unless that is root or the owner
        of the mount. Permissions of an earlier one of its name end, unless it is made again as it was.
        """
        context, address_name, queue_name = self.context, destination.address_name, destination.queue_name
        if context.changing().was_deleted(address_name, queue_name):
            return
        uid = context.present.made_by(0, ASKER.get()).uid
        if uid > 0:
            # As below a directory that gives its group on: those who share that share this.
            here = self.permissions() or context.present.usual
            made = Permissions(context.present.usual.mode, uid, here.gid)
            context.kept_permissions.give(address_name, queue_name, made)
        elif context.kept_permissions:
            context.kept_permissions.give(address_name, queue_name, None)

    def look(self, name: bytes) -> Node | None:
        shown = self.find(name)
        if shown is not None or self.context.read_only:
            return shown
        if name == JOB_DIRECTORY:
            self._drop_abandoned(name)
        return self._being_written(name) or self._staged().find(name)

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[Node, OpenedFile]:
        fate = self._fate(name)
        self._refuse_reserved(name, fate)
        self._refuse_packed(name)
        if fate is Fate.STAGED or (fate is Fate.PUBLISHED and is_temporary(flags, mode)):
            await self.context.staged_room.take_entries()
            return self._staged().create(name, flags, mode)
        destination = self._required_destination()
        self.context.refused_names.require_free((destination.address_name, destination.queue_name, name))
        node = written_file(self, destination, name, dropped=fate is Fate.DROPPED)
        try:
            return node, node.open_to_write(flags)
        except BaseException:
            self.context.nodes.drop_unused(node)
            raise

    def made(self, made: MadeFile) -> WritingFile:
        """Return the handle of a file that the front created here."""
        return made_file(self, self._required_destination(), made)

    async def make_directory(self, name: bytes, mode: int) -> Node:
        fate = fate_of(name)
        self._refuse_reserved(name, fate)
        if fate is Fate.PUBLISHED:
            return await self._make_shown(name)
        await self.context.staged_room.take_entries()
        made = self._staged().make_directory(name, mode)
        if name == JOB_DIRECTORY:
            note_maker(made.real_path(), ASKER.get().thread)
        return made

    async def receive(self, staged: Staged, name: bytes) -> None:
        fate = self._fate(name)
        if staged.is_partition() and fate is Fate.PUBLISHED:
            raise Refused(errno.EPERM, _NO_PARTITIONS)
        # `rsync` gives the tail its name from one with a dot; `sed -i` from one without would add all anew.
        copied = is_tail_name(name) and is_reserved(staged.name)
        if fate is Fate.PUBLISHED and not copied and self.find(name) is not None:
            raise Refused(errno.EPERM, _NAME_IS_THERE)
        self._refuse_reserved(name, fate)
        if fate is Fate.STAGED:
            self._staged().adopt(staged, name)
        elif fate is Fate.DROPPED:
            staged.discard()
        else:
            await self.publish(staged, name)

    async def move(self, target: Directory, name: bytes) -> None:
        raise Refused(errno.EPERM, _KEEP_NAMES if self.context.brings_back is None else WAS_REMOVED)

    def _drop_abandoned(self, name: bytes) -> None:
        """Forget what the tasks of a job wrote whose process has ended without it."""
        path = self._staged().path_of(name)
        if is_left(path) and not self.context.is_publishing_below(path):
            self.context.staging().discard(path)

    def _fate(self, name: bytes) -> Fate:
        """New messages are shown in a queue's tail first, so what is written to it is that. In this way the
        copy of a queue's directory can be copied back.
        """
        if is_tail_name(name) and (name != TAIL_NAME or self.receiving_queue() is not None):
            return Fate.PUBLISHED
        return Fate.STAGED if is_backup(name) else fate_of(name)

    def discard_staged(self) -> None:
        self.context.staging().discard_place(self.place_name())

    async def _make_shown(self, name: bytes) -> Node:
        """A directory with a plain name."""
        raise Refused(errno.EPERM, f"a queue holds messages and no directories{COMES_BACK}")

    async def publish(self, staged: Staged, name: bytes) -> None:
        """Publish staged content here as messages; `name` decides the framing of a file."""
        destination, context = self._required_destination(), self.context
        context.rights.require(targets=[(destination.address_name, destination.queue_name)])
        with staged.being_published():
            staged.require_readable()
            files = staged.files(name)
            if files:
                patience = RenamersPatience(context.interruptions)
                try:
                    with bad_content():
                        await context.changing().publish_files(
                            destination.address_name, destination.queue_name, files, patience
                        )
                except (Refused, JournalfsError) as error:
                    if error.errno in FOR_GOOD and staged.is_within():
                        key = destination.address_name, destination.queue_name, name
                        context.refused_names.add(key, staged.real_path(), staged.number, error.errno)
                    raise
            staged.end_writing()
            left_out = staged.left_out(files)
            if left_out:
                self.context.changing().set_aside(staged.path(), left_out)
            staged.discard_published()

    def _required_destination(self) -> Destination:
        destination = self.destination()
        if destination is None:
            raise Refused(errno.EPERM, "messages are written into the directory of an address or a queue")
        return destination

    def given(self, name: bytes) -> Node:
        """Return the node of a name that a rename gave: it can be written to at once, as any other name."""
        destination = self.destination()
        if destination is None:
            return super().given(name)
        return written_file(self, destination, name, dropped=fate_of(name) is Fate.DROPPED)

    def _being_written(self, name: bytes) -> WrittenFile | None:
        destination = self.destination()
        if destination is None:
            return None
        if self.context.written.find((destination.address_name, destination.queue_name, name)) is None:
            return None
        return written_file(self, destination, name, dropped=fate_of(name) is Fate.DROPPED)

    def _staged(self) -> StagedFolder:
        return StagedFolder(self.context, self._staging_path, self.inode)

    def staged_names(self) -> Sequence[str]:
        """Return the names of everything staged here, whoever may see it."""
        return door.names_if_there(self._staging_path())

    def _staging_path(self) -> bytes:
        return self.context.staging().folder(self.place_name())

    def _refuse_packed(self, name: bytes) -> None:
        packed = packed_name(name)
        of = self.find(packed) if packed is not None else None
        if of is not None and not isinstance(of, Directory):
            raise Refused(errno.EPERM, _PACKED)

    @staticmethod
    def _refuse_reserved(name: bytes, fate: Fate) -> None:
        if fate is Fate.VIEW:
            raise Refused(
                errno.EPERM,
                _IN_PLACE if name == SETTINGS_NAME else f"this name is that of a view{COMES_BACK}",
            )
        if fate is Fate.SINK_LOG:
            raise Refused(errno.EPERM, _SINK_LOG_REASON)
