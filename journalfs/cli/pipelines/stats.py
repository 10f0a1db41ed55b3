"""`journalfs pipeline stats`: what waits, how large, how old."""

from __future__ import annotations

from dataclasses import asdict
from operator import attrgetter

import click

from journalfs.cli.common import json_option, when, write_json, write_table
from journalfs.cli.pipelines.common import check_report, output_option, source_options, spark_options


@click.command(epilog="Example: journalfs pipeline stats /var/lib/artemis/data --output /tmp/stats")
@source_options
@output_option("Also write report.html there, and its plots as PNG.")
@spark_options
@json_option
def stats(
    *,
    store: str,
    queues: tuple[str, ...],
    where: str,
    output: str | None,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Count the messages of STORE by address and queue, with their sizes, ages and rates."""
    from journalfs.pipeline.session import session  # noqa: PLC0415 - Spark takes seconds

    check_report(store, output)
    with session(master, dict(settings), title="counting") as spark:
        from journalfs.clock import SystemClock  # noqa: PLC0415 - as above
        from journalfs.pipeline import stats as pipeline  # noqa: PLC0415
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        source = Source(store, queues, where)
        found = pipeline.stats(spark, source, SystemClock().now_ms())
        if output is not None:
            pipeline.report(found, source, folder_at(spark, output))
    if as_json:
        write_json(asdict(one) for one in found.queues)
        return
    header = [
        "ADDRESS", "QUEUE", "MESSAGES", "BYTES", "REDELIVERED", "EXPIRED", "OLDEST", "NEWEST", "PER HOUR",
    ]  # fmt: skip
    said = attrgetter("address", "queue", "messages", "bytes", "redelivered", "expired")
    write_table(
        header,
        [(*said(one), when(one.oldest or 0), when(one.newest or 0), one.perHour) for one in found.queues],
    )
