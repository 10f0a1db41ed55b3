"""Keeps flushed content of open files durable beside the journal until it is published, exactly once.

A flush writes a note: the content and its destination (`journalfs.bodies.flushed`). The transaction that
publishes the content also records that the note is done (`DoneNotes`), so after a crash nothing is published
twice. `publish_left` publishes the notes of an earlier process when the store is opened for writing.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.bodies.flushed import FlushedFolder, FlushNote
from journalfs.bodies.writing import Spool
from journalfs.broker.limits.admission import Admitted
from journalfs.broker.publish.framing import Framer, Framing, framing_of
from journalfs.broker.publish.publication import path_of
from journalfs.broker.publish.sending import Sending
from journalfs.engine.waiting import offload
from journalfs.errors import (
    BadEnvelope,
    Damaged,
    JournalfsError,
    NoRoute,
    NoSuchName,
    RecordTooLarge,
    failing,
)
from journalfs.limits import NAME_BYTES_MAX
from journalfs.message.outgoing import Buffer, Outgoing, WholeFile

FLUSHED: Final = "flushed"
UNPUBLISHED: Final = "unpublished"

_NAMES_MAX: Final = 5
"""In an event."""

_FOR_GOOD: Final = (BadEnvelope, Damaged, NoRoute, NoSuchName, RecordTooLarge)
"""Errors that another attempt would meet again."""


class Flushed:
    """The notes of one store. Nothing but one process has a store open for writing."""

    def __init__(self, sending: Sending, folder: FlushedFolder, own_directory: Callable[[str], Path]) -> None:
        """`own_directory`: makes one of those that lie beside the broker's."""
        self.sending = sending
        self._core = sending.parts.core
        self._journals = sending.parts.journals
        self._done_notes = sending.publishing.done_notes
        self.folder = folder
        self._own_directory = own_directory
        self._left: list[FlushNote] = []
        self._gone: list[str] = []
        """Notes that have done their work and are still there."""

    @staticmethod
    def new_id() -> str:
        return secrets.token_hex(8)

    # ---- opening the store ----

    def recover(self) -> None:
        """Find out what was flushed and not published. Raises OSError, and `ReadOnlyStore`."""
        # P-6: a crash leaves the note of a flush beside the messages that were published of it. Without the
        # records of what was done, the messages are published a second time.
        self._done_notes.load()
        found = self.folder.notes()
        self._left = [note for note in found.notes if note.note_id not in self._done_notes]
        self.folder.remove([note.note_id for note in found.notes if note.note_id in self._done_notes])
        # It may be readable another time, and must not be published then if it was.
        unread = {path.stem for path, _ in found.unreadable}
        self._done_notes.forget([note_id for note_id in self._done_notes.ids() if note_id not in unread])
        for path, error in found.unreadable:
            reason = f"cannot be read: {error.strerror or error}"
            message = f"{path.name}: flushed content {reason}; it stays, and the next mount tries again"
            self._core.events.add("flushed", message, level=logging.ERROR)
        for path in found.broken:
            # The process ended within the flush, and nobody was told anything; or else the file is damaged.
            aside = self._aside(path.name)
            door.rename(path, aside)
            message = f"{path.name}: the note of flushed content is not whole; it is {aside} now"
            self._core.events.add("kept", message, level=logging.ERROR)
        self.folder.tidy()
        # P-6: a large body that got its name before the crash belongs to a message that was never published.
        self._unlink_bodies()

    def _unlink_bodies(self) -> None:
        """Remove the name that a message gave to the body file of a note, where the message was not
        published: its next publication links the file again.
        """
        bodies = [self.folder.body_path(note.note_id) for note in self._left if note.has_body_file]
        ours = {(found.st_dev, found.st_ino) for found in map(door.status, filter(door.exists, bodies))}
        for file in self._core.large.files() if ours else ():
            path = self._core.large.path / file.name
            found = door.status(path)
            if (found.st_dev, found.st_ino) in ours:
                door.remove(path)

    def left_addresses(self) -> Sequence[str]:
        """Where `publish_left` is going to publish something."""
        return [note.address for note in self._left]

    async def publish_left(self) -> None:
        """Publish the notes that an earlier process left. A note that cannot be published stays; if another
        attempt could not succeed either, its content is put aside. An event names each.
        """
        while self._left:
            await self._publish_left(self._left[0])
            del self._left[0]

    async def _publish_left(self, note: FlushNote) -> None:
        name = path_of(note.address, note.queue, note.file_name)
        try:
            await self.publish(note)
        except JournalfsError as error:
            if isinstance(error, _FOR_GOOD):
                await offload(partial(self.set_aside, note, error))
            else:
                message = f"{name}: not published yet: {error}; the next mount tries again"
                self._core.events.add("flushed", message, level=logging.ERROR)
        else:
            message = f"{name}: published now; it was flushed when the mount before this ended"
            self._core.events.add("flushed", message, level=logging.INFO)

    # ---- one note ----

    async def note(self, note: FlushNote, content: Buffer) -> None:
        """Make durable that this is to be published. Raises SystemFailure."""
        with failing("keep the flushed content", note.file_name):
            await offload(lambda: self.folder.write(note, content))

    async def publish(self, note: FlushNote) -> None:
        """Publish what was flushed, unless it is published. Raises JournalfsError; then it stays noted."""
        if note.note_id not in self._done_notes:
            with failing("read the flushed content", note.file_name):
                messages = await offload(lambda: self._messages(note))
            await self.sending.publish(
                note.address,
                note.queue,
                messages,
                path=path_of(note.address, note.queue, note.file_name),
                whole=True,
                admitted=self.admitted(note.address),
                note_id=note.note_id,
            )
        await self.settled(note.note_id)

    def admitted(self, address: str) -> Admitted:
        """Return an admission for the rest that the last close publishes: its write was admitted, and a
        refusal now would reach nobody.
        """
        return Admitted(self.sending.admission.decide_late(address), late=True)

    async def settled(self, note_id: str) -> None:
        """Remove the note of content that a durable transaction has published."""
        writer = self._journals.messages
        await writer.durable(writer.position)
        self.drop(note_id)

    def drop(self, note_id: str) -> None:
        """Remove a note that is not needed any more, in the background."""
        self._gone.append(note_id)

    async def forget(self, note_id: str) -> None:
        """Remove a note so that its content is never published. Raises SystemFailure if the note may still be
        there.
        """
        with failing("remove the flushed content", note_id):
            await offload(lambda: self.folder.remove([note_id]))

    def _messages(self, note: FlushNote) -> Sequence[Outgoing]:
        content = self.folder.read(note)
        framing = framing_of(note.file_name)
        if framing is Framing.WHOLE_FILE:
            return [WholeFile(content, finished=True)]
        assert isinstance(content, bytes)
        framer = Framer(framing)
        return [*framer.feed(content), *framer.finish()]

    # ---- what goes ----

    async def tidy(self) -> None:
        """Remove what is of no use any more. Raises OSError and JournalfsError; then opening the store does
        it.
        """
        gone, self._gone = self._gone, []
        if gone:
            await offload(lambda: self.folder.remove(gone))
            self._done_notes.forget(gone)

    def close(self) -> None:
        """Remove all notes that `drop` left, before the store closes."""
        gone, self._gone = self._gone, []
        try:
            if gone and self._journals.failure is None:
                self.folder.remove(gone)
                self._done_notes.forget(gone)
        except (OSError, JournalfsError) as error:
            message = f"{self.folder.path}: published content could not be removed: {error}"
            self._core.events.add("flushed", message)

    # ---- what cannot be published ----

    def set_aside(self, note: FlushNote, error: JournalfsError) -> None:
        """Keep what was flushed for its owner, and say where it is."""
        name = path_of(note.address, note.queue, note.file_name)
        self._keep(name, f"not published: {error}", lambda path: self.folder.set_aside(note, path))

    def set_aside_spool(self, spool: Spool, name: str, error: JournalfsError) -> None:
        """Put aside the content of a spool that has no note; `name` is the path of the file in the mount."""
        self._keep(name, f"not published: {error}", spool.keep)

    def set_aside_files(self, name: str, files: Sequence[Path]) -> None:
        """Put aside the files of a staged directory that were not published; `name` is the path of the
        directory.
        """
        kept: list[Path] = []
        for file in files:
            path = self._aside(file.name)
            try:
                door.rename(file, path)
            except OSError as failure:
                message = f"{name}: {file.name} is not published, and cannot be kept: {failure}"
                self._core.events.add("not-kept", message, level=logging.ERROR)
            else:
                kept.append(path)
        if kept:
            where = f"{kept[0].parent} now: {', '.join(path.name for path in kept[:_NAMES_MAX])}"
            message = f"{name}: {len(kept)} files in it are not published; they are in {where}"
            self._core.events.add("kept", message, level=logging.WARNING)

    def _keep(self, name: str, reason: str, move: Callable[[Path], None]) -> None:
        try:
            path = self._aside(name.rpartition("/")[2])
            move(path)
        except OSError as failure:
            message = f"{name}: {reason}; it cannot be kept, and stays where it is: {failure}"
            self._core.events.add("not-kept", message, level=logging.ERROR)
        else:
            message = f"{name}: {reason}; the content is in {path}"
            self._core.events.add("kept", message, level=logging.ERROR)

    def stays(self, note: FlushNote, error: JournalfsError) -> None:
        """Nothing tells whether it is published: the journal does when it is read again."""
        name = path_of(note.address, note.queue, note.file_name)
        message = f"{name}: {error}; the next mount publishes it, if the disk has not got it"
        self._core.events.add("flushed", message, level=logging.ERROR)

    def _aside(self, file_name: str) -> Path:
        directory = self._own_directory(UNPUBLISHED)
        now_ms = self._core.clock.now_ms()
        prefix = f"{now_ms}-{self.new_id()}-"
        # The end of a long name, which has the suffix, where both together are too long.
        return directory / (prefix + os.fsdecode(os.fsencode(file_name)[len(prefix) - NAME_BYTES_MAX :]))
