"""A compiled selector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from journalfs.selector.failure import EvaluationFailed

if TYPE_CHECKING:
    from journalfs.selector.identifiers import Envelope
    from journalfs.steps import Program

_CACHE_ENTRIES = 256
"""Enough for the filters of the queues of one address and the views that are open."""


class Selector:
    """Decides which messages a selector accepts. Made by `compile_selector`; immutable and safe to share."""

    def __init__(
        self,
        text: str,
        judge: Callable[[Envelope], object],
        identifiers: frozenset[str],
        keys: frozenset[str] | None,
        program: Program | None,
        *,
        compared_names: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._judge = judge
        self.text = text
        self.identifiers = identifiers
        """The identifiers as they are written in the text."""
        self.keys = keys
        """The envelope's keys that `accepts` reads, so that no other need be decoded; None: any of them."""
        self.program = program
        """The same as steps, which judge records without envelopes; None: there are none for this one."""

        self.compared_names = tuple(compared_names)
        """Pairs of identifiers that it compares with each other."""

    @property
    def asks_size(self) -> bool:
        """Whether it reads the size of the message, which no line says."""
        return "AMQSize" in self.identifiers

    @property
    def client_names(self) -> dict[str, str]:
        """Names of headers that clients translate before a broker sees them, with those that they become."""
        from journalfs.selector.identifiers import JMS_TO_BROKER  # noqa: PLC0415 - as below

        return {name: JMS_TO_BROKER[name] for name in sorted(self.identifiers & JMS_TO_BROKER.keys())}

    def accepts(self, envelope: Mapping[str, object]) -> bool:
        """Whether the selector is true for a message; unknown is not true.

        `envelope` is a decoded envelope line (docs/reference/envelope.md). Where the broker fails to evaluate
        (bytes compared with a number, a word used in arithmetic) the message is not accepted, as there.
        """
        try:
            return self._judge(envelope) is True
        except EvaluationFailed:
            return False

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


def compile_selector(text: str, *, stored: bool = False) -> Selector:
    """Compile a JMS selector, as the broker understands it; empty text accepts every message.

    `stored` is for filters that a broker has stored with its queues: only the broker's own header names
    (`AMQPriority`, ...) are headers there, JMS names are not. Raises `SelectorError` with the place of the
    mistake.
    """
    return _compile(text, stored)


@lru_cache(maxsize=_CACHE_ENTRIES)
def _compile(text: str, stored: bool) -> Selector:
    if not text.strip():
        return Selector(text, lambda envelope: True, frozenset(), frozenset(), None)
    # Whoever may filter imports this module, but few do filter: all the rest loads when it is needed.
    from journalfs.selector.compiler import Compiler  # noqa: PLC0415
    from journalfs.selector.grammar import parse  # noqa: PLC0415

    parsed = parse(text)
    compiler = Compiler(parsed, stored=stored)
    identifiers = frozenset(compiler.identifiers)
    keys = _keys(identifiers, stored=stored)
    names = compiler.compared_names
    return Selector(text, compiler.judge, identifiers, keys, compiler.program, compared_names=names)


def _keys(identifiers: frozenset[str], *, stored: bool) -> frozenset[str] | None:
    from journalfs.selector.identifiers import HEADER_KEYS, PROPERTY_KEYS, broker_name  # noqa: PLC0415

    keys: set[str] = set()
    for identifier in identifiers:
        name = broker_name(identifier, stored=stored)
        if name == "AMQSize":
            return None
        keys.update(HEADER_KEYS.get(name, ()))
        if name not in ("AMQPriority", "AMQTimestamp", "AMQExpiration", "AMQDurable"):
            keys.update(PROPERTY_KEYS)
    return frozenset(keys)
