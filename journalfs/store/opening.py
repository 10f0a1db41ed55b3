"""Puts a store together: finds its parts, takes the index if it fits, scans otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

from journalfs import door
from journalfs.account.contradictions import Contradictions, of_journal
from journalfs.account.taking import entries_of
from journalfs.bodies.directory import LargeDirectory
from journalfs.bodies.inflated import InflatedBodies
from journalfs.clock import Clock
from journalfs.config.layout import StoreLayout
from journalfs.config.older import ARTEMIS_1
from journalfs.damage import Damage
from journalfs.engine.state import LiveState
from journalfs.engine.state_batch import adopt_parts
from journalfs.engine.status import CoreRefused
from journalfs.errors import IndexUnusable, OlderStore
from journalfs.format.record_types import MessageType
from journalfs.format.server_lock import NodeState
from journalfs.ids import QueueId
from journalfs.live.bindings import BindingsReader
from journalfs.live.core import Core
from journalfs.live.events import Events
from journalfs.live.index import (
    FORMAT,
    IndexDescription,
    fits,
    left_off,
    plausible,
)
from journalfs.live.index_file import index_place, read_index
from journalfs.live.missing import (
    COUNT_IN_STEPS,
    lost_since,
    missing_between,
    missing_by_records,
    missing_file_ids,
    missing_pages,
)
from journalfs.live.page_parts import PageParts
from journalfs.live.part_names import PartNames
from journalfs.pages.address import PagedAddress
from journalfs.records.description import derived_from
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.records.files.opening import LeftOff
from journalfs.store.locks import lock_holder
from journalfs.store.node_lock import server_lock_of
from journalfs.store.refused import refuse_unreadable
from journalfs.store.store import RELOADS_MAX, JournalStore

StoreT = TypeVar("StoreT", bound=JournalStore)


MakeStore: TypeAlias = Callable[[Core, Path | None, Callable[[], JournalLoader]], StoreT]


class Opening:
    """Puts a store together. `ours`: this process holds the store's lock, which must not be asked for then.
    `anew`: all files are read, and the index only tells what was there before.
    """

    def __init__(
        self,
        layout: StoreLayout,
        clock: Clock,
        index: bool | Path,
        *,
        ours: bool = False,
        anew: bool = False,
        events: Events | None = None,
        generation: int | None = None,
    ) -> None:
        """`events` holds the events about the layout. `generation`: the generation of part names of a store
        that never changes, so that the names need not be kept.
        """
        if generation is None:  # else it is of files that this process has just made
            refuse_unreadable(layout)
        self.generation = generation
        self.layout = layout
        self.clock = clock
        self.ours = ours
        self.anew = anew
        self.derived = derived_from(layout.root)
        self.events = Events(clock) if events is None else events
        self.bindings_reader = BindingsReader(layout.bindings_dir, relative_to=layout.root)
        self.missing: list[Damage] = []
        self.postpones = False
        self.is_kept_up = False
        """True if the store was derived from a source that other processes may be changing."""
        # Nor is an index written beside a store that nobody named.
        beside = index_place(layout.root) if index and layout.outside is None else None
        self.index = index if isinstance(index, Path) else beside
        for warning in layout.warnings if events is None else ():
            self.events.add("configuration", warning)
        kept = self._kept_index() if generation is None else None
        self.names = PartNames(kept, clock, self.events, generation or 0)
        self._ledger = b""
        lock = None if ours else server_lock_of(layout)
        self.was_stopped = lock is not None and lock.state is NodeState.STOPPED
        """True if the last holder stopped the store in order: then the counts of the journal are true."""
        self._stored = self._stored_index()
        # Before there are other files: whoever writes the journal makes some.
        self._missing_ids = self._ids_of_missing_files()

    def _ids_of_missing_files(self) -> list[str]:
        layout = self.layout
        if self.generation is not None or layout.history_of is not None or self._is_written_by_others():
            return []
        return missing_file_ids(layout)

    def _is_written_by_others(self) -> bool:
        return not self.ours and lock_holder(self.layout.node_manager_lock_dir) is not None

    def store(self, make: MakeStore[StoreT]) -> StoreT:
        self.bindings, self.bindings_damage = self.bindings_reader.read()
        description, state = self._stored
        self._stored = None, None  # a store lives long, and this may be large
        loader = self._resumed(description, state) if description and state else None
        as_it_was = loader is not None and not loader.bytes_scanned
        known = description
        if self.anew:
            loader = description = state = None
        if self.generation is None:
            self.names.start(description.generation if description is not None else None)
        core = self._core(loader or self._scanned())
        core.bodies.postpones = self.postpones
        core.loaded.missing = tuple(self.missing)
        store = make(core, self._kept_index(), self._loader)
        store.resume_bindings(self.bindings_reader)
        if description is not None:
            self._resume_derived(store, description)
        core.bodies.measure_added()
        if loader is None and state is not None:
            # The index no longer fits, but its parts are known by name to whoever read them.
            adopt_parts(core.loader.state, state)
        store.resume_sealed()
        store.start()
        if core.lost.queues:
            self.events.add("bindings-lost", core.lost.explained())
        if known is not None and as_it_was:
            folders = known.page_folders.items()
            # P-4: pages that were taken away between two mounts. Unlisted, their messages are missing without
            # a word, and the cursors that name them are cleaned up, so that a page that comes back is put
            # aside.
            gone = [missing_pages(core, folder, known.pages.get(of, {})) for of, folder in folders]
            core.loaded.missing = tuple(dict.fromkeys(chain(self.missing, *gone)))
        if not core.live_broker and not core.has_strays():
            core.missing_in_pages = tuple(self._missing_in_pages(core))
        core.contradictions = Contradictions(core, self._contradictions(core))
        if loader is not None:
            store.index_holds(description, self._ledger)
        if not self.anew:  # else all that is damaged is what is asked for
            self._tell_damage(core)
        return store

    def _missing_in_pages(self, core: Core) -> Iterable[Damage]:
        if self.was_stopped:
            damaged = {one.file.rpartition("/")[0] for one in core.damage_of_pages()}
            return missing_by_records(core, damaged)
        is_older = core.derived is not None and core.derived.kind in COUNT_IN_STEPS
        return missing_between(core) if is_older else ()

    def _contradictions(self, core: Core) -> Sequence[Damage]:
        """Return what the journal says against bindings and pages. Beside a writer the bindings are read once
        more: they were read before the journal, and may have changed between.
        """
        if self.layout.history_of is not None:
            return ()
        found = tuple(of_journal(core, core.bindings))
        if found and (core.live_broker or core.loader.following):
            reader = BindingsReader(self.layout.bindings_dir, relative_to=self.layout.root)
            found = tuple(of_journal(core, reader.read()[0]))
        return found

    def _tell_damage(self, core: Core) -> None:
        """Add an event for what is lost: the reader of what is left must not take it for all there was."""
        losses = [entry for entry in entries_of(core) if not entry.is_harmless]
        if losses:
            first, places = losses[0], "1 place" if len(losses) == 1 else f"{len(losses)} places"
            advice = "`journalfs check` lists all"
            if core.loader.following:
                advice += "; somebody is writing it, and what was on its way is whole a moment later"
            self.events.add(
                "damage",
                f"{core.shown}: damage in {places}, so messages may be missing; the first is in "
                f"{first.file} at byte {first.offset}: {first.reason}; {advice}",
            )

    def _kept_index(self) -> Path | None:
        """Where the index is to be written."""
        return None if self.anew else self.index

    def _loader(self, state: LiveState | None = None) -> JournalLoader:
        return JournalLoader(
            self.layout.journal_dir,
            self.layout.journal_extension,
            self.layout.root,
            self.clock,
            state if state is not None else LiveState(),
            following=self.is_kept_up or self._is_written_by_others(),
        )

    def _stored_index(self) -> tuple[IndexDescription | None, LiveState | None]:
        if self.index is None:
            return None, None
        try:
            found = read_index(self.index, IndexDescription)
            if found is None:
                return None, None
            description, sections = found
            if description.format != FORMAT:
                raise IndexUnusable(
                    self.index, f"format {description.format}, this journalfs writes {FORMAT}"
                )
            state = LiveState.load(sections[0])
            self._ledger = bytes(sections[1]) if description.written else b""
            if not plausible(description, state):
                raise IndexUnusable(self.index, "it refers to places outside of its files")
            return description, state
        except (CoreRefused, IndexError) as error:
            self.events.add(
                "index-unusable", str(IndexUnusable(self.index, f"its content is refused: {error}"))
            )
            return None, None
        except IndexUnusable as error:
            self.events.add("index-unusable", str(error))
            return None, None

    @property
    def some_gone(self) -> bool:
        """Whether something of the journal is known to be gone."""
        description, _ = self._stored
        return bool(self._gone or (description is not None and description.missing))

    def left_off(self) -> LeftOff | None:
        """Where the index says that the journal's writer left off."""
        description, state = self._stored
        if description is None or state is None or not self._ledger:
            return None
        return left_off(description, self._ledger, self._loader(state), state.counts().messages)

    @cached_property
    def _gone(self) -> Sequence[Damage]:
        """The damage of the journal since the index was written."""
        description, state = self._stored
        if description is None or state is None:
            return ()
        return lost_since(self._loader(state), description.journal, state)

    def _resumed(self, description: IndexDescription, state: LiveState) -> JournalLoader | None:
        """A loader that goes on where the index ends; `None` when the journal is not what the index
        describes.
        """
        loader = self._loader(state)
        state.bind_queues(sorted(self.bindings.queues))
        self.missing = list(description.missing)
        if not fits(loader, description) or loader.poll(settled=not loader.following) is PollResult.REWRITTEN:
            if not door.is_folder(self.layout.journal_dir):
                return None  # it is listed with what is damaged
            found = lost_since(self._loader(state), description.journal, state)
            self.missing += found
            why = f"something of {len(found)} journal files is gone" if found else "the journal was rewritten"
            self.events.add("index-outdated", f"{self.index}: {why} since; it is scanned", level=20)
            return None
        return loader

    def _scanned(self) -> JournalLoader:
        for _ in range(RELOADS_MAX):
            loader = self._loader()
            loader.state.bind_queues(sorted(self.bindings.queues))
            loader.load()
            if loader.poll() is not PollResult.REWRITTEN:
                break
        self._refuse_old_messages(loader)
        return loader

    def _refuse_old_messages(self, loader: JournalLoader) -> None:
        """Messages of Artemis 1.x have another layout, and no broker of today starts on them."""
        if next(iter(loader.state.side(MessageType.LEGACY_MESSAGE)), None) is not None:
            journal, bindings = self.layout.journal_dir, self.layout.bindings_dir
            found = "a journal of Artemis 1.x (message records of type 31)"
            raise OlderStore(
                journal, found, kind=ARTEMIS_1, root=self.layout.root, journal=journal, bindings=bindings
            )

    def _core(self, loader: JournalLoader) -> Core:
        return Core(
            layout=self.layout,
            clock=self.clock,
            loaded=loader,
            bindings=self.bindings,
            bindings_damage=self.bindings_damage,
            large=LargeDirectory(
                self.layout.large_dir,
                InflatedBodies(int(self.layout.value_in_force("inflate-bytes-max") or 0)),
            ),
            events=self.events,
            names=self.names,
            derived=self.derived,
            missing_journal_files=self._missing_ids if self.derived is None else (),
            other_damage=self._other_damage,
        )

    def _other_damage(self) -> Iterable[Damage]:
        """Return the damage of the store as a whole."""
        return () if self.derived is None else self.derived.damage

    def _resume_derived(self, store: JournalStore, description: IndexDescription) -> None:
        core = store.core
        core.large.inflated.resume(description.inflated)
        core.bodies.resume(description.large_damage, dict(description.large_bodies))
        core.refresh_pages()
        for address, pages in description.pages.items():
            paged: PagedAddress | None = core.pages.get(address)
            if paged is not None:
                paged.resume(pages.items())
        parts: dict[QueueId, PageParts] = {}
        for indexed in description.page_parts:
            resumed = PageParts(QueueId(indexed.queue_id))
            resumed.resume(indexed.parts, indexed.next_number)
            parts[resumed.queue] = resumed
        store.resume_page_parts(parts)
