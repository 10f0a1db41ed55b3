"""Bodies and pages that nothing refers to any more, out of the way of a broker and not gone yet."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from journalfs import door


class AsideFile(NamedTuple):
    """`was`: where it lay."""

    was: Path
    path: Path
    size_bytes: int


class Aside:
    """A folder of our own for them. Everything may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.keeps = False
        """True if removed files may be asked for."""
        self.most_bytes = 0
        """So much is kept; the oldest goes first."""
        self._files: dict[Path, AsideFile] = {}
        self._count = 0

    def keep(self, path: Path) -> None:
        """Give a file that is about to be removed a second name here, if its content may be asked for.
        Without effect on file systems where it cannot have one.
        """
        if not self.keeps:
            return
        self._count += 1
        aside = self._folder / f"{self._count}-{path.name}"
        with suppress(OSError):
            size_bytes = door.status(path).st_size
            if size_bytes > self.most_bytes:
                return
            files = self.files()
            left_bytes = sum(file.size_bytes for file in files) + size_bytes
            for file in files:
                if left_bytes <= self.most_bytes:
                    break
                self.let_go(file)
                left_bytes -= file.size_bytes
            door.make_folders(self._folder)
            door.link(path, aside)
            self._files[aside] = AsideFile(path, aside, size_bytes)

    def files(self) -> list[AsideFile]:
        """The oldest first."""
        return list(self._files.values())

    def let_go(self, file: AsideFile) -> None:
        """Remove one. Raises OSError."""
        door.remove_if_there(file.path)
        self._files.pop(file.path, None)

    def let_go_of_all(self) -> bool:
        """Remove all; whether there were any. Raises OSError."""
        files = self.files()
        for file in files:
            self.let_go(file)
        return bool(files)
