"""`.journalfs/transactions/`: transactions as directories.

`mkdir` begins a draft; content written below it is published at its commit, and messages that are moved into
it are held until then. Renaming it into `committed/` commits it, into `prepared/` leaves the decision to
others, and `rmdir` rolls it back. Renaming and `rmdir` decide over prepared ones, too.
"""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from pyfuse3 import EntryAttributes

from journalfs import door
from journalfs.api import (
    Draft,
    HeldInDraft,
    Message,
    Permissions,
    QueuePath,
    Send,
    View,
    VirtualDirectory,
    VirtualFile,
)
from journalfs.errors import NoSuchName, WrongCall
from journalfs.ids import MessageId
from journalfs_mount.errnos import Refused, gone, no_such_name, refuse
from journalfs_mount.names.grammar import (
    COMMITTED_DIRECTORY,
    PREPARED_DIRECTORY,
    ROLLED_BACK_DIRECTORY,
    STATUS_NAME,
    encode_name,
    parse_message_name,
)
from journalfs_mount.names.naming import find_named, new_name
from journalfs_mount.nodes.base import Directory, Entry, MountContext, Node, OpenedFile
from journalfs_mount.nodes.report import RenderedFile, json_lines, json_text
from journalfs_mount.nodes.staged import ReceivingDirectory, Staged, StagedDirectory, StagedFolder
from journalfs_mount.nodes.virtual import Found, VirtualDirectoryNode, VirtualFileNode
from journalfs_mount.process.interruptions import RenamersPatience
from journalfs_mount.process.shares import ASKER
from journalfs_mount.process.staged_room import DRAFT_FILES

OPERATIONS_NAME: Final = b"operations.jsonl"
_ADDRESSES, _QUEUES = "addresses", "queues"
"""Where files lie that are sent to addresses, and to queues."""

_ENDS: Final = (
    "a transaction is renamed into committed/ or rolled-back/ by its own name, or as prepared/XID; rmdir "
    "rolls it back"
)
_NO_PLACE: Final = (
    "below a transaction are the addresses and queues of the store: make one there first, "
    "and write to it here"
)
_UNDECIDED: Final = "what damage left undecided cannot be decided: copy its messages.jsonl into an address"


class TransactionsDirectory(VirtualDirectoryNode):
    """All of them: drafts, prepared ones, and what damage left undecided."""

    def entries(self) -> Sequence[Entry]:
        drafts = self.context.changing().transactions.drafts()
        return [*super().entries(), *((encode_name(one.name), partial(self._draft, one)) for one in drafts)]

    def find(self, name: bytes) -> Node | None:
        if name in {PREPARED_DIRECTORY, COMMITTED_DIRECTORY, ROLLED_BACK_DIRECTORY}:
            return self.enter(name, partial(EndDirectory, self.context, self, name))
        transactions = self.context.changing().transactions
        draft = find_named(name, transactions.draft, transactions.drafts)
        return super().find(name) if draft is None else self._draft(draft)

    def _draft(self, draft: Draft) -> Node:
        make = partial(DraftDirectory, self.context, self.inode, draft)
        return self.enter(encode_name(draft.name), make, b"draft %d" % id(draft))

    def _node(self, name: bytes, found: VirtualDirectory | VirtualFile) -> Node:
        return self.prepared(self, name)

    def prepared(self, parent: Directory, name: bytes) -> Node:
        find = partial(self._child, name.decode("utf-8", "surrogateescape"))
        return parent.enter(name, partial(PreparedDirectory, self.context, parent.inode, find))

    def listed(self) -> Mapping[bytes, Found]:
        """Return the transactions of the store."""
        found = self._directory().children()
        return {name.encode("utf-8", "surrogateescape"): one for name, one in found}

    def has(self, name: bytes) -> bool:
        """By any of its names."""
        return self._child(name.decode("utf-8", "surrogateescape")) is not None

    async def make_directory(self, name: bytes, mode: int) -> Node:
        transactions = self.context.changing().transactions
        await self.context.staged_room.take_entries(DRAFT_FILES)
        maker = self.context.present.made_by(0o700, ASKER.get())
        await transactions.begin(new_name(name), maker.uid, maker.gid)
        return self.child(name)


