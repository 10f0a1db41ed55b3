"""`journalfs pipeline stats`: what waits, how large, how old."""

from __future__ import annotations

from dataclasses import asdict
from operator import attrgetter

import click

from journalfs.cli.common import json_option, when, write_json, write_table
from journalfs.cli.pipelines.common import (
    check_report,
    engine_option,
    output_option,
    source_options,
    spark_options,
)


@click.command(epilog="Example: journalfs pipeline stats /var/lib/artemis/data --output /tmp/stats")
@source_options
@output_option("Also write report.html there, and its plots as PNG.")
@engine_option
@spark_options
@json_option
def stats(
    *,
    store: str,
    queues: tuple[str, ...],
    where: str,
    output: str | None,
    engine: str,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Count the messages of STORE by address and queue, with their sizes, ages and rates."""
    from journalfs.pipeline.engines import chosen, started  # noqa: PLC0415 - takes longer than the help text

    check_report(store, output)
    kind = chosen(engine, paths=(store, output), master=master, settings=dict(settings))
    with started(kind, master, dict(settings), title="counting") as asked:
        from journalfs.clock import SystemClock  # noqa: PLC0415 - as above
        from journalfs.pipeline import stats as pipeline  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        source = Source(store, queues, where)
        found = pipeline.stats(asked, source, SystemClock().now_ms())
        if output is not None:
            pipeline.report(found, source, asked.folder(output))
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
