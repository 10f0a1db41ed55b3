"""What others see of this process in a list of processes: no password."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from journalfs.config.database import password_spans

_ARGUMENTS_START = 45
"""`arg_start` in /proc/PID/stat, behind the name; see proc(5)."""


def hide_passwords() -> None:
    """Overwrite the passwords of URLs among the arguments, as database clients do. The arguments that the
    interpreter took stay. Where the kernel does not let us, they stay as they are.
    """
    with suppress(OSError):
        arguments = Path("/proc/self/cmdline").read_bytes()
        spans = password_spans(arguments.decode("latin-1"))
        if not spans:
            return
        start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_ARGUMENTS_START])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            for first, end in spans:
                memory.seek(start + first)
                memory.write(b"*" * (end - first))
