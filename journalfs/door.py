"""The one way to a store's files: nothing else in the product opens, looks at, names or removes them by path.

A store's directory is written by others. So no link is followed on the way to a file or directory of it, at
any level (`openat2`, or component by component where the kernel lacks that), nothing is waited for, and what
is opened is a regular file, or a directory: a link, pipe, socket or device is "not a file of the store", an
OSError that says so. Links that lead to a store are its operator's: `resolved` follows them once, when the
store is located. What is made is made anew, with the store's own modes, and belongs to its owner; what is
removed is a name in a directory that is held open meanwhile.

Paths are absolute, or relative to the working directory, and have no `..` in them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from journalfs import store_owner
from journalfs.limits import PATH_BYTES_MAX

AnyPath: TypeAlias = str | bytes | os.PathLike[str]

READ: Final = os.O_RDONLY
WRITE: Final = os.O_RDWR
_READ_IN: Final = READ | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_AT_FDCWD: Final = -100
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_COPIED_BYTES: Final = 8 << 20
"""At once."""
READ_BYTES_MAX: Final = 1 << 30
_LINKS_MAX: Final = 40
"""As many as the kernel follows."""

_KINDS: Final = {
    stat.S_IFLNK: (errno.ELOOP, "a link"),
    stat.S_IFDIR: (errno.EISDIR, "a directory"),
    stat.S_IFIFO: (errno.ENXIO, "a pipe"),
    stat.S_IFSOCK: (errno.ENXIO, "a socket"),
    stat.S_IFCHR: (errno.ENXIO, "a device"),
    stat.S_IFBLK: (errno.ENXIO, "a device"),
    stat.S_IFREG: (errno.ENOTDIR, "no directory"),
}


class NotOfTheStore(OSError):  # noqa: N818  (named as what was found)
    """A link, or something else that no store has in this place."""


def kind_and_reason(error: OSError) -> tuple[str, str]:
    """What is said of a file that could not be opened, as of damage."""
    reason = error.strerror or str(error)
    if isinstance(error, NotOfTheStore):
        return "not-a-file", f"{reason}, so it is not opened"
    return "unreadable", f"cannot be read: {reason}"


_HOW: Final = struct.Struct("QQQ")
"""Flags, mode, and how names are resolved."""

_libc: Final = ctypes.CDLL(None, use_errno=True)
_syscall: Final = _libc.syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


class _Anchor(NamedTuple):
    """A directory that is reached by descriptor alone."""

    descriptor: int
    owner: tuple[int, int] | None = None
    """User and group as whom everything below is opened; None: as whom the thread acts."""


_anchors: dict[bytes, _Anchor] = {}
"""By their paths."""
_NOWHERE: Final = _Anchor(_AT_FDCWD)
_UNCHANGED: Final = contextlib.nullcontext()


def refused(path: AnyPath, mode: int) -> NotOfTheStore:
    """The error for something that no store has in this place; `mode` says what."""
    number, kind = _KINDS[stat.S_IFMT(mode)]
    return NotOfTheStore(number, f"not a file of the store: {kind}", os.fsdecode(path))


def _openat2(name: bytes, flags: int, mode: int, directory: int) -> int:
    beneath = 0 if directory == _AT_FDCWD else _BENEATH
    how = _HOW.pack(flags | os.O_CLOEXEC, mode, _NO_MAGICLINKS | _NO_SYMLINKS | beneath)
    while True:
        try:
            descriptor: int = _syscall(_OPENAT2, directory, name, how, _HOW.size)
        except ctypes.ArgumentError as error:  # ctypes says so where there is no memory for an argument
            raise MemoryError from error
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number))


def _walk(name: bytes, flags: int, mode: int, directory: int) -> int:
    """What `openat2` does, for kernels before 5.6 and where a container forbids it."""
    *folders, last = [part for part in name.split(b"/") if part] or [b"."]
    start = b"/" if name.startswith(b"/") else b"."
    held = os.open(start, os.O_PATH | os.O_DIRECTORY, dir_fd=None if directory == _AT_FDCWD else directory)
    try:
        for part in folders:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = below
            kind = os.fstat(held).st_mode
            if not stat.S_ISDIR(kind):
                number = errno.ELOOP if stat.S_ISLNK(kind) else errno.ENOTDIR
                raise OSError(number, os.strerror(number))
        descriptor = os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=held)
        # With O_PATH that is the link itself, which is for those who ask not to follow it.
        if flags & os.O_PATH and not flags & os.O_NOFOLLOW and stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return descriptor
    except NotADirectoryError:  # of a link that was to be a directory
        if stat.S_ISLNK(os.stat(last, dir_fd=held, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    finally:
        os.close(held)


def _chosen() -> bool:
    try:
        os.close(_openat2(b"/", os.O_PATH, 0, _AT_FDCWD))
    except OSError:
        return False
    return True


has_openat2: bool = _chosen()


def _open(path: AnyPath, flags: int, mode: int = 0) -> int:
    name, directory = os.fsencode(path), _AT_FDCWD
    if b".." in name and b".." in name.split(b"/"):
        raise NotOfTheStore(
            errno.ELOOP, "not a file of the store: its name leads out of it", os.fsdecode(path)
        )
    owner = None
    if _anchors:
        name, (directory, owner) = _anchored(name)
    try:
        with _as(owner):
            return (_openat2 if has_openat2 else _walk)(name, flags, mode, directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise refused(path, stat.S_IFLNK) from None
        raise OSError(error.errno, error.strerror, os.fsdecode(path)) from None


def _anchored(name: bytes) -> tuple[bytes, _Anchor]:
    above, below = name, b""
    while above not in _anchors:
        above, slash, part = above.rpartition(b"/")
        if not slash:
            return name, _NOWHERE
        below = part + b"/" + below
    return below.rstrip(b"/") or b".", _anchors[above]


def _as(owner: tuple[int, int] | None) -> contextlib.AbstractContextManager[None]:
    return _UNCHANGED if owner is None else store_owner.acting_as(*owner)


def _anchor(place: AnyPath, descriptor: int, owner: tuple[int, int] | None = None) -> None:
    name = os.fsencode(place)
    if name in _anchors:
        os.close(_anchors[name].descriptor)
    _anchors[name] = _Anchor(descriptor, owner)


def _owner_of(path: AnyPath) -> tuple[int, int] | None:
    """As whom what is there is reached, where that is not as whom the thread acts."""
    return _anchored(os.fsencode(path))[1].owner if _anchors else None


def acts_as_at(path: AnyPath) -> int:
    """Return the user as whom this process reaches a file of a store."""
    return (_owner_of(path) or store_owner.acts_as())[0]


def enter(folders: Iterable[Path]) -> None:
    """Reach these directories, if this process is root's, as their owner, as whom ever it acts with others:
    a store that something is made of. Raises OSError and `SystemFailure`.
    """
    places = tuple(folders)
    store_owner.refuse_writable(places)
    if os.geteuid() != 0:
        return
    found = store_owner.owner_of(places)
    if found is not None:
        for place in filter(is_folder, places):
            _anchor(place, _open(place, os.O_PATH | os.O_DIRECTORY), found[:2])


def own_folder(path: AnyPath, *, mode: int = 0o700) -> None:
    """A directory that only this process's user can write to, made if it is not there, in which something is
    made. It is held open until it is removed. Raises OSError: another's is refused.
    """
    if (known := _anchors.pop(os.fsencode(path), None)) is not None:
        os.close(known.descriptor)
    make_folders(os.path.dirname(path), mode=mode)
    with contextlib.suppress(FileExistsError):
        make_folder(path, mode=mode)
    descriptor = _open(path, os.O_RDONLY | os.O_DIRECTORY)
    found = os.fstat(descriptor)
    if found.st_uid != store_owner.acts_as()[0] or found.st_mode & 0o022:
        os.close(descriptor)
        whose = f"user {found.st_uid} has it" if found.st_mode & 0o022 == 0 else "others can write to it"
        raise NotOfTheStore(errno.EPERM, f"not made by this user: {whose}", os.fsdecode(path))
    _anchor(path, descriptor)


def adopt(folders: Iterable[Path]) -> None:
    """Act as the owner of the store that has these directories, if that is what this process is for; those of
    the owner's that this user does not reach are pinned before. Raises OSError and `SystemFailure`.
    """
    places = tuple(place for place in folders if _owner_of(place) is None)
    store_owner.refuse_writable(places)
    if not store_owner.adopts():
        return
    pinned: dict[bytes, int] = {}
    for place in map(_nearest, places):
        pinned[os.fsencode(place)] = _open(place, os.O_PATH | os.O_DIRECTORY)
    store_owner.adopt(Path(os.fsdecode(name)) for name in pinned)
    for name, descriptor in pinned.items():
        is_owners = os.fstat(descriptor).st_uid == store_owner.acts_as()[0]
        if not is_owners or os.access(name, os.X_OK, effective_ids=True):
            os.close(descriptor)
        else:
            _anchor(name, descriptor)


def _nearest(place: Path) -> Path:
    """The directory, or the one in which it is to be made."""
    return next(one for one in (place, *place.parents) if is_folder(one))


def resolved(path: Path) -> Path:
    """A directory that a configuration names, without links. Those that root or this process's user made are
    followed. Raises `NotOfTheStore` for others.
    """
    with contextlib.suppress(OSError):
        os.close(_open(path, os.O_PATH))
        return path
    for _ in range(_LINKS_MAX):
        for place in (*reversed(path.parents), path):
            try:
                found = os.lstat(place)
            except OSError:
                return path  # nobody is led anywhere: whoever opens it says why
            if stat.S_ISLNK(found.st_mode):
                break
        else:
            return path
        if found.st_uid not in (0, os.geteuid()):
            reason = f"a link that user {found.st_uid} made, so it is not followed"
            raise NotOfTheStore(errno.ELOOP, f"not a directory of the store: {reason}", str(place))
        path = Path(os.path.normpath(place.parent / os.readlink(place)), path.relative_to(place))
    raise NotOfTheStore(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


# ---- looking ----


def status(path: AnyPath) -> os.stat_result:
    """Of what has this name, which may be a link. Raises OSError. Needs a descriptor for a moment; where none
    is left links above the name may have been followed.
    """
    try:
        descriptor = _open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in _SHORTAGES:
            raise
        with place(path) as (directory, name):
            of = None if directory == _AT_FDCWD else directory
            return os.stat(name, dir_fd=of, follow_symlinks=False)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def place(path: AnyPath) -> Iterator[tuple[int, bytes]]:
    """A directory's descriptor, and the name from there, as the reader of a file has them. Raises OSError."""
    if not _anchors:
        yield _AT_FDCWD, os.fsencode(path)
        return
    name, (directory, owner) = _anchored(os.fsencode(path))
    with _as(owner):
        yield directory, name


