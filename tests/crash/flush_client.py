"""Closes whole files and files whose last line is unfinished on a mount, until that is gone."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from random import Random

from tests.crash.mount_client import QUEUES, MountClient

LARGE_CHARS = 150_000


class FlushClient(MountClient):
    """Told that a close or an `fsync` went well, it takes what it wrote for kept."""

    def _thread(self, task: int) -> None:
        chance = Random(f"{self._seed}/{task}")
        left_open: list[int] = []
        for turn in count():
            try:
                self._write(chance, f"{self._seed}-{task}-{turn}", left_open)
            except OSError:
                break
        for descriptor in left_open:
            # The mount is gone: what was told before has to be true all the same.
            with suppress(OSError):
                os.close(descriptor)

    def _write(self, chance: Random, text: str, left_open: list[int]) -> None:
        if chance.random() < 0.1:
            text += "-" + "large" * (LARGE_CHARS // 5)
        queue = chance.choice((None, *QUEUES))
        places = frozenset((one, text) for one in (QUEUES if queue is None else (queue,)))
        path = self._mounted / "work" / (queue or "") / chance.choice(("in.txt", "in.bin"))
        change = self._begin(places, frozenset())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        left_open.append(descriptor)
        assert os.write(descriptor, text.encode()) == len(text)
        if chance.random() < 0.1:
            os.fsync(descriptor)
        else:
            left_open.remove(descriptor)
            os.close(descriptor)
        self._end(change)
