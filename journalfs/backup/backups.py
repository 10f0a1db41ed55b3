"""Making, listing, removing and restoring backups."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.backup.accounts import taken_at
from journalfs.backup.contents import BESIDE, SNAPSHOT, Content, Contents, contents_of, now_name
from journalfs.backup.keeping import Keep
from journalfs.backup.kept_account import KeptAccount
from journalfs.backup.manifest import (
    BACKUPS,
    FORMAT,
    MANIFEST_BYTES_MAX,
    OBJECTS,
    PIECE_BYTES,
    SUFFIX,
    BackedUpFile,
    Manifest,
    decode,
    encode,
    hash_of,
    manifest_name,
    object_name,
)
from journalfs.backup.places import BackupPlace, is_url, place_at
from journalfs.clock import Clock, SystemClock
from journalfs.config.database import database_named, kept_text
from journalfs.config.layout import plan_store
from journalfs.damage import HOLE, Damage, name_of
from journalfs.errors import Damaged, DamagedBackup, NoSuchName, SystemFailure
from journalfs.live.missing import missing_ranges
from journalfs.records.files.file_gaps import DeletedFiles
from journalfs.records.files.kept_damage import note_hole

ATTEMPTS_MAX: Final = 5
"""A broker may take a journal file into use again while it is copied."""

_ZEROS: Final = bytes(PIECE_BYTES)
_FOLDERS: Final = ("large-messages", "paging", "bindings", "journal")
"""The journal last: it makes the others a store."""


class Made(msgspec.Struct, frozen=True):
    """What a backup came to."""

    name: str
    how: str
    files: int
    content_bytes: int
    new_bytes: int
    """Of pieces that no earlier backup had."""
    account: KeptAccount
    """What of the store is in it."""

    def line(self) -> str:
        beside = "; a broker was running: what it did meanwhile may be there in part" * (self.how == BESIDE)
        return f"{self.name}: {self.files} files, {self.content_bytes} bytes, {self.new_bytes} new{beside}"


@dataclass(slots=True)
class Backups:
    """Those at one place. Every call raises `SystemFailure` where the place or a store cannot be reached."""

    place: BackupPlace
    clock: Clock = field(default_factory=SystemClock)
    advance: Callable[[int], None] = lambda count: None

    @classmethod
    def at(cls, text: str, advance: Callable[[int], None] = lambda count: None) -> Backups:
        """Raises `DependencyMissing`."""
        return cls(place_at(text), advance=advance)

    @classmethod
    def found(cls, text: str) -> Backups | None:
        """The same where `text` names backups: an object store, or a directory that has some. None: it names
        something else, or nothing.
        """
        path = Path(os.path.abspath(text))
        is_objects = is_url(text) and database_named(kept_text(text)) is None
        if is_objects or (door.is_folder(path / BACKUPS) and door.is_folder(path / OBJECTS)):
            return cls.at(text)
        return None

    # ---- listing ----

    def names(self) -> list[str]:
        """Names, the oldest first."""
        found = (name.rpartition("/")[2] for name in self.place.names(BACKUPS))
        return sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX))

    def manifest(self, name: str | None = None) -> Manifest:
        """Of a backup; None: of the newest. Raises `NoSuchName`, `Damaged`."""
        if name is None:
            names = self.names()
            if not names:
                raise NoSuchName(f"{self.place.shown}: there is no backup; journalfs backup makes one")
            name = names[-1]
        content = self.place.read(manifest_name(name), MANIFEST_BYTES_MAX) if "/" not in name else None
        if content is None:
            raise NoSuchName(f"{name}: there is no such backup; journalfs backup list names them")
        return decode(content, f"{self.place.shown}/{manifest_name(name)}")

    # ---- making ----

    def make(self, path: Path, mounted: Path | None) -> Made:
        """Back up the store at `path`, or what is mounted there: `mounted` is the store's own path then.
        Raises what `locate_store` raises.
        """
        with self.place.alone(), contents_of(path, mounted) as contents:
            before = self._newest()
            for attempt in range(ATTEMPTS_MAX):
                try:
                    return self._made(contents, before)
                except _Changed as changed:
                    if attempt + 1 == ATTEMPTS_MAX:
                        raise SystemFailure(
                            f"{path}: the store changed while it was copied, {ATTEMPTS_MAX} times: "
                            f"{changed}; give the mountpoint of a mount for writing, or stop the broker"
                        ) from None
        raise AssertionError

    def _newest(self) -> Manifest | None:
        for name in reversed(self.names()):
            with suppress(Damaged, NoSuchName):  # what it says is copied anew
                return self.manifest(name)
        return None

    def _made(self, contents: Contents, before: Manifest | None) -> Made:
        state = contents.state()
        # Beside a broker that maps its files their times do not say what they hold.
        tells = before is not None and BESIDE not in (before.how, contents.how)
        known = {file.path: file for file in before.files} if before is not None and tells else {}
        have = before.hashes() if before is not None else set()
        pieces = _Pieces(self.place, have)
        files = []
        try:
            for one in contents.files():
                files.append(self._file(one, known.get(one.name), pieces, contents))
        except FileNotFoundError as error:
            raise _Changed(error.filename) from error
        except OSError as error:
            raise SystemFailure.from_os(error, error.filename, doing="read the store") from error
        account = taken_at(contents.layout.root)
        if contents.state() != state:
            raise _Changed(contents.layout.journal_dir)
        self.place.sync()
        created_ms = self.clock.now_ms()
        manifest = Manifest(
            format=FORMAT,
            name=self._free_name(created_ms),
            created_ms=created_ms,
            source=os.fsdecode(os.fsencode(contents.source)),
            how=contents.how,
            journal_file_bytes=contents.journal_file_bytes,
            files=files,
            account=account,
        )
        self.place.write(manifest_name(manifest.name), encode(manifest))
        self.place.sync()
        sizes = manifest.content_bytes, pieces.new_bytes
        return Made(manifest.name, manifest.how, len(files), *sizes, account)

    def _free_name(self, created_ms: int) -> str:
        """Not before those that are there, whatever the clock says."""
        there = self.names()
        name = now_name(created_ms)
        while there and name <= there[-1]:
            created_ms += 1
            name = now_name(created_ms) if created_ms % 1000 else f"{there[-1]}+"
        return name

    def _file(
        self, one: Content, known: BackedUpFile | None, pieces: _Pieces, contents: Contents
    ) -> BackedUpFile:
        with door.opened(one.path) as descriptor:
            found = os.fstat(descriptor)
            content_bytes = found.st_size if one.bytes_max is None else min(one.bytes_max, found.st_size)
            same = known is not None and (
                (known.inode, known.mtime_ns, known.content_bytes)
                == (found.st_ino, found.st_mtime_ns, content_bytes)
            )
            if known is not None and same:
                self.advance(content_bytes)
                return known
            hashes: list[str | None] = []
            for at in range(0, content_bytes, PIECE_BYTES):
                length = min(PIECE_BYTES, content_bytes - at)
                if door.is_hole(descriptor, at, length):
                    hashes.append(None)
                    continue
                piece = _read_at(descriptor, at, length)
                if len(piece) < length:
                    raise _Changed(one.path)
                hashes.append(pieces.put(piece))
                self.advance(length)
            size_bytes = found.st_size
            if one.name.startswith("journal/") and size_bytes > contents.journal_file_bytes >= content_bytes:
                size_bytes = contents.journal_file_bytes  # what has a second name is longer than brokers like
            return BackedUpFile(one.name, size_bytes, content_bytes, found.st_mtime_ns, found.st_ino, hashes)

    # ---- removing ----

    def prune(self, keep: Keep, *, dry_run: bool = False) -> list[str]:
        """Remove all backups but those that `keep` says, and the pieces that none of those has; what was
        removed. Raises `Damaged` where a backup that stays cannot be read: its pieces are not known then.
        `dry_run`: remove nothing.
        """
        with self.place.alone():
            names = self.names()
            kept = keep.chosen(names)
            gone = [name for name in names if name not in kept]
            if dry_run:
                return gone
            needed = {piece for name in kept for piece in self.manifest(name).hashes()}
            for name in gone:
                self.place.remove(manifest_name(name))
            self.place.sync()
            for name in [*self.place.names(OBJECTS)]:
                if name.rpartition("/")[2] not in needed:
                    self.place.remove(name)
        return gone

    # ---- restoring ----

    def restore(self, destination: Path, name: str | None = None, *, damaged: bool = False) -> Restored:
        """Make the store `destination` of a backup; None: of the newest. Each piece is checked: one that is
        not what was written is a hole in the new store if `damaged`. Raises `NoSuchName`, `Damaged`, and
        `WrongCall` where something is there already.
        """
        manifest = self.manifest(name)
        holes: list[Problem] | None = [] if damaged else None
        destination = Path(os.path.abspath(destination))
        layout = plan_store(destination)
        staging = destination.parent / f".{destination.name}.unfinished"
        try:
            if door.exists(staging):
                door.remove_tree(staging)
            door.make_folders(staging, mode=0o700)
            for folder in _FOLDERS:
                door.make_folders(staging / folder)
            _require_room(manifest, staging)
            for file in manifest.files:
                self._restore(manifest.name, file, staging, holes)
            for hole in holes or ():
                note_hole(staging, _damage(hole))
            if manifest.how == SNAPSHOT:
                # What a snapshot does not need is not in it, and was not lost.
                staged = replace(layout, root=staging, journal_dir=staging / "journal")
                of = name_of(layout.journal_dir, layout.root)
                DeletedFiles(staging, of).note(missing_ranges(staged))
            places = (layout.large_dir, layout.paging_dir, layout.bindings_dir, layout.journal_dir)
            self._move(staging, destination, dict(zip(_FOLDERS, places, strict=True)))
        except OSError as error:
            if error.errno == errno.ENOSPC:  # what is there takes what others need
                with suppress(OSError):
                    door.remove_tree(staging)
            raise SystemFailure.from_os(error, error.filename or staging, doing="restore") from error
        return Restored(manifest, holes or [])

    def _restore(self, backup: str, file: BackedUpFile, staging: Path, holes: list[Problem] | None) -> None:
        path = staging / file.path
        door.make_folders(path.parent)
        descriptor = door.create(path)
        try:
            for index, piece_hash in enumerate(file.pieces):
                length, at = file.length_of(index), index * PIECE_BYTES
                try:
                    content = None if piece_hash is None else self._piece(file, piece_hash, at, length, holes)
                except DamagedBackup as hole:
                    if holes is None:
                        raise
                    holes.append(Problem(backup, file.path, at, f"{hole.file}: {hole.reason}", length))
                    content = None
                if content is not None:
                    os.lseek(descriptor, at, os.SEEK_SET)
                    door.write_all(descriptor, content)
                self.advance(length)
            os.ftruncate(descriptor, file.size_bytes)
            if file.is_laid_out and file.size_bytes:
                os.posix_fallocate(descriptor, 0, file.size_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _piece(
        self, file: BackedUpFile, piece_hash: str, at: int, length: int, holes: list[Problem] | None
    ) -> bytes:
        """Return a piece. Raises `DamagedBackup`, also for a bad sector where holes are wanted; what else the
        system refuses is a `SystemFailure`, since other pieces would be refused as well.
        """
        of = f"{file.path} at byte {at}"
        try:
            return piece_of(self.place, piece_hash, length, of)
        except SystemFailure as failure:
            if holes is None or failure.system_errno != errno.EIO:
                raise
            where = f"{self.place.shown}/{object_name(piece_hash)}"
            raise DamagedBackup(where, 0, f"a piece of {of} cannot be read: {failure}") from failure

    def _move(self, staging: Path, destination: Path, places: dict[str, Path]) -> None:
        for folder in _FOLDERS:
            for parent, _, _ in door.below(staging / folder):
                door.sync(parent)
        door.sync(staging)
        inside = all(place.is_relative_to(destination) for place in places.values())
        if inside and not door.exists(destination):
            door.rename(staging, destination)
            door.sync(destination.parent)
            return
        for folder, place in places.items():
            door.make_folders(place.parent)
            if door.is_folder(place):
                door.remove_folder(place)  # `plan_store` has seen that nothing is in it
            door.rename(staging / folder, place)
            door.sync(place.parent)
        for name in door.names(staging):
            if name not in _FOLDERS and not door.exists(destination / name):
                door.rename(staging / name, destination / name)
        door.remove_tree(staging)


def _require_room(manifest: Manifest, place: Path) -> None:
    """Raises OSError where what is laid out in full would fill the disk."""
    wanted = sum(file.size_bytes if file.is_laid_out else 0 for file in manifest.files)
    disk = door.disk_of(place)
    if wanted > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: it takes {wanted} bytes", str(place))


def _damage(hole: Problem) -> Damage:
    """Return a hole in a restored store as damage of it."""
    reason = f"zeros, since the backup {hole.backup} has lost what was here: {hole.reason}"
    return Damage(hole.file or "", hole.offset, hole.bytes, HOLE, reason)


class Restored(msgspec.Struct, frozen=True):
    """What `restore` made: of which backup, and with which holes."""

    manifest: Manifest
    holes: list[Problem]


class _Changed(Exception):  # noqa: N818 - named as what happened
    """A file went, or became another, while it was copied."""


@dataclass(slots=True)
class _Pieces:
    """Writes pieces that are not there."""

    place: BackupPlace
    have: set[str]
    new_bytes: int = 0

    def put(self, piece: bytes) -> str | None:
        if piece == (_ZEROS if len(piece) == PIECE_BYTES else bytes(len(piece))):
            return None
        found = hash_of(piece)
        if found not in self.have:
            self.place.write(object_name(found), piece)
            self.have.add(found)
            self.new_bytes += len(piece)
        return found


def _read_at(descriptor: int, at: int, length: int) -> bytes:
    pieces = []
    while length and (piece := os.pread(descriptor, length, at)):
        pieces.append(piece)
        at, length = at + len(piece), length - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def piece_of(place: BackupPlace, piece_hash: str, length: int, of: str) -> bytes:
    """A piece that is what it has to be. Raises `DamagedBackup`."""
    name = object_name(piece_hash)
    content = place.read(name, PIECE_BYTES)
    if content is None:
        raise DamagedBackup(f"{place.shown}/{name}", 0, f"a piece of {of} is not there")
    if len(content) != length or hash_of(content) != piece_hash:
        raise DamagedBackup(f"{place.shown}/{name}", 0, f"a piece of {of} is not what was written")
    return content


# Reading backups against their checksums.


class Problem(msgspec.Struct, frozen=True):
    """What of a backup cannot be restored."""

    backup: str
    file: str | None
    """Of the store; None: the backup's description."""
    offset: int
    reason: str
    bytes: int = 0
    """Length of the piece; 0 for a description."""

    def line(self) -> str:
        return f"{self.backup}: {self.file or 'its description'} at byte {self.offset}: {self.reason}"


