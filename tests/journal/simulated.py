"""A disk in memory that forgets what was not synced: the backend that crash tests write through.

`crash` makes of the disk what a power cut may leave: of each write that was not synced all, nothing, or some
of its 512-byte sectors; of each change of names that was not synced, the effect or none, but nothing of a
name once one of its earlier changes is gone. Everything random comes from the seed given to `crash`.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from journalfs.engine._native import ffi
from journalfs.engine.backend import BackendKind, Completion, OpenFile
from journalfs.engine.stage import Stage
from journalfs.engine.tail import Tail

SECTOR_BYTES = 512


class MemoryView:
    """Bytes for the C core."""

    __slots__ = ("_owner", "pointer", "size_bytes")

    def __init__(self, data: bytes) -> None:
        self._owner = data
        self.pointer: Any = ffi.from_buffer("uint8_t[]", data)
        self.size_bytes = len(data)


@dataclass(slots=True)
class _Inode:
    """A file: what a power cut leaves for sure, and what was written since, oldest first."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        _put(self.content, offset, data)

    def sync(self) -> None:
        self.durable[:] = self.content
        self.pending.clear()


def _put(target: bytearray, offset: int, data: bytes) -> None:
    if len(target) < offset + len(data):
        target.extend(bytes(offset + len(data) - len(target)))
    target[offset : offset + len(data)] = data


@dataclass(slots=True)
class SimulatedFile:
    name: str
    inode: _Inode
    alignment_bytes: int = 1

    @property
    def size_bytes(self) -> int:
        return len(self.inode.content)


@dataclass(frozen=True, slots=True)
class _Submitted:
    inode: _Inode
    alignment_bytes: int
    offset: int
    data: bytes
    durable: bool
    tag: int


