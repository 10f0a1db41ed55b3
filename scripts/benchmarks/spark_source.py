"""`format("journalfs")` and the distributed replay against Spark reading the mount's JSON."""

from __future__ import annotations

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, conclude
from scripts.benchmarks.mounting import QUEUE
from scripts.benchmarks.other_process import said_by

TITLES = {
    "body": "Body sizes",
    "headers": "Newest by priority",
    "few": "Bodies of one priority",
}


UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled=true"
"""What moves columns from Python to the JVM is a loopback connection, unless Spark is told."""


def source(context: Context) -> None:
    """Typed columns of a store against JSON with a schema of the mount: the same questions in turn."""
    for suffix, how, settings in (("", "", ()), ("-unix", ", Unix sockets", (UNIX_SOCKETS,))):
        for job, taken in _taken(context, "source", *settings).items():
            case = Case(
                f"spark-source-{job}{suffix}",
                "Spark, typed columns",
                f"{TITLES[job]}{how}",
                "s",
                "lower",
                {},
                against="mount",
                goal=Goal("ratio", "at least", 1.5),
                note="all in the page cache.",
            )
            context.keep(conclude(case, taken, context.commit))


def replay(context: Context) -> None:
    """What it costs to find the live set by joins, where the library could have done it."""
    for taken in _taken(context, "replay").values():
        case = Case(
            "spark-replay",
            "Spark, distributed replay",
            "Body sizes",
            "s",
            "lower",
            {},
            against="source",
            note="On one machine, where it has nothing to gain: it is for stores that no machine holds.",
        )
        context.keep(conclude(case, taken, context.commit))


def _taken(context: Context, what: str, *settings: str) -> dict[str, dict[str, list[float]]]:
    with context.mounted("bulk") as mounted:
        found: dict[str, dict[str, list[float]]] = said_by(
            "spark_source_jobs", what, context.data("bulk"), mounted.path / QUEUE, context.runs, *settings
        )
    return found
