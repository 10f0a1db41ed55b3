"""Every error at every call: what was answered holds, whatever the system refuses on the way."""

from __future__ import annotations

import errno
import itertools

import pytest

from tests.pressure.conftest import Lives
from tests.pressure.lives import ACTS, SHORT
from tests.pressure.test_little_memory import live_all

ERRORS = {
    "write": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, SHORT),
    "sync": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "open": (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "truncate": (errno.EIO,),
    "room": (errno.ENOSPC, errno.EDQUOT),
    "link": (errno.EMLINK, errno.ENOSPC),
    "folder": (errno.ENOSPC, errno.EDQUOT),
    "submit": (errno.EAGAIN, errno.EIO),
}
BACKENDS, OF_BACKENDS = ("NIO", "ASYNCIO", "MAPPED"), ("write", "sync", "submit")
QUICK = {
    ("page", "sync", errno.EIO, "NIO"),
    ("remove some", "write", errno.ENOSPC, "NIO"),
    ("move", "write", SHORT, "ASYNCIO"),
}
FEW, FEW_QUICK = 12, 4


def cases() -> list[object]:
    every = itertools.product(ACTS, ERRORS, BACKENDS)
    found = [
        (act, kind, error, backend)
        for act, kind, backend in every
        if backend == "NIO" or kind in OF_BACKENDS
        for error in ERRORS[kind]
    ]
    return [pytest.param(*one, marks=() if one in QUICK else pytest.mark.long) for one in found]


@pytest.mark.parametrize(("act", "kind", "error", "backend"), cases())
def test_what_was_answered_holds(lives: Lives, act: str, kind: str, error: int, backend: str) -> None:
    is_quick = (act, kind, error, backend) in QUICK
    live_all(lives, act, kind, FEW_QUICK if is_quick else FEW, error, backend=backend)
