"""What is on the disk at each moment of some work: as a killed process leaves it, and as a power cut may.

Each call that changes a file of a store is a moment. What a power cut may leave besides is said of the files
in one directory: those that were not synced yet are not there, and those that were removed are there again.
Journals are written durably or not at all here; what a cut does within them is the journal's own sweep.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from journalfs import door
from journalfs.engine.backend import Completion
from journalfs.engine.disk import DiskBackend
from journalfs.engine.stage import Stage

Files: TypeAlias = dict[str, bytes]
"""By path within the store."""

OF_DESCRIPTORS = ("write", "pwrite", "fsync", "fdatasync", "ftruncate")
OF_PATHS = ("remove", "rename", "link", "make_folder", "remove_folder")


class Cuts:
    """Watches from `begin` to `end`. `bodies` is the directory of which power cuts are thought."""

    def __init__(self, root: Path, bodies: str, *, without: str) -> None:
        self._root = root
        self._bodies = root / bodies
        self._without = without
        self._lock = threading.RLock()
        self._watching = False
        self._unsynced: set[str] = set()
        self._removed: Files = {}
        self._found: dict[frozenset[tuple[str, bytes]], None] = {}

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For stores that are opened from here on."""
        for name in OF_DESCRIPTORS:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name), _path_of_descriptor))
        for name in OF_PATHS:
            monkeypatch.setattr(door, name, self._watched(name, getattr(door, name), _path_of_name))
        for name in ("perform", "allocate", "write_at"):
            monkeypatch.setattr(DiskBackend, name, self._watched(name, getattr(DiskBackend, name), _nowhere))
        _write_at_once(monkeypatch)

    def begin(self) -> None:
        self._watching = True

    def end(self) -> None:
        self._look()
        self._watching = False

    def states(self) -> Iterator[Files]:
        return (dict(files) for files in self._found)

    def _watched(
        self, name: str, call: Callable[..., Any], path_of: Callable[[Any], Path | None]
    ) -> Callable[..., Any]:
        def watched(*arguments: Any, **more: Any) -> Any:
            path = path_of(arguments[0]) if self._watching else None
            if path is None or not self._is_ours(path):
                return call(*arguments, **more)
            with self._lock:
                self._look()
                content = path.read_bytes() if name == "remove" and path.parent == self._bodies else None
                result = call(*arguments, **more)
                self._note(name, path, arguments, content)
            return result

        return watched

    def _is_ours(self, path: Path) -> bool:
        return path == HERE or path.is_relative_to(self._root)

    def _note(self, name: str, path: Path, arguments: tuple[Any, ...], content: bytes | None) -> None:
        """What is not durable yet of names and contents."""
        if name in ("fsync", "fdatasync") and path == self._bodies:
            self._removed.clear()
            self._unsynced = {one for one in self._unsynced if one.endswith(WRITTEN)}
        elif name in ("fsync", "fdatasync"):
            self._unsynced.discard(path.name + WRITTEN)
        elif name in ("write", "pwrite") and path.parent == self._bodies:
            self._unsynced |= {path.name, path.name + WRITTEN}
        elif name == "link" and Path(arguments[1]).parent == self._bodies:
            self._unsynced.add(Path(arguments[1]).name)
        elif content is not None:
            self._removed[path.name] = content

    def _look(self) -> None:
        found = {
            str(path.relative_to(self._root)): path.read_bytes()
            for path in sorted(self._root.rglob("*"))
            if path.is_file() and not path.is_relative_to(self._root / self._without)
        }
        self._keep(found)
        lost = {one.removesuffix(WRITTEN) for one in self._unsynced}
        folder = self._bodies.name
        self._keep({name: content for name, content in found.items() if name not in _in(folder, lost)})
        self._keep(found | {f"{folder}/{name}": content for name, content in self._removed.items()})

    def _keep(self, files: Files) -> None:
        self._found[frozenset(files.items())] = None


HERE = Path("journal")
"""Stands for the files of journals."""

WRITTEN = "/content"


def _in(folder: str, names: set[str]) -> set[str]:
    return {f"{folder}/{name}" for name in names}


def _path_of_descriptor(descriptor: int) -> Path | None:
    try:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return None


def _path_of_name(name: Any) -> Path:
    return Path(os.fsdecode(name))


def _nowhere(_backend: Any) -> Path:
    return HERE


def _write_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is submitted to a backend is written there and then, instead of in a thread."""
    prepare, done = DiskBackend.__init__, dict[int, list[Completion]]()

    def prepared(backend: DiskBackend, *arguments: Any, **more: Any) -> None:
        prepare(backend, *arguments, **more)
        backend.event_fd = None

    def submit(
        backend: DiskBackend, file: Any, stage: Stage, length: int, *, durable: bool, tag: int
    ) -> None:
        assert durable
        done.setdefault(id(backend), []).append(Completion(tag, backend.perform(file, stage, length)))

    def completed(backend: DiskBackend, timeout_ns: int) -> list[Completion]:
        return done.pop(id(backend), [])

    monkeypatch.setattr(DiskBackend, "__init__", prepared)
    monkeypatch.setattr(DiskBackend, "submit", submit)
    monkeypatch.setattr(DiskBackend, "completed", completed)


def lay(files: Files, root: Path) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root