class PreparedDirectory(VirtualDirectoryNode):
    """A transaction that waits for a decision."""

    async def move(self, target: Directory, name: bytes) -> None:
        if not isinstance(target, EndDirectory):
            raise Refused(errno.EPERM, _ENDS)
        await target.decide(self.name, name)

    async def remove_directory(self) -> None:
        await decide(self.context, self.name, committed=False)

    @property
    def name(self) -> bytes:
        return self.path().rpartition("/")[2].encode("utf-8", "surrogateescape")


async def decide(context: MountContext, name: bytes, *, committed: bool) -> None:
    text = name.decode("utf-8", "surrogateescape")
    try:
        await context.removing().prepared.decide(text, committed=committed)
    except NoSuchName:
        raise Refused(errno.EPERM, _UNDECIDED) from None


class EndDirectory(Directory):
    """`prepared/` has those that wait, `committed/` and `rolled-back/` those that were decided by hand."""

    def __init__(self, context: MountContext, parent: TransactionsDirectory, kind: bytes) -> None:
        super().__init__(context, parent.inode)
        self._transactions = parent
        self._kind = kind

    def name_s(self) -> float:
        return 0.0

    def entries(self) -> Sequence[Entry]:
        names = self._transactions.listed() if self._kind == PREPARED_DIRECTORY else self._decided()
        return [(name, partial(self.child, name)) for name in names]

    def find(self, name: bytes) -> Node | None:
        if self._kind == PREPARED_DIRECTORY:
            return self._transactions.prepared(self, name) if self._transactions.has(name) else None
        decided = self.context.changing().prepared.decision(os.fsdecode(name), committed=self._commits)
        make = partial(DecidedDirectory, self.context, self)
        return None if decided is None else self.enter(name, make)

    @property
    def _commits(self) -> bool:
        return self._kind == COMMITTED_DIRECTORY

    def _decided(self) -> Mapping[bytes, int]:
        decided = self.context.changing().prepared.decided(committed=self._commits)
        return {name.encode(): record for name, record in decided.items()}

    async def decide(self, own_name: bytes, name: bytes) -> None:
        self._require_name(own_name, name)
        if self._kind == PREPARED_DIRECTORY:
            raise Refused(errno.EEXIST, "it is prepared")
        await decide(self.context, name, committed=self._commits)

    async def end(self, draft: DraftDirectory, name: bytes) -> None:
        transactions = self.context.changing().transactions
        patience = RenamersPatience(self.context.interruptions)
        if self._kind == PREPARED_DIRECTORY:
            xid = os.fsdecode(name)
            try:
                await draft.end(lambda sends: transactions.prepare(draft.draft.name, xid, sends, patience))
            except WrongCall as error:
                raise Refused(errno.EPERM, str(error)) from None
            return
        self._require_name(encode_name(draft.draft.name), name)
        if self._commits:
            await draft.end(lambda sends: transactions.commit(draft.draft.name, sends, patience))
        else:
            await transactions.roll_back(draft.draft.name)

    @staticmethod
    def _require_name(own_name: bytes, name: bytes) -> None:
        if name != own_name:
            raise Refused(errno.EPERM, f"a transaction keeps its name: {_ENDS}")

    async def forget(self, name: bytes) -> None:
        await self.context.changing().prepared.forget(os.fsdecode(name), committed=self._commits)


class DecidedDirectory(Directory):
    """A note of what was decided by hand. `rmdir` forgets it, as a transaction manager does that knows."""

    def __init__(self, context: MountContext, parent: EndDirectory) -> None:
        super().__init__(context, parent.inode)
        self._end = parent

    async def remove_directory(self) -> None:
        await self._end.forget(os.fsencode(self.path().rpartition("/")[2]))


