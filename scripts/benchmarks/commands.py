"""How long the short commands take, start to end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, run_quietly, seconds

RUNS = 20


def commands(context: Context) -> None:
    def timed(command: Sequence[str]) -> Callable[[], float]:
        return lambda: seconds(lambda: run_quietly(command, environment=context.environment)) * 1000

    bare = timed([sys.executable, "-c", "pass"])
    data = str(context.data("few"))
    for name, arguments, limit_ms in (("version", ["--version"], 60.0), ("ls", ["ls", data], 150.0)):
        shown = "journalfs --version" if name == "version" else "journalfs ls STORE"
        context.take(
            Case(
                f"command-{name}",
                "Commands",
                f"`{shown}`",
                "ms",
                "lower",
                {"journalfs": timed([context.journalfs, *arguments]), "python3": bare},
                against="python3",
                goal=Goal("journalfs", "at most", limit_ms),
                runs=RUNS,
                note="20 queues of 500 messages, index present." if name == "ls" else "",
            )
        )
