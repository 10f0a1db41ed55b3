"""How the holder of a lease is called, so that who comes next on the same machine knows that it is dead."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_DEAD: Final = ("Z", "X", "x")
"""States of a process that only its parent has not looked at."""


def new_holder() -> str:
    """Of this process. A broker takes any text of at most 128 characters."""
    return holder_of(os.getpid())


def holder_of(number: int) -> str:
    """The same of another process of this machine."""
    return f"{uuid.uuid4()}@{_realm()}:{number}:{_began(number)}"


def is_dead(holder: str) -> bool:
    """Whether it was a process of this machine, since it was started, and is none any more. False where that
    cannot be told, as of brokers.
    """
    realm, _, process = holder.partition("@")[2].partition(":")
    number, _, began = process.partition(":")
    if realm != _realm() or not number.isdecimal() or not began.isdecimal():
        return False
    # Asked first: one that ends meanwhile is not to be seen.
    if there := _began(int(number)):
        return there != began
    try:
        os.kill(int(number), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _realm() -> str:
    """Where numbers of processes mean the same: this start of this machine, and the namespace in it."""
    with suppress(OSError):
        named = _BOOT.read_text() + os.readlink("/proc/self/ns/pid")
        return sha256(named.encode()).hexdigest()[:16]
    return ""


def _began(number: int) -> str:
    """When a process began, in ticks; `0` where it has ended, and empty where that is not to be seen."""
    with suppress(OSError):
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return "0" if fields[0] in _DEAD else fields[19]
    return ""
