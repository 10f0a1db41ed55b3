"""What can go wrong in operation: one base class, stable identifiers, exit codes and errnos.

A message is one line that says which file, offset or setting it is about and what the user can do. Mistakes
of the program itself are assertions, not these. The list for users is docs/reference/errors.md.
"""

# The names say what happened (`raise NotAStore(...)`); a suffix on each would only repeat the base class.
# ruff: noqa: N818

from __future__ import annotations

import errno as errnos
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

EXIT_OK = 0
EXIT_WRONG_CALL = 1
EXIT_SYSTEM = 2
EXIT_NOT_A_STORE = 3
EXIT_UNKNOWN_VERSION = 4
EXIT_DAMAGED = 5
EXIT_CONFIG = 6
EXIT_BUSY = 7
EXIT_DEPENDENCY = 8
EXIT_MOUNT_FAILED = 32


class JournalfsError(Exception):
    """An operating failure.

    `identifier` never changes once released, so scripts may match it; `exit_code` is what a command ends with
    and `errno` what a file operation fails with.
    """

    identifier: ClassVar[str] = "failure"
    exit_code: ClassVar[int] = EXIT_SYSTEM
    errno: ClassVar[int] = errnos.EIO

    def __init_subclass__(
        cls, *, identifier: str | None = None, exit_code: int | None = None, errno: int | None = None
    ) -> None:
        """What is left out is as in the base class."""
        cls.identifier = cls.identifier if identifier is None else identifier
        cls.exit_code = cls.exit_code if exit_code is None else exit_code
        cls.errno = cls.errno if errno is None else errno

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def remedy(self) -> str:
        """What to do: the end of the message, behind its last semicolon; empty where it names nothing."""
        return self.message.rpartition("; ")[2] if "; " in self.message else ""

    def __str__(self) -> str:
        return self.message


class WrongCall(JournalfsError, identifier="wrong-call", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL):
    """The command or option cannot be carried out as given."""


class SystemFailure(JournalfsError, identifier="system-failure", exit_code=EXIT_SYSTEM):
    """The operating system refused something that was expected to work."""

    def __init__(self, message: str, *, system_errno: int | None = None) -> None:
        super().__init__(message)
        self.system_errno = system_errno

    @classmethod
    def from_os(cls, error: OSError, path: Path | str, *, doing: str) -> SystemFailure:
        """Wrap `error`; `doing` completes "cannot ...", as in "cannot read"."""
        return cls(f"{path}: cannot {doing}: {error.strerror or error}", system_errno=error.errno)


@contextmanager
def failing(doing: str, path: Path | str, *, found: bool = False) -> Iterator[None]:
    """What the system refuses meanwhile is a `SystemFailure`. `found`: of the path that it names, if any."""
    try:
        yield
    except OSError as error:
        raise SystemFailure.from_os(error, (found and error.filename) or path, doing=doing) from error


