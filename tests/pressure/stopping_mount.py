"""`journalfs` whose interpreter stops for good when somebody asks how large the disk is: as Python does where
a thread that it starts finds no memory.
"""

from __future__ import annotations

import threading
from typing import Any

from journalfs_mount.front.front import load

load()  # before pyfuse3, as the command does

from journalfs.cli.main import main  # noqa: E402
from journalfs_mount.kernel import operations  # noqa: E402


async def stop(*_: object) -> Any:
    print("stopped", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    operations.Operations.statfs = stop  # type: ignore[assignment]
    main()
