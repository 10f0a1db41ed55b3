"""Reads what `activemq.xml` of ActiveMQ 5 says of an AMQ Message Store: attributes of its adapter.

A mount for writing takes its limits from it; `.journalfs/settings.toml` shows it, `check` and an event tell
of attributes without effect. It is found in the `conf` of a distribution, above the store, or named by
`--config`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config.core_settings import ConfiguredValue
from journalfs.config.files import CONFIG_VARIABLE, read_beginning
from journalfs.config.in_force import ORIGIN_DEFAULT, SettingInForce
from journalfs.config.known_names import AMQ_ATTRIBUTES, NO_EFFECT, SettingFinding, unknown_name
from journalfs.config.xmltree import Element, Loader
from journalfs.errors import ConfigError, SystemFailure

CONFIGURATION: Final = "activemq.xml"
_ELEMENT: Final = "amqPersistenceAdapter"
_BROKER: Final = "broker"
_SIZE: Final = re.compile(r"\s*(-?\d+)\s*([kmg]?)b?\s*", re.IGNORECASE)
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30}
_BEGINNING_BYTES: Final = 1 << 16
_NO_ELEMENTS: Final = re.compile(rb"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_FIRST_ELEMENT: Final = re.compile(rb"<(?:[\w.-]+:)?([\w-]+)")
_LEVELS: Final = 3
"""The configuration is in `conf/`, beside a folder so many above the store."""

MAX_FILE_BYTES: Final = 32 << 20
CLEANUP_INTERVAL_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    """As the broker's page writes it."""
    default: str
    unit: str = ""
    nothing: str = ""
    """Why it has no effect here; empty if it has one."""


_INDEX: Final = "the hash indexes are not read, and a broker makes them anew"
ATTRIBUTES: Final = (
    _Attribute("directory", "activemq-data", nothing="the path that was given counts"),
    _Attribute("useNIO", "true", nothing="the bytes are the same"),
    _Attribute("syncOnWrite", "false", nothing="each flush is synced"),
    _Attribute("maxFileLength", str(MAX_FILE_BYTES), "bytes"),
    _Attribute("persistentIndex", "true", nothing=_INDEX),
    _Attribute(
        "maxCheckpointMessageAddSize", "4096", "messages", "references are left to the broker, which replays"
    ),
    _Attribute("cleanupInterval", str(CLEANUP_INTERVAL_MS), "ms"),
    _Attribute("indexBinSize", "1024", nothing=_INDEX),
    _Attribute("indexKeySize", "96", "bytes", nothing=_INDEX),
    _Attribute("indexPageSize", "1024", "bytes", nothing=_INDEX),
    _Attribute("directoryArchive", "archive"),
    _Attribute("archiveDataLogs", "false"),
)
"""The adapter's settings of the broker's page, with the defaults of ActiveMQ 5.8."""


_OBEYED: Final = {"id", *(one.name.lower() for one in ATTRIBUTES if not one.nothing)}


@dataclass(frozen=True, slots=True)
class AmqSettings:
    """An adapter's settings in force."""

    max_file_bytes: int = MAX_FILE_BYTES
    cleanup_interval_ms: int = CLEANUP_INTERVAL_MS
    archive: Path | None = None
    """Where data logs go that nothing needs; None: they are deleted."""
    said: Mapping[str, ConfiguredValue] = field(default_factory=dict)
    """Attributes of the element as they are written, by lower-case name."""
    persistent: bool = True
    """False where the broker keeps nothing in files."""
    file: Path | None = None
    """The configuration; None: none was found."""

    def shown(self) -> Iterator[SettingInForce]:
        """Every setting in force, with where it comes from."""
        for one in ATTRIBUTES:
            said = self.said.get(one.name.lower())
            value = one.default if said is None else str(said.value)
            origin = ORIGIN_DEFAULT if said is None else f"{said.file}:{said.line}"
            yield SettingInForce(one.name, _native(value), one.unit, origin)

    def findings(self) -> Iterator[SettingFinding]:
        """Attributes that no broker knows, and those that have no effect here."""
        known = {name.lower(): name for name in AMQ_ATTRIBUTES}
        shown = {one.name.lower(): one for one in ATTRIBUTES}
        for name, said in self.said.items():
            of = f"an attribute of <{_ELEMENT}>"
            if name not in known:
                found = unknown_name(said.origin, AMQ_ATTRIBUTES, said.file, said.line, of=of)
                yield from () if found is None else (found,)
            elif name not in _OBEYED:
                reason = shown[name].nothing if name in shown else "kept for the broker"
                setting = shown[name].name if name in shown else known[name]
                yield SettingFinding(
                    NO_EFFECT, said.file, said.line, setting, f"has no effect here: {reason}"
                )
        if not self.persistent:
            reason = "is false: this broker keeps nothing in files, so it does not read this store"
            yield SettingFinding(NO_EFFECT, str(self.file), None, "persistent", reason)