def may_change(path: AnyPath) -> bool:
    """Whether the system lets names be made and removed in this directory."""
    try:
        descriptor = _open(path, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        return os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True)
    finally:
        os.close(descriptor)


def disk_of(path: AnyPath) -> os.statvfs_result:
    """The disk that a directory is on. Raises OSError."""
    descriptor = _open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        return os.fstatvfs(descriptor)
    finally:
        os.close(descriptor)


def mode_of(path: AnyPath) -> int:
    """What has this name, as `stat.S_ISREG` and its like take it; 0: nothing, or nothing that can be seen."""
    try:
        return status(path).st_mode
    except OSError:
        return 0


def is_file(path: AnyPath) -> bool:
    return stat.S_ISREG(mode_of(path))


def is_folder(path: AnyPath) -> bool:
    return stat.S_ISDIR(mode_of(path))


def exists(path: AnyPath) -> bool:
    """Whether there is something of this name, if only a link."""
    return mode_of(path) != 0


def names_in(held: int) -> list[str]:
    """What is in a directory that is held open, in no order. Raises OSError."""
    return os.listdir(held)


def status_in(held: int, name: str | bytes) -> os.stat_result:
    """The same of a name in a directory that is held open: where many are looked at. Raises OSError."""
    return os.stat(name, dir_fd=held, follow_symlinks=False)


