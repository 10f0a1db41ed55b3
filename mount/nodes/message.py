"""`.messages/`: one file for each message, listed in delivery order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pyfuse3 import EntryAttributes, FileNameT, FUSEError, ReaddirToken, readdir_reply

from journalfs.api import Listing, Memory, Message, Permissions, QueuePath, View, memory_of
from journalfs.ids import Inode, MessageId
from journalfs_mount.errnos import gone, no_such_name
from journalfs_mount.names.grammar import MESSAGES_DIRECTORY, encode_name, parse_message_name
from journalfs_mount.nodes import base
from journalfs_mount.nodes.inodes import message_inode, message_of
from journalfs_mount.nodes.view import ViewDirectory

_OF_QUEUES: Final = frozenset({"user.journalfs.deliveryCount", "user.journalfs.scheduledTime"})
"""Attributes of a message that a queue gives it, and that may be taken away: then they are 0."""


class MessageFile(base.Node):
    """A message's body: the same file in the queue and in every view that holds the message.

    An object of this class lives for one request, unless the message's number is kept in the table.
    """

    __slots__ = ("_address_name", "_message_id", "_queue_name", "at_hand")

    at_hand: Message | None
    """The message as the lookup found it, for the attributes that follow in the same request. Used once."""

    def __init__(
        self, context: base.MountContext, address_name: str, queue_name: str, message_id: MessageId
    ) -> None:
        super().__init__(context)
        self._address_name = address_name
        self._queue_name = queue_name
        self._message_id = message_id
        self.at_hand = None

    @classmethod
    def of_inode(cls, context: base.MountContext, inode: Inode) -> MessageFile:
        """Take a message's number apart. ESTALE when it was not given out by this mount."""
        slot, message_id = message_of(inode)
        node = cls(*context.queue_of_slot(slot), message_id)
        node.inode, node.key, node.lookups = inode, b"", 0
        return node

    @property
    def steady(self) -> bool:
        return self.context.brings_back is None

    def attributes(self) -> EntryAttributes:
        message = self.at_hand or self._message()
        self.at_hand = None
        caching = self.context.caching
        name_s, content_s = caching.passing_name_s, caching.content_attributes_s
        return self.shown(message.size_bytes, message.mtime_ns, name_s, content_s)

    def permissions(self) -> Permissions | None:
        return self.context.permissions(self._address_name, self._queue_name)

    def extended_attributes(self) -> Mapping[str, bytes]:
        return self._message().attributes()

    async def set_extended(self, name: str, value: bytes) -> None:
        queue = self._address_name, self._queue_name
        self.context.rights.require(leaves=[queue])
        await self.context.setting().set_message_attribute(queue, self._message_id, name, value)

    async def remove_extended(self, name: str) -> None:
        if name not in _OF_QUEUES:
            await super().remove_extended(name)
        await self.set_extended(name, b"0")

    def concerns(self, address_name: str) -> bool:
        return self._address_name == address_name

    def path(self) -> str:
        try:
            name = self._message().name
        except FUSEError:
            name = b"%d" % self._message_id  # what its suffix was went with it
        place = (encode_name(self._address_name), encode_name(self._queue_name), MESSAGES_DIRECTORY, name)
        return b"/".join(place).decode(errors="replace")

    async def remove(self) -> None:
        store = self.context.removing()
        if not await store.acknowledge((self._address_name, self._queue_name), [self._message_id]):
            raise no_such_name()

    async def move(self, target: base.Directory, name: bytes) -> None:
        source = self._address_name, self._queue_name
        if not await base.move_messages(self.context, source, lambda: [self._message_id], target):
            raise no_such_name()

    def open(self) -> base.OpenedFile:
        message = self._message()
        # Its number stays. Where its bytes may not have, the kernel drops its pages when it opens it.
        kept = message.edition == 0
        return base.OpenedFile(self.inode, message.mtime_ns, message.open(), direct_io=False, keep_cache=kept)

    def _message(self) -> Message:
        queue = self.context.queue(self._address_name, self._queue_name)
        # A message that is not yet due, or that a prepared transaction holds, is not among the queue's own.
        views: Sequence[Callable[[], View]] = (lambda: queue, queue.scheduled, queue.delivering)
        for view in views:
            message = view().message(self._message_id)
            if message is not None:
                return message
        raise gone()


