"""Queues, and directories that show messages as a queue does: messages in one state, the selection of a JMS
selector, and dead letters by their origin.

All of them offer the same names. Only parts and tails are listed, which together hold every message once:
`grep -r` and `cp -r` must neither read a message twice nor follow names that only exist when asked for.

`.where/<selector>/`: its name is the selector itself, percent-decoded: `/` must be written `%2F` and `%` as
`%25`. `.by-origin/`, `.by-reason/` and `.redrive/`: where dead letters come from, why, and the way back.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final
from urllib.parse import unquote_to_bytes

from journalfs.api import Origins, Part, Queue, QueuePath, View
from journalfs.errors import NameRefused, SelectorError
from journalfs.ids import MessageId
from journalfs.views.unset_names import find_unset_names, refuse_unset_names
from journalfs_mount.errnos import refuse
from journalfs_mount.names import grammar
from journalfs_mount.nodes import base
from journalfs_mount.nodes.destination import DestinationDirectory
from journalfs_mount.nodes.message import MessagesDirectory
from journalfs_mount.nodes.part import AllFile, PartFile, TailFile, part_version
from journalfs_mount.nodes.report import RenderedFile, json_text
from journalfs_mount.nodes.settings import SettingsFile
from journalfs_mount.nodes.staging import PlaceName
from journalfs_mount.nodes.stream import FollowFile, StreamFile
from journalfs_mount.nodes.view import ViewDirectory
from journalfs_mount.nodes.virtual import VirtualFileNode
from journalfs_mount.nodes.worker import TakeFile
from journalfs_mount.nodes.written import Destination

_STREAMS: dict[bytes, type[StreamFile]] = {grammar.FOLLOW_NAME: FollowFile, grammar.TAKE_NAME: TakeFile}
_STATES: dict[bytes, Callable[[Queue], View]] = {
    grammar.SCHEDULED_DIRECTORY: lambda queue: queue.scheduled(),
    grammar.DELIVERING_DIRECTORY: lambda queue: queue.delivering(),
    grammar.FAILED_DIRECTORY: lambda queue: queue.failed(),
    grammar.EXPIRED_DIRECTORY: lambda queue: queue.expired(),
}
_FIXED_NAMES: dict[type[base.Directory], frozenset[bytes]] = {}
_SEPARATOR: Final = "::"
_BARE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
"""Taken for itself it would be another one's beginning as soon as two digits follow it."""

log = logging.getLogger("journalfs.mount")


class ShownView(ViewDirectory):
    """A directory that shows the parts, tails and hidden names of a view."""

    __slots__ = ()

    async def move(self, target: base.Directory, name: bytes) -> None:
        """All that is in it goes back to where it came from."""
        if not target.redrives:
            await super().move(target, name)

        def ids() -> Sequence[MessageId]:
            return self.view().message_ids(grammar.ALL_NAME.decode())

        await base.move_messages(self.context, self.queue_path(), ids, target)

    def find(self, name: bytes) -> base.Node | None:
        if (part := grammar.parse_part_name(name)) is not None:
            tail = self._tail(name) if part.is_tail else None
            became = self.became(name) if tail is None else None
            return tail if became is None else self._part(became)
        if name in _STREAMS and self.selectors() is not None and not self.context.fixed:
            return self.enter(name, partial(_STREAMS[name], self.context, self))
        if name not in self._fixed_names():
            return None
        return self.enter(name, self.named_children()[name])

    def _fixed_names(self) -> frozenset[bytes]:
        """The keys of `named_children`, which are the same for all directories of a class. Most names looked
        up are none of them: Spark asks for a checksum file beside every part.
        """
        kind = type(self)
        if kind not in _FIXED_NAMES:
            _FIXED_NAMES[kind] = frozenset(self.named_children())
        return _FIXED_NAMES[kind]

    def named_children(self) -> Mapping[bytes, Callable[[], base.Node]]:
        """Fixed names: the tail, and what is reached by name but never listed."""
        return {
            grammar.TAIL_NAME: partial(TailFile, self.context, self),
            grammar.ALL_NAME: partial(AllFile, self.context, self),
            grammar.MESSAGES_DIRECTORY: partial(MessagesDirectory, self.context, self),
            grammar.WHERE_DIRECTORY: partial(WhereDirectory, self.context, self),
            grammar.BY_ORIGIN_DIRECTORY: partial(ByOriginDirectory, self.context, self),
            grammar.BY_REASON_DIRECTORY: partial(ByReasonDirectory, self.context, self),
            grammar.REDRIVE_DIRECTORY: partial(RedriveDirectory, self.context, self),
        }

    def entries(self) -> Sequence[base.Entry]:
        """In the order of arrival. An empty tail is listed only where `*.jsonl` would find nothing else."""
        view = self.view()
        tails = [tail.name.encode() for tail in view.tails()]
        parts: list[base.Entry] = [(part.name.encode(), partial(self._part, part)) for part in view.parts()]
        return [*parts, *((name, partial(self._shown_as, name)) for name in tails)]

    def _shown_as(self, name: bytes) -> base.Node:
        """Return the current node of a name that was listed as a tail."""
        return self.find(name) or self._tail_file(name)

    def _tail(self, name: bytes) -> base.Node | None:
        """Return the tail listed under this name; None if its messages are in a part."""
        is_there = any(tail.name.encode() == name for tail in self.view().tails())
        return self._tail_file(name) if is_there else None

    def _tail_file(self, name: bytes) -> base.Node:
        return self.enter(name, partial(TailFile, self.context, self, name))

    def _part(self, part: Part) -> base.Node:
        make = partial(PartFile, self.context, self, part)
        return self.enter(part.name.encode(), make, part_version(part))


