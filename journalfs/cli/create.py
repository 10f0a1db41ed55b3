"""`journalfs create`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import store_argument
from journalfs.errors import WrongCall

if TYPE_CHECKING:
    from journalfs.config.setting_names import Value


@click.command(epilog="Example: journalfs create --journal-type NIO /var/lib/orders")
@store_argument
@click.option("--journal-type", type=click.Choice(["ASYNCIO", "NIO", "MAPPED"]), help="How it is written.")
@click.option(
    "--set",
    "assignments",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting under the broker's name, such as journal-file-size=1M.",
)
def create(*, store: Path, journal_type: str | None, assignments: tuple[str, ...]) -> None:
    """Make an empty store in the directory STORE, which need not exist.

    A broker can be started on it. Settings are kept in STORE/journalfs.toml. In a broker instance that never
    ran, STORE is the instance, and its broker.xml says all.
    """
    from journalfs.clock import SystemClock  # noqa: PLC0415 - these take longer than the help text
    from journalfs.store.creating import create_store  # noqa: PLC0415

    given = ([f"journal-type={journal_type}"] if journal_type else []) + list(assignments)
    made = create_store(store, _settings(given), SystemClock(), warn=_warn)
    size = made.settings.file_size_bytes
    print(
        f"{made.layout.root}: an empty store, {made.kind}, journal files of {size} bytes, node {made.node_id}"
    )


def _settings(assignments: list[str]) -> dict[str, Value]:
    from journalfs.config.journalfs_toml import parse_setting  # noqa: PLC0415

    settings: dict[str, Value] = {}
    for assignment in assignments:
        try:
            name, value = parse_setting(assignment)
        except ValueError as error:
            raise WrongCall(f"--set {error}") from error
        if settings.setdefault(name, value) != value:
            raise WrongCall(f"--set {name}: it is given twice")
    return settings


def _warn(text: str) -> None:
    print(f"journalfs: {text}", file=sys.stderr)
