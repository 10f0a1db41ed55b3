"""The settings of a whole store as they are in force, in a form that its journalfs.toml can have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import tomli_w

from journalfs.config.files import TOML_NAME
from journalfs.config.in_force import ORIGIN_DEFAULT, SettingInForce, settings_toml
from journalfs.config.layout import DIRECTORY_FIELDS, StoreLayout
from journalfs.config.wildcards import SYNTAX_FIELDS, WILDCARDS, WildcardSyntax

ORIGIN_FOUND: Final = "found"
"""Of a directory that no configuration names, or that is not where the configuration says."""

WORKED_OUT: Final = {
    "journal-file-size": "as large as the files that are there, else {}",
    "journal-max-io": "follows what the journal is written with: {}",
    "journal-buffer-timeout": "follows what the journal is written with: {}",
}
"""Settings that, if nothing says what they are, follow what is found: naming a value would fix it."""


def store_toml(layout: StoreLayout, core: tuple[SettingInForce, ...]) -> str:
    """A journalfs.toml that leaves all as it is, with where each setting comes from. `core` are those of the
    whole store; of addresses it has what only a journalfs.toml says.
    """
    matches = layout.config.address_settings if layout.config is not None else ()
    tables = {
        match.match: {name: configured.value for name, configured in match.values.items()}
        for match in matches
        if match.origin == TOML_NAME
    }
    own = "\n" + tomli_w.dumps({"address-settings": tables}) if tables else ""
    return settings_toml(store_settings(layout, core)) + _wildcards(layout) + own


def _wildcards(layout: StoreLayout) -> str:
    usual = WildcardSyntax()
    syntax = layout.config.wildcards if layout.config is not None else usual
    said = {name: getattr(syntax, field) for name, field in SYNTAX_FIELDS.items()}
    return "\n" + tomli_w.dumps({WILDCARDS: said}) if syntax != usual else ""


def store_settings(layout: StoreLayout, core: tuple[SettingInForce, ...]) -> Iterator[SettingInForce]:
    """`core` with the directories that are in force, relative to the data directory where they are in it."""
    for setting in core:
        if setting.name in DIRECTORY_FIELDS:
            yield _directory(layout, setting)
        elif setting.name in WORKED_OUT and setting.origin == ORIGIN_DEFAULT:
            yield replace(setting, value=None, origin=WORKED_OUT[setting.name].format(setting.value))
        else:
            yield setting


def _directory(layout: StoreLayout, setting: SettingInForce) -> SettingInForce:
    path: Path | None = getattr(layout, DIRECTORY_FIELDS[setting.name])
    follows = {
        # Only a setting says that a history is kept; one that lies there is read.
        "journal-retention-directory": setting.value is None,
        "node-manager-lock-directory": path == layout.journal_dir,
    }
    if path is None or follows.get(setting.name, False):
        return replace(setting, value=None, origin=ORIGIN_DEFAULT)
    text = str(path.relative_to(layout.root)) if path.is_relative_to(layout.root) else str(path)
    if os.fsencode(text).decode("utf-8", "replace") != text:
        return replace(setting, value=None, origin="its path is not UTF-8 text")
    return replace(setting, value=text, origin=_origin(layout, setting, path))


def _origin(layout: StoreLayout, setting: SettingInForce, path: Path) -> str:
    if setting.origin == TOML_NAME:
        return TOML_NAME
    if layout.broker_xml is None or layout.config is None:
        return ORIGIN_FOUND
    said = isinstance(setting.value, str) and layout.config.resolve(setting.value) == path
    return setting.origin if said else ORIGIN_FOUND
