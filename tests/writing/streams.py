"""What processes that read `.take` and `.follow` are at."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

from tests.mounting import COMMAND_S_MAX

_READ = "0"
"""The number of read(2), on x86-64."""


def reads(pid: int, stream: Path) -> bool:
    """Whether a process waits in a read of a stream. One that is being started may wait for other files, and
    has not opened the stream by then.
    """
    called = Path(f"/proc/{pid}/syscall").read_text().split()
    return called[0] == _READ and _file(pid, int(called[1], 16)) == str(stream)


def next_line(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints, read byte by byte, so that none waits in a buffer."""
    assert process.stdout is not None
    descriptor, line, end = process.stdout.fileno(), b"", time.monotonic() + COMMAND_S_MAX
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0, end - time.monotonic()))
        assert ready, f"no line within {COMMAND_S_MAX} s but {line!r}: {_where(process)}"
        byte = os.read(descriptor, 1)
        assert byte, f"its output ended with {line!r}: {_where(process)}"
        line += byte
    return line.decode()


def _file(pid: int, descriptor: int) -> str:
    try:
        # Once the name stands for another opening, the kernel takes the one before for deleted.
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").removesuffix(" (deleted)")
    except FileNotFoundError:
        return ""


def _where(process: subprocess.Popen[str]) -> str:
    """For whoever wants to know why nothing comes."""
    if process.poll() is not None:
        return f"it ended with {process.returncode}"
    folder = Path(f"/proc/{process.pid}")
    files = {int(name): _file(process.pid, int(name)) for name in os.listdir(folder / "fd")}
    positions = {one: (folder / f"fdinfo/{one}").read_text().split("\n")[0] for one in files}
    call, at = (folder / "syscall").read_text().strip(), (folder / "wchan").read_text()
    return f"in system call {call} at {at}, with {files} at {positions}"