class DraftDirectory(Directory):
    """A begun transaction: every address and queue can be reached by name, and those that it changes are
    listed. Only its maker may use it: others would fill it, empty it, or roll it back.
    """

    holds_many: ClassVar[bool] = True

    def __init__(self, context: MountContext, parent_inode: int, draft: Draft) -> None:
        super().__init__(context, parent_inode)
        self.draft = draft

    def mtime_ns(self) -> int:
        return self.draft.begun_ms * 1_000_000

    def name_s(self) -> float:
        return 0.0

    def permissions(self) -> Permissions:
        return Permissions(0o700, *self.draft.maker)

    def require_maker(self) -> None:
        """Raise EACCES unless the asker made it: `rmdir` and `mv` look at the directory above alone."""
        self.context.rights.require_maker(self.permissions(), f"the transaction {self.draft.name}")

    def find(self, name: bytes) -> Node | None:
        if name == STATUS_NAME:
            return self._made(name, lambda: json_text(self.draft.status()))
        if name == OPERATIONS_NAME:
            return self._made(name, lambda: json_lines(self.draft.operations()))
        store = self.context.store
        address = find_named(name, store.address, store.addresses)
        return None if address is None else self._address(address.name)

    def _made(self, name: bytes, make: Callable[[], bytes]) -> Node:
        file = RenderedFile(make, self.mtime_ns)
        return self.enter(name, partial(VirtualFileNode, self.context, lambda: file))

    def _address(self, address_name: str) -> Node:
        make = partial(DraftAddress, self.context, self.inode, self, address_name)
        return self.enter(encode_name(address_name), make)

    def entries(self) -> Sequence[Entry]:
        names = {encode_name(address) for address, _ in self.places()}
        names.update(self.listed(_ADDRESSES), self.listed(_QUEUES))
        return [(name, partial(self.child, name)) for name in sorted(names) if self.find(name) is not None]

    def listed(self, *path: str) -> list[bytes]:
        """Names in the folder of what is staged."""
        return [os.fsencode(name) for name in door.names_if_there(self.draft.staged.joinpath(*path))]

    def places(self) -> Mapping[QueuePath, Mapping[int, HeldInDraft]]:
        """Where messages are shown that it holds."""
        return self.draft.places

    async def make_directory(self, name: bytes, mode: int) -> Node:
        raise Refused(errno.ENOENT, _NO_PLACE)

    async def hold_messages(
        self, source: QueuePath, message_ids: Callable[[], Sequence[MessageId]]
    ) -> int | None:
        return await self.hold(source, message_ids(), None)

    async def hold(
        self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath | None
    ) -> int:
        transactions = self.context.removing().transactions
        self.require_maker()
        self.context.rights.require(leaves=[source], targets=[] if target is None else [target])
        return await transactions.hold(self.draft.name, source, message_ids, target)

    async def move(self, target: Directory, name: bytes) -> None:
        if not isinstance(target, EndDirectory):
            raise Refused(errno.EPERM, _ENDS)
        self.require_maker()
        await target.end(self, name)

    async def remove_directory(self) -> None:
        self.require_maker()
        await self.context.changing().transactions.roll_back(self.draft.name)

    async def end(self, end: Callable[[Sequence[Send]], Awaitable[None]]) -> None:
        """Call `end` with the staged content, and remove that once the transaction has it."""
        staged = self._staged()
        try:
            with staged.being_published():
                found = staged.files(b"")
                hidden = staged.left_out(found)
                if hidden:
                    name = hidden[0].name
                    raise Refused(errno.EPERM, f"{name} is staged: give it a plain name, or remove it")
                staged.require_readable()
                sends = self._sends(found)
                self._require_rights(sends)
                await end(sends)
        finally:
            self.context.nodes.drop_unused(staged)

    def _require_rights(self, sends: Sequence[Send]) -> None:
        """Raise EACCES unless the asker may do all of it now: modes may have changed since it was begun."""
        held = [(one.source, place) for place, some in self.places().items() for one in some.values()]
        self.context.rights.require(
            leaves={source for source, _ in held},
            targets={(send.address, send.queue) for send in sends} | {to for of, to in held if to != of},
        )

    def _staged(self) -> StagedDirectory:
        folder = os.fsencode(self.draft.staged.parent)
        found = StagedFolder(self.context, lambda: folder, self.inode).find(
            os.fsencode(self.draft.staged.name)
        )
        if not isinstance(found, StagedDirectory):
            raise gone()
        return found

    def _sends(self, files: Sequence[tuple[Path, str]]) -> Sequence[Send]:
        """Return the staged files and their destinations."""
        found: dict[tuple[str, ...], list[tuple[Path, str]]] = {}
        for path, inside in files:
            kind, *names = inside.split("/")
            depth = 1 if kind == _ADDRESSES else 2
            found.setdefault((kind, *names[:depth]), []).append((path, "/".join(names[depth:])))
        return [self._send(names, some) for (_, *names), some in found.items()]

    def _send(self, names: Sequence[str], files: Sequence[tuple[Path, str]]) -> Send:
        address = self.find(os.fsencode(names[0]))
        queue = (
            address.find(os.fsencode(names[1])) if isinstance(address, DraftAddress) and names[1:] else None
        )
        if not isinstance(address, DraftAddress) or (names[1:] and not isinstance(queue, DraftQueue)):
            raise Refused(
                errno.ENOENT, f"{'/'.join(names)}: it is not there any more, and nothing is committed"
            )
        return Send(address.address_name, queue.queue_name if isinstance(queue, DraftQueue) else None, files)

    def require_there(self) -> None:
        """ESTALE when it has ended."""
        if self.context.changing().transactions.draft(self.draft.name) is not self.draft:
            raise gone()


