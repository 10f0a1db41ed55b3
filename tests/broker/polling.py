"""Waiting for another process without sleeping blindly: look, and look again until a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_S = 0.01
_pause = threading.Event()


def eventually(look: Callable[[], T], *, deadline_s: float, what: str) -> T:
    """Call `look` until it returns something true, and return that. At the deadline, fail."""
    end = time.monotonic() + deadline_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise AssertionError(f"not within {deadline_s} s: {what}; last seen: {seen!r}")
        _pause.wait(LOOK_AGAIN_S)
