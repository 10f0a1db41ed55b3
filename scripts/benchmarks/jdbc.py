"""Stores in databases: against the real broker's JDBC store on one PostgreSQL; SQLite beside its peers."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.benchmarks.broker import BrokerInstance
from scripts.benchmarks.context import Context, Mounted
from scripts.benchmarks.measure import Case, Goal, conclude, run_quietly
from tests.broker.distribution import jdbc_driver
from tests.tables.servers import Server, postgresql

LINE_BYTES = 1024
WRITERS = {1: 200, 8: 800, 64: 3200}
"""How many write at once -> how many messages all of them write."""
COMMITTING = "`artemis consumer --commit-interval 1`"
TAKEN = 100
"""What one reader takes, which waits for each."""
MESSAGES_MOUNTED = 260_000
SMALL_DIVISOR = 20
NOTE = (
    "each message is durable before the next of its writer; mounted with `-o front=on`; the producer states "
    "its own time"
)

DATABASE_STORE = """<store><database-store>
<jdbc-driver-class-name>org.postgresql.Driver</jdbc-driver-class-name>
<jdbc-connection-url>{url}</jdbc-connection-url><bindings-table-name>BINDINGS</bindings-table-name>
<message-table-name>MESSAGES</message-table-name>
<large-message-table-name>LARGE_MESSAGES</large-message-table-name>
<page-store-table-name>PAGE_STORE</page-store-table-name>
<node-manager-store-table-name>NODE_MANAGER_STORE</node-manager-store-table-name>
</database-store></store>"""


# ---- PostgreSQL ----


def publishing(context: Context) -> None:
    with postgresql(durable=True) as server:
        _publishing(context, server)


def mounting(context: Context) -> None:
    with postgresql(durable=True) as server:
        _mounting(context, server)


def _publishing(context: Context, server: Server) -> None:
    broker = _broker(context, "broker", server.make("theirs"))
    ours: dict[int, list[float]] = {writers: [] for writers in WRITERS}
    theirs: dict[int, list[float]] = {writers: [] for writers in WRITERS}
    drained: dict[str, list[float]] = {"journalfs": [], "`artemis consumer`": []}
    taken: dict[str, list[float]] = {"journalfs": [], COMMITTING: []}
    with ExitStack() as stack:
        if broker is not None:
            stack.enter_context(broker.running())
            broker.produce(200, LINE_BYTES, 1)
        mounted = stack.enter_context(_mounted(context, server.make("ours")))
        for _ in range(context.runs):
            for writers, count in _counts(context).items():
                ours[writers].append(_rate(mounted.path / "orders", writers, count))
                queue = mounted.path / "orders" / "orders"
                taken["journalfs"].append(_take(queue, min(count, TAKEN)))
                if count > TAKEN:
                    drained["journalfs"].append(_drain(queue, count - TAKEN))
                if broker is not None:
                    theirs[writers].append(count / broker.produce(count, LINE_BYTES, writers, purge=False))
                    few = min(count, TAKEN)
                    taken[COMMITTING].append(few / broker.consume(few, each=True))
                    if count > TAKEN:
                        drained["`artemis consumer`"].append((count - few) / broker.consume(count - few))
    for writers in WRITERS:
        _keep(
            context,
            f"jdbc-publish-{writers}",
            f"Durable messages of 1 KiB into PostgreSQL, {writers} at a time",
            {"journalfs": ours[writers], "`artemis producer`": theirs[writers]},
            goal=5,
        )
    _keep(context, "jdbc-drain", "Read and removed from PostgreSQL, all that is there", drained, goal=5)
    title = "Taken from PostgreSQL by one reader, each acknowledged durably before the next"
    _keep(context, "jdbc-take", title, taken, goal=5)


def _mounting(context: Context, server: Server) -> None:
    count = MESSAGES_MOUNTED // SMALL_DIVISOR if context.small else MESSAGES_MOUNTED
    url = server.make("many")
    line = b"x" * (LINE_BYTES - 1) + b"\n"
    with (
        _mounted(context, url) as mounted,
        (mounted.path / "orders" / "in.txt").open("wb", buffering=1 << 20) as file,
    ):
        for _ in range(count):
            file.write(line)
    broker = _broker(context, "many", url)
    seconds: dict[str, list[float]] = {"journalfs": [], "broker": []}
    for _ in range(context.runs):
        with context.mounted_at(Path(url)) as mounted:
            seconds["journalfs"].append(mounted.mount_s)
        if broker is not None:
            seconds["broker"].append(broker.start_and_stop())
    title = f"Mount {count:,} messages of 1 KiB in PostgreSQL for writing"
    _keep(context, "jdbc-mount", title, seconds, goal=10, unit="s")


def _broker(context: Context, name: str, url: str) -> BrokerInstance | None:
    root = context.work / f"jdbc-{name}"
    shutil.rmtree(root, ignore_errors=True)
    broker = BrokerInstance.create(root, None)
    if broker is None:
        return None
    config = root / "etc" / "broker.xml"
    place = f"jdbc:{url.replace('artemis@', '')}?user=artemis"
    text = config.read_text()
    said = DATABASE_STORE.format(url=place)
    config.write_text(re.sub(r"(<persistence-enabled>\w+</persistence-enabled>)", rf"\1{said}", text))
    (root / "lib").mkdir(exist_ok=True)
    shutil.copy(jdbc_driver("postgresql"), root / "lib")
    return broker


# ---- SQLite ----


def embedded(context: Context) -> None:
    from litequeue import LiteQueue  # noqa: PLC0415 - only this measurement needs them
    from persistqueue import SQLiteQueue  # noqa: PLC0415

    folder = context.work / "embedded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = "x" * (LINE_BYTES - 1)
    persist = SQLiteQueue(str(folder / "persist"), auto_commit=True, multithreading=True)
    lite = LiteQueue(str(folder / "lite.db"))
    sides: dict[str, Callable[[int], float]] = {
        "persist-queue": lambda count: _timed(count, lambda: persist.put(text)),
        "litequeue": lambda count: _timed(count, lambda: lite.put(text)),
    }
    rates: dict[str, list[float]] = {name: [] for name in ("journalfs", "file journal", *sides)}
    run_quietly([context.journalfs, "create", "--journal-type", "NIO", str(folder / "files")])
    count = _counts(context)[1]
    for number in range(context.runs):
        with _mounted(context, f"sqlite:///{folder}/orders-{number}.db") as tables:
            rates["journalfs"].append(_rate(tables.path / "orders", 1, count))
        with context.mounted_at(folder / "files", "-o", "front=on") as files:
            (files.path / "orders" / "orders").mkdir(parents=True, exist_ok=True)
            rates["file journal"].append(_rate(files.path / "orders", 1, count))
        for name, put in sides.items():
            rates[name].append(put(count))
    for against in ("file journal", *sides):
        _keep(
            context,
            f"jdbc-sqlite-{against.replace(' ', '-')}",
            "Durable messages of 1 KiB into SQLite through a mount, one at a time",
            {"journalfs": rates["journalfs"], against: rates[against]},
        )


# ---- both ----


@contextmanager
def _mounted(context: Context, url: str) -> Iterator[Mounted]:
    run_quietly([context.journalfs, "create", url])
    with context.mounted_at(Path(url), "-o", "front=on") as mounted:
        (mounted.path / "orders" / "orders").mkdir(parents=True)
        yield mounted


def _counts(context: Context) -> dict[int, int]:
    divisor = SMALL_DIVISOR if context.small else 1
    return {writers: max(count // divisor // writers, 1) * writers for writers, count in WRITERS.items()}


def _rate(folder: Path, writers: int, count: int) -> float:
    """Messages a second when so many write so many, each line with a call of its own."""
    line = b"x" * (LINE_BYTES - 1) + b"\n"

    def write(number: int) -> None:
        descriptor = os.open(folder / f"in-{number}.txt", os.O_WRONLY | os.O_CREAT)
        try:
            for _ in range(count // writers):
                os.write(descriptor, line)
        finally:
            os.close(descriptor)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    began = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return count // writers * writers / (time.perf_counter() - began)


def _drain(queue: Path, count: int) -> float:
    """Messages a second when all are read and then removed."""
    began = time.perf_counter()
    everything = queue / ".all.jsonl"
    with everything.open("rb") as file:
        read = sum(1 for _ in file)
    everything.unlink()
    if read != count:
        raise RuntimeError(f"{read} messages are there, and not {count}")
    return count / (time.perf_counter() - began)


def _take(queue: Path, count: int) -> float:
    """Messages a second that one reader takes, until it has so many."""
    began = time.perf_counter()
    run_quietly(["head", "-n", str(count), str(queue / ".take")])
    return count / (time.perf_counter() - began)


def _timed(count: int, put: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(count):
        put()
    return count / (time.perf_counter() - began)


def _keep(
    context: Context,
    identifier: str,
    title: str,
    values: dict[str, list[float]],
    *,
    goal: float | None = None,
    unit: str = "messages/s",
    note: str = NOTE,
) -> None:
    _, against = values
    compared = bool(values[against])
    case = Case(
        identifier,
        "Databases",
        title,
        unit,
        "lower" if unit == "s" else "higher",
        {},
        against=against if compared else None,
        goal=Goal("ratio", "at least", goal) if goal is not None and compared else None,
        note=note,
    )
    context.keep(conclude(case, {name: one for name, one in values.items() if one}, context.commit))
