"""What a user says of a read or a write: `spark.read.format("journalfs").option(...)`, checked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from journalfs.errors import WrongCall
from journalfs.spark.names import names_in

DEFAULT_BATCH_BYTES: Final = 8 << 20
"""A batch is held twice while it is handed to Spark; more brings nothing."""

_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_WORDS: Final = {"true": True, "false": False}

_NO_TABLES: Final = (
    "a table of a catalog has none, CREATE TEMPORARY VIEW ... USING journalfs OPTIONS (path '...') has"
)
_OF_SPARK: Final = {
    "paths": "format journalfs reads one path at a time: load each, and join them with union; for several "
    "queues of a store there is option 'queues'",
    "owner": f"format journalfs keeps no tables: {_NO_TABLES}",
}
"""What Spark says in options of calls that this format has not, in lower case."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names in Spark, which does not look at the case of letters."""

    path: str
    queues: tuple[str, ...] = ()
    """Each `ADDRESS::QUEUE`, the name of a queue, or of an address for all of its queues. Empty: all."""
    selector: str = ""
    columns: tuple[str, ...] = ()
    """Columns of the schema when none is given; empty: the usual ones."""
    partition_bytes: int | None = field(default=None, metadata={"name": "partitionBytes"})
    """About how much a task reads; `None`: what suits the amount and the cores."""
    batch_bytes: int = field(default=DEFAULT_BATCH_BYTES, metadata={"name": "batchBytes"})
    index: bool = True
    """Whether the store's index is used, and written where that saves the next job a scan."""
    max_messages: int | None = field(default=None, metadata={"name": "maxMessagesPerTrigger"})
    starting: str = field(default="earliest", metadata={"name": "startingOffsets"})
    acknowledge: bool = False
    history: str = ""
    """A range of time, as `journalfs.times` names them: all that was sent then, in place of what is live."""
    exact_rows: int | None = field(default=None, metadata={"name": "exactRows"})
    """How many rows a write must have to be published; `None`: it is published whatever it has."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Raises `WrongCall` for an option that does not exist or cannot be what it is."""
        known = {_name(one).lower(): one for one in fields(cls)}
        for name, reason in _OF_SPARK.items():
            if name in map(str.lower, given):
                raise WrongCall(reason)
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name.lower() not in known:
                names = ", ".join(sorted(map(_name, fields(cls))))
                raise WrongCall(f"option {name!r}: format journalfs has no such option (it has {names})")
            one = known[name.lower()]
            try:
                values[one.name] = _READ.get(one.name, _text)(text)
            except ValueError as error:
                # Spark hands names on in lower case.
                raise WrongCall(f"option {_name(one)!r}: {error}") from None
        if not values.get("path"):
            raise WrongCall(
                f"format journalfs needs a path: of a store, a mount or a journal's directory; {_NO_TABLES}"
            )
        return cls(**values)


def refuse_unused(options: Options, what: str, names: Sequence[str]) -> None:
    """Raise `WrongCall` for options, by their names here, that are set and that `what` does nothing with."""
    for one in fields(options):
        if one.name in names and getattr(options, one.name) != one.default:
            raise WrongCall(f"option {_name(one)!r}: {what} does nothing with it; leave it out")


def _name(one: Any) -> str:
    return str(one.metadata.get("name", one.name))


def _text(text: str) -> str:
    return text


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _boolean(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _WORDS[text.lower()]


def _size(text: str) -> int:
    """Bytes: a number, or one with k, m or g behind it."""
    number = text.strip().lower().removesuffix("b") or text
    digits, unit = (number[:-1], number[-1]) if number[-1:] in _SIZES else (number, "")
    if not digits.isdigit() or int(digits) == 0:
        raise ValueError(f"{text!r} is no number of bytes, such as 32m")
    return int(digits) * _SIZES[unit]


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"{text!r} is no number above 0")
    return int(text)


def _starting(text: str) -> str:
    if text not in ("earliest", "latest"):
        raise ValueError(f"{text!r} is neither earliest nor latest")
    return text


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "queues": names_in, "columns": _list, "partition_bytes": _size, "batch_bytes": _size, "index": _boolean,
    "max_messages": _count, "starting": _starting, "acknowledge": _boolean, "exact_rows": _count,
}  # fmt: skip
