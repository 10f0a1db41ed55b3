"""Derived stores: making one of a foreign store, keeping it while it is of use, and finding it again."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs import limits
from journalfs.clock import SystemClock
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage
from journalfs.errors import OlderStore, SystemFailure

if TYPE_CHECKING:
    from journalfs.older.derived import DerivedStore

FORMAT: Final = 1
"""Of derived stores; those of another one are made anew."""

DESCRIPTION: Final = Path("journalfs", "older.json")
"""What a derived store was made of. It makes a store one that is not written."""

DERIVED_VARIABLE: Final = "JOURNALFS_DERIVED"
"""Environment variable: where derived stores lie when nothing else says so."""

_IN_USE: Final = "in-use"
_MAKING: Final = "making"
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
    found: str
    """What it is called."""
    paging: Path | None = None
    large: Path | None = None
    """Where a configuration says; None: where such a broker has them."""
    is_locked: bool = False
    """By this process, which lets go of a record lock when it opens and closes the locked file once more."""

    @property
    def paging_dir(self) -> Path:
        return self.paging or self.root / "paging"

    @property
    def large_dir(self) -> Path:
        if self.large is not None:
            return self.large
        names = ("large-messages", "largemessages")
        return next((self.root / one for one in names if (self.root / one).is_dir()), self.root / names[0])

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every regular file of the store, by its path below the root, in the order of the names."""
        folders = sorted({self.root, self.journal_dir, self.bindings_dir})
        seen: set[str] = set()
        for folder in folders:
            for parent, subfolders, names in os.walk(folder):
                subfolders.sort()
                for name in sorted(names):
                    path = os.path.join(parent, name)
                    if path not in seen and os.path.isfile(path):
                        seen.add(path)
                        with suppress(FileNotFoundError):
                            yield os.path.relpath(path, self.root), os.stat(path)


class Description(msgspec.Struct, frozen=True):
    """`journalfs/older.json` of a derived store."""

    format: int
    kind: str
    found: str
    source: str
    identity: str
    damage: list[Damage]
    notes: list[tuple[str, str]]
    """What has no equal in the current format: a stable word, and a sentence."""
    jms: dict[str, object]
    bodies: str | None = None
    """Directory of the source's large bodies, which are read in place."""


def derive(found: OlderStore, base: Path | None = None, *, quiet: bool = False) -> Path:
    """The derived store of a foreign one, made if there is none or the source changed. This process holds it
    from then on.
    """
    source = Source(found.kind, found.root, found.journal_dir, found.bindings_dir, found.found)
    with deriving(str(source.root.resolve()), base) as folder:
        return _derived(source, folder, quiet=quiet)


@contextmanager
def deriving(name: str, base: Path | None) -> Iterator[Path]:
    """The folder of what is derived from a source; one process at a time has it. Raises `SystemFailure`."""
    folder = (base or derived_base()) / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder / "lock"):
            yield folder
    except OSError as error:
        doing = f"derive a store from {name}"
        raise SystemFailure.from_os(error, error.filename or folder, doing=doing) from error


def derived_base() -> Path:
    """Where derived stores lie unless a caller says."""
    given = os.environ.get(DERIVED_VARIABLE)
    if given:
        return Path(given).absolute()
    import platformdirs  # noqa: PLC0415 - seldom needed

    return Path(platformdirs.user_cache_dir("journalfs")) / "derived"


def derived_from(root: Path) -> Description | None:
    """What the store at `root` was derived from; None for any other store."""
    try:
        return msgspec.json.decode((root / DESCRIPTION).read_bytes(), type=Description)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.DecodeError, OSError):
        return None


def refuse_derived(layout: StoreLayout) -> None:
    """Raises `OlderStore` for a derived store: what is written there is lost when it is made anew."""
    made_of = derived_from(layout.root)
    if made_of is not None:
        found = f"derived from {made_of.source}, {made_of.found}"
        raise OlderStore(
            layout.root,
            found,
            kind=made_of.kind,
            root=Path(made_of.source),
            journal=layout.journal_dir,
            bindings=layout.bindings_dir,
        )


def identity_of(source: Source) -> str:
    """Changes with any file of the source, and with how it is read."""
    digest = hashlib.sha256(f"{FORMAT} {source.kind} {source.root}".encode(errors="surrogateescape"))
    for name, status in source.files():
        facts = (name, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
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
        shutil.rmtree(place, ignore_errors=True)
        os.rename(folder / _MAKING, place)
    keep(place)
    return place


def keep(place: Path) -> None:
    """Hold a derived store for as long as this process lives, and remove what it takes the place of."""
    os.utime(place)
    _hold(place)
    _bound(place.parent, place)


def _make(source: Source, place: Path, identity: str, *, quiet: bool) -> None:
    from journalfs.older.adapters import adapter_for  # noqa: PLC0415 - it imports this module

    fill = partial(adapter_for(source), source)
    name = os.fsdecode(os.fsencode(source.root))
    size_bytes = sum(status.st_size for _, status in source.files())
    with _progress(name, size_bytes, quiet=quiet) as advance:
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
    from journalfs.older.derived import DerivedStore  # noqa: PLC0415 - only when something is made

    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
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
    (place / _IN_USE).touch()
    (place / DESCRIPTION.parent).mkdir(exist_ok=True)
    (place / DESCRIPTION).write_bytes(msgspec.json.encode(described))


@contextmanager
def _progress(name: str, size_bytes: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, if there is one."""
    if quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console  # noqa: PLC0415 - only people look at it
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"reading {name}", total=size_bytes)
        yield lambda count: bar.advance(task, count)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time derives from one source."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _hold(place: Path) -> None:
    """Keep others from removing it for as long as this process lives."""
    if place in _held:
        return
    descriptor = os.open(place / _IN_USE, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _held[place] = descriptor


def _bound(folder: Path, kept: Path) -> None:
    """Remove what was derived from earlier states of this source, and of others what nobody used for long."""
    expired_s = SystemClock().now_ms() // 1000 - limits.DERIVED_KEPT_S
    for one in folder.iterdir():
        if one.is_dir() and one != kept:
            _remove(one)
    for other in folder.parent.iterdir():
        if other == folder or not other.is_dir():
            continue
        for one in other.iterdir():
            if one.is_dir() and one.stat().st_mtime < expired_s:
                _remove(one)


def _remove(place: Path) -> None:
    """Unless a process has it open."""
    try:
        descriptor = os.open(place / _IN_USE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        shutil.rmtree(place, ignore_errors=True)
        return
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
