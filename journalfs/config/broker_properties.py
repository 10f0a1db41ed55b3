"""`broker.properties`: settings that a broker takes over from broker.xml, by the names of its Java beans.

    journalDirectory=/srv/journal
    addressSettings."orders.#".maxDeliveryAttempts=3

`artemis run` reads the file in `etc` by itself. System properties that begin with `brokerconfig.` do the
same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from journalfs import limits
from journalfs.config.address_settings import BY_JSON_KEY, SettingDefinition, parse_value
from journalfs.config.broker_config import AddressSettingMatch, BrokerConfig
from journalfs.config.core_settings import CORE_BY_NAME, CORE_SETTINGS, ConfiguredValue
from journalfs.config.database import DatabaseSettings, database_settings, overruled
from journalfs.config.files import read_beginning
from journalfs.config.instance import PROPERTIES, SYSTEM_PREFIX
from journalfs.config.masked import codec_key, unmask_if_masked
from journalfs.config.xmltree import Element, Loader
from journalfs.errors import ConfigError

ORIGIN: Final = PROPERTIES
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_PART: Final = re.compile(r'"([^"]*)"|([^."]+)')
_ELSEWHERE: Final = (
    "addressConfigurations",
    "acceptorConfigurations",
    "connectorConfigurations",
    "securityRoles",
)
"""What of a broker no store knows, or makes only when it starts."""


def _bean(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)


_UPPER: Final = re.compile(r"[A-Z]")
_BEANS: Final = {
    **{_bean(definition.name): definition for definition in CORE_SETTINGS},
    "IDCacheSize": CORE_BY_NAME["id-cache-size"],
    "iDCacheSize": CORE_BY_NAME["id-cache-size"],
    "persistIDCache": CORE_BY_NAME["persist-id-cache"],
}
_BY_JOURNAL_TYPE: Final = {
    "journalBufferTimeout": CORE_BY_NAME["journal-buffer-timeout"],
    "journalBufferSize": CORE_BY_NAME["journal-buffer-size"],
    "journalMaxIO": CORE_BY_NAME["journal-max-io"],
}


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    value: str
    file: Path
    line: int
    """0: it is no line of the file."""


def with_properties(config: BrokerConfig, file: Path, loader: Loader) -> BrokerConfig:
    """`config` as the file, if there is one, and system properties overrule it. Raises `ConfigError` with the
    line of a value that no broker takes, and `SystemFailure`; of names that are not known it warns.
    """
    entries = [
        _Entry(key.removeprefix(SYSTEM_PREFIX), value, config.file, 0)
        for key, value in loader.properties.items()
        if key.startswith(SYSTEM_PREFIX)
    ]
    if file.is_file():
        text = read_beginning(file, limits.BROKER_XML_BYTES_MAX).decode("latin-1")
        found = _entries(text, file)
        entries = [
            *(replace(one, value=loader.substitute(one.value, file, one.line)) for one in found),
            *entries,
        ]
    core, warnings = dict(config.core), loader.warnings
    stored: dict[str, Element] = {}
    matches = {setting.match: setting for setting in config.address_settings}
    journal_type = next((one.value for one in entries if one.key == "journalType"), None)
    journal_type = journal_type or str(config.core_value("journal-type"))
    for entry in entries:
        match [quoted or plain for quoted, plain in _PART.findall(entry.key)]:
            case [("addressSettings" | "addressesSettings"), *match, name] if match and name in BY_JSON_KEY:
                _set_of_address(matches, ".".join(match), BY_JSON_KEY[name], entry)
            case [name] if (definition := _definition(name, journal_type)) is not None:
                core[definition.name] = _value(definition, entry)
            case ["storeConfiguration", *rest]:
                name = _UPPER.sub(lambda found: f"-{found[0].lower()}", rest[0] if rest else "")
                stored[name] = Element(name, entry.file, entry.line, text=entry.value)
            case [first, *_] if first in _ELSEWHERE or first.partition("_")[0] in _BY_JOURNAL_TYPE:
                pass
            case _:
                place = f"{entry.file}:{entry.line}" if entry.line else SYSTEM_PREFIX
                warnings.append(f"{place}: {entry.key} is not known here and has no effect")
    config = replace(config, core=core, address_settings=tuple(matches.values()))
    return replace(config, database=_database(config, stored)) if stored else config


def _database(config: BrokerConfig, stored: dict[str, Element]) -> DatabaseSettings | None:
    """What `storeConfiguration` and its properties say, over what the XML does."""
    kind = stored.get("")
    if kind is not None and kind.text == "FILE":
        return None
    unmasked = partial(unmask_if_masked, key=codec_key(None, os.environ))
    if "jdbc-connection-url" in stored or config.database is None:
        place = next(iter(stored.values()))
        settings = database_settings(place, stored, {}, unmasked)
        return replace(settings, config=config.file)
    return overruled(config.database, stored, unmasked)


def _definition(name: str, journal_type: str) -> SettingDefinition | None:
    stem, _, kind = name.partition("_")
    if kind:
        of_type = "AIO" if journal_type == "ASYNCIO" else "NIO"
        return _BY_JOURNAL_TYPE.get(stem) if kind == of_type else None
    return _BEANS.get(name)


def _set_of_address(
    matches: dict[str, AddressSettingMatch], match: str, definition: SettingDefinition, entry: _Entry
) -> None:
    value = _value(definition, entry)
    known = matches.get(match) or AddressSettingMatch(match, {}, entry.line or None, ORIGIN)
    matches[match] = replace(known, values={**known.values, definition.name: value}, origin=ORIGIN)


def _value(definition: SettingDefinition, entry: _Entry) -> ConfiguredValue:
    try:
        value = parse_value(definition, entry.value)
    except ValueError as error:
        raise ConfigError(entry.file, str(error), line=entry.line or None, setting=entry.key) from error
    return ConfiguredValue(value, str(entry.file), entry.line or None, ORIGIN)


def _entries(text: str, file: Path) -> Iterator[_Entry]:
    """As Java reads such a file: comments, lines that go on behind a backslash, escapes."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while len(logical) - len(logical.rstrip("\\")) & 1:
            logical = logical[:-1] + next(lines, (0, ""))[1].lstrip(" \t\f")
        found = _ENTRY.fullmatch(logical)
        if found is not None:
            yield _Entry(_unescaped(found[1]), _unescaped(found[2]), file, number)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _CONTROLS.get(found[2], found[2]), text
    )
