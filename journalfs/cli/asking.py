"""Files of a mount that answer what they are asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from journalfs.cli.mounts import mount_of
from journalfs.cli.why import refusals
from journalfs.errors import SystemFailure, WrongCall

ANSWER_BYTES_MAX: Final = 64 << 20


def ask(file: Path, line: str, *, doing: str, else_why: str) -> dict[str, Any]:
    """What a file of a mount answers to a line. Raises SystemFailure with the reason that the mount has;
    WrongCall, where there is no such file, `else_why`.
    """
    import msgspec  # noqa: PLC0415

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
