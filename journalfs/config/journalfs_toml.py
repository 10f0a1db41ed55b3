"""`journalfs.toml`: settings of a store in its data directory, under the broker's names.

    journal-type = "NIO"
    journal-file-size = "1M"

    [address-settings."orders.#"]
    max-delivery-attempts = 3

For a store that no broker.xml belongs to, or to overrule one: each setting, and each match of an address
setting as a whole. Relative directories are relative to the file. Every mistake is an error with its line:
unlike broker.xml, this file is read by nobody else.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tomli_w

from journalfs import limits
from journalfs.config.address_settings import BY_NAME, SettingDefinition, Value, native_value, parse_value
from journalfs.config.broker_config import AddressSettingMatch, BrokerConfig
from journalfs.config.core_settings import CORE_BY_NAME, ConfiguredValue
from journalfs.config.files import TOML_NAME, read_beginning
from journalfs.config.wildcards import ROUTING, SYNTAX_FIELDS, WILDCARDS, WildcardSyntax
from journalfs.errors import ConfigError
from journalfs.limits import TOML_BYTES_MAX, TOML_NESTED_MAX

# TOML that a stranger may have written, read within bounds.

_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


class NoToml(ValueError):  # noqa: N818 - what was found
    """What is wrong, and in which line, as far as that is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line

    def __str__(self) -> str:
        return self.reason if self.line is None else f"{self.reason} (line {self.line})"


