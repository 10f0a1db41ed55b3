"""Staged files and directories: real ones in the store's own folder, until they get a plain name.

Questions about them are answered by the real file. The kernel caches nothing of them, so that a name is gone
the moment its content became messages.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Final

from pyfuse3 import EntryAttributes, SetattrFields

from journalfs import door
from journalfs.api import Bytes, Permissions, in_a_thread
from journalfs.ids import Inode
from journalfs_mount.errnos import Refused, gone, refuse
from journalfs_mount.nodes.base import Directory, Entry, MountContext, Node, OpenedFile
from journalfs_mount.nodes.inodes import node_key
from journalfs_mount.nodes.staging import BLOCK_BYTES, GIVEN, files_below, write_all
from journalfs_mount.process.shares import ASKER, OWNER

_KEPT_FLAGS: Final = os.O_ACCMODE | os.O_APPEND | os.O_TRUNC
_OWN_FILE: Final = stat.S_IRUSR | stat.S_IWUSR
_OWN_DIRECTORY: Final = stat.S_IRWXU
"""Mode bits that the mount needs on its own files, whatever mode they were given."""

GONE: Final = 0
"""No file has this number."""

PARTITIONS: Final = b".spark-staging-"
"""Begins the name of the directory where Spark keeps partitions until it has removed those they replace."""


def require_unpublished(context: MountContext, *paths: bytes) -> None:
    """EBUSY while one of these real paths is being published, or a directory that it is in."""
    for path in paths:
        if any(path == taken or path.startswith(taken + b"/") for taken in context.publishing):
            raise Refused(errno.EBUSY, "it is being published")


class StagedFolder:
    """A real directory whose entries are nodes. It is made when something is put into it.

    `of`: the owner of its path, a place or the staged directory itself.
    """

    def __init__(
        self, context: MountContext, of: Callable[[], bytes] | StagedDirectory, directory_inode: int
    ) -> None:
        self._context = context
        self.of = of
        self.directory_inode = directory_inode

    def path(self) -> bytes:
        place, names = _above(self)
        assert not isinstance(place.of, StagedDirectory)
        return os.path.join(place.of(), *names)

    def path_of(self, name: bytes) -> bytes:
        return os.path.join(self.path(), name)

    def pin(self, name: bytes) -> int:
        """A descriptor of what has this name in it, for `at`. Raises OSError."""
        held = self.of.pinned() if isinstance(self.of, StagedDirectory) else None
        return door.pin(self.path_of(name)) if held is None else door.pin_in(held, name)

    def _look(self, name: bytes) -> os.stat_result:
        held = self.of.hold() if isinstance(self.of, StagedDirectory) else None
        return door.status(self.path_of(name)) if held is None else door.status_in(held, name)

    def find(self, name: bytes) -> StagedFile | StagedDirectory | None:
        try:
            found = self._look(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise refuse(error.errno or errno.EIO) from None
        is_ours = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        return self._node(name, found) if is_ours else None

    def names(self) -> list[bytes]:
        with _real():
            return sorted(map(os.fsencode, door.names(self.path())))

    def create(self, name: bytes, flags: int, mode: int) -> tuple[StagedFile, StagedOpen]:
        require_unpublished(self._context, self.path_of(name))
        self._made()
        path, kept = self.path_of(name), flags & _KEPT_FLAGS
        is_new = flags & os.O_EXCL or not door.exists(path)
        if is_new:
            descriptor = door.create(path, kept, mode=stat.S_IMODE(mode) | _OWN_FILE)
        else:
            descriptor = door.open_file(path, kept)
        if is_new:
            given = self._context.present.made_by(stat.S_IMODE(mode), ASKER.get())
            _give(_path_of(descriptor), given, _OWN_FILE, door.most_below(self.path())[0])
        node = self._node(name, os.fstat(descriptor))
        assert isinstance(node, StagedFile)
        return node, StagedOpen(node, descriptor)

    def make_directory(self, name: bytes, mode: int) -> StagedDirectory:
        require_unpublished(self._context, self.path_of(name))
        self._made()
        path = self.path_of(name)
        door.make_folder(path, mode=stat.S_IMODE(mode) | _OWN_DIRECTORY)
        with door.held(path) as descriptor:
            given = self._context.present.made_by(stat.S_IMODE(mode), ASKER.get())
            _give(_path_of(descriptor), given, _OWN_DIRECTORY, door.most_below(self.path())[1])
        node = self._node(name, door.status(path))
        assert isinstance(node, StagedDirectory)
        return node

    def adopt(self, staged: Staged, name: bytes) -> None:
        """Rename something staged to a name in here, replacing what can be replaced."""
        require_unpublished(self._context, staged.real_path(), self.path_of(name))
        self._made()
        door.rename(staged.real_path(), self.path_of(name))
        staged.folder, staged.name = self, name

    def _made(self) -> None:
        """The real directory is there then."""
        door.make_folders(self.path())

    def _node(self, name: bytes, found: os.stat_result) -> StagedFile | StagedDirectory:
        # A real file has one number whatever it is renamed to, and so has the node.
        node: Node
        if stat.S_ISDIR(found.st_mode):
            node = self._directory(name, found.st_ino)
        else:
            key = _file_key(found.st_ino)
            node = self._context.nodes.enter(key, partial(StagedFile, self._context, self, name))
            assert isinstance(node, StagedFile)
            # It is there, so it is no earlier one of this number.
            node.published = False
        assert isinstance(node, StagedFile | StagedDirectory)
        node.folder, node.name, node.number = self, name, found.st_ino
        return node

    def _directory(self, name: bytes, number: int) -> Node:
        """The node of a real directory. The system gives the number of one that is gone to a new one, but the
        kernel still has the old one in its place, and refuses to have a directory in two (ESTALE).
        """
        nodes, known = self._context.nodes, self._context.staged_directories.get(number)
        if (
            isinstance(known, StagedDirectory)
            and nodes.node(known.inode) is known
            and known.number == number
            and known.folder.directory_inode == self.directory_inode
            and known.name == name
        ):
            return known
        keys = (node_key(0, b"staged directory", b"%x %x" % (number, again)) for again in count())
        key = next(key for key in keys if nodes.known(key) is None)
        node = nodes.enter(key, partial(StagedDirectory, self._context, self, name))
        self._context.staged_directories[number] = node
        return node


class ReceivingDirectory(Directory):
    """A directory in which what is staged gets a name, and by that may be published."""

    @abstractmethod
    async def receive(self, staged: Staged, name: bytes) -> None: ...


class Staged(Node):
    """The common base of staged files and directories. `folder` and `name` follow renames."""

    holds_many: ClassVar[bool] = True

    folder: StagedFolder
    name: bytes
    number: int
    """Of the real file, to tell it from a later one of its name."""

    def look_at(self) -> os.stat_result:
        """The real file's attributes. ESTALE when it has gone."""
        with self.at() as path:
            return os.stat(path)

    @contextmanager
    def at(self) -> Iterator[bytes]:
        """A path that leads to the file itself, also when its name leads to another one or nowhere. ESTALE
        when it has gone.
        """
        held = self.held()
        if held is not None:
            yield _path_of(held)
            return
        with _real():
            descriptor = self.folder.pin(self.name)
        try:
            if os.fstat(descriptor).st_ino != self.number:
                raise gone()
            yield _path_of(descriptor)
        finally:
            os.close(descriptor)

    def held(self) -> int | None:
        """A descriptor of it that somebody has."""
        return None

    def attributes(self) -> EntryAttributes:
        with self.at() as path:
            return self.context.present.staged(self.inode, os.stat(path), _given(path))

    def real_path(self) -> bytes:
        return self.folder.path_of(self.name)

    def is_within(self) -> bool:
        """Whether it is in a staged directory."""
        return isinstance(self.folder.of, StagedDirectory)

    def is_partition(self) -> bool:
        """Whether it is a directory that Spark made for a partition that it overwrites."""
        _, names = _above(self.folder)
        return isinstance(self, StagedDirectory) and names[:1] != [] and names[0].startswith(PARTITIONS)

    def path(self) -> str:
        place, names = _above(self.folder)
        directory = self.context.nodes.node(place.directory_inode)
        above = "" if directory is None else directory.path()
        inside = b"/".join([*names, self.name]).decode(errors="replace")
        return f"{above}/{inside}".removeprefix("/")

    def files(self, name: bytes) -> list[tuple[Path, str]]:
        """Return the files that are published when this gets the name `name`, with the names that decide
        their framing. A file that was never written to is left out, since it is no empty message.
        """
        if any(file.unflushed for file in self._known_files()):
            raise Refused(errno.EBUSY, "it is still being written")
        found = ((Path(os.fsdecode(path)), os.fsdecode(name)) for path, name in self._contents(name))
        return [(path, name) for path, name in found if door.status(path).st_size]

    def left_out(self, published: Sequence[tuple[Path, str]]) -> list[Path]:
        """Files of it that were written to, and are not among those published. The sums that Hadoop keeps of
        what it writes are nobody's.
        """
        known = {os.fsencode(path) for path, _ in published}
        others = (path for path in self._all_files() if path not in known and not path.endswith(b".crc"))
        return [Path(os.fsdecode(path)) for path in sorted(others) if door.status(path).st_size]

    def discard(self) -> None:
        self.context.staging().discard(self.real_path())
        self.number = GONE

    @contextmanager
    def being_published(self) -> Iterator[None]:
        """Within the block no process changes or publishes it. Raises EBUSY if it is being
        published already.
        """
        path, publishing = self.real_path(), self.context.publishing
        require_unpublished(self.context, path)
        publishing.add(path)
        try:
            yield
        finally:
            publishing.discard(path)

    def require_readable(self) -> None:
        """Raise EACCES unless the asker may read all of it."""
        self.context.rights.require_content(self.real_path(), lambda held: _given(_path_of(held)))

    def end_writing(self) -> None:
        """Note that it became messages: processes that still have a file of it open get an error at the next
        write.
        """
        for file in self._known_files():
            file.published = True

    def discard_published(self) -> None:
        """That it cannot be removed is no failure of the caller's, who would publish it again."""
        try:
            self.discard()
        except OSError as error:
            why = f"it is published, and cannot be removed from where it was staged: {error.strerror}"
            self.context.store.refused(self.path(), f"{why}; remove it, or it is published again")

    def _known_files(self) -> Iterator[StagedFile]:
        """The files of it that somebody may have open."""
        for path in self._all_files():
            node = self.context.nodes.known(_file_key(door.status(path).st_ino))
            if isinstance(node, StagedFile):
                yield node

    def _all_files(self) -> Iterator[bytes]:
        # It is published: what cannot be listed of it is no reason to say otherwise.
        for folder, _, names in door.below(self.real_path(), lambda error: None):
            yield from (os.path.join(folder, name) for name in names)

    def _contents(self, name: bytes) -> list[tuple[bytes, bytes]]:
        return files_below(self.real_path())

    async def move(self, target: Directory, name: bytes) -> None:
        if not isinstance(target, ReceivingDirectory):
            raise Refused(errno.EPERM, "messages are published in an address or a queue")
        await target.receive(self, name)

    def _change(self, wanted: EntryAttributes, fields: SetattrFields, own: int) -> None:
        with self.at() as path:
            if fields.update_mode or fields.update_uid or fields.update_gid:
                given = _given(path)
                _give(
                    path,
                    Permissions(
                        stat.S_IMODE(wanted.st_mode) if fields.update_mode else given.mode,
                        wanted.st_uid if fields.update_uid else given.uid,
                        wanted.st_gid if fields.update_gid else given.gid,
                    ),
                    own,
                    door.most_below(self.folder.path())[own == _OWN_DIRECTORY],
                )
            if fields.update_atime or fields.update_mtime:
                now = os.stat(path)
                atime_ns = wanted.st_atime_ns if fields.update_atime else now.st_atime_ns
                mtime_ns = wanted.st_mtime_ns if fields.update_mtime else now.st_mtime_ns
                os.utime(path, ns=(atime_ns, mtime_ns))


