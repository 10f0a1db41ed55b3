"""What makes two lives of one seed the same: nothing is left to threads, clocks of the machine, or chance."""

from __future__ import annotations

import importlib
import select
import sys
import uuid
from collections.abc import Callable
from random import Random
from typing import Any, Final

import trio

from journalfs.engine import waiting
from journalfs.engine.backend import OpenFile
from journalfs.engine.disk import DiskBackend
from journalfs.engine.stage import Stage

FLUSH_NS: Final = 1_000
"""What each flush takes: the journal decides by it where the next is done."""
CLOCKS: Final = ("journalfs.engine.waiting", "journalfs.views.tails", "journalfs.views.filters")


async def _here(work: Callable[[], Any], **_: object) -> Any:
    await trio.lowlevel.checkpoint()
    return work()


def _still_ns() -> int:
    return 0


def _order_tasks(seed: int) -> None:
    scheduler = importlib.import_module("trio._core._run")
    setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010 - final, as types see it
    setattr(scheduler, "_r", Random(seed))  # noqa: B010 - the same


def _wait_for_disk() -> None:
    """Have each write end before the call that begins it returns."""
    submit = DiskBackend.submit

    def submitted(
        self: DiskBackend, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int
    ) -> None:
        submit(self, file, stage, length, durable=durable, tag=tag)
        poll = select.poll()
        poll.register(self.event_fd, select.POLLIN)  # type: ignore[arg-type]
        poll.poll()

    DiskBackend.submit = submitted  # type: ignore[method-assign]
    DiskBackend.took_ns = lambda self: FLUSH_NS  # type: ignore[method-assign]


def settle(seed: int) -> None:
    """Once, in a process of its own."""
    for module in list(sys.modules.values()):
        if getattr(module, "in_a_thread", None) is waiting.in_a_thread and module is not waiting:
            module.in_a_thread = _here  # type: ignore[attr-defined]
    waiting.in_a_thread = _here
    for name in CLOCKS:
        importlib.import_module(name).monotonic_ns = _still_ns  # type: ignore[attr-defined]
    chance = Random(seed)
    uuid.uuid1 = lambda *_: uuid.UUID(int=chance.getrandbits(128), version=1)
    _order_tasks(seed)
    _wait_for_disk()
