"""`journalfs pipeline audit`: what became of each message."""

from __future__ import annotations

import click

from journalfs.cli.common import json_option, write_json, write_table
from journalfs.cli.pipelines.common import (
    check_report,
    engine_option,
    output_option,
    refuse_local,
    spark_options,
)


@click.command(epilog="Example: journalfs pipeline audit /var/lib/artemis/data --output /tmp/audit")
@click.argument("store", metavar="STORE")
@output_option("Also write report.html there, and the tables lives and findings as Parquet.")
@engine_option
@spark_options
@json_option
def audit(
    *,
    store: str,
    output: str | None,
    engine: str,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Say what became of each message of STORE, consumed ones too, and list what is odd."""
    from journalfs.pipeline.session import session  # noqa: PLC0415 - Spark takes seconds

    refuse_local(engine, "an audit")
    check_report(store, output)
    with session(master, dict(settings), title="auditing") as spark:
        from journalfs.clock import SystemClock  # noqa: PLC0415 - as above
        from journalfs.pipeline import audit as pipeline  # noqa: PLC0415
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        source = Source(store)
        found = pipeline.audit(spark, source)
        try:
            summary = pipeline.summary(found)
            if output is not None:
                pipeline.report(found, summary, source, folder_at(spark, output), SystemClock().now_ms())
        finally:
            found.close()
    if as_json:
        write_json(summary)
        return
    rows = [[one["kind"], one["queue"], one["what"], one["messages"]] for one in summary]
    write_table(["KIND", "QUEUE", "WHAT", "MESSAGES"], rows)