def single(error: BaseException) -> BaseException:
    """The one error of a group that has one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class MountRefused(JournalfsError, identifier="mount-refused", exit_code=EXIT_SYSTEM):
    """A mount refused what its files were asked for; `system_errno` is what it said."""

    def __init__(self, message: str, system_errno: int = errnos.EIO) -> None:
        super().__init__(message)
        self.system_errno = system_errno


class NoMessage(JournalfsError, identifier="no-message", exit_code=EXIT_WRONG_CALL, errno=errnos.EAGAIN):
    """No message came to a queue in the time that somebody waits for one."""


_SHORTAGES = frozenset((errnos.EMFILE, errnos.ENFILE, errnos.ENOMEM))


class OutOfResources(SystemFailure, identifier="out-of-resources"):
    """This process had no descriptor or memory left for what it was to open, which says nothing of the file.

    It is no OSError, so that whoever takes an OSError for damage does not take this for it.
    """


def refuse_shortage(error: OSError, path: Path | str) -> None:
    """Raises `OutOfResources` where an error is of this process and not of the file. Returns for others."""
    if error.errno in _SHORTAGES:
        raise OutOfResources.from_os(error, path, doing="open") from error


class NotAStore(JournalfsError, identifier="not-a-store", exit_code=EXIT_NOT_A_STORE, errno=errnos.EINVAL):
    """A path that holds no message store."""

    def __init__(
        self,
        path: Path | str,
        reason: str,
        *,
        looked_for: Sequence[str] = (),
        give: str = "a broker's data directory, a broker instance, or a journal directory",
    ) -> None:
        looked = f" (looked for {', '.join(looked_for)})" if looked_for else ""
        super().__init__(f"{path}: {reason}{looked}; give {give}")
        self.path = Path(path)


class UnknownVersion(
    JournalfsError, identifier="unknown-version", exit_code=EXIT_UNKNOWN_VERSION, errno=errnos.EINVAL
):
    """A store or file that was recognised but is of a version or product that cannot be read."""

    def __init__(self, path: Path | str, found: str, *, advice: str) -> None:
        super().__init__(f"{path}: {found}; {advice}")
        self.path = Path(path)
        self.found = found


class OlderStore(UnknownVersion, identifier="older-store"):
    """A store of an older broker, which can be read, and carried into a new store, and nothing else.

    `kind` names the format and `root` its directory; the other directories are where such a broker has them.
    """

    def __init__(
        self, path: Path | str, found: str, *, kind: str, root: Path, journal: Path, bindings: Path
    ) -> None:
        advice = "it can be read, not written; `journalfs convert` makes a store of it that can"
        super().__init__(path, found, advice=advice)
        self.kind = kind
        self.root = root
        self.journal_dir = journal
        self.bindings_dir = bindings
        self.layout: Any = None
        """The `StoreLayout` that a configuration of that broker says; None: there is none."""


class Damaged(JournalfsError, identifier="damaged", exit_code=EXIT_DAMAGED, errno=errnos.EIO):
    """Bytes of the store that cannot be read as what they must be."""

    advice = "what could be read is kept, see .journalfs/damaged"

    def __init__(self, file: Path | str, offset: int, reason: str) -> None:
        super().__init__(f"{file}: damaged at offset {offset}: {reason}; {self.advice}")
        self.file = str(file)
        self.offset = offset
        self.reason = reason


class DamagedBackup(Damaged, identifier="damaged-backup"):
    """Bytes of a backup that are not what was written."""

    advice = (
        "nothing was restored of it; journalfs scrub mends it from the store if that still has these bytes, "
        "restore --damaged leaves a hole there, and backup verify --all says which backups are whole"
    )


class PartMissing(JournalfsError, identifier="part-missing", exit_code=EXIT_DAMAGED, errno=errnos.EIO):
    """A part of the store is not there, and what is left of it says that it was."""

    def __init__(self, directory: Path | str, missing: str, found: str, setting: str) -> None:
        super().__init__(
            f"{directory}: {missing}, but {found}: not opened for writing, which would begin anew and clear "
            f"away what is left; see that its disk is mounted and that {setting} is right"
        )


class BooksDoNotBalance(JournalfsError, identifier="books-do-not-balance", exit_code=EXIT_SYSTEM):
    """What a command made of a store is not what it says that it carried: a fault of journalfs."""

    def __init__(self, queue: str, source: int, made: int, name: str) -> None:
        super().__init__(
            f"{queue}: the source has {source:,} messages, and {made:,} are accounted for, in {name} or not "
            f"carried: a fault of journalfs; do not use {name}, keep the source, and report this line with "
            "the output of journalfs check"
        )
        self.queue = queue
        self.source = source
        self.made = made


class MadeNotWhole(JournalfsError, identifier="made-not-whole", exit_code=EXIT_SYSTEM):
    """What a command made of a store has damage that the source has not: a fault of journalfs."""

    def __init__(self, name: str, file: str, reason: str) -> None:
        super().__init__(
            f"{name}: {file}: {reason}, which is not so in the source: a fault of journalfs; do not use "
            f"{name}, keep the source, and report this line with the output of journalfs check"
        )


class Gone(JournalfsError, identifier="gone", errno=errnos.ESTALE):
    """A file of the store that a broker deleted after it was listed: nothing in it is live any more."""

    def __init__(self, file: Path | str) -> None:
        super().__init__(f"{file}: deleted by the broker since it was listed; look again")
        self.file = str(file)


class StaleView(JournalfsError, identifier="stale-view", errno=errnos.ESTALE):
    """A file of the store that is not what was listed: a broker used a journal file again, all of whose
    messages were consumed, or somebody replaced, cut or overwrote it.
    """

    def __init__(self, file: Path | str, *, missing: str | None = None) -> None:
        """`missing`: what is no longer there, where more is known than that the file was used again."""
        what = "used again by the broker since it was listed"
        if missing is not None:
            what = f"changed since it was listed: {missing}"
        super().__init__(f"{file}: {what}; look again")
        self.file = str(file)


class DecodeError(JournalfsError, identifier="undecodable", exit_code=EXIT_DAMAGED, errno=errnos.EIO):
    """A value that does not fit its buffer or its type. `offset` counts from the start of the decoded buffer.

    Codecs raise it; whoever knows the file turns it into `Damaged` or into an entry of a damage report.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"cannot decode at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class ConfigError(JournalfsError, identifier="bad-configuration", exit_code=EXIT_CONFIG, errno=errnos.EINVAL):
    """A mistake in a configuration file."""

    def __init__(
        self, file: Path | str, reason: str, *, line: int | None = None, setting: str | None = None
    ) -> None:
        place = f"{file}:{line}" if line is not None else f"{file}"
        named = f"{setting}: " if setting else ""
        super().__init__(f"{place}: {named}{reason}")
        self.file = str(file)
        self.line = line
        self.setting = setting
        self.reason = reason


