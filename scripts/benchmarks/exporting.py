"""Exports against the brokers' own tools, and older stores against the start of their brokers."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from scripts.benchmarks.broker import JAVA_SOURCES, artemis_tool
from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, run_quietly, seconds
from tests.broker import older

CHARACTERS = 1200
KAHADB = "5.18.7"


def exports(context: Context) -> None:
    """The same store by `journalfs export` and by `artemis data`; what is written is removed each time. The
    processors' time is taken, user's and system's, which other work on the machine changes little.
    """
    data, out = context.data("bulk"), context.work / "exported"
    journal = ["--directory", str(data / "journal"), "--prefix", "activemq-data", "--suffix", "amq"]
    folders = {"journal": "journal", "bindings": "bindings", "paging": "paging"}
    folders["large-messages"] = "large-messages"
    given = [word for name, folder in folders.items() for word in (f"--{name}", str(data / folder))]
    encode = artemis_tool("data", "encode", *journal, "--file-size", "10485760")
    exp = artemis_tool("data", "exp", *given, "--output", str(out))
    for form, title, tool, goal in (
        ("lines", "encoded lines against `data encode`", encode, 4.0),
        ("xml", "XML against `data exp`", exp, 8.0),
        ("jsonl", "JSON lines against `data exp`", exp, 15.0),
    ):
        ours = [context.journalfs, "export", "--format", form, str(data), str(out)]
        context.take(
            Case(
                f"export-{form}",
                "Exports",
                f"Export 260,000 messages, 700 MB: {title}",
                "s",
                "lower",
                {"journalfs": _written(ours, out), "the broker's tool": _written(tool, out)},
                against="the broker's tool",
                goal=Goal("ratio", "at least", goal),
                note="processor time of exports; by the clock, mounts" if form == "lines" else "",
                warm_up_rounds=0,
            )
        )


def _written(command: list[str], out: Path) -> Callable[[], float]:
    def timed() -> float:
        out.unlink(missing_ok=True)
        before_s = _used_s()
        with out.with_suffix(".said").open("wb") as said:
            subprocess.run(command, stdout=said, stderr=subprocess.DEVNULL, check=True)
        return _used_s() - before_s

    return timed


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def older_stores(context: Context) -> None:
    """Mount a KahaDB store, nothing derived of it yet, against the start of its broker."""
    store = context.work / "kahadb"
    home = older.libraries(KAHADB, artifact="activemq-kahadb-store")
    classes = older.compiled(JAVA_SOURCES / "OlderStore.java", home)
    broker = ["java", "-Xmx1g", "-cp", classes, "journalfs.benchmarks.OlderStore"]
    if not store.exists():
        run_quietly([*broker, "fill", str(store), str(context.messages("bulk")), str(CHARACTERS), "clean"])

    def mount() -> float:
        shutil.rmtree(context.work / "cache", ignore_errors=True)
        with context.mounted_at(store) as mounted:
            return mounted.mount_s

    context.take(
        Case(
            "older-mount",
            "Exports",
            "Mount a KahaDB store of 260,000 messages for the first time, against its broker's start",
            "s",
            "lower",
            {
                "journalfs": mount,
                "broker start": lambda: seconds(lambda: run_quietly([*broker, "start", str(store)])),
            },
            against="broker start",
        )
    )
