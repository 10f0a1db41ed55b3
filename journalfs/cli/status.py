"""`journalfs status`: counts and sizes of a store, an address or a queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli import common

if TYPE_CHECKING:
    from journalfs.api import Store


@click.command(epilog="Example: journalfs status /var/lib/artemis/data orders::billing")
@common.store_argument
@common.older_options
@click.argument("target", metavar="[ADDRESS[::QUEUE]]", required=False)
@common.json_option
@common.index_option
def status(*, store: Path, older: common.Older, target: str | None, as_json: bool, no_index: bool) -> None:
    """Show what STORE, ADDRESS or ADDRESS::QUEUE holds: counts, bytes, paging, damage."""
    with common.opened(store, index=not no_index, older=older) as found:
        facts = _facts(found, target)
        if as_json:
            common.write_json([facts])
        else:
            common.write_table(["NAME", "VALUE"], [[name, _text(value)] for name, value in facts.items()])


def _facts(store: Store, target: str | None) -> Mapping[str, object]:
    if target is None:
        return store.status()
    if common.SEPARATOR in target:
        return common.find_queues(store, target)[0].status()
    return common.find_address(store, target).status()


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) or None
    if isinstance(value, list | tuple):
        return ", ".join(str(_text(inner)) for inner in value) or None
    return value if value is None else str(value)