@dataclass(slots=True)
class SimulatedDisk:
    """One directory. `before` is called with the name of every storage call before it is carried out; what it
    raises, the call raises, having done nothing.
    """

    alignment_bytes: int = 1
    depth: int = 1
    before: Callable[[str], None] | None = None
    room_bytes: int = 1 << 40
    """What it says that there is room for. Files are made all the same."""
    kind: BackendKind = BackendKind.SIMULATED
    event_fd: int | None = None
    performs: bool = True
    defers: bool = False
    broke_off: BaseException | None = None
    """What ended a write for whoever the end of a journal was lent to."""
    _names: dict[str, _Inode] = field(default_factory=dict)
    _durable_names: dict[str, _Inode] = field(default_factory=dict)
    _changes: list[tuple[str, str, _Inode | None]] = field(default_factory=list)
    """(name it leaves or "", name it takes or "", file), since the directory was synced."""
    _submitted: list[_Submitted] = field(default_factory=list)

    def _call(self, what: str) -> None:
        if self.before is not None:
            self.before(what)

    def _inode(self, name: str) -> _Inode:
        try:
            return self._names[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None

    def free_bytes(self) -> int:
        return self.room_bytes

    def names(self) -> list[str]:
        return sorted(name for name in self._names if "/" not in name)

    def size_bytes(self, name: str) -> int:
        return len(self._inode(name).content)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self._inode(name).content[offset : offset + length])

    def view(self, name: str) -> MemoryView:
        return MemoryView(bytes(self._inode(name).content))

    def allocate(self, name: str, size_bytes: int) -> None:
        self._call("allocate")
        inode = _Inode(bytearray(size_bytes), [], bytearray(size_bytes))
        self._changes.append(("", name, inode))
        self._names[name] = inode

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        self._call("write_at")
        self._inode(name).write(offset, data)

    def sync(self, name: str) -> None:
        self._call("sync")
        self._inode(name).sync()

    def rename(self, old: str, new: str) -> None:
        self._call("rename")
        inode = self._inode(old)
        self._changes.append((old, new, inode))
        del self._names[old]
        self._names[new] = inode

    def remove(self, name: str) -> None:
        self._call("remove")
        self._inode(name)
        self._changes.append((name, "", None))
        del self._names[name]

    def make_folder(self, name: str) -> None:
        self._call("make_folder")

    def is_linked(self, name: str) -> bool:
        self._inode(name)
        return False

    def folder_size(self, name: str) -> int:
        return sum(other.startswith(f"{name}/") for other in self._names)

    def sync_directory(self) -> None:
        self._call("sync_directory")
        self._durable_names = dict(self._names)
        self._changes.clear()

    def open(self, name: str, *, dense: bool = False) -> SimulatedFile:
        return SimulatedFile(name, self._inode(name), 1 if dense else self.alignment_bytes)

    def close_file(self, file: OpenFile) -> None:
        """Nothing is held open."""

    def lost(self, file: OpenFile) -> OSError | None:
        """Nobody else is at it."""

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        try:
            self.submit(file, stage, length, durable=True, tag=0)
        except OSError as failure:
            return failure.errno or errno.EIO
        return self.completed(0)[0].error

    def lend(self, file: OpenFile, tail: Tail) -> None:
        def write(length: int) -> int:
            assert tail.stage is not None
            try:
                return self.perform(file, tail.stage, length)
            except BaseException as error:  # C takes none
                self.broke_off = error
                return errno.EIO

        tail.by_call(write)

    def took_ns(self) -> None:
        """As the writer's clock says."""

    def ring(self) -> None:
        """Nobody waits for an event."""

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        self._call("submit")
        assert isinstance(file, SimulatedFile)
        assert len(self._submitted) < self.depth
        offset = stage.file_offset
        assert offset % file.alignment_bytes == length % file.alignment_bytes == 0
        assert offset + length <= file.size_bytes, "a write beyond the end of a journal file"
        data = stage.content(length)
        file.inode.write(offset, data)
        self._submitted.append(_Submitted(file.inode, file.alignment_bytes, offset, data, durable, tag))

    def completed(self, timeout_ns: int) -> list[Completion]:
        done: list[Completion] = []
        for write in self._submitted:
            error = 0
            try:
                self._call("complete")
                if write.durable:
                    self._make_durable(write)
            except OSError as failure:
                error = failure.errno or errno.EIO
            done.append(Completion(write.tag, error))
        self._submitted.clear()
        return done

    def _make_durable(self, write: _Submitted) -> None:
        """Direct writes sync themselves; NIO syncs the file, whatever was written to it before."""
        if write.alignment_bytes == 1:
            write.inode.sync()
            return
        write.inode.pending.remove((write.offset, write.data))
        _put(write.inode.durable, write.offset, write.data)

    def close(self) -> None:
        self._submitted.clear()

    # ---- what tests do to it ----

    def crash(self, seed: int) -> SimulatedDisk:
        """The disk after a power cut now."""
        chance = random.Random(seed)
        after = SimulatedDisk(self.alignment_bytes, self.depth)
        inodes: dict[int, _Inode] = {}
        names = dict(self._durable_names)
        gone: set[str] = set()
        for old, new, inode in self._changes:
            if {old, new} & gone or chance.random() < 0.5:
                gone |= {old, new} - {""}
                continue
            if old:
                names.pop(old, None)
            if new and inode is not None:
                names[new] = inode
        for name, inode in names.items():
            if id(inode) not in inodes:
                inodes[id(inode)] = _after_crash(inode, chance)
            after._names[name] = inodes[id(inode)]
        after._durable_names = dict(after._names)
        return after

    def process_killed(self) -> SimulatedDisk:
        """The disk after the process was killed and the machine went on: nothing written is lost."""
        after = SimulatedDisk(self.alignment_bytes, self.depth)
        inodes = {id(inode): inode for inode in [*self._names.values(), *self._durable_names.values()]}
        inodes |= {id(inode): inode for _, _, inode in self._changes if inode is not None}
        copies = {
            key: _Inode(bytearray(inode.durable), list(inode.pending), bytearray(inode.content))
            for key, inode in inodes.items()
        }
        after._names = {name: copies[id(inode)] for name, inode in self._names.items()}
        after._durable_names = {name: copies[id(inode)] for name, inode in self._durable_names.items()}
        after._changes = [
            (old, new, None if inode is None else copies[id(inode)]) for old, new, inode in self._changes
        ]
        return after

    def contents(self) -> dict[str, bytes]:
        """Name -> bytes of everything there is."""
        return {name: bytes(inode.content) for name, inode in self._names.items()}


def _after_crash(inode: _Inode, chance: random.Random) -> _Inode:
    content = bytearray(inode.durable)
    for offset, data in inode.pending:
        fate = chance.random()
        if fate < 0.3:
            continue
        if fate < 0.6:
            _put(content, offset, data)
            continue
        for at, piece in _sectors(offset, data):
            if chance.random() < 0.5:
                _put(content, at, piece)
    return _Inode(bytearray(content), [], content)


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    pieces = []
    at = 0
    while at < len(data):
        length = min(SECTOR_BYTES - (offset + at) % SECTOR_BYTES, len(data) - at)
        pieces.append((offset + at, data[at : at + length]))
        at += length
    return pieces
