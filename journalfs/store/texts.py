"""Lines on their way into the store, together: most of them never become objects of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from journalfs.engine.publish import Stretches, TextBodies
from journalfs.store.outgoing import Outgoing, Properties, TextMessage


class Texts(Sequence[Outgoing]):
    """Text messages that differ in their text alone; made one by one only where somebody looks at them."""

    __slots__ = ("_messages", "properties", "stretches")

    def __init__(self, stretches: Stretches, properties: Properties) -> None:
        self.stretches = stretches
        self.properties = properties
        self._messages: list[Outgoing] | None = None

    def pieces(self, length: int) -> Iterator[Texts]:
        """All of them, at most so many at a time."""
        for begin in range(0, len(self), length):
            yield Texts(self.stretches.some(begin, begin + length), self.properties)

    def __len__(self) -> int:
        return self.stretches.count

    @overload
    def __getitem__(self, index: int) -> Outgoing: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Outgoing]: ...

    def __getitem__(self, index: int | slice) -> Outgoing | Sequence[Outgoing]:
        if self._messages is None:
            bodies = TextBodies(self.stretches)
            self._messages = [
                TextMessage(body, plain=plain, properties=self.properties) for body, plain in bodies
            ]
        return self._messages[index]
