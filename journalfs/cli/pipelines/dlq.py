"""`journalfs pipeline dlq`: where dead letters came from, and why."""

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


@click.command(epilog="Example: journalfs pipeline dlq /var/lib/artemis/data --queues DLQ")
@source_options
@output_option("Also write report.html there, and its plots as PNG.")
@engine_option
@spark_options
@json_option
def dlq(
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
    """Say of messages of STORE that were given up, expired or moved where they came from, why and how old
    they are. With --queues, of all that are in these.
    """
    from journalfs.pipeline.engines import chosen, started  # noqa: PLC0415 - takes longer than the help text

    check_report(store, output, opened_later=True)
    kind = chosen(engine, paths=(store, output), master=master, settings=dict(settings))
    with started(kind, master, dict(settings), title="reading dead letters") as asked:
        from journalfs.clock import SystemClock  # noqa: PLC0415 - as above
        from journalfs.pipeline import dlq as pipeline  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        source = Source(store, queues, where)
        found = pipeline.dead_letters(asked, source)
        if output is not None:
            pipeline.report(found, source, asked.folder(output), SystemClock().now_ms())
    if as_json:
        write_json(asdict(one) for one in found)
        return
    said = attrgetter("queue", "reason", "fromAddress", "fromQueue", "letters")
    write_table(
        ["QUEUE", "REASON", "FROM ADDRESS", "FROM QUEUE", "LETTERS", "OLDEST", "NEWEST"],
        [(*said(one), when(one.oldest or 0), when(one.newest or 0)) for one in found],
    )
