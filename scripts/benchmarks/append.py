"""Durable appends through the library, against the broker's own journal classes and a bare loop in C."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

from journalfs.engine.backend import BackendKind
from scripts.benchmarks.broker import java_classes
from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, conclude
from scripts.benchmarks.peers import Timing, peer

KINDS = (BackendKind.NIO, BackendKind.MAPPED, BackendKind.AIO)
BODY_BYTES = 1024
RECORDS = {1: 2_000, 8: 8_000, 64: 32_000}
"""Appended by journalfs in one round, by number of writers."""
SLOW_RECORDS = {1: 500, 8: 3_000, 64: 16_000}
"""The same by classes that wait for a timer, so that a round does not take minutes."""
SMALL_DIVISOR = 20
LEAST_RATIO = 0.85
GOALS = {
    BackendKind.NIO: {1: 12.0, 8: 6.0, 64: 2.0},
    BackendKind.MAPPED: {1: 12.0, 8: 6.0, 64: 2.0},
    BackendKind.AIO: {1: 3.0, 8: 2.0, 64: 2.0},
}
OURS, BROKER, BARE = "journalfs", "JournalImpl", "C loop"
MIB = 1 << 20

Round = Callable[[], Timing]


def append(context: Context) -> None:
    for kind in KINDS:
        for writers in RECORDS:
            _measure(context, kind, writers)


def _measure(context: Context, kind: BackendKind, writers: int) -> None:
    divisor = SMALL_DIVISOR if context.small else 1
    count, slow_count = RECORDS[writers] // divisor, SLOW_RECORDS[writers] // divisor
    folders = [context.work / "append-ours", context.work / "append-theirs"]
    with ExitStack() as stack:
        worker = [sys.executable, "-m", "scripts.benchmarks.append_worker"]
        what = [kind.value, str(writers), str(BODY_BYTES)]
        ours = stack.enter_context(peer([*worker, str(folders[0]), *what], context.environment))
        sides: dict[str, Round] = {OURS: lambda: ours.round(count)}
        peers = {OURS: ours}
        java = java_classes("AppendJournal", heap="512m")
        if java is not None:
            theirs = stack.enter_context(peer([*java, str(folders[1]), *what], context.environment))
            sides[BROKER] = lambda: theirs.round(slow_count)
            peers[BROKER] = theirs
        if writers == 1:
            sides[BARE] = lambda: bare(context, kind, count, BODY_BYTES)
        rounds = in_turn(context, sides)
        memory = {side: [one.memory_bytes() / MIB] for side, one in peers.items()}
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    _conclude(context, kind, writers, rounds, memory)


def in_turn(context: Context, sides: dict[str, Round]) -> dict[str, list[Timing]]:
    """Every side once a round, every other round in reverse order; the first one is thrown away."""
    rounds: dict[str, list[Timing]] = {side: [] for side in sides}
    for number in range(context.runs + 1):
        for side in list(sides) if number % 2 == 0 else reversed(list(sides)):
            timing = sides[side]()
            if number > 0:
                rounds[side].append(timing)
    return rounds


def bare(context: Context, kind: BackendKind, count: int, record_bytes: int) -> Timing:
    program = context.program("synced_writes")
    target = context.work / "bare.dat"
    command = [str(program), kind.value, str(count), str(target), str(record_bytes)]
    try:
        return Timing.of(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    finally:
        target.unlink(missing_ok=True)


def _conclude(
    context: Context,
    kind: BackendKind,
    writers: int,
    rounds: dict[str, list[Timing]],
    memory: dict[str, list[float]],
) -> None:
    name = f"{kind.value.lower()}-{writers}"
    title = f"1 KiB, {kind.value}, {writers} at once" if writers > 1 else f"1 KiB, {kind.value}, one writer"
    compared = BROKER in rounds
    rates = {side: [one.rate for one in taken] for side, taken in rounds.items()}
    pair = {side: values for side, values in rates.items() if side != BARE}
    goal = Goal("ratio", "at least", GOALS[kind][writers]) if compared else None
    against = BROKER if compared else None
    case = Case(f"append-{name}", "Append", title, "records/s", "higher", {}, against=against, goal=goal)
    context.keep(conclude(case, pair, context.commit))
    if BARE in rates:
        values = {side: rates[side] for side in (OURS, BARE)}
        goal = Goal("ratio", "at least", LEAST_RATIO)
        case = Case(
            f"append-bare-{name}", "Append", title, "records/s", "higher", {}, against=BARE, goal=goal
        )
        context.keep(conclude(case, values, context.commit))
    _conclude_waits(context, name, title, rounds)
    case = Case(f"memory-{name}", "Memory", f"Appending {title}", "MiB", "lower", {}, against=against)
    context.keep(conclude(case, memory, context.commit))


def _conclude_waits(context: Context, name: str, title: str, rounds: dict[str, list[Timing]]) -> None:
    against = BROKER if BROKER in rounds else None
    for label, choose in (("p50", _middle), ("p99", _late)):
        late = choose is _late
        goal = Goal("ratio", "at least", 1.0) if late and against else None
        values = {side: [choose(one) for one in taken] for side, taken in rounds.items()}
        key, group = f"{'p99' if late else 'p50'}-{name}", "Latency"
        case = Case(key, group, f"{title}: {label}", "us", "lower", {}, against=against, goal=goal)
        context.keep(conclude(case, values, context.commit))


def _middle(timing: Timing) -> float:
    return timing.middle_us


def _late(timing: Timing) -> float:
    return timing.late_us
