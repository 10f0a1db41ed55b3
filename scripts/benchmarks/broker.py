"""Starting a real broker on a copy of a store, as its own `artemis create` sets one up."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from scripts.benchmarks.measure import run_quietly

ACTIVE = "AMQ221007"
"""The code of the log line that says the server is active."""


class BrokerInstance:
    """A broker instance with the distribution's own defaults, over a copy of a store."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @staticmethod
    def create(root: Path, data: Path) -> BrokerInstance | None:
        """Lay an instance out under `root`. None when there is no distribution to lay out."""
        home = _distribution()
        if home is None:
            return None
        if not root.exists():
            flags = "--allow-anonymous --no-web --silent --user admin --password admin --nio --no-autotune"
            run_quietly([str(home / "bin" / "artemis"), "create", *flags.split(), str(root)])
            shutil.rmtree(root / "data")
            shutil.copytree(data, root / "data", ignore=shutil.ignore_patterns("journalfs"))
        return BrokerInstance(root)

    def start_and_stop(self) -> float:
        """Seconds from the command to the log line that says it is active; then it is stopped cleanly."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(self._root / "bin" / "artemis"), "run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if ACTIVE in line:
                    return time.perf_counter() - start
            raise RuntimeError("the broker ended before it was active")
        finally:
            run_quietly([str(self._root / "bin" / "artemis"), "stop"])
            process.stdout.read()
            process.wait(60)


def _distribution() -> Path | None:
    """The unpacked distribution that the broker tests use: named by the environment, or fetched by them."""
    given = os.environ.get("JOURNALFS_ARTEMIS_HOME")
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted((cache / "journalfs-tests").glob("apache-artemis-*/bin/artemis"))
    return found[-1].parent.parent if found else None
