"""`journalfs create`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import force_option, say, store_argument
from journalfs.errors import WrongCall

if TYPE_CHECKING:
    from journalfs.config.address_settings import Value


@click.command(epilog="Example: journalfs create --journal-type NIO /var/lib/orders")
@store_argument
@force_option
@click.option("--journal-type", type=click.Choice(["ASYNCIO", "NIO", "MAPPED"]), help="How it is written.")
@click.option(
    "--set",
    "assignments",
    metavar="[MATCH:]NAME=VALUE",
    multiple=True,
    help="A setting under the broker's name, such as journal-file-size=1M, or of addresses, such as "
    "'orders.#:max-delivery-attempts=3'.",
)
@click.option(
    "--bare", is_flag=True, help="Without the queues DLQ and ExpiryQueue, and settings that name them."
)
def create(*, store: Path, journal_type: str | None, assignments: tuple[str, ...], bare: bool) -> None:
    """Make an empty store in the directory STORE, which need not exist.

    A broker can be started on it. Settings are kept in STORE/journalfs.toml. In a broker instance that never
    ran, STORE is the instance, and its broker.xml says all. STORE may be the URL of a database, such as
    sqlite:///orders.db.

    Messages that fail too often go to the queue DLQ, those whose time is over to ExpiryQueue, as `artemis
    create` sets it up.
    """
    from journalfs.clock import SystemClock  # noqa: PLC0415 - these take longer than the help text
    from journalfs.config.database import DatabaseStore  # noqa: PLC0415
    from journalfs.store.creating import create_store  # noqa: PLC0415

    given = ([f"journal-type={journal_type}"] if journal_type else []) + list(assignments)
    own, addresses = _settings(given)
    try:
        made = create_store(store, own, SystemClock(), warn=_warn, addresses=addresses, bare=bare)
    except DatabaseStore as found:
        from journalfs.store.write.tables import create_tables  # noqa: PLC0415

        if own:
            raise WrongCall(
                f"--set {next(iter(own))}: a database has no file for settings of a store"
            ) from None
        create_tables(found.settings, addresses, SystemClock(), bare=bare)
        say(f"{found.settings.shown}: an empty store")
        return
    size = made.settings.file_size_bytes
    say(
        f"{made.layout.root}: an empty store, {made.kind}, journal files of {size} bytes, node {made.node_id}"
    )


def _settings(assignments: list[str]) -> tuple[dict[str, Value], dict[str, dict[str, Value]]]:
    """Those of the whole store, and those of addresses by match."""
    from journalfs.config.journalfs_toml import parse_setting  # noqa: PLC0415

    own: dict[str, Value] = {}
    addresses: dict[str, dict[str, Value]] = {}
    for assignment in assignments:
        try:
            match, name, value = parse_setting(assignment)
        except ValueError as error:
            raise WrongCall(f"--set {error}") from error
        settings = own if match is None else addresses.setdefault(match, {})
        if settings.setdefault(name, value) != value:
            raise WrongCall(f"--set {name}: it is given twice")
    return own, addresses


def _warn(text: str) -> None:
    say(f"journalfs: {text}", to_people=True)
