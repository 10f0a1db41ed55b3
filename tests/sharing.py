"""How workers share the tests among themselves (`--dist loadfile`): by files, what takes long first."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SLOWEST = ("spark", "broker", "mount")
"""Markers of what waits for other processes, the longest first."""
SESSION = "spark: SparkSession"
"""A test that asks for the session of all tests says so."""
SOURCES = "python_sources"
"""Of the project, which are parsed once by whoever looks at them."""


def slowest_first(items: list[pytest.Item]) -> None:
    """Sort by files, so that at the end, when there are no more to take, each worker has little to finish."""
    ranks: dict[Path, int] = {}
    for item in items:
        rank = next((n for n, mark in enumerate(SLOWEST) if item.get_closest_marker(mark)), len(SLOWEST))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


class Sharing(LoadFileScheduling):  # type: ignore[misc]
    """All that needs a session of Spark is done by one worker, and so is all that looks at the sources: a
    second one would take long to get going, and keep the processors busy that others wait for.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        # Else the files with the fewest tests come last, which are the longest ones.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return shared_with(self.config.rootpath / super()._split_scope(nodeid))


@cache
def shared_with(file: Path) -> str:
    """What tests of a file are done together with: those of all files with the same answer."""
    text = file.read_text()
    return next((one for one in (SESSION, SOURCES) if one in text), str(file))
