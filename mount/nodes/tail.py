"""An open tail: it keeps what it had, and whoever reads on at its end gets what came since.

That is what `tail -f` needs, and what one expects of a file that somebody appends to. When lines of it went
into a part or were acknowledged, the handle ends where it ended. Reading it again from the front, as `tail`
does with a file that became shorter, shows the tail as it is by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyfuse3 import FUSEError

from journalfs.store.api import Bytes, ByteSource, View
from journalfs_mount.nodes.view import ViewDirectory

COMPARED_BYTES: Final = 4_096
"""How much of the end must stand where it stood. A line names its message and lines only ever move forwards,
so the last one at its old place means that none before it went."""


class TailSource:
    """The content of one handle."""

    __slots__ = ("_at_end", "_directory", "_looked_at", "_name", "_source", "_version")

    def __init__(self, directory: ViewDirectory, name: str) -> None:
        view = directory.view()
        self._directory, self._name = directory, name
        self._version = self._looked_at = view.version
        self._source: ByteSource = view.open_tail(name)
        self._at_end = False

    @property
    def size_bytes(self) -> int:
        return self._source.size_bytes

    def read(self, offset: int, length: int) -> Bytes:
        view = self._view()
        if view is not None and offset >= self._source.size_bytes:
            self._at_end = True
            if view.version != self._looked_at:
                self._looked_at = view.version
                self._change_over(view, only_if_grown=True)
        elif view is not None and offset == 0 and self._at_end:
            self._at_end = False
            if view.version != self._version:
                self._change_over(view, only_if_grown=False)
        # `tail` asks for just as much as the size says, and so never for what lies behind the end.
        self._at_end |= bool(length) and offset + length == self._source.size_bytes
        return self._source.read(offset, length)

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        return self._source.ahead(offset, length)

    def close(self) -> None:
        self._source.close()

    def _change_over(self, view: View, *, only_if_grown: bool) -> None:
        fresh = view.open_tail(self._name)
        if not only_if_grown or self._grew(fresh):
            self._source, fresh = fresh, self._source
            self._version = self._looked_at = view.version
        fresh.close()

    def _grew(self, fresh: ByteSource) -> bool:
        had = self._source.size_bytes
        if fresh.size_bytes <= had:
            return False
        start = max(had - COMPARED_BYTES, 0)
        return bytes(fresh.read(start, had - start)) == bytes(self._source.read(start, had - start))

    def _view(self) -> View | None:
        try:
            return self._directory.view()
        except FUSEError:
            return None  # the queue went: nothing comes any more, and what was had stays
