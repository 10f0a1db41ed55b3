"""Which parts of a store lie elsewhere than they seem to, by links and bind mounts, and whether another store
has them.

`cp -a` copies a link as a link, and a bind mount shows the same directory twice: a part of a copied data
directory may be the original's. `config.layout` asks about each part before a store is written to. Nothing
here opens a file of a store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from journalfs.config.data_directory import PARTS
from journalfs.config.files import TOML_NAME

_MOUNT_TABLE: Final = "/proc/self/mountinfo"
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
_CONFIGURATIONS: Final = ("etc/broker.xml", "broker.xml", "etc/bootstrap.xml", "bin/artemis")
"""Any of them makes a directory an instance."""

Identity = tuple[int, int]


class Elsewhere(NamedTuple):
    """A part that lies outside of what was named."""

    part: Path
    """As the store has it."""
    place: Path
    """Where it is."""
    of: Path | None
    """The other store, or instance, whose part it is, too; None: none is known."""

    def told(self) -> str:
        whose = "" if self.of is None else f", a part of {self.of}"
        return f"{self.part} is {self.place}{whose}"


def absolute(path: Path | str) -> Path:
    """Return a path from the root on, where `..` leads as the kernel follows it: out of what a link leads
    to, not out of the directory that the link is in.
    """
    given = Path(os.path.join(os.getcwd(), path)) if not os.path.isabs(path) else Path(path)
    if ".." not in given.parts:
        return given
    behind = len(given.parts) - given.parts[::-1].index("..")
    return Path(os.path.realpath(Path(*given.parts[:behind])), *given.parts[behind:])


def followed(path: Path) -> Path:
    """Return a path without links. One that is a part of a data directory, or the data directory of an
    instance, stays: its store is the one around it.
    """
    given = Path(os.path.realpath(path.parent), path.name)
    if path.name and os.path.islink(given):
        around = given.parent
        is_part = path.name in PARTS and any(os.path.isdir(around / one) for one in PARTS if one != path.name)
        is_data = path.name == "data" and any(os.path.isfile(around / one) for one in _CONFIGURATIONS)
        if is_part or is_data:
            return given
    return Path(os.path.realpath(path))


def parts_elsewhere(
    named: Path, parts: Iterable[tuple[Path, Path]], copied: tuple[Path, Path] | None = None
) -> list[Elsewhere]:
    """Return those parts, each given as the store has it and without links, that are not within `named`.
    `copied`: an instance, and the directory of which its files say that it was made there.
    """
    pairs = list(dict.fromkeys(parts))
    own = {one for _, place in pairs if (one := _identity(place)) is not None}
    bound = list(_bound_below(named))
    found: list[Elsewhere] = []
    for part, place in pairs:
        seen = _seen_elsewhere(place, named, bound) if place.is_relative_to(named) else place
        if seen is None or any(one.place in seen.parents for one in found):
            continue
        found.append(Elsewhere(part, seen, _other_store(named, part, seen, own, copied)))
    return found


def _other_store(
    named: Path, part: Path, place: Path, own: Collection[Identity], copied: tuple[Path, Path] | None
) -> Path | None:
    """Return the store or instance that has `place` as a part, but for the one at `named`."""
    if copied is not None and part.is_relative_to(copied[0]):
        original = copied[1] / part.relative_to(copied[0])
        if _identity(original) == _identity(place) is not None:
            return original.parent
    for folder in (place, place.parent):
        if _has_parts_of_others(folder, own):
            return folder
    around = {_identity(one / name) for one in (named, *named.parents)[:3] for name in ("", "etc", "bin")}
    for folder in (place, *place.parents)[:3]:
        files = [folder / name for name in _CONFIGURATIONS]
        if any(os.path.isfile(one) and _identity(one.parent) not in around for one in files):
            return folder
    return None


def _has_parts_of_others(folder: Path, own: Collection[Identity]) -> bool:
    """Return True for a directory with a part of a store that is none of `own`."""
    if any(os.path.isdir(folder / name) and _identity(folder / name) not in own for name in PARTS):
        return True
    return os.path.isfile(folder / TOML_NAME) and _identity(folder) not in own


def _identity(path: Path) -> Identity | None:
    """Return device and number of what is there; None: nothing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# Bind mounts. The kernel tells of each mount which directory of which filesystem it shows.


class _Mount(NamedTuple):
    device: bytes
    root: Path
    """The directory of that filesystem."""
    at: Path


def _mounts() -> Iterator[_Mount]:
    try:
        with open(_MOUNT_TABLE, "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(b" ", 5)
        yield _Mount(fields[2], _path(fields[3]), _path(fields[4]))


def _path(field: bytes) -> Path:
    return Path(os.fsdecode(_ESCAPED.sub(lambda found: bytes((int(found[1], 8),)), field)))


def _bound_below(named: Path) -> Iterator[tuple[_Mount, list[_Mount]]]:
    """Yield each mount below a directory, with the other mounts of the same filesystem."""
    mounts = list(_mounts())
    for one in mounts:
        if one.at != named and one.at.is_relative_to(named):
            yield one, [other for other in mounts if other.device == one.device and other.at != one.at]


def _seen_elsewhere(place: Path, named: Path, bound: Iterable[tuple[_Mount, list[_Mount]]]) -> Path | None:
    """Return another path of a directory that is mounted, or lies in a mount, below `named`; None: none."""
    identity = _identity(place)
    for mount, others in bound:
        if not place.is_relative_to(mount.at):
            continue
        inside = mount.root / place.relative_to(mount.at)
        for other in others:
            if inside.is_relative_to(other.root):
                seen = other.at / inside.relative_to(other.root)
                if not seen.is_relative_to(named) and _identity(seen) == identity:
                    return seen
    return None
