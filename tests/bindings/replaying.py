"""The replay of whole bindings journals."""

from __future__ import annotations

from collections.abc import Iterable

from journalfs.bindings.model import BindingsState
from journalfs.bindings.replay import BindingsReplay, ReplayRecord


def replay_bindings(files: Iterable[tuple[str, Iterable[tuple[ReplayRecord, bytes]]]]) -> BindingsState:
    """Files as (name, records with their bodies), in the order of their ids."""
    replay = BindingsReplay()
    for name, records in files:
        replay.begin_file(name)
        for record, body in records:
            replay.apply(record, body)
            # Whoever looks in between changes nothing.
            replay.finish()
    return replay.finish()