class QueueDirectory(DestinationDirectory, ShownView):
    """A queue."""

    __slots__ = ("queue_name",)

    keeps_parts: ClassVar[bool] = True

    def __init__(
        self, context: base.MountContext, parent_inode: int, address_name: str, queue_name: str
    ) -> None:
        super().__init__(context, parent_inode, address_name)
        self.queue_name = queue_name

    @property
    def steady(self) -> bool:
        return self.context.brings_back is None

    def lacks_plain_names(self) -> bool:
        """Whether there is no name but those of parts and those that are reserved."""
        return self.context.read_only or not (self.context.written or self.staged_names())

    def place_name(self) -> PlaceName:
        return grammar.encode_name(self.address_name), grammar.encode_name(self.queue_name)

    def destination(self) -> Destination:
        return Destination(self.address_name, self.queue_name)

    def queue_path(self) -> QueuePath:
        return self.address_name, self.queue_name

    def receiving_queue(self) -> QueuePath:
        return self.queue_path()

    def find(self, name: bytes) -> base.Node | None:
        return None if grammar.is_tail_name(name) and self._lacks_tail() else super().find(name)

    def entries(self) -> Sequence[base.Entry]:
        entries = super().entries()
        return [one for one in entries if not grammar.is_tail_name(one[0])] if self._lacks_tail() else entries

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[base.Node, base.OpenedFile]:
        created = await super().create(name, flags, mode)
        if grammar.is_tail_name(name):
            self._has_tail()
        return created

    def _lacks_tail(self) -> bool:
        """True for a queue that was just made and never held a message, since a copy of a queue's directory
        expects the new one to be empty. Also true where an empty tail was removed.
        """
        context, path = self.context, self.receiving_queue()
        if path not in context.without_tail and path not in context.making_way:
            return False
        queue = self.queue()
        is_as_made = context.without_tail.get(path) == queue.content_version
        makes_way = len(queue) <= context.making_way.get(path, -1)
        if (is_as_made or makes_way) and not queue.tail().size_bytes:
            return True
        self._has_tail()
        return False

    def _has_tail(self) -> None:
        self.context.without_tail.pop(self.receiving_queue(), None)
        self.context.making_way.pop(self.receiving_queue(), None)

    async def set_extended(self, name: str, value: bytes) -> None:
        self.context.require_settable(self.address_name, self.queue_name)
        await self.context.setting().set_attribute(self.address_name, self.queue_name, name, value)

    async def remove_extended(self, name: str) -> None:
        self.context.require_settable(self.address_name, self.queue_name)
        await self.context.setting().remove_attribute(self.address_name, self.queue_name, name)

    async def remove_directory(self) -> None:
        await self.context.removing().delete_queue(self.address_name, self.queue_name)
        self.discard_staged()

    def view(self) -> View:
        return self.queue()

    def queue_directory(self) -> QueueDirectory:
        return self

    def selectors(self) -> Sequence[str]:
        return ()

    def extended_attributes(self) -> Mapping[str, bytes]:
        return self.queue().attributes()

    def named_children(self) -> Mapping[bytes, Callable[[], base.Node]]:
        return {
            **super().named_children(),
            **{name: partial(StateDirectory, self.context, self, state) for name, state in _STATES.items()},
            grammar.STATUS_NAME: partial(VirtualFileNode, self.context, self._status, self.address_name),
            grammar.SETTINGS_NAME: partial(
                SettingsFile, self.context, self._settings, self.address_name, self.queue_name
            ),
        }

    def _status(self) -> RenderedFile:
        return RenderedFile(lambda: json_text(self.queue().status()), self.mtime_ns)

    def _settings(self) -> RenderedFile:
        return RenderedFile(lambda: self.queue().settings_toml().encode(), self.mtime_ns)


