"""Shows the settings in force of an open store, and tells what is odd about them: once as events when it is
opened for writing, and as lines of `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config.activemq_xml import amq_settings
from journalfs.config.address_settings import Value
from journalfs.config.database import DatabaseSettings
from journalfs.config.database_shown import database_findings, database_shown
from journalfs.config.findings import alone, one_event, setting_findings, without_effect
from journalfs.config.in_force import SettingInForce, settings_toml
from journalfs.config.known_names import NO_EFFECT, UNKNOWN, SettingFinding
from journalfs.config.older import AMQ, HORNETQ
from journalfs.errors import ConfigError
from journalfs.live.core import Core
from journalfs.live.opened import OpenStore
from journalfs.live.settings import broker_toml
from journalfs.records.description import DATABASE
from journalfs.store.journal_setup import FOUND, size_of_most

_SPOOLED: Final = ("tmp-storage", "tmp_storage")
_NOT_KEPT: Final = (
    "messages that are not persistent lie here for a while; they are not of the store, nor shown"
)


def shown_settings(core: Core) -> str:
    """Return the settings of the whole store as TOML, those of what it was derived from after them."""
    if not core.in_use:
        core.in_use = found_sizes(core)
    return broker_toml(core) + settings_toml(_of_source(core))


def found_sizes(core: Core) -> dict[str, tuple[Value, str]]:
    """Return the size of journal files as it is found where nothing says it, of a store nobody writes."""
    derived, layout = core.derived, core.layout
    if derived is not None and derived.kind == DATABASE:
        return {}
    if derived is not None:
        root = Path(derived.source)
        folder = root / "journal" if door.is_folder(root / "journal") else root
        layout = replace(layout, journal_dir=folder, journal_prefix="*", journal_extension="hq", config=None)
        if derived.kind != HORNETQ:
            return {}
    size = size_of_most(layout)
    return {} if size is None else {"journal-file-size": (size, FOUND)}


def is_configured(core: Core) -> bool:
    """Return True if a configuration of the store's broker was found, of any kind."""
    derived = core.derived
    if derived is not None and derived.kind == AMQ:
        return amq_settings(Path(derived.source)).file is not None
    return core.layout.config is not None


def stored_settings(core: OpenStore) -> dict[str, Mapping[str, Value]]:
    """Settings of addresses that the bindings hold, by match."""
    return {match: setting.values for match, setting in core.bindings.address_settings.items()}


def tell_settings(core: Core) -> None:
    """Make events of settings that do nothing alone, and one of all without effect. The names that no broker
    knows are told with the configuration; settings that an attribute set are told when they are set.
    """
    of_source = list(_findings_of_source(core))
    unknown = [one for one in of_source if one.kind == UNKNOWN]
    for one in (*unknown, *alone(core.layout.config, stored_settings(core))):
        core.events.add("configuration", one.text)
    nothing = without_effect(core.layout.config) + [one for one in of_source if one.kind != UNKNOWN]
    if nothing:
        core.events.add("configuration", one_event(nothing), level=logging.INFO)


def odd_settings(core: Core) -> list[SettingFinding]:
    """All that is to be said of the settings of an open store."""
    return [*setting_findings(core.layout.config, stored_settings(core)), *_findings_of_source(core)]


def facts(finding: SettingFinding) -> Mapping[str, object]:
    """One line of `check`, by what `--json` calls its parts."""
    return {
        "file": finding.place,
        "offset": 0,
        "bytes": 0,
        "kind": finding.kind,
        "reason": f"{finding.setting}: {finding.reason}",
    }


def _of_source(core: Core) -> Iterator[SettingInForce]:
    """Settings of the AMQ Message Store or the database that a store was derived from."""
    derived = core.derived
    if derived is not None and derived.kind == AMQ:
        yield from amq_settings(Path(derived.source)).shown()
    elif derived is not None and derived.kind == DATABASE:
        yield from database_shown(_database(core, derived.source))


def _findings_of_source(core: Core) -> Iterator[SettingFinding]:
    derived = core.derived
    if derived is not None and derived.kind == AMQ:
        for spooled in (Path(derived.source) / name for name in _SPOOLED):
            if door.names_if_there(spooled):
                yield SettingFinding(NO_EFFECT, str(spooled), None, spooled.name, _NOT_KEPT)
        try:
            yield from amq_settings(Path(derived.source)).findings()
        except ConfigError as error:
            yield SettingFinding(UNKNOWN, str(error.file), error.line, error.setting or "", error.reason)
    elif derived is not None and derived.kind == DATABASE:
        yield from database_findings(_database(core, derived.source))


def _database(core: Core, source: str) -> DatabaseSettings:
    """Settings of the database; the defaults where only its URL was given."""
    config = core.layout.config
    said = config.derived_from if config is not None else None
    return said or DatabaseSettings(url=source)
