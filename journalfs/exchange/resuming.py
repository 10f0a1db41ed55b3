"""How far an import came, noted beside its file: one that failed or was killed goes on there."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

import msgspec

from journalfs import given
from journalfs.errors import SystemFailure, WrongCall

NOTE: Final = ".{}.importing"


class _Note(msgspec.Struct):
    target: str
    done: int = 0
    """Messages that are published, for good."""
    digest: str = ""
    """Of their lines."""
    pending: int = 0
    """Messages that are being published, or were when the import ended."""
    pending_digest: str = ""
    """Of all lines up to these."""
    queue: str = ""
    """Where to, and how many messages it had before."""
    before: int = 0


class Progress:
    """The note of one file. Nothing but this import may change the queue between two calls: what of a batch
    came through is told from how many messages it has.
    """

    def __init__(self, file: Path, target: Path) -> None:
        """Raises `WrongCall` where a note is there of another import, `SystemFailure`."""
        self._path = file.with_name(NOTE.format(file.name))
        self._seen = 0
        self._hash = hashlib.blake2b(digest_size=16)
        where = os.fsencode(target.resolve()).decode("utf-8", "backslashreplace")
        self._note = self._read() or _Note(where)
        if self._note.target != where:
            raise WrongCall(
                f"{file}: its import into {self._note.target} is not at its end: repeat that, or remove "
                f"{self._path} to begin anew"
            )

    def _read(self) -> _Note | None:
        try:
            return msgspec.convert(json.loads(given.read_note(self._path)), _Note)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SystemFailure.from_os(error, self._path, doing="read") from error
        except (ValueError, RecursionError) as error:
            raise WrongCall(
                f"{self._path}: no note of an import ({error}): remove it to begin anew"
            ) from error

    @property
    def unsettled(self) -> str | None:
        """The queue of the batch that was being published."""
        return self._note.queue if self._note.pending else None

    @property
    def done(self) -> int:
        return self._note.done

    def settle(self, count: int) -> None:
        """`count`: how many messages that queue has now. Raises `WrongCall` where it tells nothing."""
        note = self._note
        came = count - note.before
        if not 0 <= came <= note.pending:
            raise WrongCall(
                f"{self._path}: {note.queue} was changed since, so nothing tells whether its last "
                f"{note.pending} messages came: set `done` there to their number, `pending` to 0, and repeat"
            )
        if came:
            note.digest = note.pending_digest if came == note.pending else ""
        note.done, note.pending = note.done + came, 0
        self._write()

    def seen(self, line: bytes) -> bool:
        """Whether this message, the next one of the file, is there already. Raises `WrongCall` where what was
        published is not what the file begins with.
        """
        self._hash.update(line)
        self._seen += 1
        note = self._note
        if self._seen == note.done and note.digest not in ("", self._hash.hexdigest()):
            raise WrongCall(f"{self._path}: the file begins otherwise now; remove this note to begin anew")
        return self._seen <= note.done

    def begin(self, count: int, queue: str, before: int) -> None:
        """That many messages are about to be published into a queue that has `before`."""
        self._note.pending, self._note.queue, self._note.before = count, queue, before
        self._note.pending_digest = self._hash.hexdigest()
        self._write()

    def end(self) -> None:
        """They are published."""
        self.settle(self._note.before + self._note.pending)

    def _write(self) -> None:
        try:
            with given.replacing(self._path, f"{self._path.name}.new") as file:
                # Names may have halves of characters, which the standard library alone takes.
                file.write(json.dumps(msgspec.to_builtins(self._note)).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SystemFailure.from_os(error, self._path, doing="note how far the import is") from error

    def remove(self) -> None:
        """The import is at its end."""
        given.remove(self._path)
