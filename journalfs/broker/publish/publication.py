"""Files that become messages of one transaction, however many and however large."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

from journalfs import door
from journalfs.broker.publish.framing import Framer, Framing, framing_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.waiting import checkpoint, offload
from journalfs.errors import BadEnvelope, SystemFailure, failing
from journalfs.limits import (
    COPY_CHUNK_BYTES,
    FRAMED_PIECE_MESSAGES,
    PARSED_PIECE_BYTES,
    PIECE_BYTES,
    ROUTED_PIECE_MESSAGES,
    SHORT_FILES_BYTES,
)
from journalfs.message.outgoing import Outgoing, WholeFile

Files: TypeAlias = Sequence[tuple[Path, str]]
"""Finished files, with the names that say what one message is: paths within what is published."""

Source: TypeAlias = AsyncGenerator[Sequence[Outgoing], None]
"""Messages as they are read or made, some at a time."""


def path_of(address: str, queue: str | None, file_name: str | None = None) -> str:
    """Where in the tree a file is written, for people."""
    return "/".join(name for name in (address, queue, file_name) if name is not None)


async def read_all(files: Files) -> list[Outgoing]:
    """All messages of files at once. Raises what reading them raises."""
    messages: list[Outgoing] = []
    async with aclosing(messages_in(files)) as found:
        async for some in found:
            messages += some
            await checkpoint()
    return messages


async def messages_in(files: Files) -> Source:
    """All messages of files."""
    for path, file_name in files:
        async with aclosing(_messages_of(path, file_name)) as found:
            async for messages in found:
                yield messages


def pieces_of(messages: Sequence[Outgoing], length: int) -> Iterator[Sequence[Outgoing]]:
    return (messages[begin : begin + length] for begin in range(0, len(messages), length))


def is_short(files: Files) -> bool:
    """Whether files hold so little that it is staged in one turn. Raises SystemFailure."""
    left_bytes = SHORT_FILES_BYTES
    for path, name in files:
        with failing("publish a staged file", path):
            left_bytes -= 0 if framing_of(name) is Framing.WHOLE_FILE else door.status(path).st_size
    return len(files) <= ROUTED_PIECE_MESSAGES and left_bytes >= 0


def _next_piece_bytes(piece_bytes: int, messages: int) -> int:
    """Return the size of the next piece to parse, so that parsing it takes a moment: messages tend to be as
    long as those before.
    """
    return min(PIECE_BYTES, max(PARSED_PIECE_BYTES, piece_bytes * FRAMED_PIECE_MESSAGES // max(messages, 1)))


async def _messages_of(path: Path, file_name: str) -> Source:
    """The messages that a finished file holds. Raises `BadEnvelope`, which names it, and SystemFailure."""
    framing = framing_of(file_name)
    try:
        if framing is Framing.WHOLE_FILE:
            yield [WholeFile(path)]
            return
        framer = Framer(framing)
        piece_bytes = PARSED_PIECE_BYTES
        with MappedFile(path) as file:
            for at in range(0, file.size_bytes, COPY_CHUNK_BYTES):
                end = min(at + COPY_CHUNK_BYTES, file.size_bytes)
                content = await offload(lambda at=at, end=end: file.copy(at, end - at))  # type: ignore[misc]
                begin = 0
                while begin < len(content):
                    messages = framer.feed(content[begin : begin + piece_bytes])
                    yield messages
                    begin += piece_bytes
                    if not framer.reads_each:
                        piece_bytes = _next_piece_bytes(piece_bytes, len(messages))
        yield framer.finish()
    except BadEnvelope as error:
        shown = os.fsencode(file_name).decode("utf-8", "replace")
        raise BadEnvelope(error.reason, key=error.key, line=error.line, file=shown) from None
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="publish a staged file") from error
