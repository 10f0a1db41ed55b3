"""A disk that takes its time."""

from __future__ import annotations

import os
import random
from collections import deque
from pathlib import Path
from typing import Any

from journalfs.engine.backend import BackendKind, Completion, OpenFile
from journalfs.engine.disk import DiskBackend, DiskFile
from journalfs.engine.stage import Stage

LOOKS = 0, 5, 40, 300


class LateDisk(DiskBackend):
    """Writes are done some looks after they were submitted. Half of some is there before, as in a mapping."""

    chance: random.Random

    def __init__(self, directory: Path, kind: BackendKind, **options: Any) -> None:
        super().__init__(directory, kind, **options)
        self.event_fd = None
        self._late: deque[tuple[OpenFile, Stage, int, int]] = deque()
        self._looks = 0

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        assert isinstance(file, DiskFile)
        assert durable
        if self.kind is not BackendKind.AIO and self.chance.random() < 0.3:
            half = bytes(stage.pointer.bytes[0 : length // 2])
            os.pwrite(file.fd, half, stage.pointer.file_offset)
        self._late.append((file, stage, length, tag))

    def completed(self, timeout_ns: int) -> list[Completion]:
        if self._looks > 0 and timeout_ns == 0:
            self._looks -= 1
            return []
        self._looks = self.chance.choice(LOOKS)
        file, stage, length, tag = self._late.popleft()
        return [Completion(tag, super().perform(file, stage, length))]

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        assert not self._late, "one after the other"
        return super().perform(file, stage, length)

    def took_ns(self) -> None:
        """Looks, not time."""


def late(directory: Path, kind: BackendKind, **options: Any) -> LateDisk:
    """Takes the place of `open_backend`."""
    options.pop("warn", None)
    in_flight = options.pop("writes_in_flight_max", None)
    return LateDisk(directory, kind, depth=in_flight or 1, **options)
