"""Names that were given by a rename. Messages take none, but `mv` looks whether what it renamed is there."""

from __future__ import annotations

from typing import Final

GIVEN_NAMES_S: Final = 1.0
"""How long whoever gave a name finds it: `mv` looks at once."""
GIVEN_NAMES_MAX: Final = 256
"""Processes that are remembered, those that renamed last."""


class GivenNames:
    """The last name that each process gave. Nobody else finds it."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: dict[int, tuple[int, bytes, float]] = {}

    def give(self, process: int, directory_inode: int, name: bytes, now_s: float) -> None:
        self._given[process] = (directory_inode, name, now_s + GIVEN_NAMES_S)
        if len(self._given) > GIVEN_NAMES_MAX:
            del self._given[next(iter(self._given))]

    def forget(self, process: int) -> None:
        self._given.pop(process, None)

    def knows(self, process: int, directory_inode: int, name: bytes, now_s: float) -> bool:
        given = self._given.get(process)
        return given is not None and given[:2] == (directory_inode, name) and now_s < given[2]
