"""Files that become messages of one transaction, however many and however large."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import trio

from journalfs import door
from journalfs.broker.publish.framing import Framer, Framing, framing_of
from journalfs.broker.publish.sending import Sending, Ways
from journalfs.change.change import Change, Changes
from journalfs.change.paging import PageTransaction
from journalfs.change.publishing import LongPublication
from journalfs.change.routing import Alike, Routed
from journalfs.engine.buffers import MappedFile
from journalfs.engine.waiting import offload
from journalfs.errors import BadEnvelope, SystemFailure
from journalfs.ids import TxId
from journalfs.limits import (
    COPY_CHUNK_BYTES,
    FRAMED_PIECE_MESSAGES,
    PARSED_PIECE_BYTES,
    PIECE_BYTES,
    PIECE_RECORDS,
    PIECE_TEXTS,
    ROUTED_PIECE_MESSAGES,
    SHORT_FILES_BYTES,
)
from journalfs.live.memory import NOTHING, Held
from journalfs.message.outgoing import Outgoing, Texts, WholeFile
from journalfs.records.files.upkept import Position

Files: TypeAlias = Sequence[tuple[Path, str]]
"""Finished files, with the names that say what one message is: paths within what is published."""

Source: TypeAlias = AsyncGenerator[Sequence[Outgoing], None]
"""Messages as they are read or made, some at a time."""

Weigh: TypeAlias = Callable[[str, Sequence[Outgoing]], Held]
"""What messages for an address take in memory, at most."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What was staged: it counts once `position` is durable."""

    position: Position | None
    """None: there was nothing to publish."""
    held: Mapping[str, Held]
    """What it takes in memory outside of pages, at most, by the address of queues."""
    messages: int
    """How many were sent."""
    duplicates: int
    """How many messages were left out, since their duplicate ids are known."""


class Publication:
    """Stages them piece by piece: no more than a piece is in memory."""

    def __init__(self, sending: Sending, changes: Changes, weigh: Weigh) -> None:
        self._sending = sending
        self._changes = changes
        self._weigh = weigh

    async def stage(
        self, address: str, queue: str | None, source: Source, ways: Ways, settles: str | None = None
    ) -> Staged:
        """Stage all messages of a source. Raises JournalfsError, and then nothing counts; so it is when this
        is cancelled. `settles`: the note of what was flushed that they take the place of.
        """
        publishing = self._sending.publishing
        async with publishing.long_publication(address) as publication, self._changes.one() as change:
            with publishing.settling(change.tx, settles):
                way = await self.stage_in(change, publication, queue, source, ways)
                await change.written()
                return way.staged(change.commit() if change.begun else None)

    async def stage_in(
        self,
        change: Change,
        publication: LongPublication,
        queue: str | None,
        source: Source,
        ways: Ways,
        *,
        replaces: bool = False,
    ) -> StagedWay:
        """The same as part of a change. `replaces`: queues may let go of others for them."""
        kind = _IntoPages if ways.pages else _IntoJournal
        pages = change.pages(publication.address, ways.pages) if ways.pages else None
        way = kind(self._sending, change, publication, queue, ways, self._weigh, pages, replaces)
        async with aclosing(source):
            await way.stage_all(source)
        return way

    async def read(self, files: Files) -> list[Outgoing]:
        """All messages of files at once. Raises what `stage` raises of them."""
        messages: list[Outgoing] = []
        async with aclosing(messages_in(files)) as found:
            async for some in found:
                messages += some
                await trio.lowlevel.checkpoint()
        return messages

    async def count(self, files: Files) -> int:
        """How many messages files hold. Raises what `stage` raises of them."""
        count = 0
        async with aclosing(messages_in(files)) as found:
            async for messages in found:
                count += len(messages)
                await trio.lowlevel.checkpoint()
        return count


