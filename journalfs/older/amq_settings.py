"""Settings of an AMQ Message Store: attributes of `amqPersistenceAdapter` in the broker's `activemq.xml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from journalfs import door
from journalfs.errors import ConfigError
from journalfs.older.amq_data import MAX_FILE_BYTES

CLEANUP_INTERVAL_MS: Final = 30_000
_ELEMENT: Final = "amqPersistenceAdapter"
_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmg]?)b?\s*", re.IGNORECASE)
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30}
_LEVELS: Final = 3
"""The configuration is in `conf/`, beside a folder so many above the store."""


@dataclass(frozen=True, slots=True)
class AmqSettings:
    max_file_bytes: int = MAX_FILE_BYTES
    cleanup_interval_ms: int = CLEANUP_INTERVAL_MS
    archive: Path | None = None
    """Where data logs go that nothing needs; None: they are deleted."""


def amq_settings(store: Path) -> AmqSettings:
    """As the configuration says that lies where a distribution has it; defaults without one. Raises
    `ConfigError`.
    """
    for base in list(store.parents)[:_LEVELS]:
        path = base / "conf" / "activemq.xml"
        if door.is_file(path):
            return _read(path, base, store)
    return AmqSettings()


def _read(path: Path, base: Path, store: Path) -> AmqSettings:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ConfigError(path, str(error)) from error
    said: dict[str, str] = {}
    for element in root.iter():
        if element.tag.rpartition("}")[2] == _ELEMENT:
            said = {name.lower(): value for name, value in element.attrib.items()}
    archive = None
    if said.get("archivedatalogs", "false").strip().lower() == "true":
        archive = _place(said.get("directoryarchive", str(store / "archive")), base)
    return AmqSettings(
        _number(path, "maxFileLength", said, MAX_FILE_BYTES),
        _number(path, "cleanupInterval", said, CLEANUP_INTERVAL_MS),
        archive,
    )


def _number(path: Path, name: str, said: dict[str, str], default: int) -> int:
    text = said.get(name.lower())
    if text is None:
        return default
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ConfigError(path, f"{text!r} is no number", setting=name)
    return int(found[1]) << _UNITS[found[2].lower()]


def _place(text: str, base: Path) -> Path:
    for name, place in (("base", base), ("home", base), ("data", base / "data"), ("conf", base / "conf")):
        text = text.replace(f"${{activemq.{name}}}", str(place))
    return base / text