@contextlib.contextmanager
def folder(path: AnyPath) -> Iterator[int]:
    """The directory, held open, for calls that take a `dir_fd`; of one that was entered as its owner. Raises
    OSError.
    """
    descriptor = _open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _as(_owner_of(path)):
            yield descriptor
    finally:
        os.close(descriptor)


def names(path: AnyPath) -> list[str]:
    """What is in a directory, in no order. Raises OSError."""
    with folder(path) as held:
        return names_in(held)


def names_if_there(path: AnyPath) -> list[str]:
    """The same in their order; none where there is no such directory. Raises OSError."""
    try:
        return sorted(names(path))
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def entries(path: AnyPath) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The same as entries, good within this; they know their names, no paths. Raises OSError."""
    with folder(path) as held, os.scandir(held) as found:
        yield found


def below(
    path: AnyPath, failed: Callable[[OSError], None] | None = None
) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
    """As `os.walk` has it: a directory, the names of those in it, and of all else. Whoever takes one of the
    former away is not led into it. What cannot be listed goes to `failed`, or is raised.
    """
    left = [os.fsencode(path)]
    while left:
        top = left.pop()
        try:
            with entries(top) as found:
                kinds = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in found]
        except OSError as error:
            if failed is None:
                raise
            failed(error)
            continue
        folders = [name for name, is_dir in kinds if is_dir]
        yield top, folders, [name for name, is_dir in kinds if not is_dir]
        left += [os.path.join(top, name) for name in folders]


# ---- opening ----


def pin(path: AnyPath) -> int:
    """A descriptor of what has this name, which may be a link, for nothing but saying so. Raises OSError."""
    return _open(path, os.O_PATH | os.O_NOFOLLOW)


def pin_in(held: int, name: bytes) -> int:
    """The same of a name in a directory that is held open. Raises OSError."""
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)


def open_file(path: AnyPath, flags: int = READ) -> int:
    """A descriptor of a regular file that is there. Raises OSError."""
    return open_and_look(path, flags)[0]


def open_and_look(path: AnyPath, flags: int = READ) -> tuple[int, os.stat_result]:
    """The same, and what its status is. Raises OSError."""
    try:
        descriptor = _open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads, a socket
            raise refused(path, status(path).st_mode) from None
        raise
    return descriptor, _regular(descriptor, path)


def open_in(held: int, name: str) -> tuple[int, os.stat_result]:
    """The same for reading, of a name in a directory that is held open: where many are opened. Raises
    OSError.
    """
    if "/" in name or name in (".", ".."):
        raise NotOfTheStore(errno.ELOOP, "not a file of the store: its name leads out of it", name)
    try:
        descriptor = os.open(name, _READ_IN, dir_fd=held)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ELOOP):
            raise refused(name, status_in(held, name).st_mode) from None
        raise
    return descriptor, _regular(descriptor, name)


def is_hole(held: int, at: int, length: int) -> bool:
    """Whether the disk has nothing of these bytes of an open file, which are zeros then. Raises OSError."""
    try:
        return os.lseek(held, at, os.SEEK_DATA) >= at + length
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing behind that, either
            return True
        raise


def _regular(descriptor: int, name: AnyPath) -> os.stat_result:
    """The status of what was opened; closed and refused if it is no file."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise refused(name, found.st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return found


