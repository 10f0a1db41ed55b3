"""Records put into order with no more than a piece of them in memory."""

from __future__ import annotations

import heapq
import marshal
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, TypeAlias

from journalfs.errors import failing

Record: TypeAlias = tuple[bytes, ...]

TOGETHER_MAX: Final = 50_000
"""Records that are in memory at once, about 20 MB."""


def in_order(records: Iterable[Record]) -> Iterator[Record]:
    """All records, sorted. What does not fit is in temporary files without a name meanwhile. Raises
    `SystemFailure` where there is no room for those.
    """
    runs: list[BinaryIO] = []
    some: list[Record] = []
    for record in records:
        some.append(record)
        if len(some) == TOGETHER_MAX:
            runs.append(_spilled(some))
            some = []
    some.sort()
    try:
        yield from heapq.merge(*map(_read, runs), some)
    finally:
        for run in runs:
            run.close()


def _spilled(records: list[Record]) -> BinaryIO:
    records.sort()
    with failing("put messages into order among temporary files", tempfile.gettempdir()):
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who merges them
        for record in records:
            marshal.dump(record, file)
        file.seek(0)
    return file


def _read(file: BinaryIO) -> Iterator[Record]:
    while True:
        try:
            yield marshal.load(file)
        except EOFError:
            return
