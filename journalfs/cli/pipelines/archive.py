"""`journalfs pipeline archive`: add what is new to an archive."""

from __future__ import annotations

from dataclasses import asdict

import click

from journalfs.cli.books import end_with
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

    A run that is killed and repeated neither loses nor doubles a message. Ends with the books of a store on
    this machine, and with 5 if a message is not in the archive that no option left out.
    """
    from journalfs.pipeline.balance import asked_of  # noqa: PLC0415 - takes longer than the help text
    from journalfs.pipeline.session import session  # noqa: PLC0415 - Spark takes seconds

    check_paths(store, output, opened_later=True)
    asked = asked_of(store, queues, where)
    with session(master, dict(settings), title="archiving") as spark:
        from journalfs.pipeline.archive import archive_and_count  # noqa: PLC0415 - as above
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415
        from journalfs.pipeline.messages import Source  # noqa: PLC0415

        source, folder = Source(store, queues, where), folder_at(spark, output)
        run, rows = archive_and_count(spark, source, folder, bodies=not without_bodies)
    facts = asdict(run) if run is not None else {"run": None, "messages": 0, "bytes": 0}
    if not as_json:
        write_table(["RUN", "MESSAGES", "BYTES"], [[facts[one] for one in ("run", "messages", "bytes")]])
    if asked is not None:
        to = "stdout" if as_json else None
        end_with(asked.books(rows), asked.account.losses, json_to=to, facts=facts)
    elif as_json:
        write_json([{**facts, "books": None}])