class MessagesDirectory(base.Directory):
    """The messages of one view."""

    __slots__ = ("_view_directory",)

    def __init__(self, context: base.MountContext, parent: ViewDirectory) -> None:
        super().__init__(context, parent.inode)
        self._view_directory = parent

    @property
    def selection(self) -> base.Selection | None:
        return self._view_directory.selection

    @property
    def steady(self) -> bool:
        return self._view_directory.steady

    def mtime_ns(self) -> int:
        return self._view_directory.mtime_ns()

    async def before_losing(self) -> None:
        await self._view_directory.before_losing()

    def concerns(self, address_name: str) -> bool:
        return self._view_directory.concerns(address_name)

    def find(self, name: bytes) -> base.Node | None:
        parsed = parse_message_name(name)
        if parsed is None:
            return None
        message_id, _ = parsed
        message = self._view_directory.view().message(message_id)
        if message is None or message.name != name:
            return None
        node = self.message_node(message_id)
        node.at_hand = message
        return node

    def receiving_queue(self) -> QueuePath | None:
        return self._view_directory.receiving_queue()

    def entries(self) -> Sequence[base.Entry]:
        listing = self._view_directory.view().listing()
        ids = ((listing.name(place), listing.message_id(place)) for place in range(len(listing)))
        return [(name, partial(self.message_node, message_id)) for name, message_id in ids]

    def snapshot(self) -> base.FrozenEntries:
        return MessageSnapshot(self, self._view_directory.view().listing(), self.slot())

    def left_count(self) -> int:
        """As of when names in it are there; -1 where they go with more than their messages."""
        return self.context.believed.left_count if self._view_directory.keeps_parts else -1

    def slot(self) -> int:
        """The queue's slot; from here on its messages' numbers can be taken apart."""
        return self.context.slot_of(self._view_directory.queue(), self._view_directory.address_name)

    def message_node(self, message_id: MessageId) -> MessageFile:
        directory = self._view_directory
        inode = message_inode(self.slot(), message_id)
        if inode is not None:
            return MessageFile.of_inode(self.context, inode)
        # One number for all views of the queue, hence the key below the queue and not below this directory.
        queue_node = directory.queue_directory()
        make = partial(MessageFile, self.context, *directory.queue_path(), message_id)
        node = queue_node.enter(b"%d" % message_id, make, b"message")
        assert isinstance(node, MessageFile)
        return node


class MessageSnapshot:
    """A listing without an object for any message: numbers, sizes and times come from the view's arrays."""

    __slots__ = ("_directory", "_left_count", "_listing", "_slot")

    def __init__(self, directory: MessagesDirectory, listing: Listing, slot: int) -> None:
        self._directory = directory
        self._listing = listing
        self._slot = slot
        self._left_count = directory.left_count()

    @property
    def memory(self) -> Memory:
        return memory_of(self._listing)

    def reply(self, token: ReaddirToken, start: int) -> None:
        directory, listing = self._directory, self._listing
        if not base.reply_dots(directory, token, start):
            return
        present, nodes = directory.context.present.file, directory.context.nodes
        caching, given = directory.context.caching, directory.permissions()
        name_s = caching.listed_message_s or directory.context.believed.name_s(self._left_count)
        for place in range(max(start - base.DOTS, 0), len(listing)):
            message_id = listing.message_id(place)
            inode = message_inode(self._slot, message_id)
            kept = None
            if inode is None:
                kept = directory.message_node(message_id)
                inode = kept.inode
            entry = present(
                inode,
                size_bytes=listing.size_bytes(place),
                mtime_ns=listing.mtime_ns(place),
                name_s=name_s,
                attributes_s=caching.content_attributes_s,
                given=given,
            )
            taken = readdir_reply(token, FileNameT(listing.name(place)), entry, place + base.DOTS + 1)
            if kept is not None:
                kept.lookups += taken
                nodes.drop_unused(kept)
            if not taken:
                return
