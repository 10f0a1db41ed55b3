"""Messages as a table, for whatever takes a stream of Arrow's C data interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from journalfs.engine.arrow import COLUMNS, Lines, stream_of
from journalfs.errors import NoSuchName, WrongCall
from journalfs.live.runs import check_all
from journalfs.views.views import ALL_NAME

if TYPE_CHECKING:
    from journalfs.python.backend import Place
    from journalfs.store.store import JournalStore
    from journalfs.views.views import QueueView

BATCH_BYTES: Final = 16 << 20
BATCH_MESSAGES: Final = 65_536
USUAL: Final = tuple(name for name in COLUMNS if name not in ("duplicateIdBytes", "rawMessage"))
"""Columns unless others are asked for."""

Open = Callable[[], "tuple[JournalStore, Callable[[], None]]"]


class Table:
    """Messages as columns, read when somebody takes the stream: once for each who does.

    `pyarrow.table(t)`, `polars.DataFrame(t)`, `pandas.DataFrame.from_arrow(t)` and DuckDB's `SELECT ... FROM
    t` take it. Bodies are decoded in C; buffers are handed on as they are.
    """

    def __init__(
        self, source: Open, place: Place | None, columns: Sequence[str] | None, selector: str | None
    ) -> None:
        """Raises `WrongCall` for a column that there is not."""
        self.columns: Final = tuple(USUAL if columns is None else columns)
        """Names of its columns."""
        self._source = source
        self._place = place
        self._selector = selector
        if unknown := [name for name in self.columns if name not in COLUMNS]:
            raise WrongCall(f"columns: there is no {unknown[0]!r}; there are {', '.join(COLUMNS)}")
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise WrongCall("columns: name at least one, and each once")
        if selector is not None:
            from journalfs.selector import compile_selector  # noqa: PLC0415 - few select

            compile_selector(selector)

    def __repr__(self) -> str:
        return f"<journalfs.Table of {', '.join(self.columns)}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with a stream of record batches. `requested_schema` is a wish, which is not granted."""
        store, close = self._source()
        try:
            queues = self._queues(store)
        except BaseException:
            close()
            raise
        return stream_of(self.columns, _batches(queues), BATCH_BYTES, close)

    def _queues(self, store: JournalStore) -> Sequence[QueueView]:
        found: list[QueueView] = [
            queue if self._selector is None else queue.where(self._selector)
            for address in store.addresses()
            for queue in address.queues()
            if self._place is None
            or (self._place[0] == address.name and self._place[1] in (None, queue.name))
        ]
        if not found and self._place is not None and store.address(self._place[0]) is None:
            raise NoSuchName(f"no address or queue {'::'.join(filter(None, self._place))}")
        return found


def _batches(queues: Sequence[QueueView]) -> Iterator[Lines]:
    for view in queues:
        content = view.content
        name = content.name.encode("utf-8", "replace")
        for run in view.part_runs(ALL_NAME):
            for piece in run.split(BATCH_MESSAGES):
                batch, held = piece.opened(content)
                yield Lines(batch.lines, batch.count, name, batch, partial(check_all, held))
