"""Registers the stores of older brokers. `journalfs.records.kinds` imports this module when one is met."""

from __future__ import annotations

from pathlib import Path

from journalfs.clock import Clock
from journalfs.config.layout import StoreLayout
from journalfs.errors import OlderStore
from journalfs.records.description import Description
from journalfs.records.kinds import Ownership, SourcePlaces, register_older
from journalfs.records.older import deriving


class OlderStores:
    """See `journalfs.records.kinds.OlderKinds`."""

    def derive(self, found: OlderStore, base: Path | None, *, quiet: bool) -> Path:
        return deriving.derive(found, base, quiet=quiet)

    def own(self, found: OlderStore, base: Path | None, clock: Clock) -> Ownership:
        from journalfs.foreign.owned import own_older  # noqa: PLC0415 - readers do not need it

        return own_older(found, base, clock)

    def places(self, made_of: Description, layout: StoreLayout) -> SourcePlaces:
        return deriving.SourcePlaces(made_of, layout)


register_older(OlderStores())