class StateDirectory(ShownView):
    """The messages of a queue that are in one state: `.scheduled`, `.delivering`, `.failed`, `.expired`."""

    def __init__(
        self, context: base.MountContext, queue_directory: QueueDirectory, state: Callable[[Queue], View]
    ) -> None:
        super().__init__(context, queue_directory.inode, queue_directory.address_name)
        self._queue_directory = queue_directory
        self._state = state

    def view(self) -> View:
        return self._state(self._queue_directory.queue())

    def queue_directory(self) -> QueueDirectory:
        return self._queue_directory

    def queue_path(self) -> QueuePath:
        return self._queue_directory.queue_path()


# ---- selections ------------------------------------------------------------------------------------------


class SelectionsDirectory(base.Directory):
    """A directory without entries, in which each name is a selection of a view."""

    asks: ClassVar[bool] = True

    def __init__(self, context: base.MountContext, of: ViewDirectory) -> None:
        super().__init__(context, of.inode)
        self._of = of

    @property
    def selection(self) -> base.Selection | None:
        return self._of.selection

    def mtime_ns(self) -> int:
        return self._of.mtime_ns()

    def concerns(self, address_name: str) -> bool:
        return self._of.concerns(address_name)


class WhereDirectory(SelectionsDirectory):
    """Every selector is a name in it."""

    takes_long_names: ClassVar[bool] = True

    async def look_ahead(self, name: bytes) -> None:
        """A selector that is new is read in a thread: that takes tens of milliseconds."""
        selector = self._selector(name)
        try:
            await self._of.view().understand(selector)
        except SelectorError as error:
            raise self._refused(name, str(error)) from None

    def _selector(self, name: bytes) -> str:
        if _BARE.search(name):
            raise self._refused(name, "a % of the selector is to be written %25, and a / %2F")
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            raise self._refused(name, "the selector is not valid UTF-8") from None

    def find(self, name: bytes) -> base.Node | None:
        """EINVAL for what is no selector: ENOENT would say that there are no such messages."""
        selector = self._selector(name)
        node = self.enter(
            name, partial(SelectionDirectory, self.context, self.inode, self._of, lambda: selector)
        )
        assert isinstance(node, SelectionDirectory)
        try:
            node.view()
        except SelectorError as error:
            self.context.nodes.drop_unused(node)
            raise self._refused(name, str(error)) from None
        return node

    def _refused(self, name: bytes, reason: str) -> Exception:
        log.warning("%s", reason)
        if self.context.report.refused(name.decode(errors="replace"), reason):
            self.context.tell_refused(f"{self.path()}/{os.fsdecode(name)}", errno.EINVAL, reason)
        return refuse(errno.EINVAL)


