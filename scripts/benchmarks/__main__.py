"""Command line of the measurements."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import can_drop_caches, machine


def _of(module: str, name: str, **given: bool) -> Callable[[Context], None]:
    """A measurement, imported when it is made: what it needs need not be there to ask what there is."""

    def measure(context: Context) -> None:
        getattr(import_module(f"scripts.benchmarks.{module}"), name)(context, **given)

    return measure


READ = {
    "scan": _of("engine", "scan"),
    "load": _of("engine", "load"),
    "memory": _of("engine", "memory"),
    "commands": _of("commands", "commands"),
    "operations": _of("mounting", "operations"),
    "listing": _of("mounting", "listing"),
    "mount": _of("mounting", "mount_time"),
    "cat": _of("mounting", "cat"),
    "spark": _of("spark", "spark"),
    "broker": _of("mounting", "against_broker"),
}
APPEND = {
    "append": _of("append", "append"),
    "lines": _of("publishing", "lines"),
    "durable": _of("publishing", "durable"),
    "echo": _of("publishing", "echo"),
    "broker": _of("mounting", "against_broker", writing=True),
    "operations": _of("publishing", "operations"),
}
SPARK = {
    "files": _of("spark", "spark"),
    "gib": _of("spark_gib", "reading"),
    "gib-write": _of("spark_gib", "writing"),
    "source": _of("spark_source", "source"),
    "replay": _of("spark_source", "replay"),
    "scale": _of("spark_scale", "scale"),
}
MEASUREMENTS: dict[str, dict[str, Callable[[Context], None]]] = {
    "read": READ,
    "append": APPEND,
    "spark": SPARK,
    "adversary": {"adversary": _of("adversary", "adversary")},
    "paging": {"paging": _of("paging", "paging")},
    "jdbc": {name: _of("jdbc", name) for name in ("publishing", "mounting", "embedded")},
    "history": {name: _of("history", name) for name in ("replay", "backup", "redrive")},
    "front": {name: _of("front", name) for name in ("operations", "durable")},
    "export": {"exports": _of("exporting", "exports"), "older": _of("exporting", "older_stores")},
}
MESSAGES_PAGED = 300_000
ROOT = Path(__file__).parent.parent.parent


def main() -> None:
    arguments = _arguments()
    from scripts.benchmarks import report  # noqa: PLC0415 - as what is measured

    if not can_drop_caches():
        print(
            "cannot drop the kernel's caches (needs root): what starts without caches is left out", flush=True
        )
    work = arguments.dir or Path(tempfile.mkdtemp(prefix="journalfs-bench-"))
    work.mkdir(parents=True, exist_ok=True)
    out = arguments.out or (work / "docs" if arguments.small else ROOT / "docs" / "inside")
    try:
        messages = getattr(arguments, "messages", 0)
        theirs = getattr(arguments, "broker_messages", None)
        context = Context(
            work,
            runs=arguments.runs,
            small=arguments.small,
            messages_paged=messages,
            broker_messages=messages if theirs is None else theirs,
        )
        for name in arguments.only.split(","):
            MEASUREMENTS[arguments.subcommand][name](context)
            # After each, so that a failure of a later one loses nothing.
            report.write(
                arguments.subcommand,
                context.results,
                machine(work),
                out / "bench",
                None if arguments.subcommand == "front" else out / "benchmarks.md",
            )
    finally:
        if arguments.dir is None:
            shutil.rmtree(work)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure journalfs, side by side.")
    subcommands = parser.add_subparsers(dest="subcommand", required=True)
    read = subcommands.add_parser("read", help="reading: scan, load, mount, list, cat, operations, Spark")
    append_ = subcommands.add_parser("append", help="writing: appends, publishing, mounting for it")
    spark_ = subcommands.add_parser("spark", help="Spark: files of the mount, typed columns, replay by joins")
    paging_ = subcommands.add_parser("paging", help="a queue far larger than memory, in pages")
    paging_.add_argument(
        "--messages", type=int, default=MESSAGES_PAGED, help="of 1 KiB (default %(default)s)"
    )
    paging_.add_argument(
        "--broker-messages", type=int, help="how many a broker pages (default: as many; 0: no broker)"
    )
    export_ = subcommands.add_parser(
        "export", help="exports and older stores, against the brokers' own tools"
    )
    history_ = subcommands.add_parser("history", help="replay of a history, backup, restore, dead letters")
    front_ = subcommands.add_parser("front", help="requests answered in C, and in Python, in turn")
    adversary_ = subcommands.add_parser("adversary", help="honest clients beside one who does his worst")
    jdbc_ = subcommands.add_parser("jdbc", help="stores in databases, against the broker's JDBC store")
    commands_ = {
        "jdbc": jdbc_,
        "export": export_,
        "history": history_,
        "read": read,
        "append": append_,
        "spark": spark_,
        "paging": paging_,
        "adversary": adversary_,
        "front": front_,
    }
    for name, command in commands_.items():
        measurements = MEASUREMENTS[name]
        command.add_argument("--only", default=",".join(measurements), help="comma-separated: %(default)s")
        command.add_argument(
            "--runs", type=int, default=5, help="measured rounds of each (default %(default)s)"
        )
        command.add_argument(
            "--small", action="store_true", help="a hundredth of the work: only to see it work"
        )
        command.add_argument(
            "--dir", type=Path, help="work here, on the disk to measure; what is made is kept"
        )
        command.add_argument(
            "--out", type=Path, help="write results here (default: docs/inside; small: the work directory)"
        )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.only.split(",")) - set(MEASUREMENTS[arguments.subcommand]))
    if unknown:
        parser.error(f"no such measurement: {', '.join(unknown)}")
    return arguments


if __name__ == "__main__":
    main()