class MaskedValueError(JournalfsError, identifier="masked-value", exit_code=EXIT_CONFIG, errno=errnos.EINVAL):
    """A masked (`ENC(...)`) value that cannot be turned back into text."""


class DependencyMissing(
    JournalfsError, identifier="dependency-missing", exit_code=EXIT_DEPENDENCY, errno=errnos.ENOSYS
):
    """An optional library that this operation needs is not installed."""

    def __init__(self, what_for: str, *, package: str, install: str) -> None:
        super().__init__(f"{what_for} needs {package}, which is not installed; run: {install}")


class SelectorError(
    JournalfsError, identifier="bad-selector", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL
):
    """A message selector that does not parse. `position` is the 0-based character the mistake begins at."""

    def __init__(self, selector: str, position: int, reason: str) -> None:
        super().__init__(f"selector {selector!r}: {reason} at character {position + 1}")
        self.selector = selector
        self.position = position
        self.reason = reason


class NamesUnset(
    JournalfsError, identifier="selector-names-unset", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL
):
    """A selector that compares two names of which no message has either, so that it may accept all."""

    def __init__(self, selector: str, names: tuple[str, str]) -> None:
        first, second = names
        super().__init__(
            f"selector {selector!r}: it compares the names {first} and {second}, and no message here has "
            f"either, so it chooses all messages or none; text stands in single quotes: {first} = '{second}'"
        )
        self.selector = selector
        self.names = names


class NameRefused(JournalfsError, identifier="bad-name", exit_code=EXIT_WRONG_CALL, errno=errnos.ENOENT):
    """A file name that stands for nothing, such as a broken percent escape."""

    def __init__(self, name: bytes, reason: str) -> None:
        super().__init__(f"file name {os.fsdecode(name)!r}: {reason}")
        self.name = name
        self.reason = reason


class StoreBusy(JournalfsError, identifier="store-busy", exit_code=EXIT_BUSY, errno=errnos.EBUSY):
    """Another process holds the store for writing."""

    def __init__(
        self,
        path: Path | str,
        holder: str,
        advice: str = "stop that, or look at it with journalfs mount --read-only",
    ) -> None:
        super().__init__(f"{path}: the store is in use by {holder}; {advice}")
        self.path = Path(path)
        self.holder = holder


class StoreShared(StoreBusy, identifier="store-shared"):
    """Somebody is connected to the database of a store as a broker is. No lock tells whether it is one."""


class ReadOnlyStore(
    JournalfsError, identifier="read-only-store", exit_code=EXIT_WRONG_CALL, errno=errnos.EROFS
):
    """A change was asked of a store that is mounted read-only."""


class WriteFailed(JournalfsError, identifier="write-failed", exit_code=EXIT_SYSTEM):
    """A write or a sync of the journal failed, so nothing says what is on the disk: it takes no more changes.

    `system_errno` is what the kernel said. Whoever asks for a change afterwards gets `ReadOnlyStore`.
    """

    def __init__(self, file: Path | str, reason: str, *, system_errno: int) -> None:
        advice = "the store takes no changes until it is mounted again"
        # Where no disk failed, the reason says whose fault it was.
        of_disk = f"{file}: writing failed: {reason}; {advice}, see to the disk first"
        super().__init__(of_disk if system_errno else f"{reason}; {advice}")
        self.file = str(file)
        self.system_errno = system_errno