def lacking(manifest: Manifest) -> Iterator[Problem]:
    """Yield what the store lacked already when it was backed up: a restored one lacks it, too."""
    for one in () if manifest.account is None else manifest.account.losses:
        reason = f"so it was in the store: {one.reason}"
        yield Problem(manifest.name, one.file, one.offset or 0, reason, one.bytes or 0)


def verify(backups: Backups, names: list[str]) -> Iterator[Problem]:
    """Read every piece of these backups once, and yield what cannot be restored, or is not in them."""
    checked: dict[str, str | None] = {}
    """By hash why a piece is none; None: it is one."""
    for name in names:
        try:
            manifest = backups.manifest(name)
        except Damaged as damaged:
            yield Problem(name, None, damaged.offset, damaged.reason)
            continue
        yield from lacking(manifest)
        for file in manifest.files:
            for index, piece in enumerate(file.pieces):
                if piece is None:
                    continue
                at = index * PIECE_BYTES
                if piece not in checked:
                    checked[piece] = None
                    try:
                        piece_of(backups.place, piece, file.length_of(index), f"{file.path} at byte {at}")
                    except Damaged as damaged:
                        checked[piece] = f"{damaged.file}: {damaged.reason}"
                    backups.advance(file.length_of(index))
                reason = checked[piece]
                if reason is not None:
                    yield Problem(name, file.path, at, reason, file.length_of(index))
