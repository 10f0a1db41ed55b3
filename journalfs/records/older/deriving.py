"""Derived stores: making one of a foreign store, keeping it while it is of use, and finding it again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import msgspec

from journalfs import door, limits, store_owner
from journalfs.clock import SystemClock
from journalfs.config.files import TOML_NAME
from journalfs.config.layout import DIRECTORY_FIELDS, StoreLayout
from journalfs.config.older import AMQ, ARTEMIS_1, HORNETQ, KAHADB, MESSAGING
from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.errors import JournalfsError, OlderStore, UnknownVersion, failing
from journalfs.format.journal_file import READABLE_VERSIONS
from journalfs.format.record_types import RecordKind
from journalfs.records.description import DESCRIPTION, FORMAT, Description, derived_from
from journalfs.records.files.directory import read_directory, written_rid
from journalfs.showing import advancing

if TYPE_CHECKING:
    from journalfs.records.older.derived import DerivedStore


# Which function reads which kind of store. Each is imported when such a store is met.

CURRENT: Final = "artemis"
"""The kind of a store that is no older one."""

Adapter: TypeAlias = "Callable[[Any, DerivedStore], None]"
"""Given a `journalfs.records.older.deriving.Source`."""

_ADAPTERS: Final = {
    AMQ: "journalfs.records.older.amq:fill_amq",
    KAHADB: "journalfs.records.older.kahadb:fill_kahadb",
    HORNETQ: "journalfs.records.older.hornetq:fill_hornetq",
    ARTEMIS_1: "journalfs.records.older.hornetq:fill_hornetq",
    CURRENT: "journalfs.records.older.current:fill_current",
}


class Kind(Protocol):
    """What says which kind of store it is, and where."""

    @property
    def kind(self) -> str: ...

    @property
    def root(self) -> Path: ...


def adapter_for(source: Kind) -> Adapter:
    """Raises `UnknownVersion` for a kind that is recognised only."""
    found = _ADAPTERS.get(source.kind)
    if found is None:
        raise UnknownVersion(source.root, f"a store of kind {source.kind}", advice="it is recognised only")
    module, _, name = found.partition(":")
    adapter = cast("Adapter", getattr(import_module(module), name))

    def fill(given: Any, out: DerivedStore) -> None:
        adapter(given, out)
        if source.kind != CURRENT:
            out.settings = _own_settings(source.root)

    return fill


def _own_settings(root: Path) -> dict[str, object]:
    """Return what a journalfs.toml in an older store says, but for directories, which are not the derived
    store's. Raises `ConfigError`.
    """
    file = root / TOML_NAME
    if not door.exists(file):
        return {}
    from journalfs.config.journalfs_toml import load_toml, read_journalfs_toml  # noqa: PLC0415 - most have none

    read_journalfs_toml(file, None)  # says what is wrong, with the line
    said = load_toml(door.read(file))
    return {name: value for name, value in said.items() if name not in DIRECTORY_FIELDS}


DERIVED_VARIABLE: Final = "JOURNALFS_DERIVED"
"""Environment variable: where derived stores lie when nothing else says so."""

_IN_USE: Final = "in-use"
_MAKING: Final = "making"
_LARGE_NAMES: Final = ("large-messages", "largemessages")
_ATTEMPTS_MAX: Final = 3
"""A source that changes while it is read is read again so often; then what was read is shown."""

_held: dict[Path, int] = {}
"""Derived stores that this process has opened, with the descriptors that keep others from removing them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A foreign store. Directories may be missing."""

    kind: str
    root: Path
    journal_dir: Path
    bindings_dir: Path
    paging_dir: Path
    large_dir: Path
    found: str
    """What it is called."""
    is_locked: bool = False
    """By this process, which lets go of a record lock when it opens and closes the locked file once more."""
    shown: str | None = None
    """What people know it by; None: its root."""
    also_bound: frozenset[int] = frozenset()
    """Queues that messages name and no binding: the new store has them all the same."""
    folders: Mapping[str, str] | None = None
    """The address of each page folder, by its name, as the store that reads them found it: a folder that is
    not named is not read. None: each folder says itself whose it is.
    """

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """What is in the store beside directories, by its path below the root, in the order of the names."""
        folders = sorted({self.root, self.journal_dir, self.bindings_dir})
        if self.journal_dir.name == MESSAGING["journal"]:
            # The root is an application server's, which has much beside.
            folders = sorted({self.journal_dir, self.bindings_dir, self.paging_dir, self.large_dir})
        seen: set[bytes] = set()
        for top in folders:
            for parent, subfolders, names in door.below(top, _passed_over):
                subfolders.sort(reverse=True)
                for name in sorted(names):
                    path = os.path.join(parent, name)
                    if path not in seen:
                        seen.add(path)
                        with suppress(FileNotFoundError):
                            yield os.path.relpath(os.fsdecode(path), self.root), door.status(path)


def _passed_over(_: OSError) -> None:
    """A directory that went, or cannot be listed: whoever reads it says so."""


def source_of(found: OlderStore, *, paging: Path | None = None, large: Path | None = None) -> Source:
    """A foreign store, of which all is reached as its owner from now on. `paging`, `large`: where its
    configuration says; None: where such a broker has them. Raises `SystemFailure`.
    """
    said = found.layout
    if said is not None:
        paging, large = paging or said.paging_dir, large or _said_large(said)
    with failing("read the store", found.root, found=True):
        return _entered(found, paging, large)


def _said_large(said: StoreLayout) -> Path | None:
    """Where a configuration has large bodies; None: it does not say, and the folder may have either name."""
    named = said.config is not None and "large-messages-directory" in said.config.core
    return said.large_dir if named else None


def _entered(found: OlderStore, paging: Path | None, large: Path | None) -> Source:
    root = door.resolved(found.root)
    usual = [door.resolved(large or root / name) for name in (*_LARGE_NAMES, MESSAGING["large-messages"])]
    pages = [door.resolved(paging or root / name) for name in ("paging", MESSAGING["paging"])]
    if found.journal_dir.name == MESSAGING["journal"]:  # others have directories of their own there
        usual, pages = usual[-1:], pages[-1:]
    source = Source(
        found.kind,
        root,
        door.resolved(found.journal_dir),
        door.resolved(found.bindings_dir),
        pages[0],
        next((one for one in usual if door.is_folder(one)), usual[0]),
        found.found,
    )
    places = (source.root, source.journal_dir, source.bindings_dir, source.paging_dir, source.large_dir)
    door.enter(dict.fromkeys(places))
    return source


def derive(found: OlderStore, base: Path | None = None, *, quiet: bool = False) -> Path:
    """The derived store of a foreign one, made if there is none or the source changed. This process holds it
    from then on.
    """
    source = source_of(found)
    with deriving(str(source.root), base) as folder:
        return _derived(source, folder, quiet=quiet)


@contextmanager
def deriving(name: str, base: Path | None) -> Iterator[Path]:
    """The folder of what is derived from a source; one process at a time has it. Raises `SystemFailure`."""
    folder = (base or derived_base()) / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    with failing(f"derive a store from {name}", folder, found=True):
        folder = door.resolved(folder.parent) / folder.name
        door.own_folder(folder)
        with _alone(folder / "lock"):
            yield folder


def derived_base() -> Path:
    """Where derived stores lie unless a caller says."""
    given = os.environ.get(DERIVED_VARIABLE)
    if given:
        return Path(given).absolute()
    import platformdirs  # noqa: PLC0415 - seldom needed

    return Path(platformdirs.user_cache_dir("journalfs")) / "derived"


def identity_of(source: Source) -> str:
    """Changes with any file of the source, and with how it is read."""
    digest = hashlib.sha256(f"{FORMAT} {source.kind} {source.root}".encode(errors="surrogateescape"))
    for name, status in source.files():
        kind = stat.S_IFMT(status.st_mode)
        facts = (name, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns, kind)
        digest.update(repr(facts).encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _derived(source: Source, folder: Path, *, quiet: bool) -> Path:
    identity = identity_of(source)
    place = folder / identity
    known = derived_from(place)
    if known is None or known.identity != identity:
        for attempt in range(_ATTEMPTS_MAX):
            _make(source, folder / _MAKING, identity, quiet=quiet)
            now = identity_of(source)
            if now == identity or attempt + 1 == _ATTEMPTS_MAX:
                break
            identity, place = now, folder / now
        remove_derived(place)
        door.rename(folder / _MAKING, place)
    keep(place)
    return place


def keep(place: Path) -> None:
    """Hold a derived store for as long as this process lives, and remove what it takes the place of."""
    door.touch(place)
    _hold(place)
    _bound(place.parent, place)


def _make(source: Source, place: Path, identity: str, *, quiet: bool) -> None:
    fill = partial(adapter_for(source), source)
    name = os.fsdecode(os.fsencode(source.root))
    size_bytes = sum(status.st_size for _, status in source.files())
    with advancing(None if quiet else f"reading {name}", size_bytes) as advance:
        make_derived(
            place, fill, advance, kind=source.kind, found=source.found, source=name, identity=identity
        )


def make_derived(
    place: Path,
    fill: Callable[[DerivedStore], None],
    advance: Callable[[int], None],
    *,
    kind: str,
    found: str,
    source: str,
    identity: str,
) -> None:
    """A derived store at `place`, of what `fill` puts into it."""
    from journalfs.records.older.derived import DerivedStore  # noqa: PLC0415 - only when something is made

    remove_derived(place)
    door.make_folder(place, mode=0o700)
    with DerivedStore(place, advance) as out:
        fill(out)
    bodies = out.bodies
    described = Description(
        format=FORMAT,
        kind=kind,
        found=found,
        source=source,
        identity=identity,
        damage=sorted(out.damaged),
        notes=out.notes,
        jms=out.jms_facts,
        bodies=None if bodies is None else str(bodies),
    )
    door.write(place / _IN_USE, b"")
    door.make_folders(place / DESCRIPTION.parent)
    door.write(place / DESCRIPTION, as_json(described))


def as_json(described: msgspec.Struct) -> bytes:
    """Names in a store may be half of a pair of surrogates, which no UTF-8 can say: that becomes `?`."""
    return json.dumps(msgspec.to_builtins(described), ensure_ascii=False).encode("utf-8", "replace")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time derives from one source."""
    descriptor = door.open_or_create(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _hold(place: Path) -> None:
    """Keep others from removing it for as long as this process lives."""
    if place in _held:
        return
    descriptor = door.open_file(place / _IN_USE)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _held[place] = descriptor


def _bound(folder: Path, kept: Path) -> None:
    """Remove what was derived from earlier states of this source, and of others what nobody used for long."""
    expired_s = SystemClock().now_ms() // 1000 - limits.DERIVED_KEPT_S
    for one in (folder / name for name in door.names(folder)):
        if one != kept and door.is_folder(one):
            _remove(one)
    for other in (folder.parent / name for name in door.names(folder.parent)):
        if other == folder or not _is_own(other):
            continue
        for one in (other / name for name in door.names_if_there(other)):
            if door.is_folder(one) and door.status(one).st_mtime < expired_s:
                _remove(one)


def _is_own(place: Path) -> bool:
    """A directory that nobody else made: what others have beside it is theirs."""
    try:
        found = door.status(place)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == store_owner.acts_as()[0]


def remove_derived(place: Path) -> None:
    """What is derived, if it is there; what cannot be removed is in nobody's way."""
    with suppress(OSError):
        door.remove_tree(place)


def _remove(place: Path) -> None:
    """Unless a process has it open."""
    try:
        descriptor = door.open_file(place / _IN_USE)
    except FileNotFoundError:
        remove_derived(place)
        return
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_derived(place)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


# Where in a source lies what is wrong in the journal that was derived from it.

_RECORD_FOR_RECORD: Final = frozenset({HORNETQ, ARTEMIS_1})
"""Kinds of which each file became one with the same records in their order, events left out."""

_EXTENSIONS: Final = ("hq", "amq")


class SourcePlaces:
    """Of one derived store. What a file's records are is found out when one is damaged, once."""

    def __init__(self, made_of: Description, layout: StoreLayout) -> None:
        self._root = Path(made_of.source)
        self._layout = layout
        self._is_told = made_of.kind in _RECORD_FOR_RECORD
        self._known: dict[str, tuple[str, list[int], list[int]]] = {}
        """By a file's name here: its name there, and where its records lie here and there."""

    def told(self, one: Damage) -> Damage:
        """With the source's file and offset, if they can be told; else as it is."""
        if not self._is_told or one.length_bytes:
            return one
        if one.file not in self._known:
            self._known[one.file] = self._found(one.file)
        name, here, there = self._known[one.file]
        at = bisect_right(here, one.offset) - 1
        moved = there[at] - here[at] if at >= 0 else 0  # what is before a body has the same length
        return msgspec.structs.replace(one, file=name, offset=one.offset + moved)

    def _found(self, name: str) -> tuple[str, list[int], list[int]]:
        """Nothing of a file that is not there any more, or has other records now."""
        here = _offsets(self._layout.journal_dir, "amq", Path(name).stem)
        for folder in (self._root / "journal", self._root):
            for extension in _EXTENSIONS if here else ():
                there = _offsets(folder, extension, Path(name).stem)
                if there and len(there) == len(here):
                    path = folder / f"{Path(name).stem}.{extension}"
                    return name_of(path, self._root), here, there
        return name, [], []


def _offsets(folder: Path, extension: str, stem: str) -> list[int]:
    """Of each record of a file, but events."""
    try:
        listing = read_directory(folder, extension=extension, relative_to=folder)
        for file in listing.files:
            if file.path.stem == stem:
                with MappedFile(file.path) as mapped:
                    version = file.version if file.version in READABLE_VERSIONS else 2
                    scan = scan_journal(mapped, rid=file.rid or written_rid(mapped) or 0, version=version)
                    return [one.offset for one in scan if one.kind != RecordKind.EVENT]
    except (JournalfsError, OSError):
        return []  # whoever reads it says why
    return []