def read(path: AnyPath, length_max: int = -1) -> bytes:
    """A file, which may have a gigabyte, or the beginning of it. Raises OSError."""
    descriptor, found = open_and_look(path)
    with open(descriptor, "rb", buffering=0) as file:
        if length_max < 0 and found.st_size > READ_BYTES_MAX:
            raise OSError(errno.EFBIG, f"longer than {READ_BYTES_MAX} bytes", os.fsdecode(path))
        if length_max < 0:
            return file.read()
        return file.read(min(length_max, found.st_size or length_max))  # it takes the memory for what it asks


@contextlib.contextmanager
def opened(path: AnyPath, flags: int = READ) -> Iterator[int]:
    """A descriptor of a regular file that is there, closed at the end. Raises OSError."""
    descriptor = open_file(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held(path: AnyPath) -> Iterator[int]:
    """A descriptor of a file or directory, for changing its modes and times. Raises OSError."""
    is_dir = stat.S_ISDIR(status(path).st_mode)
    with folder(path) if is_dir else opened(path) as descriptor:
        yield descriptor


# ---- making ----

_likes: dict[bytes, bytes] = {}
"""By a directory of a store, the one that says which modes new files have there."""
_modes: dict[bytes, tuple[int, int]] = {}
"""By the latter, what new files may be, and new directories."""


def keep_modes(folders: Iterable[Path], like: Path) -> None:
    """What is made in these directories, and below, is to have the modes of what lies in `like` now, whatever
    the umask: a store whose files are its owner's alone stays so.
    """
    _modes.pop(os.fsencode(like), None)
    _likes.update((os.fsencode(one), os.fsencode(like)) for one in folders)


def _modes_like(like: bytes) -> tuple[int, int] | None:
    """None: there is nothing to be like."""
    if like not in _modes:
        files = 0o666
        try:
            own = stat.S_IMODE(status(like).st_mode) & 0o777
            with entries(like) as found:
                for one in found:
                    mode = one.stat(follow_symlinks=False).st_mode
                    files &= mode if stat.S_ISREG(mode) else 0o666
        except OSError:
            return None
        _modes[like] = files & own | 0o600, own | 0o700
    return _modes[like]


def _modes_in(path: bytes, parent: int | None) -> tuple[int, int]:
    """Of new files and directories. In a new store nothing is there to be like: the umask counts, and no more
    than the directory around it lets anybody do.
    """
    above = path
    while above:
        above = above.rpartition(b"/")[0]
        if above in _likes and (found := _modes_like(_likes[above])) is not None:
            return found
    own = 0o777 & ~_umask()
    if parent is not None:
        own &= stat.S_IMODE(os.fstat(parent).st_mode)
    return own & 0o666 | 0o600, own | 0o700


def most_below(path: AnyPath) -> tuple[int, int]:
    """The permission bits that files, and directories, in a directory of a store may have."""
    files, folders = _modes_in(os.path.join(os.fsencode(path), b"x"), None)
    return files | folders & 0o111, folders


def _umask() -> int:
    """This process's. The call that tells it changes it, for every thread."""
    for line in read(f"/proc/{os.getpid()}/status").splitlines():
        if line.startswith(b"Umask:"):
            return int(line.partition(b":")[2], 8)
    return 0o077


def hidden_bits(folders: Iterable[Path], group: int) -> int:
    """The permission bits of others, and of the group, whom these directories and the files in them do not
    all let look.
    """
    hidden = 0
    for place in folders:
        try:
            with folder(place) as held:
                found = [os.fstat(held), *(status_in(held, name) for name in names_in(held))]
        except OSError:
            continue  # it is not there, or goes
        for one in found:
            wanted = 0o5 if stat.S_ISDIR(one.st_mode) else 0o4
            hidden |= 0o007 if one.st_mode & wanted != wanted else 0
            hidden |= 0o070 if one.st_mode >> 3 & wanted != wanted or one.st_gid != group else 0
    return hidden


@contextlib.contextmanager
def _parent(path: AnyPath) -> Iterator[tuple[int, bytes]]:
    """The directory that a name is in, and the name, for changing what is there: as its owner, if it was
    entered.
    """
    above, _, name = os.fsencode(path).rstrip(b"/").rpartition(b"/")
    above = above or (b"/" if os.fsencode(path).startswith(b"/") else b".")
    if len(above) + 1 + len(name) > PATH_BYTES_MAX:  # it could be made, and never be named again
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), os.fsdecode(path))
    descriptor = _open(above, os.O_PATH | os.O_DIRECTORY)
    try:
        with _as(_owner_of(above)):
            yield descriptor, name
    except OSError as error:
        if not isinstance(error, NotOfTheStore):
            error.filename = os.fsdecode(path)
        raise
    finally:
        os.close(descriptor)