class StagedFile(Staged):
    """A staged file."""

    def __init__(self, context: MountContext, folder: StagedFolder, name: bytes) -> None:
        super().__init__(context)
        self.folder = folder
        self.name = name
        self.unflushed: dict[StagedOpen, int] = {}
        """With the number of the last write of each."""
        self.writes = 0
        self.published = False
        self.handles: list[StagedOpen] = []

    def held(self) -> int | None:
        return self.handles[-1].descriptor if self.handles else None

    def open(self) -> OpenedFile:
        with _real():
            return self.open_to_write(os.O_RDONLY)

    def open_to_write(self, flags: int) -> OpenedFile:
        with self.at() as path:
            return StagedOpen(self, os.open(path, flags & _KEPT_FLAGS | os.O_CLOEXEC))

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        if fields.update_size:
            self.require_writable()
            with self.at() as path:
                os.truncate(path, wanted.st_size)
        self._change(wanted, fields, _OWN_FILE)

    async def remove(self) -> None:
        door.remove(self.real_path())

    def _contents(self, name: bytes) -> list[tuple[bytes, bytes]]:
        return [(self.real_path(), name)]

    def _all_files(self) -> Iterator[bytes]:
        yield self.real_path()

    def require_writable(self) -> None:
        """Raise ESTALE if it became messages, since new bytes would be lost, and EBUSY while it does."""
        if self.published:
            reason = "it was published, or its directory was; write later content to a new name"
            raise Refused(errno.ESTALE, reason)
        path = self.real_path()
        if self.context.publishing and os.path.lexists(path) and os.lstat(path).st_ino == self.number:
            require_unpublished(self.context, path)


