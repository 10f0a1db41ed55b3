"""Commands in forks of one process that has imported what they need: most of what a command takes is that.

`--commands=exec` starts each as a user does; the long suite has it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from tests.memory import make_known

IMPORTED: Final = (
    "trio",
    "journalfs.cli.cat",
    "journalfs.cli.compact",
    "journalfs.cli.create",
    "journalfs.cli.ls",
    "journalfs.cli.mount",
    "journalfs.cli.status",
    "journalfs.store.removed",
    "journalfs.store.replay_plan",
    "journalfs.store.write.opening",
    "journalfs_mount.start.launch",
)
"""None of them imports pyfuse3, before which a front has to be loaded."""
REQUEST_BYTES_MAX: Final = 1 << 20
LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)


def surroundings() -> tuple[object, ...]:
    """What a process has from the one that starts it, and what Python looks at when it starts."""
    mask = os.umask(0)
    os.umask(mask)
    of_python = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "LD_"))}
    return mask, os.geteuid(), [resource.getrlimit(limit) for limit in LIMITS], of_python


class Forks:
    """The process that is forked, which ends with this one."""

    def __init__(self, *unlimited: str) -> None:
        """`unlimited` are names of `journalfs.limits` that nothing reaches in the commands."""
        self._surroundings = surroundings()
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(other.fileno()), *unlimited],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
        )
        other.close()

    def suits(self) -> bool:
        """Whether a command would find the same as in a process that is started here."""
        return self._surroundings == surroundings()

    def run(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        pipes = [os.pipe() for _ in range(3)]
        nothing = os.open(os.devnull, os.O_RDONLY)
        request = json.dumps({"argv": command, "cwd": os.getcwd(), "env": dict(os.environ)})
        theirs = [writer for _, writer in pipes]
        try:
            socket.send_fds(self._control, [request.encode()], [nothing, *theirs])
        finally:
            for descriptor in (nothing, *theirs):
                os.close(descriptor)
        out, errors, report = _read_to_their_ends([reader for reader, _ in pipes], command, timeout_s)
        code = int(report.split()[1])
        return subprocess.CompletedProcess(command, code, out.decode(), errors.decode())


def _read_to_their_ends(readers: list[int], command: Sequence[str], timeout_s: float) -> list[bytes]:
    """The last of them tells the number of the process first, which is killed when it takes too long."""
    found = dict.fromkeys(readers, b"")
    end = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as waiting:
        for reader in readers:
            waiting.register(reader, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(end - time.monotonic())
            if not ready:
                os.kill(int(found[readers[-1]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout_s)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                found[key.fd] += piece
                if not piece:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    return list(found.values())


@cache
def forks(*unlimited: str) -> Forks:
    return Forks(*unlimited)


def _serve(control: socket.socket) -> None:
    """Returns in the process that is to run a command, and when nobody wants more."""
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(control, REQUEST_BYTES_MAX, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(json.loads(message), files)
            return
        for file in files:
            os.close(file)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """The command, in a child of this process, which tells how that ended."""
    *streams, report = files
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        os.write(report, f"{child} ".encode())
        _, status = os.waitpid(child, 0)
        os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.close(report)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]


if __name__ == "__main__":
    vars(importlib.import_module("journalfs.limits")).update(dict.fromkeys(sys.argv[2:], 10**12))
    for name in IMPORTED:
        importlib.import_module(name)
    make_known()
    assert "pyfuse3" not in sys.modules
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from journalfs.cli.main import main

    main()
