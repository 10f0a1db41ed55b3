"""Makes or removes a snapshot again and again, each time on a fresh copy of a store, and dies one call later.

`python -m tests.crash.snapshot_worker TEMPLATE COPIES create|delete`: the copy `COPIES/1` is of a process
that killed itself at the first call, and so on. It ends when one came through.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import trio

from journalfs.store.write.opening import open_for_writing

CHANGING = frozenset(("os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "open"))
"""What Python tells of the calls that a snapshot is made and removed with; writing and syncing come behind
opening."""


class Death:
    """SIGKILL when so many calls were made; none is counted before it is `armed`."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.armed = False
        sys.addaudithook(self._count)

    def _count(self, event: str, _arguments: tuple[object, ...]) -> None:
        if self.armed and event in CHANGING:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


async def change(root: Path, what: str, death: Death) -> None:
    store = open_for_writing(root, index=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        death.armed = True
        if what == "create":
            await store.snapshots.create("x")
        else:
            await store.snapshots.delete("old")
        death.armed = False
        nursery.cancel_scope.cancel()
    store.close()


def main(template: Path, copies: Path, what: str) -> None:
    for calls in count(1):
        root = copies / str(calls)
        subprocess.run(["cp", "--archive", template, root], check=True)  # which keeps second names
        child = os.fork()
        if child == 0:
            code = 1
            try:
                trio.run(change, root, what, Death(calls))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
