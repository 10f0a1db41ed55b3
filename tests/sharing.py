"""How workers share the tests among themselves (`--dist loadfile`): by files, what takes long first."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SESSION = "spark: SparkSession"
"""A test that asks for the session of all tests says so."""
SOURCES = "python_sources"
"""Of the project, which are parsed once by whoever looks at them."""
SERVERS = "from tests.tables"
"""Of databases."""
SECONDS = Path(__file__).with_name("seconds.json")
"""What files took when that was last measured (`--record-seconds`), but for those of a moment."""
SECONDS_LEAST = 3


def slowest_first(items: list[pytest.Item]) -> None:
    """Sort by what is done together, so that at the end each worker has little to finish."""
    taken: dict[str, int] = json.loads(SECONDS.read_text())
    together: Counter[str] = Counter()
    for path, root in {(item.path, item.config.rootpath) for item in items}:
        together[shared_with(path)] += taken.get(path.relative_to(root).as_posix(), 0)
    first = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (-together[shared_with(item.path)], first[item.path]))


class Measured:
    """What files of tests take, which is written at the end."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._taken[report.location[0]] += round(report.duration * 1000)

    def pytest_sessionfinish(self) -> None:
        found = {name: ms // 1000 for name, ms in self._taken.most_common() if ms >= SECONDS_LEAST * 1000}
        SECONDS.write_text(json.dumps(found, indent=0) + "\n")


class Sharing(LoadFileScheduling):  # type: ignore[misc]
    """All that needs a session of Spark is done by one worker, as is all that looks at the sources or needs
    a server of databases: a second would take long to get going, and keep processors busy that others need.
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
    return next((one for one in (SESSION, SOURCES, SERVERS) if one in text), str(file))
