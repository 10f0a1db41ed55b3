"""The steps that a selector is made of, which the core takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

RegisterKind: TypeAlias = Literal["name", "constant", "temporary"]
Register: TypeAlias = tuple[RegisterKind, int]
NOTHING: Final[Register] = ("temporary", 0)


@dataclass(frozen=True, slots=True)
class Name:
    """`kind` as the core's JFS_N_*."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Step:
    """`code` as the core's JFS_S_*: what it makes of registers `a` and `b` goes to `target`. Of LIKE and IN,
    `first` and `count` say which characters or constants; then there is no `b`.
    """

    code: str
    target: Register
    a: Register
    b: Register = NOTHING
    first: int = 0
    count: int = 0
    jump: int = 0
    """After which outcomes to jump; and to which step, counted from the first."""
    to: int = 0


@dataclass(slots=True)
class Program:
    names: list[Name] = field(default_factory=list)
    constants: list[object] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    """Of patterns: code points, -1 for any character and -2 for any number of them."""
    steps: list[Step] = field(default_factory=list)
    temporaries: int = 1
    """The first holds the outcome."""
