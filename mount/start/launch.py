"""Start a mount, in the foreground or as a process of its own, for the command and for the mount helper.

A background start returns only when the mount answers, or with the error that kept it from doing so.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import logging.handlers
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from journalfs.errors import EXIT_OK, EXIT_SYSTEM, JournalfsError, MountFailed
from journalfs.showing import log_lines
from journalfs_mount.front import front
from journalfs_mount.limits import DESCRIPTORS_MIN
from journalfs_mount.options import MountOptions
from journalfs_mount.start import mountpoint

if TYPE_CHECKING:
    from journalfs.api import Store

log = logging.getLogger("journalfs.mount")

SYSLOG_SOCKET: Final = Path("/dev/log")
_LINE_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_READY: Final = b"ready"


@dataclass(frozen=True, slots=True)
class Start:
    """What to mount, where and how."""

    store: Path
    mountpoint: Path
    options: MountOptions
    open_store: Callable[[], Store]
    """Called in the process that serves the mount."""
    foreground: bool = False
    debug: bool = False
    log_file: Path | None = None


class StartRefused(  # noqa: N818  (named like its siblings in journalfs.errors)
    JournalfsError
):
    """What kept the background process from mounting. Carries that failure's own exit code."""

    identifier = "mount-failed"

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def start(request: Start) -> int:
    """Mount, and return the exit code: 0 after a mount in the background answers, or after one in the
    foreground ended well. Raises `JournalfsError` with what went wrong before or while mounting.
    """
    if request.options.front != "off":
        front.load()
    mountpoint.check_fuse()
    place = mountpoint.prepare(
        request.mountpoint, request.store, allow_nonempty=request.options.allow_nonempty
    )
    if request.foreground:
        _log_to_stderr(debug=request.debug)
        _serve(request, place, _tell_service_manager)
        return EXIT_OK
    return _start_in_background(request, place)


def _start_in_background(request: Start, place: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _background(request, place, writer)
    os.close(writer)
    try:
        # Where this command is killed instead, the process finds nobody to tell that it is ready, and ends.
        with open(reader, "rb") as pipe:
            answer = pipe.read()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise MountFailed(f"{place}: interrupted before the mount answered; nothing is mounted") from None
    if answer == _READY:
        return EXIT_OK
    _, status = os.waitpid(child, 0)
    if answer:
        failure = json.loads(answer)
        raise StartRefused(failure["message"], failure["code"])
    raise MountFailed(f"{place}: the mount's process ended before it was ready ({_ending(status)})")


def _background(request: Start, place: Path, writer: int) -> NoReturn:
    """The serving process. It never returns into the command that it was forked from."""
    code = EXIT_SYSTEM
    told = False

    def ready() -> None:
        nonlocal told
        told = True
        try:
            os.write(writer, _READY)
        except BrokenPipeError:
            # The command was killed outright: a mount that nobody waits for must not stay.
            log.error("%s: nobody waits for this mount any more", place)
            signal.raise_signal(signal.SIGTERM)
        os.close(writer)
        _leave_terminal()

    try:
        os.setsid()
        _close_inherited(keep=writer)
        _log_in_background(debug=request.debug, log_file=request.log_file)
        _serve(request, place, ready)
        code = EXIT_OK
    except JournalfsError as error:
        code = exit_code(error)
        if told:
            log.error("%s", error)
        else:
            os.write(writer, json.dumps({"message": str(error), "code": code}).encode())
    except BaseException:
        # Whatever it is, the caller waits on the pipe and the log is the only other place that shows it.
        log.critical("the mount ended unexpectedly\n%s", traceback.format_exc())
        if not told:
            message = f"{place}: {traceback.format_exc(limit=0)}"
            os.write(writer, json.dumps({"message": message, "code": code}).encode())
    finally:
        logging.shutdown()
        os._exit(code)


def exit_code(error: JournalfsError) -> int:
    return error.code if isinstance(error, StartRefused) else error.exit_code


def _serve(request: Start, place: Path, ready: Callable[[], None]) -> None:
    # pyfuse3 and trio take longest to import, so this waits until nothing else can be wrong.
    from journalfs_mount.start import lifecycle  # noqa: PLC0415

    _take_descriptors(place)
    gc.disable()  # what a store is made of stays, so looking for garbage among it finds none
    try:
        store = request.open_store()
    finally:
        gc.freeze()  # else the first object that is made then has all of it looked through
        gc.enable()
    # An older store is read only whatever was asked for.
    options = replace(request.options, read_only=True) if store.read_only else request.options
    if options.through is not None:
        options = replace(options, front="off")  # what C publishes would go to the files
    lifecycle.run(store, request.store, place, options, ready=ready)


def _take_descriptors(place: Path) -> None:
    """Whoever writes into the mount holds files open in it, and many may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < DESCRIPTORS_MIN:
        reason = f"a mount needs {DESCRIPTORS_MIN} file descriptors, and may have {most} here (ulimit -Hn)"
        raise MountFailed(f"{place}: {reason}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _close_inherited(*, keep: int) -> None:
    """Let go of what the command was started with, such as a pipe whose reader waits for its end."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor != keep:
            with contextlib.suppress(OSError):  # the one that listed the directory
                os.close(descriptor)


def _leave_terminal() -> None:
    os.chdir("/")  # a process's working directory cannot be unmounted
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def _log_to_stderr(*, debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(log_lines(_LINE_FORMAT))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)


def _log_in_background(*, debug: bool, log_file: Path | None) -> None:
    handler: logging.Handler
    if log_file is not None:
        handler = logging.FileHandler(log_file, errors="backslashreplace")
        handler.setFormatter(log_lines(_LINE_FORMAT))
    elif SYSLOG_SOCKET.exists():
        handler = logging.handlers.SysLogHandler(str(SYSLOG_SOCKET))
        handler.setFormatter(log_lines(f"journalfs[{os.getpid()}]: %(message)s"))
    else:
        handler = logging.StreamHandler()  # the terminal, until the mount is ready
        handler.setFormatter(log_lines("journalfs: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)


def _tell_service_manager() -> None:
    """READY=1 for a unit of Type=notify. Not being run by one is the usual case."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as channel:
        channel.sendto(b"READY=1", address)


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return f"exit code {os.WEXITSTATUS(status)}"