class DraftPlace(ReceivingDirectory):
    """An address or queue within a transaction: content written here waits for its end."""

    def __init__(
        self, context: MountContext, parent_inode: int, of: DraftDirectory, address_name: str
    ) -> None:
        super().__init__(context, parent_inode)
        self.of = of
        self.address_name = address_name

    def mtime_ns(self) -> int:
        return self.of.mtime_ns()

    def name_s(self) -> float:
        return 0.0

    def permissions(self) -> Permissions:
        return self.of.permissions()

    @abstractmethod
    def place(self) -> tuple[str, str | None]:
        """The address or queue that what is written here goes to."""

    @abstractmethod
    def path_in(self) -> tuple[str, ...]:
        """Where its files are in what is staged."""

    @abstractmethod
    def own(self) -> Sequence[bytes]:
        """Names of what is in it beside files."""

    def _folder(self) -> StagedFolder:
        self._place()
        return StagedFolder(self.context, self._place, self.inode)

    def _place(self) -> bytes:
        """ESTALE once the transaction has ended, which the next write to an open file of it says."""
        self.of.require_there()
        return os.fsencode(self.of.draft.staged.joinpath(*self.path_in()))

    def find(self, name: bytes) -> Node | None:
        return self._folder().find(name)

    def entries(self) -> Sequence[Entry]:
        names = dict.fromkeys([*self.own(), *self.of.listed(*self.path_in())])
        return [(name, partial(self.child, name)) for name in names]

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[Node, OpenedFile]:
        self.context.rights.require(targets=[self.place()])
        await self.context.staged_room.take_entries()
        return self._folder().create(name, flags, mode)

    async def receive(self, staged: Staged, name: bytes) -> None:
        self.context.rights.require(targets=[self.place()])
        self._folder().adopt(staged, name)

    async def remove_directory(self) -> None:
        if self.own() or self.of.listed(*self.path_in()):
            raise refuse(errno.ENOTEMPTY)
        with suppress(FileNotFoundError):
            door.remove_folder(self.of.draft.staged.joinpath(*self.path_in()))


class DraftAddress(DraftPlace):
    def place(self) -> tuple[str, str | None]:
        return self.address_name, None

    def path_in(self) -> tuple[str, ...]:
        return (_ADDRESSES, os.fsdecode(encode_name(self.address_name)))

    def find(self, name: bytes) -> Node | None:
        address = self.context.store.address(self.address_name)
        queue = None if address is None else find_named(name, address.queue, address.queues)
        if queue is None:
            return super().find(name)
        make = partial(DraftQueue, self.context, self.inode, self.of, self.address_name, queue.name)
        return self.enter(encode_name(queue.name), make, b"queue")

    def own(self) -> Sequence[bytes]:
        held = (encode_name(queue) for address, queue in self.of.places() if address == self.address_name)
        names = [*held, *self.of.listed(_QUEUES, os.fsdecode(encode_name(self.address_name)))]
        return [name for name in names if self.find(name) is not None]

    async def make_directory(self, name: bytes, mode: int) -> Node:
        raise Refused(errno.ENOENT, _NO_PLACE)

    async def remove_directory(self) -> None:
        await super().remove_directory()
        with suppress(FileNotFoundError):
            name = os.fsdecode(encode_name(self.address_name))
            door.remove_folder(self.of.draft.staged / _QUEUES / name)


