"""A folder at which a process ends, before any one of the steps that change something."""

from __future__ import annotations

from pathlib import Path

from journalfs.pipeline.folders import LocalFolder


class Killed(BaseException):
    """Nothing catches this, as nothing catches SIGKILL; what is on the disk then is what is left."""


class CrashingFolder(LocalFolder):
    """Ends the run before its step number `at`, from 0."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path)
        self._left = at

    def make(self) -> None:
        self._step()
        super().make()

    def write(self, name: str, content: bytes) -> None:
        self._step()
        super().write(name, content)

    def commit(self, name: str, final: str) -> None:
        self._step()
        super().commit(name, final)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def _step(self) -> None:
        if not self._left:
            raise Killed
        self._left -= 1