class StagedDirectory(ReceivingDirectory, Staged):
    """A staged directory. Everything in it is staged, whatever its name."""

    def __init__(self, context: MountContext, folder: StagedFolder, name: bytes) -> None:
        super().__init__(context, folder.directory_inode)
        self.folder = folder
        self.name = name
        self._inside: StagedFolder | None = None

    def path(self) -> str:
        return Staged.path(self)

    def attributes(self) -> EntryAttributes:
        return Staged.attributes(self)

    def mtime_ns(self) -> int:
        return self.look_at().st_mtime_ns

    def inside(self) -> StagedFolder:
        if self._inside is None:
            self._inside = StagedFolder(self.context, self, self.inode)
        return self._inside

    def pinned(self) -> int | None:
        """Return a held descriptor of the directory, for the next call only; None: none is held."""
        return self.context.pins.find(self.inode, self.number)

    def hold(self) -> int | None:
        """Return a descriptor of the directory, and hold it from now on. None: the directory moved, or cannot
        be held.
        """
        held = self.pinned()
        if held is None:
            try:
                held = self.folder.pin(self.name)
            except OSError:
                return None
            if os.fstat(held).st_ino != self.number:
                os.close(held)
                return None
            self.context.pins.hold(self.inode, held)
        return held

    def find(self, name: bytes) -> Node | None:
        return self.inside().find(name)

    def entries(self) -> Sequence[Entry]:
        return [(name, partial(self.child, name)) for name in self.inside().names()]

    def change_attributes(
        self, wanted: EntryAttributes, fields: SetattrFields, opened: OpenedFile | None
    ) -> None:
        self._change(wanted, fields, _OWN_DIRECTORY)

    async def create(self, name: bytes, flags: int, mode: int) -> tuple[Node, OpenedFile]:
        await self.context.staged_room.take_entries()
        return self.inside().create(name, flags, mode)

    async def make_directory(self, name: bytes, mode: int) -> Node:
        await self.context.staged_room.take_entries()
        return self.inside().make_directory(name, mode)

    async def remove_directory(self) -> None:
        door.remove_folder(self.real_path())
        self.number = GONE

    async def receive(self, staged: Staged, name: bytes) -> None:
        self.inside().adopt(staged, name)


