"""Tells what is odd about the settings of an open store: once as events when it is opened for writing, and as
lines of `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from journalfs.api import Store
from journalfs.config.address_settings import Value
from journalfs.config.findings import alone, one_event, setting_findings, without_effect
from journalfs.config.known_names import SettingFinding
from journalfs.live.core import Core
from journalfs.live.opened import OpenStore
from journalfs.store.store import JournalStore


def stored_settings(core: OpenStore) -> dict[str, Mapping[str, Value]]:
    """Settings of addresses that the bindings hold, by match."""
    return {match: setting.values for match, setting in core.bindings.address_settings.items()}


def tell_settings(core: Core) -> None:
    """Make events of settings that do nothing alone, and one of all without effect. The names that no broker
    knows are told with the configuration; settings that an attribute set are told when they are set.
    """
    for one in alone(core.layout.config, stored_settings(core)):
        core.events.add("configuration", one.text)
    nothing = without_effect(core.layout.config)
    if nothing:
        core.events.add("configuration", one_event(nothing), level=logging.INFO)


def odd_settings(store: Store) -> list[SettingFinding]:
    """All that is to be said of the settings of a store that is open for reading."""
    assert isinstance(store, JournalStore), "all that are open for reading are"
    return setting_findings(store.core.layout.config, stored_settings(store.core))


def facts(finding: SettingFinding) -> Mapping[str, object]:
    """One line of `check`, by what `--json` calls its parts."""
    return {
        "file": finding.place,
        "offset": 0,
        "bytes": 0,
        "kind": finding.kind,
        "reason": f"{finding.setting}: {finding.reason}",
    }
