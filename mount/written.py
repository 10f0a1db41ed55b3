"""Names that are being written: each is there from its first opening to its last close, and no longer."""

from __future__ import annotations

from typing import Protocol, TypeAlias

NameKey: TypeAlias = tuple[str, str | None, bytes]
"""Address, queue (None: the address itself) and file name."""


class Writing(Protocol):
    """One of the handles by which a name is written."""

    @property
    def size_bytes(self) -> int: ...

    async def forget(self) -> int | None: ...


class WrittenName:
    """A name and who writes it. Every handle is a stream of its own: what two of them write is not mixed."""

    __slots__ = ("handles", "removed")

    def __init__(self) -> None:
        self.handles: list[Writing] = []
        self.removed = False
        """Removed while it was written, so what is not published yet goes with it."""

    @property
    def size_bytes(self) -> int:
        return self.handles[-1].size_bytes if self.handles else 0


class WrittenNames:
    """All names that are being written in one mount."""

    __slots__ = ("_names", "_serial")

    def __init__(self) -> None:
        self._names: dict[NameKey, WrittenName] = {}
        self._serial = 0

    def find(self, key: NameKey) -> WrittenName | None:
        return self._names.get(key)

    def opened(self, key: NameKey, handle: Writing) -> WrittenName:
        name = self._names.setdefault(key, WrittenName())
        name.handles.append(handle)
        return name

    def closed(self, key: NameKey, name: WrittenName, handle: Writing) -> None:
        name.handles.remove(handle)
        if not name.handles and self._names.get(key) is name:
            del self._names[key]

    def remove(self, key: NameKey) -> list[Writing]:
        """Who writes it, under no name from here on."""
        name = self._names.pop(key, None)
        if name is None:
            return []
        name.removed = True
        return list(name.handles)

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial
