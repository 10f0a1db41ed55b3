"""Taking measurements in turn, and what is kept of them."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Better = Literal["higher", "lower"]
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one side, in the order they were taken."""

    values: list[float]
    median: float
    minimum: float
    maximum: float

    @staticmethod
    def of(values: Sequence[float]) -> Sample:
        return Sample(list(values), statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Goal:
    """`of` is `ratio` or `journalfs` (its median, in the result's unit)."""

    of: Literal["ratio", "journalfs"]
    relation: Literal["at least", "at most"]
    value: float

    def met(self, result_value: float) -> bool:
        return result_value >= self.value if self.relation == "at least" else result_value <= self.value


@dataclass(frozen=True, slots=True)
class Result:
    """One thing measured. `against` names the side that the ratio compares journalfs with."""

    identifier: str
    group: str
    title: str
    unit: str
    better: Better
    sides: dict[str, Sample]
    against: str | None = None
    ratio: Sample | None = None
    """Round by round, journalfs to the other side; of times the inverse: 1 is equal, more is better."""
    goal: Goal | None = None
    met: bool | None = None
    note: str = ""
    commit: str = ""
    load: float | None = None
    """Load average over a minute when it was over."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measurement to take: each side is a function that does the work once and returns its value."""

    identifier: str
    group: str
    title: str
    unit: str
    better: Better
    sides: Mapping[str, Callable[[], float]]
    against: str | None = None
    goal: Goal | None = None
    note: str = ""
    warm_up_rounds: int = 1
    runs: int | None = None
    tags: Sequence[str] = field(default=())


def take(case: Case, runs: int, commit: str) -> Result:
    """Run every side once a round, every other round in reverse order, and keep what came out."""
    values: dict[str, list[float]] = {name: [] for name in case.sides}
    names = list(case.sides)
    for round_number in range(case.warm_up_rounds + (case.runs or runs)):
        for name in names if round_number % 2 == 0 else reversed(names):
            value = case.sides[name]()
            if round_number >= case.warm_up_rounds:
                values[name].append(value)
    return conclude(case, values, commit)


def conclude(case: Case, values: Mapping[str, Sequence[float]], commit: str) -> Result:
    """Turn the values of all rounds into a result."""
    sides = {name: Sample.of(taken) for name, taken in values.items()}
    ratio = None
    if case.against is not None:
        ours, theirs = values["journalfs"], values[case.against]
        pairs = zip(ours, theirs, strict=True)
        ratio = Sample.of([a / b if case.better == "higher" else b / a for a, b in pairs])
    met = None
    if case.goal is not None:
        reached = ratio.median if case.goal.of == "ratio" and ratio else sides["journalfs"].median
        met = case.goal.met(reached)
    return Result(
        case.identifier,
        case.group,
        case.title,
        case.unit,
        case.better,
        sides,
        case.against,
        ratio,
        case.goal,
        met,
        case.note,
        commit,
        round(os.getloadavg()[0], 2),
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_quietly(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
    """Run a command to its end with its output thrown away; its failure is ours."""
    with open(os.devnull, "wb") as nothing:
        done = subprocess.run(command, stdout=nothing, stderr=subprocess.PIPE, env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )


def can_drop_caches() -> bool:
    return os.access(DROP_CACHES, os.W_OK)


def drop_caches() -> None:
    """Forget all clean pages, directory entries and inodes of the kernel."""
    os.sync()
    DROP_CACHES.write_text("3")


def anonymous_bytes(pid: int | str) -> int:
    """Resident memory of a process that no file backs: what it allocated itself."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory of its own")


def machine(directory: Path) -> dict[str, str | int]:
    """What the numbers depend on, without names."""
    release = platform.release().split(".")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True, check=True
    )
    return {
        "cores": os.cpu_count() or 1,
        "architecture": platform.machine(),
        "memory_gib": round(memory / 2**30),
        "kernel": f"{platform.system()} {release[0]}.{release[1]}",
        "filesystem": kind.stdout.strip().replace("ext2/ext3", "ext4"),
        "python": platform.python_version(),
    }


def as_json(result: Result) -> dict[str, object]:
    return asdict(result)