def amq_settings(store: Path, environment: Mapping[str, str] | None = None) -> AmqSettings:
    """Return the settings of an AMQ Message Store: those of `--config` (`CONFIG_VARIABLE`), of the
    configuration where a distribution has it, or the defaults. Raises `ConfigError` and `SystemFailure`.
    """
    chosen = (os.environ if environment is None else environment).get(CONFIG_VARIABLE)
    if chosen and is_of_activemq_5(Path(chosen)):
        path = Path(os.path.abspath(chosen))
        base = path.parent.parent if path.parent.name == "conf" else path.parent
        return read_activemq_xml(path, base, store)
    for base in list(store.parents)[:_LEVELS]:
        path = base / "conf" / CONFIGURATION
        if door.is_file(path):
            return read_activemq_xml(path, base, store)
    return AmqSettings()


def is_of_activemq_5(path: Path) -> bool:
    """Return True when a file begins as a configuration of ActiveMQ 5: with `<beans>`, or `<broker>`."""
    try:
        beginning = read_beginning(path, _BEGINNING_BYTES)
    except SystemFailure:
        return False
    found = _FIRST_ELEMENT.search(_NO_ELEMENTS.sub(b"", beginning))
    return found is not None and found[1] in (b"beans", b"broker")


def read_activemq_xml(path: Path, base: Path, store: Path) -> AmqSettings:
    """What a file says; `base` is the broker's directory. Raises `ConfigError` and `SystemFailure`."""
    places = {"base": base, "home": base, "data": base / "data", "conf": base / "conf"}
    loader = Loader({f"activemq.{name}": str(place) for name, place in places.items()})
    root = loader.load(path)
    said: dict[str, ConfiguredValue] = {}
    for element in _every(root, _ELEMENT):
        for name, text in element.attributes.items():
            said[name.lower()] = ConfiguredValue(text, str(element.file), element.line, origin=name)
    persistent = all(one.attributes.get("persistent", "true") != "false" for one in _every(root, _BROKER))
    archive = None
    if _text(said, "archiveDataLogs", "false").strip().lower() == "true":
        archive = base / _text(said, "directoryArchive", str(store / "archive"))
    return AmqSettings(
        _number(said, "maxFileLength", MAX_FILE_BYTES, least=1),
        _number(said, "cleanupInterval", CLEANUP_INTERVAL_MS),
        archive,
        said,
        persistent,
        path,
    )


def _every(element: Element, name: str) -> Iterator[Element]:
    if element.name == name:
        yield element
    for child in element.children:
        yield from _every(child, name)


def _text(said: Mapping[str, ConfiguredValue], name: str, default: str) -> str:
    found = said.get(name.lower())
    return default if found is None else str(found.value)


def _number(said: Mapping[str, ConfiguredValue], name: str, default: int, *, least: int = 0) -> int:
    configured = said.get(name.lower())
    if configured is None:
        return default
    found = _SIZE.fullmatch(str(configured.value))
    if found is None:
        reason = f"{configured.value!r} is no number"
        raise ConfigError(configured.file, reason, line=configured.line, setting=name)
    number = int(found[1]) << _UNITS[found[2].lower()]
    if number < least:
        reason = f"{number} is below {least}"
        raise ConfigError(configured.file, reason, line=configured.line, setting=name)
    return number


def _native(text: str) -> bool | int | str:
    """A value as TOML writes it: sizes in bytes."""
    if text in ("true", "false"):
        return text == "true"
    found = _SIZE.fullmatch(text)
    return text if found is None else int(found[1]) << _UNITS[found[2].lower()]
