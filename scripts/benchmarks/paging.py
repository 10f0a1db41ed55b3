"""A queue that is far larger than memory: published into pages, listed, read and consumed, slice by slice,
beside the broker's own paging.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from scripts.benchmarks.broker import BrokerInstance
from scripts.benchmarks.context import Context, Mounted
from scripts.benchmarks.measure import Case, Goal, anonymous_bytes, conclude, run_quietly, seconds
from scripts.benchmarks.plots import SLICES as SLICES_GROUP
from scripts.benchmarks.publishing import LINE_BYTES, write_lines

SLICES, SMALL_SLICES = 10, 2
SOURCE_LINES = 50_000
"""Of the file that is appended again and again."""
TAKEN = 5_000
"""Messages that are taken from `.take` when the queue is full, and again when little is left of it."""
SMALL_MESSAGES, SMALL_PAGE_BYTES = 20_000, 1 << 18
LIMIT_BYTES = 1 << 20
"""`max-size-bytes` on both sides: the messages beyond go into pages."""
MEMORY_MIB_MAX = 300.0
STEADY_MIN = 0.8
"""The rate of the last slice to that of the first."""
PRODUCERS = 8
SAMPLE_S = 0.2
MIB = 1 << 20
READ_BYTES = 1 << 20
OURS, BROKER = "journalfs", "broker"
STEPS = {
    "publish": "Publish",
    "read": "Read all parts",
    "consume": "Consume: `rm` of parts",
}


@dataclass
class Side:
    """What one side did: rates by slice, and the most memory."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    memory_bytes: int = 0
    list_s: float = 0.0
    taken: list[float] = field(default_factory=list)


def paging(context: Context) -> None:
    """Everything with `--messages` of them; of the broker `--broker-messages`."""
    messages = SMALL_MESSAGES if context.small else context.messages_paged
    theirs = SMALL_MESSAGES if context.small else context.broker_messages
    ours = _through_the_mount(context, messages)
    broker = _through_the_broker(context, theirs) if theirs else None
    _conclude(context, messages, ours, broker)


# ---- the mount ----