class DraftQueue(DraftPlace):
    """Messages that are moved here are acknowledged where they were, if that is not this very queue, and sent
    here.
    """

    def __init__(
        self, context: MountContext, parent_inode: int, of: DraftDirectory, address_name: str, queue_name: str
    ) -> None:
        super().__init__(context, parent_inode, of, address_name)
        self.queue_name = queue_name

    @property
    def queue_path(self) -> QueuePath:
        return self.address_name, self.queue_name

    def place(self) -> tuple[str, str | None]:
        return self.queue_path

    def path_in(self) -> tuple[str, ...]:
        names = (encode_name(self.address_name), encode_name(self.queue_name))
        return (_QUEUES, *map(os.fsdecode, names))

    def find(self, name: bytes) -> Node | None:
        parsed = parse_message_name(name)
        held = None if parsed is None else self._held().get(parsed[0])
        if parsed is None or held is None:
            return super().find(name)
        make = partial(HeldMessageFile, self.context, self, held.source, parsed[0])
        return self.enter(name, make, b"held %s" % "::".join(held.source).encode(errors="replace"))

    def own(self) -> Sequence[bytes]:
        held = self._held()
        names: list[bytes] = []
        for source in {one.source for one in held.values()}:
            listing = self.context.queue(*source).delivering().listing()
            names += [listing.name(n) for n in range(len(listing)) if listing.message_id(n) in held]
        return names

    def _held(self) -> Mapping[int, HeldInDraft]:
        return self.of.draft.places.get(self.queue_path, {})

    async def make_directory(self, name: bytes, mode: int) -> Node:
        await self.context.staged_room.take_entries()
        return self._folder().make_directory(name, mode)

    async def hold_messages(
        self, source: QueuePath, message_ids: Callable[[], Sequence[MessageId]]
    ) -> int | None:
        self.of.require_there()
        return await self.of.hold(
            source, message_ids(), None if source == self.queue_path else self.queue_path
        )


def held_message(context: MountContext, source: QueuePath, message_id: int) -> Message | None:
    queue = context.queue(*source)
    views: Sequence[Callable[[], View]] = (lambda: queue, queue.scheduled, queue.delivering)
    found = (view().message(MessageId(message_id)) for view in views)
    return next((message for message in found if message is not None), None)


class HeldMessageFile(Node):
    """A message that a transaction takes out of its queue. `rm` gives it back."""

    def __init__(self, context: MountContext, of: DraftQueue, source: QueuePath, message_id: int) -> None:
        super().__init__(context)
        self._of = of
        self._source = source
        self._id = message_id

    def _message(self) -> Message:
        message = held_message(self.context, self._source, self._id)
        if message is None:
            raise gone()
        return message

    def attributes(self) -> EntryAttributes:
        message = self._message()
        return self.shown(message.size_bytes, message.mtime_ns)

    def extended_attributes(self) -> Mapping[str, bytes]:
        return self._message().attributes()

    def open(self) -> OpenedFile:
        message = self._message()
        return OpenedFile(self.inode, message.mtime_ns, message.open(), direct_io=False, keep_cache=False)

    async def remove(self) -> None:
        transactions = self.context.changing().transactions
        draft, place = self._of.of.draft, self._of.queue_path
        if not await transactions.give_back(draft.name, place, [MessageId(self._id)]):
            raise no_such_name()

    async def move(self, target: Directory, name: bytes) -> None:
        if target.receiving_queue() != self._source:
            reason = "a transaction has it: it goes back to its own queue, and elsewhere from there"
            raise Refused(errno.EPERM, reason)
        await self.remove()
