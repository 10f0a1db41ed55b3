"""One owner: the node manager's locks, taken, held and let go of as a broker does.

`serverlock.1` is locked for as long as the store may be changed; `server.lock` says in which state its owner
is, and who the node is. Two differences to a broker of today. It writes the state before it has the lock,
which a running one takes for a sign that it lost its own: here the lock comes first. And one byte of
`server.lock` stays locked, which is the lock of brokers before 2.10 and keeps those of today, while they
wait, from writing their own state into it. Inside an instance the lock of the broker's own commands is taken
as well. docs/format/journal-file.md, "Lock files".
"""

from __future__ import annotations

import errno
import os
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.clock import Clock
from journalfs.config.layout import StoreLayout
from journalfs.errors import DecodeError, StoreBusy, SystemFailure
from journalfs.format.server_lock import (
    PRIMARY_LOCK_NAME,
    SERVER_LOCK_NAME,
    NodeState,
    ServerLock,
    decode_server_lock,
    encode_server_lock,
)
from journalfs.store.journal_setup import not_made
from journalfs.store.locks import PRIMARY_BYTE, WHOLE, LockedFile, Range, read_beginning, take
from journalfs.store.shared_files import refuse_shared_files
from journalfs.store.snapshot_folder import refuse_writing

ASK_AGAIN_S: Final = 0.5
"""Pause between two attempts while another process has the lock: a broker's."""

WAIT_FOR_EVER_MS: Final = -1

_CLI_LOCK: Final = Path("lock", "cli.lock")
_SERVER_LOCK_BYTES: Final = 19
_COMMAND_LINE_BYTES_MAX: Final = 64 * 1024
_COMMAND_END_CHARS: Final = 60


class NodeLock:
    """The lock of a store that this process holds. The caller must call `release` once, whatever happens."""

    def __init__(self, held: list[LockedFile]) -> None:
        self._held = held
        self._server_lock = held[-1]
        self._active = False
        before = _decoded(self._server_lock.read(_SERVER_LOCK_BYTES))
        self.node_id: Final = before.node_id or _new_node_id()
        self._state_before = before.state_byte
        self.was_stopped: Final = before.state is NodeState.STOPPED
        """True where the last holder left the store in order."""
        if before.node_id is None:
            self._server_lock.write(encode_server_lock(NodeState.STARTING, self.node_id))
        else:
            self._server_lock.write(bytes((NodeState.STARTING.value,)))

    @classmethod
    def acquire(
        cls,
        layout: StoreLayout,
        timeout_ms: int,
        clock: Clock,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> NodeLock:
        """Take the store for writing, waiting at most `timeout_ms` for another process to let go of it.

        0: do not wait; `WAIT_FOR_EVER_MS`: as long as it takes. Raises `StoreBusy` saying who has it, and
        `SystemFailure`, and `WrongCall` for a snapshot and for files that another store has, too. The lock's
        directory is made if it is missing.
        """
        refuse_writing(layout.root)
        refuse_shared_files(layout)
        return cls._acquire(lambda: _take_all(layout), layout.node_manager_lock_dir, timeout_ms, clock, pause)

    @classmethod
    def acquire_older(cls, root: Path, lock_dir: Path, clock: Clock) -> NodeLock:
        """Take the lock, without waiting, of a store of brokers before 2.10, which lock nothing else."""
        wanted = [(lock_dir / SERVER_LOCK_NAME, PRIMARY_BYTE)]
        return cls._acquire(lambda: _taken(root, wanted), lock_dir, 0, clock, time.sleep)

    @classmethod
    def _acquire(
        cls,
        take_all: Callable[[], list[LockedFile]],
        lock_dir: Path,
        timeout_ms: int,
        clock: Clock,
        pause: Callable[[float], None],
    ) -> NodeLock:
        began_ns = clock.monotonic_ns()
        while True:
            try:
                return cls._begun(take_all())
            except OSError as error:
                path = error.filename or lock_dir
                if error.errno == errno.EROFS:
                    reason = "its file system is read-only; mount it with --read-only to look at it"
                    text = f"{path}: cannot lock the store: {reason}"
                    raise SystemFailure(text, system_errno=error.errno) from error
                raise SystemFailure.from_os(error, path, doing="lock the store") from error
            except StoreBusy:
                waited_ms = (clock.monotonic_ns() - began_ns) // 1_000_000
                if timeout_ms != WAIT_FOR_EVER_MS and waited_ms >= timeout_ms:
                    raise
            pause(ASK_AGAIN_S)

    @classmethod
    def _begun(cls, held: list[LockedFile]) -> NodeLock:
        try:
            return cls(held)
        except BaseException:
            _release_all(held)
            raise

    def activated(self) -> None:
        """The journals are loaded: from here on, ending without `release` leaves what a killed broker does.
        Raises `SystemFailure`.
        """
        self._set_state(NodeState.ACTIVE.value)
        self._active = True

    def release(self) -> None:
        """Let go of the store: stopped cleanly if it was active, else as it was found. Raises
        `SystemFailure`; the store is let go of even so.
        """
        try:
            self._set_state(NodeState.STOPPED.value if self._active else self._state_before)
        finally:
            _release_all(self._held)

    def _set_state(self, state_byte: int) -> None:
        try:
            self._server_lock.write(bytes((state_byte,)))
        except OSError as error:
            path = self._server_lock.path
            raise SystemFailure.from_os(error, path, doing="write the node's state") from error


def node_id_of(layout: StoreLayout) -> uuid.UUID | None:
    """Return the node that a store belongs to, also while another process holds it; None before its first
    start. Raises `SystemFailure`.
    """
    found = server_lock_of(layout)
    return None if found is None else found.node_id


def server_lock_of(layout: StoreLayout) -> ServerLock | None:
    """Return what the last holder left in `server.lock`; None before its first start. Raises
    `SystemFailure`.
    """
    path = layout.node_manager_lock_dir / SERVER_LOCK_NAME
    try:
        content = read_beginning(path, _SERVER_LOCK_BYTES)
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="look whose store it is") from error
    return None if content is None else _decoded(content)


