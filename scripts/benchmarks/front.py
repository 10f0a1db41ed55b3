"""Requests answered in C, and in Python: two mounts, asked in turn, beside what neither beats."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from journalfs.engine.backend import BackendKind
from scripts.benchmarks.context import Context, wait_until
from scripts.benchmarks.measure import Case, conclude, run_quietly
from scripts.benchmarks.mounting import minimal, pin
from scripts.benchmarks.publishing import echo_seconds, insert_seconds

BUSY = ("quiet", "busy")
"""Whether a thread of the mount keeps the interpreter for 20 ms of every 20.5 (`busy_mount.py`)."""
OPERATIONS = {"getattr": 5000, "missing": 5000, "read": 5000, "open": 2000, "make": 1000, "statfs": 2000}
"""Calls a round. `statfs` is for Python, always."""
CLIENTS = {1: 1000, 16: 8000, 64: 16_000}
"""Durable lines of 128 bytes a round, by writers."""
ECHOES = 500
BUSY_DIVISOR = 10
LARGE_BYTES = 1 << 20
KINDS = BackendKind.NIO, BackendKind.MAPPED, BackendKind.AIO
SIDES = {"journalfs": "on", "front off": "off"}
Told = Mapping[str, float]


def operations(context: Context) -> None:
    for state in BUSY:
        with _mounts(context, BackendKind.NIO, busy=state == "busy") as mounts:
            _operations(context, mounts, state)
            _large(context, mounts, state)


def durable(context: Context) -> None:
    """Durable lines by writers, and lines of a shell, each of which opens and closes."""
    for kind, state in (*((kind, BUSY[0]) for kind in KINDS), (BackendKind.NIO, BUSY[1])):
        with _mounts(context, kind, busy=state == "busy") as mounts:
            _durable(context, mounts, kind, state)
            _echo(context, mounts, kind, state)


def _operations(context: Context, mounts: Mapping[str, tuple[Path, int]], state: str) -> None:
    client = str(context.program("operations_client"))
    for path, _ in mounts.values():
        (path / "orders/in.txt").write_text("a line of some length, as lines go\n" * 1000)
        wait_until(lambda path=path: any((path / "orders/orders").glob("part-*")), 30.0, "a part")
    with minimal(context, 1 << 16, 1000, timeout_s=0) as plain:
        for placement, cpu in (
            (("one processor", 0), ("free", None)) if state == "quiet" else (("free", None),)
        ):
            for pid in (plain.pid, *(pid for _, pid in mounts.values())):
                pin(pid, cpu)
            placed = [] if cpu is None else ["taskset", "-c", str(cpu)]
            for operation, count in OPERATIONS.items():
                targets = {side: _target(path, operation) for side, (path, _) in mounts.items()}
                if operation not in {"make", "statfs"}:
                    targets["C filesystem"] = plain.path / ("entries" if operation == "missing" else "file")
                calls = str(max(100, count // (BUSY_DIVISOR if state == "busy" else 1)))
                commands = {
                    side: [*placed, client, operation, str(path), calls] for side, path in targets.items()
                }
                _in_turn(context, f"{operation}, {placement}, {state}", "C filesystem", commands, _of_calls)


def _target(path: Path, operation: str) -> Path:
    queue = path / "orders/orders"
    if operation == "make":
        return path / "orders/in.txt"
    return queue if operation in {"missing", "statfs"} else next(queue.glob("part-*"))


def _durable(context: Context, mounts: Mapping[str, tuple[Path, int]], kind: BackendKind, state: str) -> None:
    client = str(context.program("append_client"))
    loop = str(context.program("synced_writes"))
    for clients, count in CLIENTS.items():
        many = str(count // (BUSY_DIVISOR if state == "busy" else 1))
        commands = {
            side: [client, str(path / "orders/in.txt"), many, str(clients), "128"]
            for side, (path, _) in mounts.items()
        }
        commands["C loop"] = [loop, kind.value, "1000", str(context.work / "zeros"), "128"]
        _in_turn(context, f"durable {kind.value} {clients}, {state}", "C loop", commands, _of_writes)


def _large(context: Context, mounts: Mapping[str, tuple[Path, int]], state: str) -> None:
    client = str(context.program("append_client"))
    commands = {
        side: [client, str(path / "orders/large.bin"), "20", "1", str(LARGE_BYTES)]
        for side, (path, _) in mounts.items()
    }
    _in_turn(context, f"1 MiB writes to a file, {state}", "front off", commands, _of_writes)


def _echo(context: Context, mounts: Mapping[str, tuple[Path, int]], kind: BackendKind, state: str) -> None:
    count = ECHOES // (BUSY_DIVISOR if state == "busy" else 1)
    for shell in ("bash", "dash"):
        sides: dict[str, Callable[[], Told]] = {
            side: lambda path=path, shell=shell: {
                "mean": 1e6 * echo_seconds(path / "orders/in.txt", count, shell) / count
            }
            for side, (path, _) in mounts.items()
        }
        sides["SQLite"] = lambda: {"mean": 1e6 * insert_seconds(context.work / "rows", count) / count}
        _measure(context, f"echo {shell} {kind.value}, {state}", "SQLite", sides)


def _in_turn(
    context: Context,
    title: str,
    against: str,
    commands: Mapping[str, Sequence[str]],
    read: Callable[[list[float]], Told],
) -> None:
    def once(command: Sequence[str]) -> Callable[[], Told]:
        def run() -> Told:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return read([float(word) for word in done.stdout.split()])

        return run

    _measure(context, title, against, {side: once(command) for side, command in commands.items()})


def _of_calls(told: list[float]) -> Told:
    return {"p50": told[1] / 1e3, "p99": told[3] / 1e3, "p99.9": told[5] / 1e3}


def _of_writes(told: list[float]) -> Told:
    return dict(zip(("rate", "p50", "p99", "p99.9"), told, strict=False))  # the C loop tells no p99.9


def _measure(context: Context, title: str, against: str, sides: Mapping[str, Callable[[], Told]]) -> None:
    """All sides once a round, every other round in reverse order, and one round before."""
    rounds: list[dict[str, Told]] = []
    for number in range(1 + context.runs):
        names = list(sides) if number % 2 else list(reversed(sides))
        rounds.append({name: sides[name]() for name in names})
    for key in rounds[0]["journalfs"]:
        told = [side for side in sides if key in rounds[0][side]]
        case = Case(
            f"front-{title} {key}".replace(", ", "-").replace(" ", "-"),
            "Front",
            f"{title}: {key}",
            "1/s" if key == "rate" else "us",
            "higher" if key == "rate" else "lower",
            {},
            against=against if against in told else "front off",
        )
        values = {side: [taken[side][key] for taken in rounds[1:]] for side in told}
        context.keep(conclude(case, values, context.commit))


@contextmanager
def _mounts(context: Context, kind: BackendKind, *, busy: bool) -> Iterator[dict[str, tuple[Path, int]]]:
    """One mount with the front and one without, each of a store of its own."""
    with ExitStack() as cleaning:
        mounts: dict[str, tuple[Path, int]] = {}
        flag = context.work / "is-busy"
        for side, option in SIDES.items():
            store, path = context.work / f"store-{option}", context.work / f"mnt-{option}"
            run_quietly(["rm", "-rf", str(store)])
            run_quietly([context.journalfs, "create", str(store)])
            (store / "journalfs.toml").write_text(f'journal-type = "{kind.value}"\n')
            path.mkdir(exist_ok=True)
            command = [sys.executable, "-m", "scripts.benchmarks.busy_mount", str(flag)]
            mount = ["mount", "-f", "-o", f"front={option}", str(store), str(path)]
            process = subprocess.Popen([*command, *mount], env=context.environment, stderr=subprocess.DEVNULL)
            cleaning.callback(process.wait, timeout=60)
            cleaning.callback(run_quietly, ["fusermount3", "-u", str(path)])
            wait_until((path / ".journalfs").exists, 60.0, "the mount")
            (path / "orders/orders").mkdir(parents=True)
            mounts[side] = path, process.pid
        if busy:
            flag.touch()
            cleaning.callback(os.unlink, flag)
        yield mounts