def load_toml(raw: bytes) -> dict[str, Any]:
    """Parse TOML. Raises `NoToml`, whatever it is."""
    if len(raw) > TOML_BYTES_MAX:
        raise NoToml(f"more than {TOML_BYTES_MAX} bytes are not read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoToml("is not UTF-8 text", raw.count(b"\n", 0, error.start) + 1) from error
    for number, line in enumerate(text.split("\n"), start=1):
        names = line.partition("=")[0]
        if max(names.count("."), line.count("["), line.count("{")) > TOML_NESTED_MAX:
            raise NoToml("is not TOML of settings: nested too deeply", number)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise NoToml("is not TOML of settings: nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        if found is None:
            raise NoToml(f"is not TOML: {error}") from error
        last = max(1, len(raw.splitlines()))
        raise NoToml(f"is not TOML: {found[1]}", int(found[2]) if found[2] else last) from error
    except ValueError as error:  # a number of thousands of digits
        raise NoToml(f"is not TOML of settings: {str(error).partition(';')[0]}") from error


_ADDRESSES: Final = "address-settings"
_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS: Final = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_TABLE: Final = re.compile(rf"\s*\[\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]\s*(?:#.*)?")


def read_journalfs_toml(file: Path, base: BrokerConfig | None = None) -> BrokerConfig:
    """What is configured by the file and, where it says nothing, by `base`. Raises `ConfigError` with the
    line, and `SystemFailure`.
    """
    return _Reader(file, base).config()


def settings_text(
    settings: Mapping[str, Value], addresses: Mapping[str, Mapping[str, Value]] | None = None
) -> str:
    """A file that sets just these: of the whole store, and of addresses by match."""
    tables = {_ADDRESSES: {match: dict(values) for match, values in addresses.items()}} if addresses else {}
    return tomli_w.dumps({**settings, **tables})


def parse_setting(assignment: str) -> tuple[str | None, str, Value]:
    """One setting given as `name=value` on a command line, or as `match:name=value` one of addresses: the
    match, its name and value. Raises `ValueError` that says what is wrong.
    """
    place, separator, text = assignment.partition("=")
    match, colon, name = place.rpartition(":")
    known, name = BY_NAME if colon else CORE_BY_NAME, name.strip()
    definition = known.get(name)
    if definition is None:
        raise ValueError(_unknown(name, known))
    if not separator:
        raise ValueError(f"{place}: give it as {place}=VALUE")
    if colon and not match:
        raise ValueError(f"{place}: give it as MATCH:{name}=VALUE, as in '#:{name}={text}'")
    try:
        return match if colon else None, definition.name, parse_value(definition, text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


class _Reader:
    def __init__(self, file: Path, base: BrokerConfig | None) -> None:
        self.file = file
        self._base = base or _nothing(file)
        raw = read_beginning(file, limits.TOML_BYTES_MAX + 1)
        try:
            self._content = load_toml(raw)
        except NoToml as error:
            raise ConfigError(file, error.reason, line=error.line) from error
        self._lines = _lines_of_keys(raw.decode("utf-8"))
        self._syntax = self._wildcards(self._content.pop(WILDCARDS, {}))

    def config(self) -> BrokerConfig:
        addresses = self._content.pop(_ADDRESSES, {})
        if not isinstance(addresses, dict):
            raise self._mistake((_ADDRESSES,), 'is a table of matches: [address-settings."orders.#"]')
        base = self._base
        matches = {setting.match: setting for setting in base.address_settings}
        matches.update((match, self._match(match, table)) for match, table in addresses.items())
        core = {**base.core, **self._values(CORE_BY_NAME, self._content, ())}
        found = tuple(matches.values())
        return replace(base, core=core, address_settings=found, wildcards=self._syntax)

    def _wildcards(self, table: Any) -> WildcardSyntax:
        """What the table says, and otherwise `base`."""
        if not isinstance(table, dict):
            raise self._mistake((WILDCARDS,), f"is a table: [{WILDCARDS}]")
        said: dict[str, Any] = {}
        for name, value in table.items():
            if name not in SYNTAX_FIELDS:
                raise self._mistake((WILDCARDS, name), _unknown(name, SYNTAX_FIELDS))
            if name == ROUTING and not isinstance(value, bool):
                raise self._mistake((WILDCARDS, name), f"{value!r} is not true or false")
            if name != ROUTING and not (isinstance(value, str) and len(value) == 1):
                raise self._mistake((WILDCARDS, name), f"{value!r} is not one character")
            said[SYNTAX_FIELDS[name]] = value
        syntax = replace(self._base.wildcards, **said)
        if len({syntax.delimiter, syntax.any_words, syntax.single_word}) < 3:
            raise self._mistake((WILDCARDS,), "needs three different characters")
        return syntax

    def _match(self, match: str, table: Any) -> AddressSettingMatch:
        place = (_ADDRESSES, match)
        if not isinstance(table, dict):
            raise self._mistake(place, f'is a table: [address-settings."{match}"]')
        syntax = self._syntax
        if not syntax.is_valid(match):
            raise self._mistake(place, f"{syntax.any_words!r} may stand at the end only")
        return AddressSettingMatch(
            match, self._values(BY_NAME, table, place), self._line(place), origin=TOML_NAME
        )

    def _values(
        self, known: Mapping[str, SettingDefinition], table: Mapping[str, Any], within: tuple[str, ...]
    ) -> dict[str, ConfiguredValue]:
        values: dict[str, ConfiguredValue] = {}
        for name, found in table.items():
            place = (*within, name)
            definition = known.get(name)
            if definition is None:
                raise self._mistake(place, _unknown(name, known))
            try:
                value = native_value(definition, found)
            except ValueError as error:
                raise self._mistake(place, str(error)) from error
            values[name] = ConfiguredValue(value, str(self.file), self._line(place), TOML_NAME)
        return values

    def _line(self, place: tuple[str, ...]) -> int | None:
        return self._lines.get(place)

    def _mistake(self, place: tuple[str, ...], reason: str) -> ConfigError:
        return ConfigError(self.file, reason, line=self._line(place), setting=place[-1])


def _nothing(file: Path) -> BrokerConfig:
    return BrokerConfig(
        file=file,
        instance=file.parent,
        broker_name=None,
        database=None,
        core={},
        address_settings=(),
        wildcards=WildcardSyntax(),
        literal_markers=None,
        uuid_namespace="",
        diverts=(),
        warnings=(),
    )


def _lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """Where each key and table stands first. The library does not say; a key that is written in an unusual
    way, inside an inline table for instance, is not found.
    """
    places: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _TABLE.fullmatch(line)
        found = header or _KEYS.match(line)
        if found is None:
            continue
        try:
            parts = _split(found[1])
        except tomllib.TOMLDecodeError:
            continue  # inside a text of many lines, which may look like anything
        place = parts if header else table + parts
        table = parts if header else table
        for length in range(1, len(place) + 1):
            places.setdefault(place[:length], number)
    return places


def _split(dotted: str) -> tuple[str, ...]:
    parts = []
    table: Any = tomllib.loads(f"{dotted} = 0")
    while isinstance(table, dict):
        ((name, table),) = table.items()
        parts.append(name)
    return tuple(parts)


def _unknown(name: str, known: Iterable[str]) -> str:
    if name in BY_NAME and name not in known:
        table = f'[{_ADDRESSES}."MATCH"]'
        return (
            f"{name!r} is a setting of addresses: set it under {table} in {TOML_NAME}, as MATCH:{name}=VALUE "
            f"where a store is made, or as user.journalfs.{name} of an address's directory"
        )
    if name in CORE_BY_NAME and name not in known:
        return f"{name!r} is a setting of the whole store: set it outside all tables"
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