def _above(folder: StagedFolder) -> tuple[StagedFolder, list[bytes]]:
    """Return the place in which a folder lies, at whatever depth, and the names that lead to it
    from there.
    """
    names: list[bytes] = []
    while isinstance(folder.of, StagedDirectory):
        names.append(folder.of.name)
        folder = folder.of.folder
    return folder, names[::-1]


def _give(path: bytes, given: Permissions, own: int, most: int) -> None:
    """Set permissions. `own`: bits that the real file has in any case, for the mount; `most`: the bits that
    its store allows.
    """
    real = given.mode & most | own
    os.chmod(path, real)
    try:
        if given == Permissions(real):
            if GIVEN in os.listxattr(path):
                os.removexattr(path, GIVEN)
        else:
            os.setxattr(path, GIVEN, b"%o %d %d" % (given.mode, given.uid, given.gid))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENODATA):
            raise


def _given(path: bytes) -> Permissions:
    with suppress(OSError, ValueError):
        mode, uid, gid = os.getxattr(path, GIVEN).split()
        return Permissions(int(mode, 8), int(uid), int(gid))
    return Permissions(stat.S_IMODE(os.stat(path).st_mode))


def _path_of(descriptor: int) -> bytes:
    return b"/proc/self/fd/%d" % descriptor