def create(path: AnyPath, flags: int = WRITE, *, mode: int | None = None) -> int:
    """A descriptor of a new file, which has the modes of its store, or what they let it have of `mode`.
    Raises OSError: FileExistsError where there is anything of that name.
    """
    with _parent(path) as (parent, name):
        usual, most = _modes_in(os.fsencode(path), parent)
        wanted = usual if mode is None else mode & (usual | most & 0o111)
        made = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags | made, wanted, dir_fd=parent)
        _settle(descriptor, parent, wanted)
        return descriptor


def write(path: AnyPath, content: bytes) -> None:
    """A new file that holds this. Raises OSError."""
    with open(create(path), "wb", buffering=0) as file:
        file.write(content)


def copy(path: AnyPath, to: AnyPath, advance: Callable[[int], None] = lambda _: None) -> None:
    """A new file that holds the same as another one; `advance` is told how many bytes went over. Raises
    OSError.
    """
    with open(open_file(path), "rb", buffering=0) as source, open(create(to), "wb", buffering=0) as made:
        while piece := source.read(_COPIED_BYTES):
            made.write(piece)
            advance(len(piece))


def create_instead(path: AnyPath) -> int:
    """The same in place of a file that nobody needs, or a link in its place: that goes. Raises OSError."""
    remove_if_there(path)
    return create(path)


