"""Which messages of a store a caller asked for: `--queue`, `--where`, `--since` and `--until`, the same for
every command that makes something of a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs.errors import WrongCall
from journalfs.message.envelope import envelope_decoder
from journalfs.selector import Selector, compile_selector
from journalfs.times import FOREVER_MS, range_between
from journalfs.views.filters import SelectorFilter

if TYPE_CHECKING:
    from journalfs.live.content import QueueContent
    from journalfs.live.runs import Run

_SEPARATOR: Final = "::"


class Wanted(msgspec.Struct, frozen=True):
    """What is to be carried; with no field set, all of it. Made by `Wanted.of`, which checks it."""

    queues: tuple[str, ...] = ()
    """`ADDRESS::QUEUE`, or `ADDRESS` for all queues of it; none: all queues."""
    where: str | None = None
    """A JMS selector."""
    since: str | None = None
    until: str | None = None
    """Times of sending, as they were typed; a day or a minute is all of it. A message that does not say when
    it was sent is in no range.
    """
    selector: str | None = None
    """`where`, `since` and `until` as one selector."""

    @classmethod
    def of(
        cls, queues: Iterable[str], where: str | None, since: str | None, until: str | None, now_ms: int
    ) -> Wanted:
        """Return what options ask for. Raises `WrongCall`, and `SelectorError`."""
        parts = []
        if where is not None:
            compile_selector(where)
            parts.append(f"({where})")
        if since is not None or until is not None:
            found = range_between(since, until, now_ms)
            parts.append(f"AMQTimestamp >= {max(1, found.from_ms)}")
            if found.to_ms < FOREVER_MS:
                parts.append(f"AMQTimestamp < {found.to_ms}")
        return cls(tuple(queues), where, since, until, " AND ".join(parts) or None)

    @property
    def is_all(self) -> bool:
        """True where nothing is left out."""
        return not self.queues and self.selector is None

    def wants_queue(self, address: str, queue: str) -> bool:
        """Return whether messages of a queue may be wanted."""
        return not self.queues or address in self.queues or f"{address}{_SEPARATOR}{queue}" in self.queues

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """Raise `WrongCall` for a queue or address that is none of `names` (`ADDRESS::QUEUE`)."""
        known = list(names)
        both = {*known, *(name.partition(_SEPARATOR)[0] for name in known)}
        for name in self.queues:
            if name not in both:
                near = get_close_matches(name, sorted(both), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise WrongCall(f"--queue {name}: there is no such queue or address in the store{hint}")

    def accepts(self, line: bytes) -> bool:
        """Return whether the message of an envelope line is wanted, whichever queue it is in. A selector that
        asks for `AMQSize` is for stores: a line does not say it.
        """
        selector = self._compiled()
        return selector is None or selector.accepts(envelope_decoder(selector.keys)(line))

    def chosen(self, content: QueueContent, run: Run) -> Run:
        """Return those messages of a run that are wanted, whichever queue it is of: the C core judges them by
        their headers where that can tell, so no body is read.
        """
        selector = self._compiled()
        return run if selector is None else SelectorFilter(content, selector, None).apply(run)

    def told(self) -> str:
        """Return the options about messages as they were typed."""
        given = (("--where", self.where), ("--since", self.since), ("--until", self.until))
        return " ".join(f"{name} {value}" for name, value in given if value is not None)

    def told_queues(self) -> str:
        """Return the options about queues as they were typed."""
        return " ".join(f"--queue {name}" for name in self.queues)

    def _compiled(self) -> Selector | None:
        return None if self.selector is None else compile_selector(self.selector)


EVERYTHING: Final = Wanted()
