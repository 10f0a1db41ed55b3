"""Publishing through the mount: whole files of lines, single durable lines, one line a file."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from journalfs.engine.backend import BackendKind
from scripts.benchmarks.append import KINDS, bare, in_turn
from scripts.benchmarks.broker import BrokerInstance
from scripts.benchmarks.context import Context, Mounted
from scripts.benchmarks.measure import Case, Goal, anonymous_bytes, conclude, run_quietly, seconds
from scripts.benchmarks.mounting import minimal, pin, timed_operation
from scripts.benchmarks.peers import Timing

LINES = 100_000
LINE_BYTES = 1_024
SMALL_DIVISOR = 50
THREADS = {1: (50.0, 5), 8: (12.0, 1)}
"""Of the broker's producer: how many times as fast journalfs is to be, and what the lines are divided by, for
a single thread takes minutes.
"""
CLIENTS = {1: (4_000, 0.8), 16: (32_000, 2.0)}
"""Writes in one round, and the share of the rate of one bare loop that is to be reached."""
WRITE_BYTES = 128
ECHOES = 1_000
WORDS = ("order", "pallet", "north", "dock", "receipt", "missing", "label", "crate", "customer", "late")
MIB = 1 << 20


@contextmanager
def fresh_store(context: Context, kind: BackendKind, *options: str) -> Iterator[Mounted]:
    """A new store with the queue orders::orders, mounted for writing."""
    store = context.work / "fresh"
    shutil.rmtree(store, ignore_errors=True)
    run_quietly([context.journalfs, "create", "--journal-type", kind.value, str(store)])
    with context.mounted_at(store, *options) as mounted:
        (mounted.path / "orders" / "orders").mkdir(parents=True)
        yield mounted
    shutil.rmtree(store)


def lines(context: Context) -> None:
    """`cat` of a file of lines into an address, against the broker's own producer."""
    count = LINES // SMALL_DIVISOR if context.small else LINES
    source = context.work / "lines.txt"
    write_lines(source, count)
    shutil.rmtree(context.work / "producing", ignore_errors=True)
    instance = BrokerInstance.create(context.work / "producing", None)
    rates: dict[str, list[float]] = {kind.value: [] for kind in KINDS}
    memory: list[float] = []
    produced: dict[int, list[float]] = {threads: [] for threads in THREADS}
    with ExitStack() as stack:
        if instance is not None:
            stack.enter_context(instance.running())
            instance.produce(count // 10, LINE_BYTES, 1)
        for _ in range(context.runs):
            for kind in KINDS:
                with fresh_store(context, kind) as mounted:
                    _cat(source, mounted)
                    rates[kind.value].append(count / _cat(source, mounted))
                    memory.append(anonymous_bytes(mounted.pid) / MIB)
            for threads, taken in produced.items():
                if instance is not None:
                    sent = count // THREADS[threads][1]
                    taken.append(sent / instance.produce(sent, LINE_BYTES, threads))
    source.unlink()
    _conclude_lines(context, count, rates, produced)
    case = Case(
        "publish-memory", "Memory", f"Mount that took {2 * count:,} lines of 1 KiB", "MiB", "lower", {}
    )
    context.keep(conclude(case, {"journalfs": memory}, context.commit))


def _conclude_lines(
    context: Context, count: int, rates: dict[str, list[float]], produced: dict[int, list[float]]
) -> None:
    for kind in KINDS:
        title = f"`cat` {count:,} lines of 1 KiB `>> in.txt`, {kind.value}"
        for threads, (factor, divisor) in THREADS.items():
            theirs, ours = produced[threads], rates[kind.value]
            against = f"`artemis producer`, {threads} threads" if threads > 1 else "`artemis producer`"
            compared = bool(theirs)
            if divisor > 1:
                against += f", {count // divisor:,} of them"
            case = Case(
                f"publish-lines-{kind.value.lower()}-{threads}",
                "Publish",
                title,
                "lines/s",
                "higher",
                {},
                against=against if compared else None,
                goal=Goal("ratio", "at least", factor) if compared else None,
                note="each 128 KiB of `cat` are one durable transaction; the producer waits for each "
                "message, and states its own time.",
            )
            values = {"journalfs": ours}
            context.keep(conclude(case, values | ({against: theirs} if compared else {}), context.commit))


def write_lines(path: Path, count: int) -> None:
    chance = random.Random(1)
    with path.open("w") as file:
        for number in range(count):
            words = [f"{number:08d}"]
            length = 8
            while length < LINE_BYTES:
                words.append(chance.choice(WORDS))
                length += 1 + len(words[-1])
            file.write(" ".join(words)[: LINE_BYTES - 1] + "\n")


def _cat(source: Path, mounted: Mounted) -> float:
    command = 'cat "$0" >> "$1"'
    target = mounted.path / "orders" / "in.txt"
    return seconds(lambda: run_quietly(["sh", "-c", command, str(source), str(target)]))


def durable(context: Context) -> None:
    """Durable lines of 128 bytes by one client and by many, against one loop of synced writes."""
    client = str(context.program("append_client"))
    for kind in KINDS:
        for clients, (count, share) in CLIENTS.items():
            many = count // SMALL_DIVISOR if context.small else count
            alone = CLIENTS[1][0] // SMALL_DIVISOR if context.small else CLIENTS[1][0]
            with fresh_store(context, kind) as mounted:
                target = str(mounted.path / "orders" / "in.txt")

                def through_mount(target: str = target, many: int = many, clients: int = clients) -> Timing:
                    command = [client, target, str(many), str(clients), str(WRITE_BYTES)]
                    return Timing.of(
                        subprocess.run(command, capture_output=True, text=True, check=True).stdout
                    )

                def bare_loop(kind: BackendKind = kind, alone: int = alone) -> Timing:
                    return bare(context, kind, alone, WRITE_BYTES)

                rounds = in_turn(context, {"journalfs": through_mount, "C loop": bare_loop})
            _conclude_durable(context, kind, clients, share, rounds)


def _conclude_durable(
    context: Context, kind: BackendKind, clients: int, share: float, rounds: dict[str, list[Timing]]
) -> None:
    who = f"{clients} clients" if clients > 1 else "one client"
    name, title = f"{kind.value.lower()}-{clients}", f"128 B, {kind.value}, {who}"
    note = "the C loop has one writer."
    goal = Goal("ratio", "at least", share)
    case = Case(
        f"durable-{name}",
        "Durable",
        title,
        "writes/s",
        "higher",
        {},
        against="C loop",
        goal=goal,
        note=note,
    )
    context.keep(
        conclude(case, {side: [one.rate for one in taken] for side, taken in rounds.items()}, context.commit)
    )
    for key, label in (("middle_us", "p50"), ("late_us", "p99")):
        values = {side: [getattr(one, key) for one in taken] for side, taken in rounds.items()}
        case = Case(f"durable-{key}-{name}", "Durable", f"{title}: {label}", "us", "lower", {})
        context.keep(conclude(case, values, context.commit))


def echo(context: Context) -> None:
    """One line a file, opened and closed by a shell, against inserts into SQLite."""
    count = ECHOES // SMALL_DIVISOR if context.small else ECHOES
    for kind in KINDS:
        with fresh_store(context, kind) as mounted:
            target = mounted.path / "orders" / "in.txt"
            context.take(
                Case(
                    f"echo-{kind.value.lower()}",
                    "Durable",
                    f"`echo >> in.txt`, {kind.value}",
                    "lines/s",
                    "higher",
                    {
                        "journalfs": lambda target=target: count / echo_seconds(target, count),
                        "SQLite": lambda: count / insert_seconds(context.work / "rows", count),
                    },
                    against="SQLite",
                    goal=Goal("ratio", "at least", 1.0),
                    note="`echo` opens and closes each time; SQLite: WAL, synchronous=FULL, a "
                    "transaction a row.",
                )
            )


def echo_seconds(target: Path, count: int, shell: str = "bash") -> float:
    """How long lines take that are written one by one by a shell."""
    script = 'i=0; while [ $i -lt "$1" ]; do echo "line $i" >> "$0"; i=$((i+1)); done'
    return seconds(lambda: run_quietly([shell, "-c", script, str(target), str(count)]))


def insert_seconds(folder: Path, count: int) -> float:
    """How long as many durable rows of SQLite take."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows = sqlite3.connect(folder / "rows.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE lines (id INTEGER PRIMARY KEY, line TEXT)",
    ):
        rows.execute(statement)
    start = time.perf_counter()
    for number in range(count):
        rows.execute("INSERT INTO lines (line) VALUES (?)", (f"line {number}",))
    took = time.perf_counter() - start
    rows.close()
    shutil.rmtree(folder)
    return took


def operations(context: Context) -> None:
    """Single operations on a mount that is written, against the C filesystem."""
    titles = {
        "getattr": "statx of a part",
        "missing": "missing name",
        "write": "128 B write, no sync",
        "read": "4 KiB direct read",
    }
    with (
        fresh_store(context, BackendKind.NIO, "-o", "sync=none") as mounted,
        minimal(context, 1 << 20, 1000, timeout_s=0) as plain,
    ):
        part = _some_part(mounted)
        ours = {
            "getattr": part,
            "missing": part.parent,
            "write": mounted.path / "orders" / "in.txt",
            "read": part,
        }
        for placement, cpu in (("one processor", 0), ("free", None)):
            for mount in (mounted, plain):
                pin(mount.pid, cpu)
            for operation, title in titles.items():
                theirs = plain.path / ("entries" if operation == "missing" else "file")
                context.take(
                    Case(
                        f"rw-{operation}-{placement.replace(' ', '-')}",
                        "Operations",
                        f"{title}, {placement}",
                        "us",
                        "lower",
                        {
                            "journalfs": timed_operation(context, operation, ours[operation], cpu),
                            "C filesystem": timed_operation(context, operation, theirs, cpu),
                        },
                        against="C filesystem",
                        goal=Goal("ratio", "at least", 1 / 1.5),
                        note="medians of each run; the kernel keeps nothing.",
                    )
                )


def _some_part(mounted: Mounted) -> Path:
    """Publish a few thousand lines and return the part that they become."""
    queue = mounted.path / "orders" / "orders"
    (mounted.path / "orders" / "first.txt").write_text("".join(f"first line {n}\n" for n in range(5_000)))
    end = time.monotonic() + 30.0
    while not (parts := sorted(queue.glob("part-*.jsonl"))):
        if time.monotonic() > end:
            raise RuntimeError("the lines got no part")
        time.sleep(0.05)
    return parts[0]
