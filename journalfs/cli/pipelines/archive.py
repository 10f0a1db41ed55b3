"""`journalfs pipeline archive`: add what is new to an archive."""

from __future__ import annotations

from dataclasses import asdict

import click

from journalfs.cli.common import json_option, write_json, write_table
from journalfs.cli.pipelines.common import check_paths, output_option, source_options, spark_options


@click.command(epilog="Example: journalfs pipeline archive /var/lib/artemis/data --output /archive/messages")
@source_options
@output_option("The archive: a folder of this machine, or any URL that Hadoop writes to.", required=True)
@click.option("--without-bodies", is_flag=True, help="Keep bodies in the envelope only; half as large.")
@spark_options
@json_option
def archive(
    *,
    store: str,
    queues: tuple[str, ...],
    where: str,
    output: str,
    without_bodies: bool,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Add the messages of STORE that are not in the archive yet, as Parquet files by address, queue and date.

    A run that is killed and repeated neither loses nor doubles a message.
    """
    from journalfs.pipeline.session import session  # noqa: PLC0415 - Spark takes seconds

    check_paths(store, output)
    with session(master, dict(settings), title="archiving") as spark:
        from journalfs.pipeline.archive import archive as add  # noqa: PLC0415 - as above
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        run = add(spark, Source(store, queues, where), folder_at(spark, output), bodies=not without_bodies)
    if as_json:
        write_json([asdict(run) if run is not None else {"run": None, "messages": 0, "bytes": 0}])
    else:
        write_table(
            ["RUN", "MESSAGES", "BYTES"], [[run.run, run.messages, run.bytes]] if run else [[None, 0, 0]]
        )