def open_or_create(path: AnyPath) -> int:
    """A file that several processes share, for reading and writing. Raises OSError."""
    while True:
        try:
            return open_file(path, WRITE)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                return create(path)


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """All of it, which one call need not do. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@contextlib.contextmanager
def replacing(
    path: AnyPath, *, mode: int | None = None, synced: bool = True, named: bool = True
) -> Iterator[int]:
    """A descriptor of a new file, which takes the place of whatever has this name at the end, and goes if
    that fails; `NAME.PROCESS-CHANCE.tmp` until then. Raises OSError.

    A kill or a power cut at any moment leaves the old file or the new one, whole: the content is durable
    before it gets the name (`synced`), and the name before this ends (`named`). All files of ours are
    replaced by this function; a file that is removed first and then written is missing in between.
    """
    made = os.fsencode(path) + b".%d-%s.tmp" % (os.getpid(), secrets.token_hex(8).encode())
    descriptor = create(made, mode=mode)
    try:
        yield descriptor
        if synced:
            os.fsync(descriptor)
        rename(made, path)
        if synced and named:
            sync(_above(path))
    except BaseException:
        with contextlib.suppress(OSError):
            remove(made)
        raise
    finally:
        os.close(descriptor)


def replace(path: AnyPath, content: bytes, *, mode: int | None = None, named: bool = True) -> None:
    """Put a file with this content in the place of whatever has this name, durably: see `replacing`. Raises
    OSError.
    """
    with replacing(path, mode=mode, named=named) as made:
        write_all(made, content)


def sweep_replacements(path: AnyPath) -> None:
    """Remove what processes left that were killed while they replaced a file. Raises OSError."""
    folder_of, name = _above(path), os.path.basename(os.fsencode(path))
    for one in map(os.fsencode, names(folder_of)):
        if one.startswith(name + b".") and one.endswith(b".tmp"):
            process = one[len(name) + 1 : -4].partition(b"-")[0]
            if process.isdigit() and not is_running(int(process)):
                remove_if_there(os.path.join(folder_of, one))


def is_running(process: int) -> bool:
    """Return whether there is a process of that number."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _above(path: AnyPath) -> bytes:
    return os.path.dirname(os.fsencode(path)) or b"."


def make_folder(path: AnyPath, *, mode: int | None = None) -> None:
    """A new directory. Raises OSError."""
    with _parent(path) as (parent, name):
        most = _modes_in(os.fsencode(path), parent)[1]
        wanted = most if mode is None else mode & most
        os.mkdir(name, wanted & 0o700, dir_fd=parent)
        with _folder_in(parent, name) as made:
            if os.listdir(made):  # it is not what was made: somebody put another there
                raise refused(path, stat.S_IFDIR)
            _settle(made, parent, wanted | os.fstat(made).st_mode & stat.S_ISGID)


