"""A store that follows its own writer.

It shows what the durable bytes of the journals say, applied after every flush by the loader that also follows
a broker.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from journalfs import door
from journalfs.change.journals import Journals
from journalfs.engine.links import TAKEN_AWAY
from journalfs.engine.waiting import Crowd, FairLock, unbroken
from journalfs.errors import JournalfsError, StoreAway, SystemFailure
from journalfs.ids import FileId, Position
from journalfs.limits import CATCH_UP_BYTES_MIN
from journalfs.live.core import Core
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.records.files.upkept import JournalReader
from journalfs.store.store import JournalStore


class SelfReadingStore(JournalStore, JournalReader):
    """Use on the trio thread."""

    def __init__(
        self, core: Core, index: Path | None, *, make_loader: Callable[[], JournalLoader], journals: Journals
    ) -> None:
        def make_limited_loader() -> JournalLoader:
            loader = make_loader()
            loader.limit = journals.messages.durable_end()
            return loader

        super().__init__(core, index, make_limited_loader)
        self.journals = journals
        self._addresses_paging: Callable[[], Collection[str]] = tuple
        """Addresses whose pages this process writes."""
        self._reading_anew = FairLock()
        """A lock around a look that may find the journal rewritten: tasks that make records visible wait
        until it has been read again.
        """
        core.paging.own.alone = True
        self._behind_since_bytes = 0
        """Bytes that had been written when something was published that was not taken over yet."""
        self._unsealed = False
        self._given_up = False
        """True while a flush takes too long: its waiters have got an error."""
        self._failure_told: Exception | None = None
        self._unseen_told: str | None = None
        self._advanced_to = Position(0)
        """The durable end up to which records were applied."""
        journals.messages.reader, journals.bindings.reader = self, _BindingsReader(self)

    # -- whether it can be written ---------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return self.journals.failure is not None

    def refuse_failed(self) -> None:
        """Raises where nothing can be changed any more, or at the moment."""
        self.journals.refuse_failed(self.core.shown)

    def _tell_failure(self) -> None:
        failure = self.journals.failure
        if failure is self._failure_told:
            return
        self._failure_told = failure
        if failure is None:
            self.core.events.add("store-back", "it takes changes again; what was being written counts")
        elif isinstance(failure, StoreAway):
            self._given_up = not self.core.behind or self._given_up
            self.core.behind = True
            self.core.events.add("store-away", str(failure), level=logging.ERROR)
        else:
            self.core.events.add("write-failed", str(failure), level=logging.ERROR)

    def gather_with(self, crowd: Crowd) -> None:
        self.journals.messages.committer.gathering.crowd = crowd

    # -- becoming durable, and shown -------------------------------------------------------------------------

    async def published(self) -> None:
        """Return when everything that was staged is durable, and shown."""
        writer = self.journals.messages
        if writer.committer.reached_position >= writer.position and not self._reading_anew.locked():
            return
        await self.settled(writer.position)

    async def settled(self, position: Position) -> None:
        """Wait for a change of the message journal, and make it visible. A task that removes messages waits
        whatever the settings say, since the view tells what can be removed.
        """
        self._unsealed = True
        try:
            await self._told(self.journals.messages.durable(position))
            await self.show()
        except BaseException:
            self.core.behind = True  # it may be durable all the same: whoever looks finds out
            raise

    async def settled_unbroken(self, position: Position, *, only_adds: bool) -> None:
        """Wait and make visible without delivering a cancellation; a lone publisher takes no turn of the
        scheduler.
        """
        self._unsealed = True
        writer = self.journals.messages
        await self._told(writer.durable_unbroken(position))
        if self._reading_anew.locked() or writer.upkeep.compacting:
            await unbroken(self.show)
        else:
            self._unsealed = True
            self._show_to_who_looks(only_adds=only_adds)

    async def show(self) -> None:
        """Make visible what became durable. A failure is for the next look, and not for the caller: what is
        durable counts, and a caller who is told otherwise repeats it.
        """
        self._unsealed = True
        await self._reading_anew.nobodys()
        try:
            if self.journals.messages.upkeep.compacting:
                await self._catch_up()
                self.core.waking.left()
            else:
                self._show_to_who_looks()
        except (OSError, JournalfsError, MemoryError) as error:
            self.core.behind = True
            self._tell_unseen(error)

    def _show_to_who_looks(self, *, only_adds: bool = False, only_lines: bool = False) -> None:
        """Leave the applying of records to the next look, since most publications are not looked at
        within a moment. Plain lines do not wake patient waiters.
        """
        if not self.core.behind or self._given_up:
            self.core.behind, self._given_up = True, False
            self._behind_since_bytes = self.journals.messages.committer.counts.bytes_written
        if only_adds or only_lines:
            self.core.waking.ring(patient=not only_lines)
        else:
            self.core.waking.left()

    async def _told(self, waiting: Awaitable[None]) -> None:
        """Wait for something to be durable; an event says if it cannot be."""
        try:
            await waiting
        except JournalfsError:
            self._tell_failure()
            raise

    def take_over(self) -> None:
        """After a failed flush: apply what did become durable. Waiters have already got the error. Raises
        JournalfsError and MemoryError: else acknowledged messages would stay visible and be delivered again.
        """
        reached = self.journals.messages.committer.reached_position
        if not self._given_up or (reached > self._advanced_to and not self._reading_anew.locked()):
            self._take_over_now()

    def _take_over_now(self) -> None:
        """Take over what is durable, for somebody who looks. Raises JournalfsError and MemoryError: the next
        one to look may succeed.
        """
        try:
            if self._advance() is PollResult.REWRITTEN:
                self._replace_loader(self._loaded_whole())
        except (OSError, JournalfsError, MemoryError) as error:
            self.core.behind, self._given_up = True, False
            self._tell_unseen(error)
            if isinstance(error, OSError):  # of the journal as a whole, and no damage of what is looked for
                raise SystemFailure.from_os(error, self.core.shown, doing="look at the store") from error
            raise
        self._unseen_told = None

    def _tell_unseen(self, error: Exception) -> None:
        """Add an event where something that is durable cannot be shown, once as long as the reason stays."""
        if (said := str(error) or type(error).__name__) != self._unseen_told:
            self._unseen_told = said
            self.core.events.add("follow-failed", f"cannot look at the store: {said}")

    def current(self) -> bool:
        """Apply the durable records; False if that is not possible now, as while the journal is
        read again.
        """
        if self._reading_anew.locked():
            return False
        try:
            self._take_over_now()
        except (JournalfsError, MemoryError):
            return False
        return True

    def while_waiting(self) -> None:
        """The disk is busy: a good time to catch up, if it is worth it."""
        if self.core.behind:
            written = self.journals.messages.committer.counts.bytes_written
            if written - self._behind_since_bytes >= CATCH_UP_BYTES_MIN:
                self.current()

    def holds(self, name: str) -> bool:
        return self.core.is_rendered(name)

    def lost_file(self) -> str | None:
        return self.core.loaded.lost_file()

    async def _catch_up(self) -> None:
        """Take over what is durable, where nobody is at it."""
        if self._advance() is PollResult.REWRITTEN:
            async with self._reading_anew:
                if self._advance() is PollResult.REWRITTEN:
                    await self._reload()

    async def catch_up(self) -> None:
        """While a long change is staged: so there is little left to take over when it is done."""
        if not self._reading_anew.locked() and not self.journals.messages.upkeep.compacting:
            await self._catch_up()

    async def before_emptying(self) -> None:
        """Show everything from where it will stay: files are about to be emptied."""
        async with self._reading_anew:
            result = self._advance(list_files=True)
            if result is PollResult.REWRITTEN:
                await self._reload()

    async def let_bindings_go(self) -> None:
        """Take over what files say that are about to be emptied: only those that stay are read again."""
        self._bindings_seen = ()
        if self._look_at_bindings():
            self._take_over(True, PollResult.UNCHANGED)

    async def _reload(self) -> None:
        try:
            await super()._reload()
        except BaseException:
            self.core.behind, self._given_up = True, False
            raise

    def _replace_loader(self, loader: JournalLoader) -> None:
        old = self.core.loaded
        try:
            self._replaced_by(loader)
        except BaseException:
            # Parts are carried over from the old one, which is read anew by whoever looks next.
            old.broken, self.core.loaded = True, old
            self.core.epoch += 1
            raise

    def _replaced_by(self, loader: JournalLoader) -> None:
        super()._replace_loader(loader)
        writer = self.journals.messages
        for name in [file.name for file in writer.data if not file.going]:
            if not door.exists(loader.directory / name):
                writer.committer.give_up(name, FileNotFoundError(errno.ENOENT, TAKEN_AWAY))
        # What it says of pages comes into view with the rest: a message that was moved is in one queue.
        self._follow_pages()

    def _advance(self, *, list_files: bool = False) -> PollResult:
        """Apply the durable records. If it raises, the next look applies them before it shows anything."""
        self.core.waking.begin(only_messages=True)
        self.core.behind = self._given_up = False
        try:
            return self._advanced(list_files=list_files)
        except BaseException:
            # Left as it was, what was acknowledged since would be shown, and delivered again.
            self.core.behind, self._given_up = True, False
            raise

    def _advanced(self, *, list_files: bool) -> PollResult:
        writer = self.journals.messages
        if self.core.loaded.broken:
            # Not in a thread, while others look: what it shows was acknowledged.
            self._replace_loader(self._loaded_whole())
        self._advanced_to = Position(writer.committer.reached_position)
        result = self.core.loader.advance(
            *writer.durable_end(), newest_first=writer.newest_first(), list_files=list_files
        )
        if result is PollResult.APPENDED or not self.core.bodies.measured:
            self.core.bodies.measure_added()
        if self._follow_pages() and result is PollResult.UNCHANGED:
            result = PollResult.APPENDED
        if writer.committer.suspended:
            self.core.behind = self._given_up = True
        return result

    def _follow_pages(self) -> bool:
        """Whether something of pages is otherwise than before."""
        return bool(self.core.pages or self._addresses_paging()) and self.core.refresh_pages()

    # -- looking ---------------------------------------------------------------------------------------------

    async def look(self) -> None:
        # One after the other: a journal read anew must not be put in place of one that was read later.
        async with self._reading_anew:
            await super().look()

    def _poll(self) -> tuple[bool, PollResult]:
        if self._is_gone():
            return False, PollResult.UNCHANGED
        result = self._advance()
        if self._unsealed and result is PollResult.UNCHANGED:
            result = PollResult.APPENDED
        self._unsealed = False
        return False, result

    def _broker_is_there(self) -> bool:
        return False

    def _bindings_limit(self) -> tuple[FileId, int] | None:
        writer = self.journals.bindings
        if writer.committer.reached_position >= writer.position:
            # All is durable, so that a file counts which nothing was written to yet.
            return writer.current.file_id, writer.current.records_end
        return writer.durable_end()


class _BindingsReader(JournalReader):
    def __init__(self, store: SelfReadingStore) -> None:
        self._store = store

    async def before_emptying(self) -> None:
        await self._store.let_bindings_go()
