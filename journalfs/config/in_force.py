"""The address settings in force for an address, and where each one comes from.

What the broker does: for each match there is one set of settings, that of the bindings journal if it has
one (management wrote it there), else that of broker.xml. Of all matches that apply to an address, the more
specific ones win setting by setting; what none sets has its default. Two settings have theirs where the most
specific match does not set them (`NOT_INHERITED`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import tomli_w

from journalfs.config import address_settings
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import strip_literal
from journalfs.config.core_settings import CORE_SETTINGS, value_in_force
from journalfs.config.wildcards import Pattern, WildcardSyntax, compile_pattern, most_specific_first

ORIGIN_DEFAULT: Final = "default"
ADDRESSES_KNOWN_MAX: Final = 4096
_QUEUE_SEPARATOR: Final = "::"
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class SettingInForce:
    name: str
    value: address_settings.Value | None
    """None: not set, and there is no default."""
    unit: str
    origin: str
    """`default`, `broker.xml`, `broker.xml match 'x'`, the same with `journalfs.toml`, or `bindings record
    match 'x'`.
    """


@dataclass(frozen=True, slots=True)
class _Source:
    values: Mapping[str, address_settings.Value]
    origin: str


class SettingsInForce:
    """Answers for one store. `stored` holds the bindings journal's settings: match -> JSON key -> value."""

    def __init__(
        self, config: BrokerConfig | None, stored: Mapping[str, Mapping[str, address_settings.Value]]
    ) -> None:
        self._config = config
        self._syntax = config.wildcards if config is not None else WildcardSyntax()
        self._literal_markers = config.literal_markers if config is not None else None
        self._exact: dict[str, _Source] = {}
        self._literal: dict[str, _Source] = {}
        self._wild: dict[str, _Source] = {}
        self._found: dict[str, list[_Source]] = {}
        """What applies to addresses that were asked for."""
        self.warnings: list[str] = []
        for setting in config.address_settings if config is not None else ():
            values = {name: configured.value for name, configured in setting.values.items()}
            self._add(setting.match, _Source(values, f"{setting.origin} match {setting.match!r}"))
        for match, by_key in stored.items():
            self._add(match, _Source(self._known(match, by_key), f"bindings record match {match!r}"))
        self._patterns: list[Pattern] = most_specific_first(
            [compile_pattern(match, self._syntax) for match in self._wild]
        )

    @property
    def wildcards(self) -> WildcardSyntax:
        return self._syntax

    def address(self, address: str) -> tuple[SettingInForce, ...]:
        """Every setting there is, in a fixed order."""
        sources = self._sources(address)
        return tuple(
            self._setting(definition.name, sources) for definition in address_settings.ADDRESS_SETTINGS
        )

    def value(self, address: str, name: str) -> address_settings.Value | None:
        """One setting's value for `address`."""
        return self._setting(name, self._sources(address)).value

    def texts(self, name: str) -> list[str]:
        """Each text that a setting has for some address, once."""
        sources = (*self._exact.values(), *self._literal.values(), *self._wild.values())
        found = (source.values.get(name) for source in sources)
        return list(dict.fromkeys(value for value in found if isinstance(value, str) and value))

    def core(self) -> tuple[SettingInForce, ...]:
        """The broker-wide settings."""
        core = self._config.core if self._config is not None else {}
        in_force = []
        for definition in CORE_SETTINGS:
            configured = core.get(definition.name)
            value = value_in_force(core, definition.name)
            origin = ORIGIN_DEFAULT if configured is None else configured.origin
            in_force.append(SettingInForce(definition.name, value, definition.unit, origin))
        return tuple(in_force)

    def _add(self, match: str, source: _Source) -> None:
        literal = strip_literal(match, self._literal_markers)
        key = self._lookup_key(match if literal is None else literal)
        if literal is not None:
            self._literal[key] = source
        elif self._syntax.is_wild(key):
            if not self._syntax.is_valid(key):
                self.warnings.append(
                    f"{source.origin}: {self._syntax.any_words!r} may stand at the end only; ignored"
                )
                return
            self._wild[key] = source
        else:
            self._exact[key] = source

    def _known(
        self, match: str, by_key: Mapping[str, address_settings.Value]
    ) -> dict[str, address_settings.Value]:
        values: dict[str, address_settings.Value] = {}
        for key, value in by_key.items():
            definition = address_settings.BY_JSON_KEY.get(key)
            if definition is None or not address_settings.accepts(definition, value):
                self.warnings.append(f"bindings record match {match!r}: {key} = {value!r} has no effect")
            else:
                values[definition.name] = value
        return values

    def _sources(self, address: str) -> list[_Source]:
        found = self._found.get(address)
        if found is None:
            key = self._lookup_key(address)
            found = [where[key] for where in (self._exact, self._literal) if key in where]
            found.extend(self._wild[pattern.match] for pattern in self._patterns if pattern.applies_to(key))
            if len(self._found) >= ADDRESSES_KNOWN_MAX:
                self._found.clear()
            self._found[address] = found
        return found

    def _lookup_key(self, address: str) -> str:
        name = address.partition(_QUEUE_SEPARATOR)[0]
        namespace = self._config.uuid_namespace if self._config is not None else ""
        if namespace and _UUID.fullmatch(name):
            return f"{namespace}{self._syntax.delimiter}{name}"
        return name

    def _setting(self, name: str, sources: list[_Source]) -> SettingInForce:
        definition = address_settings.BY_NAME[name]
        for source in sources:
            if name in source.values:
                return SettingInForce(name, source.values[name], definition.unit, source.origin)
            if name in address_settings.NOT_INHERITED:
                break
        if definition.derived is not None:
            other, factor = definition.derived
            base = self._setting(other, sources).value
            assert isinstance(base, int), f"{other} is a number"
            return SettingInForce(name, factor * base, definition.unit, ORIGIN_DEFAULT)
        default = definition.default
        if name == "id-cache-size" and self._config is not None:
            default = self._config.core_value(name)
        return SettingInForce(name, default, definition.unit, ORIGIN_DEFAULT)


def settings_toml(settings: Iterable[SettingInForce]) -> str:
    """TOML, one line a setting with its origin and unit as a comment; a setting without a value is a
    comment only.
    """
    lines = []
    for setting in settings:
        note = ", ".join(part for part in (setting.unit, setting.origin) if part)
        if setting.value is None:
            lines.append(f"# {setting.name} is not set ({note})")
        else:
            assignment = toml({setting.name: setting.value}).rstrip("\n")
            lines.append(f"{assignment}  # {_one_line(note)}")
    return "".join(f"{line}\n" for line in lines)


def toml(settings: Mapping[str, object]) -> str:
    """As TOML, which holds no lone surrogates."""
    return tomli_w.dumps(
        {
            name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for name, value in settings.items()
        }
    )


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
