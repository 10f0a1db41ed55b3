"""A desk at which the commands of a page are typed: its paths stand for those of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mounting import JOURNALFS

PLACES = {
    "/var/lib/artemis": "artemis",
    "/var/lib/orders": "orders-store",
    "/var/lib/activemq/data/kahadb": "kahadb",
    "/var/lib/broker": "broker",
    "/opt/journalfs/bin": "bin",
    "/backup": "backup",
    "/mnt": "mnt",
}
"""Path in a page -> its place on the desk."""

LIMIT_S = 120


class Desk:
    """`path` has copies of two stores, an empty mount point, and a place for copies."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def typed(self, text: str) -> str:
        """What is typed for what stands in the page."""
        places = PLACES | {"/opt/journalfs/bin": str(JOURNALFS.parent)}
        for written, place in places.items():
            text = re.sub(rf"(?<![\w/.]){written}(?![\w-])", str(self.path / place), text)
        return text

    def shell(self, text: str, *, options: str = "-eu") -> str:
        """Run by bash; a block that fails fails the test with what it printed."""
        return self._run(["bash", "--norc", *options.split(), "-o", "pipefail", "-c", self.typed(text)])

    def python(self, text: str) -> str:
        return self._run([sys.executable, "-c", self.typed(text)])

    def _run(self, command: list[str]) -> str:
        environment = {**os.environ, "PATH": f"{JOURNALFS.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        environment["XDG_CACHE_HOME"] = str(self.path / "cache")
        done = subprocess.run(
            command,
            cwd=self.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, (
            f"{command[-1]}\nends with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done.stdout


@contextmanager
def desk(store: Path, kahadb: Path, path: Path) -> Iterator[Desk]:
    """Whatever is mounted below `path` at the end is taken away."""
    for name in ("mnt", "backup"):
        (path / name).mkdir()
    subprocess.run(["cp", "-r", store, path / "artemis"], check=True)
    subprocess.run(["cp", "-r", kahadb, path / "kahadb"], check=True)
    try:
        yield Desk(path)
    finally:
        for place in re.findall(rf" ({re.escape(str(path))}\S*) ", Path("/proc/mounts").read_text()):
            subprocess.run(["umount", "--lazy", place], check=True)
