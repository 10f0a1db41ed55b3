"""Which mount a path that somebody typed lies in."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from journalfs.cli.refusals import refusals
from journalfs.errors import SystemFailure, WrongCall
from journalfs.python.mounts import mount_of, mount_of_store, mount_roots

__all__ = ["ask", "mount_of", "mount_of_store", "mount_roots", "refused_by", "the_mount"]

# Files of a mount that answer what they are asked.

ANSWER_BYTES_MAX: Final = 64 << 20


def ask(file: Path, line: str, *, doing: str, else_why: str) -> dict[str, Any]:
    """What a file of a mount answers to a line. Raises SystemFailure with the reason that the mount has;
    WrongCall, where there is no such file, `else_why`.
    """
    root = mount_of(file) or file
    if not file.exists():
        raise WrongCall(f"{root}: {else_why}")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
            answer = os.pread(descriptor, ANSWER_BYTES_MAX, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        reasons = [one.reason for one in refusals(root) if one.path.endswith(file.name)]
        raise SystemFailure.from_os(error, root, doing=": ".join([doing, *reasons[-1:]])) from error
    found: dict[str, Any] = msgspec.json.decode(answer)
    return found


@contextmanager
def refused_by(root: Path, path: Path, doing: str) -> Iterator[None]:
    """Give what a mount refuses within as a SystemFailure of the path that somebody typed, with the mount's
    reason and its advice.
    """
    before = {(one.time_ms, one.path) for one in refusals(root)}
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        told = [one for one in refusals(root) if one.errno == name and (one.time_ms, one.path) not in before]
        if not told:
            raise SystemFailure.from_os(error, path, doing=doing) from error
        message = f"{path}: cannot {doing}: {told[-1].reason}; {told[-1].do}"
        raise SystemFailure(message, system_errno=error.errno) from error


def the_mount(path: Path | None) -> Path:
    """The mount that `path` lies in; without one that of the working directory, or the only one there is.
    Raises WrongCall.
    """
    found = mount_of(Path.cwd() if path is None else path)
    if found is not None:
        return found
    if path is not None:
        raise WrongCall(f"{path}: lies in no journalfs mount; mounts are listed by findmnt -t fuse.journalfs")
    roots = mount_roots()
    if len(roots) != 1:
        others = ", ".join(map(str, roots)) or "there is none"
        raise WrongCall(f"say which mount is meant ({others})")
    return roots[0]