class StoreAway(WriteFailed, identifier="store-away"):
    """What keeps the store takes longer than it may, or cannot take anything at the moment. What was being
    written goes on, and so does the store once that is over.
    """

    def __init__(self, store: str, reason: str, *, system_errno: int) -> None:
        message = f"{reason}; what was being written counts once {store} takes it, and nothing else meanwhile"
        JournalfsError.__init__(self, message)
        self.file, self.system_errno = store, system_errno


class StoreOutOfRoom(StoreAway, identifier="store-away", errno=errnos.ENOSPC):
    """What keeps the store has no room at the moment."""


class NoSpace(JournalfsError, identifier="no-space", exit_code=EXIT_SYSTEM, errno=errnos.ENOSPC):
    """The file system has no room for another journal file; what is left is kept for acknowledgements."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(
            f"{path}: no room for another journal file: {reason}; consume messages, or make room on the disk"
        )
        self.path = Path(path)


class RecordTooLarge(
    JournalfsError, identifier="record-too-large", exit_code=EXIT_WRONG_CALL, errno=errnos.EMSGSIZE
):
    """A record that fits neither into the write buffer nor into a journal file."""

    def __init__(self, record_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"a journal record of {record_bytes} bytes: at most {limit_bytes} fit, as journal-buffer-size "
            "and journal-file-size say; a message above min-large-message-size needs none of this"
        )
        self.record_bytes = record_bytes
        self.limit_bytes = limit_bytes


class RecordRefused(
    JournalfsError, identifier="record-refused", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL
):
    """A record that would contradict the journal: it changes what is not there, adds what is, or touches
    what an open transaction claims.
    """


class StoreNotKept(JournalfsError, identifier="store-not-kept", exit_code=EXIT_CONFIG, errno=errnos.EROFS):
    """The configuration says that nothing is kept in files, so there are none to work on."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path}: persistence-enabled is false, so nothing is kept here; set it to true")
        self.path = Path(path)


class LastValueRefused(
    JournalfsError, identifier="last-value-refused", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL
):
    """A message for a last-value queue with a value that brokers do not take for one."""

    def __init__(self, queue: str, name: str) -> None:
        why = f"property {name} of a message is no text, and no broker loads it into this last-value queue"
        super().__init__(f"{queue}: {why}; nothing of this was done")


class NoRoute(JournalfsError, identifier="no-route", exit_code=EXIT_WRONG_CALL, errno=errnos.EDESTADDRREQ):
    """A message for an address that no queue is bound to, or none of the routing type that it states: a
    broker would drop it without a word.
    """

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"{target}: {reason}")
        self.target = target