def _decoded(content: bytes) -> ServerLock:
    if not content:
        return ServerLock(NodeState.NEVER_STARTED, NodeState.NEVER_STARTED.value, None)
    try:
        return decode_server_lock(content)
    except DecodeError:
        # A broker too makes a new id if one died before all of the first was written.
        return decode_server_lock(content[:1])


def _take_all(layout: StoreLayout) -> list[LockedFile]:
    """All locks or none, in the broker's order; that of `server.lock` is the last."""
    directory = layout.node_manager_lock_dir
    door.make_folders(directory)
    wanted: list[tuple[Path, Range]] = [
        (directory / PRIMARY_LOCK_NAME, WHOLE),
        (directory / SERVER_LOCK_NAME, PRIMARY_BYTE),
    ]
    instance = _instance(layout)
    if instance is not None:
        folder = (instance / _CLI_LOCK).parent
        try:
            door.make_folders(folder)
        except OSError as error:
            raise not_made(error, folder) from error
        wanted.insert(0, (instance / _CLI_LOCK, WHOLE))
    return _taken(layout.root, wanted)


def _taken(root: Path, wanted: Sequence[tuple[Path, Range]]) -> list[LockedFile]:
    """All locks or none."""
    held: list[LockedFile] = []
    try:
        for path, part in wanted:
            taken = take(path, part)
            if isinstance(taken, int):
                raise StoreBusy(root, describe_process(taken))
            held.append(taken)
    except BaseException:
        _release_all(held)
        raise
    return held


def _release_all(held: list[LockedFile]) -> None:
    for file in reversed(held):
        file.release()


def _instance(layout: StoreLayout) -> Path | None:
    """The broker instance that the store is part of: only there do a broker's commands lock anything. A store
    that is not kept is part of none.
    """
    file = layout.broker_xml if layout.not_kept_by is None else None
    return file.parent.parent if file is not None and file.parent.name == "etc" else None


def describe_process(process: int) -> str:
    """A process as its owner would know it: its id and its command line."""
    if process == os.getpid():
        return f"this process ({process})"
    if process == 0:
        return "a process that cannot be seen from here, perhaps in another container"
    try:
        with Path(f"/proc/{process}/cmdline").open("rb") as file:
            raw = file.read(_COMMAND_LINE_BYTES_MAX)
    except OSError:
        return f"process {process}"
    words = " ".join(raw.decode("utf-8", "replace").replace("\0", " ").split())
    command = "".join(character if character.isprintable() else "?" for character in words)
    if len(command) > 2 * _COMMAND_END_CHARS:
        # The beginning says which program, the end often what it does: a broker's options lie between.
        command = f"{command[:_COMMAND_END_CHARS]} ... {command[-_COMMAND_END_CHARS:]}"
    return f"process {process} ({command})" if command else f"process {process}"


def _new_node_id() -> uuid.UUID:
    """By time, as brokers make them; random where they put the network card's address."""
    return uuid.uuid1(node=secrets.randbits(48) | 1 << 40)