@dataclass(slots=True)
class StagedWay(ABC):
    """What is staged of one publication, and where."""

    sending: Sending
    change: Change
    publication: LongPublication
    queue: str | None
    ways: Ways
    weigh: Weigh
    pages: PageTransaction | None
    replaces: bool
    messages: int = 0
    held: dict[str, Held] = field(default_factory=dict)

    def staged(self, position: Position | None) -> Staged:
        return Staged(position, self.held, self.messages, self.publication.duplicates)

    async def stage_all(self, source: Source) -> None:
        async for messages in source:
            for piece in _pieces(messages):
                await self.stage_piece(piece)

    async def stage_piece(self, messages: Sequence[Outgoing]) -> None:
        self.messages += len(messages)
        for of in self.ways.stored:
            self.held[of] = self.held.get(of, NOTHING) + self.weigh(of, messages)
        address = self.publication.address
        alike = None if self.replaces else self.sending.alike(address, self.queue, messages, self.ways)
        if alike is not None and await self.stage_alike(alike):
            await self.change.transaction.after(len(messages))
            return
        for some in _pieces_of(messages, ROUTED_PIECE_MESSAGES):
            staged = await self.stage_few(self.sending.routed(address, self.queue, some, self.ways))
            await self.change.transaction.after(staged)

    async def stage_few(self, routed: Sequence[Routed]) -> int:
        """How many records were staged, at most."""
        publishing, address = self.sending.publishing, self.publication.address
        before = publishing.position
        numbered, large = await publishing.prepared_in(self.change.tx, self.publication, routed)

        def stage(tx: TxId) -> None:
            publishing.stage_numbered_in(tx, address, numbered, large, arriving=self.replaces)

        if self.replaces:
            self.change.at_once(stage)
        else:
            stage(self.change.tx)
        if self.pages is not None:
            await self.pages.add(numbered, large)
        return max(publishing.position - before, len(numbered))

    @abstractmethod
    async def stage_alike(self, alike: Alike) -> bool:
        """False, with nothing staged, if they have to be looked at one by one all the same."""


@dataclass(slots=True)
class _IntoJournal(StagedWay):
    async def stage_alike(self, alike: Alike) -> bool:
        staged = self.sending.publishing.stage_texts_in(self.change.tx, alike)
        if staged:
            self.sending.routing.took_turns(alike)
        return staged


@dataclass(slots=True)
class _IntoPages(StagedWay):
    """And into the journal, for queues of addresses that do not page."""

    async def stage_alike(self, alike: Alike) -> bool:
        begun = self.sending.paging.begun_texts(alike, tx=self.change.tx)
        if begun is None or self.pages is None:
            return False
        self.sending.routing.took_turns(alike)
        await self.pages.add_texts(begun)
        return True


async def messages_in(files: Files) -> Source:
    """All messages of files."""
    for path, file_name in files:
        async with aclosing(_messages_of(path, file_name)) as found:
            async for messages in found:
                yield messages


async def messages_given(messages: Sequence[Outgoing]) -> Source:
    """Those that there are already."""
    yield messages


def _pieces(messages: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    if isinstance(messages, Texts):
        return messages.pieces(PIECE_TEXTS)
    return _pieces_of(messages, ROUTED_PIECE_MESSAGES)


def _pieces_of(messages: Sequence[Outgoing], length: int) -> Iterator[Sequence[Outgoing]]:
    return (messages[begin : begin + length] for begin in range(0, len(messages), length))


def are_few(messages: Sequence[Outgoing]) -> bool:
    """Whether they are staged in one turn of the event loop."""
    return len(messages) <= (PIECE_RECORDS if isinstance(messages, Texts) else ROUTED_PIECE_MESSAGES)


def is_short(files: Files) -> bool:
    """Whether files hold so little that it is staged in one turn. Raises SystemFailure."""
    left_bytes = SHORT_FILES_BYTES
    for path, name in files:
        try:
            left_bytes -= 0 if framing_of(name) is Framing.WHOLE_FILE else door.status(path).st_size
        except OSError as error:
            raise SystemFailure.from_os(error, path, doing="publish a staged file") from error
    return len(files) <= ROUTED_PIECE_MESSAGES and left_bytes >= 0


def _next_piece_bytes(piece_bytes: int, messages: int) -> int:
    """As many as are found in a moment, however short they are: they tend to be as long as those before."""
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
