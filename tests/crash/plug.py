"""Starts workers on a store, ends them at some moment, and says what is wrong with what they leave."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from journalfs.store.write.store import SyncMode
from tests.crash.history import History
from tests.forking import forks
from tests.mounting import COMMAND_S_MAX, EVERY_DISK_IS_QUICK, JOURNALFS, MountedStore
from tests.reference.store import load

LONGEST_S = 1.0


@contextmanager
def killed_mount(
    root: Path,
    mountpoint: Path,
    after_s: float,
    *options: str,
    before: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """A mount of the store that is killed so much later, behind a call of `before`; at the end nothing of it
    is left.
    """
    command = [str(JOURNALFS), "mount", *options, str(root), str(mountpoint)]
    done = forks(*EVERY_DISK_IS_QUICK).run(command, COMMAND_S_MAX)
    assert done.returncode == 0, done.stderr
    process = os.pidfd_open(MountedStore(mountpoint).process_id())

    def kill() -> None:
        try:
            before()
        finally:
            signal.pidfd_send_signal(process, signal.SIGKILL)

    killer = threading.Timer(after_s, kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
        subprocess.run(["umount", "--lazy", mountpoint], check=True)
        select.select([process], [], [])
        os.close(process)


def texts_in(root: Path) -> dict[str, list[str]]:
    """What the independent reader finds, by queue."""
    found = load(root, 0)
    return {queue["name"]: [text_of(one) for one in queue["messages"]] for queue in found["queues"]}


def text_of(line: Mapping[str, Any]) -> str:
    """The text that an envelope stands for, whether it was a line or a whole file."""
    return b64decode(line["body_base64"]).decode() if "body_base64" in line else str(line["body"])


PAGING = """
[address-settings."work"]
max-size-messages = 20
page-size-bytes = 4000
"""
"""The address pages most of the time, in pages that come and go."""


def configure(root: Path, backend: str, *, pages: bool = False) -> None:
    """Small files and early compaction, so that all of that happens many times."""
    (root / "journalfs.toml").write_text(
        f'journal-type = "{backend}"\njournal-file-size = 262144\njournal-compact-min-files = 4\n'
        + (PAGING if pages else "")
    )


@dataclass
class Plug:
    """One store through any number of crashes. `pull` ends a worker's process, and whatever it writes to.
    Where that is more than the process, it closes the process's standard input first (`worker.say`).
    """

    root: Path
    pull: Callable[[subprocess.Popen[str]], None]
    chance: Random
    sync: SyncMode = SyncMode.ALWAYS
    worker: str = "tests.crash.worker"
    more: tuple[str, ...] = ()
    """What the worker is told besides."""
    history: History = field(default_factory=History)
    cycles: int = 0

    def cycle(self) -> None:
        """Let a worker work, and pull the plug."""
        self.cycles += 1
        process = subprocess.Popen(
            [sys.executable, "-m", self.worker, str(self.root), str(self.cycles), str(self.sync), *self.more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        if not first:
            process.wait()
            raise AssertionError(f"the worker did not begin: {process.stderr.read()}")
        puller = threading.Timer(self.chance.uniform(0.02, LONGEST_S), lambda: self.pull(process))
        puller.start()
        # A pipe that nobody empties would stop the worker.
        complaints = threading.Thread(target=process.stderr.read)
        complaints.start()
        for line in (first, *process.stdout):
            if line.endswith("\n"):
                self.history.take(line)
        puller.join()
        complaints.join()
        process.wait()

    def wrong(self) -> list[str]:
        """What is wrong with what is there now; the next cycle goes on from it."""
        return self.history.settle(texts_in(self.root))