class NoOrigin(JournalfsError, identifier="no-origin", exit_code=EXIT_WRONG_CALL, errno=errnos.EDESTADDRREQ):
    """Messages that are to go back to where they came from cannot: that is gone, or was never noted."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: nothing was sent back: {reason}")


class AddressFull(JournalfsError, identifier="address-full", exit_code=EXIT_WRONG_CALL, errno=errnos.EDQUOT):
    """A publication that a limit keeps out; `limit` is the setting."""

    def __init__(self, address: str, limit: str, then: str = "") -> None:
        super().__init__(
            f"{address}: {limit} is reached, nothing is taken; consume messages or raise it{then}"
        )
        self.address = address
        self.limit = limit


class NameTaken(JournalfsError, identifier="name-taken", exit_code=EXIT_WRONG_CALL, errno=errnos.EEXIST):
    """An address or queue of that name exists already; queue names are unique in a broker."""


class NotEmpty(JournalfsError, identifier="not-empty", exit_code=EXIT_WRONG_CALL, errno=errnos.ENOTEMPTY):
    """An address with queues, or a queue with messages, is not deleted."""


class NoSuchName(JournalfsError, identifier="no-such-name", exit_code=EXIT_WRONG_CALL, errno=errnos.ENOENT):
    """An address, a queue or a part that is not there."""


class HeldByReaders(JournalfsError, identifier="held-by-readers", exit_code=EXIT_BUSY, errno=errnos.EBUSY):
    """A message that a reader has and has not acknowledged yet, or a queue that readers consume."""


class HeldByTransaction(
    JournalfsError, identifier="held-by-transaction", exit_code=EXIT_BUSY, errno=errnos.EBUSY
):
    """Something is to be removed or changed that a prepared transaction has consumed, or sends to.
    `transaction` is its name below `.journalfs/transactions`.
    """

    def __init__(self, what: str, transaction: str) -> None:
        super().__init__(
            f"{what} is held by the prepared transaction {transaction}, until that is committed or rolled "
            "back: by whoever began it, by a broker's management, or by mv of "
            f".journalfs/transactions/{transaction} into committed/ or rolled-back/ beside it"
        )
        self.transaction = transaction


class MessagesGone(
    JournalfsError, identifier="messages-gone", exit_code=EXIT_WRONG_CALL, errno=errnos.ENOMSG
):
    """A transaction that holds messages which somebody else took: a broker that had the store meanwhile."""

    def __init__(self, transaction: str, messages: str) -> None:
        super().__init__(
            f"the transaction {transaction} holds messages that were acknowledged meanwhile ({messages}), so "
            "nothing of it can be committed: rmdir rolls it back, and gives back the rest that it holds"
        )


class TooManyConsumers(
    JournalfsError, identifier="too-many-consumers", exit_code=EXIT_BUSY, errno=errnos.EUSERS
):
    """A queue that has as many consumers as its `max-consumers` allows."""


class SettingRefused(
    JournalfsError, identifier="setting-refused", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL
):
    """A setting that does not exist, cannot be changed here, or does not take the value."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


class SettingFixed(SettingRefused, identifier="setting-fixed", errno=errnos.EPERM):
    """A setting that has nothing of its own that could be taken back."""


class NotInOlderStore(
    JournalfsError, identifier="not-in-older-store", exit_code=EXIT_WRONG_CALL, errno=errnos.EPERM
):
    """An older store, written in its own format, has nothing that stands for what was asked for."""

    def __init__(self, store: str, what: str) -> None:
        advice = "journalfs convert makes a store of today's format, which has all"
        super().__init__(f"{store}: {what}: this format has nothing for it; {advice}")


class BadEnvelope(JournalfsError, identifier="bad-envelope", exit_code=EXIT_WRONG_CALL, errno=errnos.EINVAL):
    """What was written is not what the file's name promises: no envelope, no JSON, or too long a line.

    Nothing of the write that brought it is published; where that is the end of the file, which leaves
    something unfinished, nothing of that. Of staged files that were to be published at once, nothing is.
    """

    def __init__(
        self,
        reason: str,
        *,
        key: str | None = None,
        line: int | None = None,
        at_end: bool = False,
        file: str | None = None,
    ) -> None:
        """`file`: the name of the one that is at fault, of all that were to be published at once."""
        place = f"line {line}: " if line is not None else ""
        named = f"{key}: " if key is not None else ""
        kept_back = (
            "this unfinished rest was not published" if at_end else "nothing of this write was published"
        )
        if file is not None:
            place, kept_back = f"{file}: {place}", "nothing was published"
        super().__init__(f"{place}{named}{reason}; {kept_back}")
        self.reason = reason
        self.key = key
        self.line = line


class IndexUnusable(JournalfsError, identifier="index-unusable", exit_code=EXIT_SYSTEM):
    """The derived index cannot be used; it is rebuilt from the store, so this is reported and never fatal."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: {reason}; the index is rebuilt from the journal")
        self.path = Path(path)
        self.reason = reason


class MountFailed(JournalfsError, identifier="mount-failed", exit_code=EXIT_MOUNT_FAILED, errno=errnos.EIO):
    """The filesystem could not be mounted."""


class MountpointBusy(MountFailed, identifier="mountpoint-busy", errno=errnos.EBUSY):
    """The mount point is not a usable empty directory."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: cannot mount here: {reason}; use an empty directory or unmount it first")
        self.path = Path(path)
        self.reason = reason


class FuseMissing(MountFailed, identifier="fuse-missing", errno=errnos.ENODEV):
    """The kernel's FUSE device or the FUSE library is not there."""

    def __init__(self, missing: str, *, advice: str) -> None:
        super().__init__(f"cannot mount: {missing}; {advice}")
        self.missing = missing