def make_folders(path: AnyPath, *, mode: int | None = None) -> None:
    """A directory, and those above it. It may be there. Raises OSError."""
    name = os.fsencode(path)
    missing: list[bytes] = []
    # A path of 4,096 bytes has up to 2,048 names: more than functions may call each other.
    while name and not is_folder(name):
        missing.append(name)
        name = name.rstrip(b"/").rpartition(b"/")[0]
    for one in reversed(missing):
        try:
            make_folder(one, mode=mode)
        except FileExistsError:
            if not is_folder(one):
                raise


def make_for_owner(path: AnyPath) -> None:
    """Make a directory for the store's owner in one of root's, where that owner cannot: the volume of a
    container is root's, and what lies in it the broker's user's. Nothing is done where this process is not
    root's, or others can write there. Raises OSError.
    """
    if not store_owner.has_adopted() or exists(path):
        return
    user, group = store_owner.acts_as()
    with _parent(path) as (parent, name), store_owner.as_started():
        above = os.fstat(parent)
        if above.st_uid != 0 or above.st_mode & 0o022:
            return
        os.mkdir(name, 0o700, dir_fd=parent)
        with _folder_in(parent, name) as made:
            os.fchown(made, user, group)
            os.fchmod(made, _modes_in(os.fsencode(path), parent)[1])


def _settle(made: int, parent: int, mode: int) -> None:
    """Give what was just made its modes, and, if root made it, the owner of the directory that it is in."""
    if stat.S_IMODE(os.fstat(made).st_mode) != mode:
        os.fchmod(made, mode)
    owner = os.fstat(parent)
    if os.geteuid() == 0 and owner.st_uid != 0:
        # Where not even root may give away, as on some network disks, it stays as it was made.
        with contextlib.suppress(PermissionError):
            os.fchown(made, owner.st_uid, owner.st_gid)


def truncate(path: AnyPath, size_bytes: int) -> None:
    """Raises OSError."""
    with opened(path, WRITE) as descriptor:
        os.ftruncate(descriptor, size_bytes)


def touch(path: AnyPath) -> None:
    """Of a file or directory: it was used now. Raises OSError."""
    with held(path) as descriptor:
        os.utime(descriptor)


# ---- naming and removing ----


def rename(old: AnyPath, new: AnyPath) -> None:
    """Raises OSError."""
    with _parent(old) as (source, old_name), _parent(new) as (target, new_name):
        os.rename(old_name, new_name, src_dir_fd=source, dst_dir_fd=target)


def link(file: AnyPath, name: AnyPath) -> None:
    """Give a file a second name; a link gets none. Raises OSError."""
    with _parent(file) as (source, old_name), _parent(name) as (target, new_name):
        mode = os.stat(old_name, dir_fd=source, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise refused(file, mode)
        os.link(old_name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


def remove(path: AnyPath) -> None:
    """A name of a file, or of a link. Raises OSError: IsADirectoryError for a directory."""
    with _parent(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def remove_if_there(path: AnyPath) -> None:
    """The same of what may be gone. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        remove(path)


def remove_folder(path: AnyPath) -> None:
    """An empty directory. Raises OSError."""
    with _parent(path) as (parent, name):
        os.rmdir(name, dir_fd=parent)


def remove_tree(path: AnyPath) -> None:
    """A directory with all that is in it, or a name of anything else. Raises OSError."""
    with _parent(path) as (parent, name):
        if not _removed_or_folder(parent, name):
            with _folder_in(parent, name) as top:
                while found := os.listdir(top):
                    for one in found:
                        _empty_into(top, one)
            os.rmdir(name, dir_fd=parent)


def _empty_into(top: int, name: str) -> None:
    """Remove what has this name; directories in it come into `top`: they may be deeper than any call."""
    if _removed_or_folder(top, name):
        return
    with _folder_in(top, name) as held:
        for one in os.listdir(held):
            if not _removed_or_folder(held, one):
                os.rename(one, secrets.token_hex(16), src_dir_fd=held, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


def _removed_or_folder(parent: int, name: bytes | str) -> bool:
    """False: it is a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        return False
    return True


@contextlib.contextmanager
def _folder_in(parent: int, name: bytes | str) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync(path: AnyPath) -> None:
    """Make a file's content, or the names in a directory, durable. Raises OSError."""
    descriptor = _open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
