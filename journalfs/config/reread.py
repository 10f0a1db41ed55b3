"""A configuration that is read again while its store is open, and what of it takes effect then.

A broker looks at its file now and then, too, and takes over what it says of addresses. Where a store is and
how its journal is written stays as it was when the store was opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from journalfs import store_owner
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.core_settings import AT_ONCE, CORE_BY_NAME, ConfiguredValue, value_in_force
from journalfs.config.files import TOML_NAME
from journalfs.config.layout import DIRECTORY_FIELDS, StoreLayout, moved_by
from journalfs.config.store_toml import WORKED_OUT


@dataclass(frozen=True, slots=True)
class TakenOver:
    config: BrokerConfig | None
    """What is in force from now on; None: nothing is configured."""
    later: tuple[str, ...]
    """Settings that say something else now than what stays in force until the store is opened again."""


def files_of(layout: StoreLayout) -> tuple[Path, ...]:
    """The files that a store's configuration was read from, and the one that may be put beside the store."""
    read = layout.config.files if layout.config is not None else ()
    return tuple(dict.fromkeys((*read, _own_file(layout))))


def read_again(layout: StoreLayout) -> BrokerConfig | None:
    """What the configuration says now. Raises `ConfigError` and `SystemFailure`."""
    with store_owner.as_started():  # it may lie where a store's owner does not get
        return _read_again(layout)


def stamp_of(path: Path) -> tuple[int, int, int, int] | None:
    """What tells whether a file is another, or was written to; None: it is not there, or cannot be seen."""
    try:
        with store_owner.as_started():
            found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_again(layout: StoreLayout) -> BrokerConfig | None:
    config, broker_xml = layout.config, layout.broker_xml
    found: BrokerConfig | None = None
    if config is not None and broker_xml is not None:
        found = read_broker_xml(broker_xml, instance=config.instance, start=config.start)
    own = _own_file(layout)
    if own.is_file():
        # Most stores have none, and its parser takes a while to import.
        from journalfs.config.journalfs_toml import read_journalfs_toml  # noqa: PLC0415

        found = read_journalfs_toml(own, found)
    return found


def taken_over(layout: StoreLayout, now: BrokerConfig | None) -> TakenOver:
    """What takes effect of what is configured now, where `layout` says what is in force."""
    was = layout.config
    base = was or now
    if base is None:
        return TakenOver(None, ())
    core = _core(was, at_once=False) | _core(now, at_once=True)
    files = now.files if now is not None else base.files
    config = replace(base, core=core, address_settings=now.address_settings if now else (), files=files)
    return TakenOver(config, tuple(_later(layout, config, now)))


def _own_file(layout: StoreLayout) -> Path:
    read = layout.config.files if layout.config is not None else ()
    return next((file for file in read if file.name == TOML_NAME), layout.root / TOML_NAME)


def _core(config: BrokerConfig | None, *, at_once: bool) -> dict[str, ConfiguredValue]:
    found: Mapping[str, ConfiguredValue] = config.core if config is not None else {}
    return {name: value for name, value in found.items() if (name in AT_ONCE) is at_once}


def _later(layout: StoreLayout, in_force: BrokerConfig, now: BrokerConfig | None) -> Iterator[str]:
    core, wanted = in_force.core, now.core if now is not None else {}
    elsewhere = _moved(layout, now)
    for name in sorted(CORE_BY_NAME.keys() - AT_ONCE):
        if name in DIRECTORY_FIELDS:
            differs = name in elsewhere
        elif name in WORKED_OUT:
            differs = _configured(core, name) != _configured(wanted, name)
        else:
            differs = value_in_force(core, name) != value_in_force(wanted, name)
        if differs:
            yield name
    if now is not None:
        syntax = (
            ("wildcard-addresses", in_force.wildcards, now.wildcards),
            ("literal-match-markers", in_force.literal_markers, now.literal_markers),
            ("uuid-namespace", in_force.uuid_namespace, now.uuid_namespace),
        )
        yield from (name for name, before, after in syntax if before != after)


def _moved(layout: StoreLayout, now: BrokerConfig | None) -> frozenset[str]:
    """Directories that are others by what is configured now. One that is only named another way is none."""
    usual = layout.without_own or layout
    found = moved_by(usual, now) if now is not None else usual
    core, wanted = (config.core if config is not None else {} for config in (usual.config, now))
    moved = set()
    for name, field in DIRECTORY_FIELDS.items():
        own = name in wanted and wanted[name].origin == TOML_NAME
        if getattr(found, field) != getattr(layout, field):
            moved.add(name)
        elif not own and _configured(core, name) != _configured(wanted, name):
            moved.add(name)  # broker.xml says something else
    return frozenset(moved)


def _configured(core: Mapping[str, ConfiguredValue], name: str) -> object:
    return core[name].value if name in core else None