class SelectionDirectory(ShownView):
    """The selection of one selector. It has a `.where` of its own, which narrows it further."""

    def __init__(
        self, context: base.MountContext, parent_inode: int, of: ViewDirectory, selector: Callable[[], str]
    ) -> None:
        super().__init__(context, parent_inode, of.address_name)
        self._of = of
        self._selector = selector

    @property
    def selection(self) -> base.Selection | None:
        return self

    def view(self) -> View:
        return self._of.view().where(self._selector())

    def queue_directory(self) -> base.Directory:
        return self._of.queue_directory()

    def queue_path(self) -> QueuePath:
        return self._of.queue_path()

    async def before_losing(self) -> None:
        await self._of.before_losing()
        await refuse_unset_names(self._of.view(), self._selector())

    async def move(self, target: base.Directory, name: bytes) -> None:
        await self.before_losing()
        await super().move(target, name)

    def selectors(self) -> Sequence[str] | None:
        of = self._of.selectors()
        return None if of is None else (*of, self._selector())

    def extended_attributes(self) -> Mapping[str, bytes]:
        return {"user.journalfs.selector": self._selector().encode()}

    async def find_out(self) -> None:
        """And tell, once, of a selector that compares two names which no message has: it chooses all messages
        or none, and nobody who lists them is refused anything.
        """
        await super().find_out()
        view, selector = self._of.view(), self._selector()
        pair = await find_unset_names(view, selector)
        if pair is not None:
            self.context.warn_once(self.queue_path(), selector, pair)

    def named_children(self) -> Mapping[bytes, Callable[[], base.Node]]:
        status = partial(SelectionStatus, self.context, self._status, self.address_name, self)
        return {**super().named_children(), grammar.STATUS_NAME: status}

    def _status(self) -> RenderedFile:
        return RenderedFile(lambda: json_text(self._facts()), self.mtime_ns)

    def _facts(self) -> Mapping[str, object]:
        view, (address, queue) = self.view(), self.queue_path()
        files = [*view.parts(), *view.tails()]
        return {
            "address": address,
            "queue": queue,
            "selector": self._selector(),
            "messages": len(view),
            "lineBytes": sum(one.size_bytes for one in files),
        }


class SelectionStatus(VirtualFileNode):
    """`.status` of a selection: how many messages it has."""

    def __init__(
        self,
        context: base.MountContext,
        find: Callable[[], RenderedFile],
        address_name: str,
        of: SelectionDirectory,
    ) -> None:
        super().__init__(context, find, address_name)
        self._of = of

    @property
    def selection(self) -> base.Selection | None:
        return self._of


class OriginsDirectory(SelectionsDirectory):
    """The common base of directories that sort messages by origin or reason."""

    lists_ahead: ClassVar[bool] = True

    async def list_ahead(self) -> None:
        await self._origins().find()

    def _origins(self) -> Origins:
        return self._of.view().origins()

    def _selected(self, name: bytes, selector: Callable[[], str]) -> base.Node:
        make = partial(SelectionDirectory, self.context, self.inode, self._of, selector)
        return self.enter(name, make)


class ByOriginDirectory(OriginsDirectory):
    """`<address>::<queue>/`: the messages that were there before."""

    takes_long_names: ClassVar[bool] = True

    def __init__(self, context: base.MountContext, of: ViewDirectory) -> None:
        super().__init__(context, of)
        self._long = grammar.NameTable()

    def entries(self) -> Sequence[base.Entry]:
        places = self._origins().places()
        return [(self._name(place), partial(self._from, self._name(place), place)) for place in places]

    def _name(self, place: QueuePath) -> bytes:
        address, queue = (self._long.add(one) for one in place)
        return address + _SEPARATOR.encode() + queue

    def _from(self, name: bytes, place: QueuePath) -> base.Node:
        return self._selected(name, lambda: self._origins().selector_of_place(place))

    def find(self, name: bytes) -> base.Node | None:
        """Any origin is found, also one that nothing comes from; of long names those that were listed."""
        spelled = name.replace(grammar.encode_name(_SEPARATOR), _SEPARATOR.encode())
        address, separator, queue = spelled.partition(_SEPARATOR.encode())
        try:
            place = self._long.decode(address), self._long.decode(queue)
        except NameRefused:
            return None
        return self._from(spelled, place) if separator else None


class ByReasonDirectory(OriginsDirectory):
    """`expired/`, `max-deliveries/`, `moved/`, `sent/`: the messages that are there for that."""

    def entries(self) -> Sequence[base.Entry]:
        reasons = self._origins().reasons()
        return [(reason.encode(), partial(self._for, reason)) for reason in sorted(reasons)]

    def find(self, name: bytes) -> base.Node | None:
        reason = name.decode(errors="replace")
        return None if self._origins().selector_of_reason(reason) is None else self._for(reason)

    def _for(self, reason: str) -> base.Node:
        return self._selected(reason.encode(), lambda: self._origins().selector_of_reason(reason) or "FALSE")


class RedriveDirectory(OriginsDirectory):
    """An always empty directory: messages that are moved into it go back to the queues they came from."""

    redrives: ClassVar[bool] = True
    lists_ahead: ClassVar[bool] = False
