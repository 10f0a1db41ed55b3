"""Programs that do the same work in turn, each in a process that lives as long as the measurement."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scripts.benchmarks.measure import anonymous_bytes


@dataclass(frozen=True, slots=True)
class Timing:
    """What one round came to. `middle_us`, `late_us`: the median of what one operation took, and what 99
    percent of them took at most.
    """

    rate: float
    middle_us: float
    late_us: float

    @staticmethod
    def of(told: str) -> Timing:
        return Timing(*map(float, told.split()[:3]))


class Peer:
    """A program that reads how much it is to do from each line, and prints what came out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def round(self, count: int) -> Timing:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        return Timing.of(told)

    def memory_bytes(self) -> int:
        """All that the process has for itself now."""
        return anonymous_bytes(self._process.pid)


@contextmanager
def peer(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Peer]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Peer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