def _file_key(number: int) -> bytes:
    return node_key(0, b"staged file", b"%x" % number)


@contextmanager
def _real() -> Iterator[None]:
    """Pass the system's errors about the real file on to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise gone() from None
    except OSError as error:
        raise refuse(error.errno or errno.EIO) from None


class StagedContent:
    """The content of an open staged file."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, offset: int, length: int) -> Bytes:
        with _real():
            return os.pread(self.descriptor, length, offset)

    def ahead(self, offset: int, length: int) -> None:
        """Nothing is rendered."""

    def close(self) -> None:
        os.close(self.descriptor)


class StagedOpen(OpenedFile):
    """A handle of a staged file. Direct, so that two who have it open see the same at once."""

    __slots__ = ("_content", "_node", "user")

    def __init__(self, node: StagedFile, descriptor: int) -> None:
        content = StagedContent(descriptor)
        mtime_ns = os.fstat(descriptor).st_mtime_ns
        super().__init__(Inode(node.inode), mtime_ns, content, direct_io=True, keep_cache=False)
        self._node = node
        self._content = content
        self.user = OWNER.get()
        node.handles.append(self)
        node.context.staged_room.opened.add(self)

    def nameless_bytes(self) -> int:
        found = os.fstat(self.descriptor)
        return 0 if found.st_nlink else found.st_blocks * BLOCK_BYTES

    @property
    def descriptor(self) -> int:
        return self._content.descriptor

    async def write(self, offset: int, data: bytes) -> None:
        with self._node.context.noted(self._node.path):
            self._node.require_writable()
            await self._node.context.staged_room.take(len(data))
            self._node.require_writable()
            self._node.writes += 1
            self._node.unflushed[self] = self._node.writes
            write_all(self._content.descriptor, offset, data)

    async def flush(self) -> None:
        self._node.unflushed.pop(self, None)

    async def sync(self) -> None:
        node = self._node
        with node.context.noted(node.path):
            written = dict(node.unflushed)
            await in_a_thread(lambda: os.fsync(self._content.descriptor))
            # What was written meanwhile may not be part of what is durable.
            for opened, writes in written.items():
                if node.unflushed.get(opened) == writes:
                    del node.unflushed[opened]

    async def release(self) -> None:
        self._node.unflushed.pop(self, None)
        self._node.handles.remove(self)
        self._node.context.staged_room.opened.discard(self)
        self.source.close()
