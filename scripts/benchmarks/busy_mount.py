"""`python -m scripts.benchmarks.busy_mount FILE ARGUMENTS...`: journalfs, in which another thread keeps the
interpreter for 20 ms of every 20.5 while FILE is there.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from pathlib import Path

from journalfs_mount.front import front

BUSY_US = 20_000
FREE_S = 0.0005


def _keep_busy(while_there: Path) -> None:
    sleep = ctypes.PyDLL(None).usleep  # without letting go of the interpreter
    while True:
        if while_there.exists():
            sleep(BUSY_US)
            time.sleep(FREE_S)
        else:
            time.sleep(0.1)


if __name__ == "__main__":
    front.load()
    from journalfs.cli.main import main

    threading.Thread(target=_keep_busy, args=[Path(sys.argv.pop(1))], daemon=True).start()
    main()
