"""`journalfs pipeline`: commands that use Spark, each imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from journalfs.cli.lazy import LazyGroup
from journalfs.cli.main import interrupted

PIPELINES: Final[dict[str, tuple[str, str]]] = {
    "archive": ("journalfs.cli.pipelines.archive:archive", "Add what is new to an archive of Parquet files."),
    "audit": ("journalfs.cli.pipelines.audit:audit", "Say what became of each message, and what is odd."),
    "dlq": ("journalfs.cli.pipelines.dlq:dlq", "Say where dead letters came from, and why."),
    "replay": ("journalfs.cli.pipelines.replay:replay", "Publish messages of an archive, each once."),
    "stats": ("journalfs.cli.pipelines.stats:stats", "Count messages, with sizes, ages and plots."),
}


@click.group(cls=LazyGroup, table=PIPELINES, interrupted=interrupted)
def pipeline() -> None:
    """Archive, measure, audit and replay messages with Spark, on this machine or a cluster."""