def _through_the_mount(context: Context, messages: int) -> Side:
    side, slices = Side(), SMALL_SLICES if context.small else SLICES
    with _paging_store(context) as mounted, _memory_watched(mounted.pid, side):
        queue = mounted.path / "orders" / "orders"
        side.rates["publish"] = _publish(context, mounted, messages, slices)
        _wait_for_parts(queue, messages)
        side.list_s = seconds(lambda: _listed(queue))
        parts = _listed(queue)
        side.rates["read"] = [
            rate(lambda chosen=chosen: sum(_read(queue / part) for part in chosen))
            for chosen in sliced(parts, slices)
        ]
        taken = min(TAKEN, messages // 20)
        side.taken.append(_take(context, queue, taken))
        *before, last = sliced(_listed(queue), slices)
        side.rates["consume"] = [rate(lambda chosen=chosen: _removed(queue, chosen)) for chosen in before]
        side.taken.append(_take(context, queue, min(taken, _count(queue))))
        side.rates["consume"].append(rate(lambda: _removed(queue, last)))
    return side


@contextmanager
def _paging_store(context: Context) -> Iterator[Mounted]:
    store = context.work / "paging"
    shutil.rmtree(store, ignore_errors=True)
    run_quietly([context.journalfs, "create", str(store)])
    with (store / "journalfs.toml").open("a") as settings:
        settings.write(f'\n[address-settings."orders"]\nmax-size-bytes = {LIMIT_BYTES}\n')
        if context.small:
            settings.write(f"page-size-bytes = {SMALL_PAGE_BYTES}\n")
    with context.mounted_at(store) as mounted:
        (mounted.path / "orders" / "orders").mkdir(parents=True)
        yield mounted
    shutil.rmtree(store)


@contextmanager
def _memory_watched(pid: int, side: Side) -> Iterator[None]:
    """Note the most anonymous memory that a process has meanwhile."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            side.memory_bytes = max(side.memory_bytes, anonymous_bytes(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _publish(context: Context, mounted: Mounted, messages: int, slices: int) -> list[float]:
    each = messages // slices
    lines = min(SOURCE_LINES, each)
    source = context.work / "paged-lines.txt"
    write_lines(source, lines)
    rates = []
    target = mounted.path / "orders" / "in.txt"
    for _ in range(slices):
        times = each // lines
        command = ["sh", "-c", 'target="$1"; shift; cat "$@" >> "$target"', "sh", str(target)]
        took = seconds(lambda command=command, times=times: run_quietly([*command, *[str(source)] * times]))
        rates.append(times * lines / took)
    source.unlink()
    return rates


def _wait_for_parts(queue: Path, messages: int) -> None:
    """Until the last messages have their part, too: parts do not change then."""
    end = time.monotonic() + 60.0
    while (queue / "_tail.jsonl").stat().st_size:
        if time.monotonic() > end:
            raise RuntimeError(f"the last of {messages} messages got no part")
        time.sleep(0.2)


def _listed(queue: Path) -> list[str]:
    """The parts by name, as `ls -l` looks at them."""
    with os.scandir(queue) as entries:
        found = [entry for entry in entries if entry.name.startswith("part-")]
    for entry in found:
        entry.stat()
    return sorted(entry.name for entry in found)


def sliced(parts: Sequence[str], slices: int) -> list[Sequence[str]]:
    """The same in slices that follow each other."""
    ends = [len(parts) * number // slices for number in range(slices + 1)]
    return [parts[begin:end] for begin, end in pairwise(ends) if begin < end]


def rate(work: Callable[[], int]) -> float:
    """Messages a second; `work` says how many it were."""
    start = time.perf_counter()
    messages = work()
    return messages / (time.perf_counter() - start)


def _read(part: Path) -> int:
    lines = 0
    with part.open("rb", buffering=0) as file:
        while content := file.read(READ_BYTES):
            lines += content.count(b"\n")
    return lines


def _removed(queue: Path, parts: Sequence[str]) -> int:
    before = _count(queue)
    for part in parts:
        (queue / part).unlink(missing_ok=True)
    return before - _count(queue)


def _count(queue: Path) -> int:
    return int(json.loads((queue / ".status").read_text())["messageCount"])


TAKER = """
import sys
left = int(sys.argv[2])
with open(sys.argv[1], "rb", buffering=0) as stream:
    while left > 0:
        left -= stream.read(1 << 20).count(b"\\n")
"""


def _take(context: Context, queue: Path, messages: int) -> float:
    """Messages a second, one after the other, each acknowledged by the next read."""
    command = [sys.executable, "-S", "-c", TAKER, str(queue / ".take"), str(messages)]
    return messages / seconds(lambda: run_quietly(command, environment=context.environment))


# ---- the broker ----


def _through_the_broker(context: Context, messages: int) -> Side | None:
    root = context.work / "paging-broker"
    shutil.rmtree(root, ignore_errors=True)
    instance = BrokerInstance.create(root, None, max_size_bytes=LIMIT_BYTES)
    if instance is None:
        return None
    side, slices = Side(), SMALL_SLICES if context.small else SLICES
    each = messages // slices // PRODUCERS * PRODUCERS
    with instance.running(), _memory_watched(instance.pid, side):
        side.rates["publish"] = [
            each / instance.produce(each, LINE_BYTES, PRODUCERS, purge=False) for _ in range(slices)
        ]
        side.rates["consume"] = [each / instance.consume(each) for _ in range(slices)]
    shutil.rmtree(root)
    return side


# ---- what came out ----


def _conclude(context: Context, messages: int, ours: Side, broker: Side | None) -> None:
    compared = broker is not None
    against = BROKER if compared else None
    for step, title in STEPS.items():
        theirs = broker.rates.get(step) if broker is not None else None
        case = Case(
            f"paging-{step}",
            SLICES_GROUP,
            title,
            "messages/s",
            "higher",
            {},
            against=BROKER if theirs else None,
            note="a value a tenth of the messages; beside: "
            f"`artemis producer` of {PRODUCERS} threads, `artemis consumer`.",
        )
        values = {OURS: ours.rates[step]} | ({BROKER: theirs} if theirs else {})
        context.keep(conclude(case, values, context.commit))
        steady = {OURS: [ours.rates[step][-1] / ours.rates[step][0]]}
        steady |= {BROKER: [theirs[-1] / theirs[0]]} if theirs else {}
        goal = Goal("journalfs", "at least", STEADY_MIN)
        last = f"{title}: last tenth"
        case = Case(f"paging-{step}-steady", "Steadiness", last, "of the first", "higher", {}, goal=goal)
        context.keep(conclude(case, steady, context.commit))
    _conclude_taking(context, messages, ours)
    case = Case("paging-list", "Listing", "`ls -l` of parts", "s", "lower", {})
    context.keep(conclude(case, {OURS: [ours.list_s]}, context.commit))
    memory = {OURS: [ours.memory_bytes / MIB]} | (
        {BROKER: [broker.memory_bytes / MIB]} if broker is not None else {}
    )
    case = Case(
        "paging-memory",
        "Memory",
        "Most anonymous memory",
        "MiB",
        "lower",
        {},
        against=against,
        goal=Goal("journalfs", "at most", MEMORY_MIB_MAX),
    )
    context.keep(conclude(case, memory, context.commit))


def _conclude_taking(context: Context, messages: int, ours: Side) -> None:
    full, late = ours.taken
    note = "`.take` acknowledges each durably before the next."
    for name, label, value in (("full", "all", full), ("late", "a tenth", late)):
        title = f"Take, {label} left"
        case = Case(f"paging-take-{name}", "Taking", title, "messages/s", "higher", {}, note=note)
        context.keep(conclude(case, {OURS: [value]}, context.commit))
