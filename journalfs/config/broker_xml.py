"""Reads what a store needs to know from a broker's `broker.xml`.

Read are the directories, the journal's and paging settings, wildcards and address settings; acceptors,
security and clustering are none of a store's business. A value that no broker would start with is a
`ConfigError` with file and line; an element that is not known (of a newer broker, say) leaves a warning, and
is among `BrokerConfig.unknown`, for which `create` refuses the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from journalfs.config.address_settings import BY_NAME, XML_ALIASES, Kind, SettingDefinition, parse_value
from journalfs.config.broker_config import AddressSettingMatch, BrokerConfig
from journalfs.config.core_settings import (
    CORE_BY_NAME,
    RETENTION_BYTES_MAX,
    RETENTION_DIRECTORY,
    RETENTION_PERIOD,
    ConfiguredValue,
)
from journalfs.config.database import DatabaseSettings, database_settings
from journalfs.config.files import TOML_NAME
from journalfs.config.instance import PROPERTIES, SYSTEM_PREFIX, Instance, standard_properties
from journalfs.config.known_names import (
    CORE_ELEMENTS,
    DATA_SOURCE,
    DATA_SOURCE_PROPERTIES,
    DATABASE_ELEMENTS,
    HORNETQ_ELEMENTS,
    SettingFinding,
    unknown_name,
)
from journalfs.config.masked import codec_key, unmask_if_masked
from journalfs.config.wildcards import WildcardSyntax
from journalfs.config.xmltree import Element, Loader
from journalfs.errors import ConfigError

ID_CACHE_SIZE: Final = "id-cache-size"
_NS_OF_UNIT: Final = {
    "NANOSECONDS": 1, "MICROSECONDS": 1000, "MILLISECONDS": 1_000_000, "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000, "HOURS": 3_600_000_000_000, "DAYS": 86_400_000_000_000,
}  # fmt: skip
_ADDRESS_ELEMENTS: Final = frozenset(XML_ALIASES) | {one.name for one in BY_NAME.values() if one.in_xml}
SYNTAX_ELEMENTS: Final = ("enabled", "routing-enabled", "delimiter", "any-words", "single-word")
_POSITIVE_ONLY_IN_XML: Final = frozenset({"prefetch-page-bytes", "prefetch-page-messages"})


def strip_literal(match: str, markers: str | None) -> str | None:
    """What stands between the markers of a match that is to be taken literally; None for other matches."""
    if markers is None or match[:1] != markers[0] or match[-1:] != markers[1]:
        return None
    return match[1:-1]


def read_broker_xml(
    path: Path, *, instance: Path, environment: Mapping[str, str] | None = None, start: Instance | None = None
) -> BrokerConfig:
    """Read a configuration. `instance` is the folder that holds `etc/`, or else the one that holds the file.

    `${...}` is replaced from the properties that the broker's `start` gives it and from `environment`
    (None: this process's). Raises `ConfigError` or `SystemFailure`.
    """
    given = start.properties if start is not None else standard_properties(instance, path.parent)
    environment = os.environ if environment is None else environment
    carried = Path if start is None else start.carried
    loader = Loader({**environment, **given}, bases=(instance, instance / "bin"), carried=carried)
    root = loader.load(path)
    core = root if root.name == "core" else root.find("core")
    if core is None and any(one.name in CORE_ELEMENTS for one in root.children):
        core = root  # `<configuration>` of HornetQ, and of ActiveMQ 6
    if core is None:
        raise ConfigError(
            path, "there is no <core> element; is this a broker's configuration?", line=root.line
        )
    warnings = loader.warnings
    _without_prefixed(core, warnings)
    values = _core_values(core) | _retention_limits(core)
    _with_ids_of_addresses(core, values, warnings)
    unknown = tuple(_unknown_names(core))
    config = BrokerConfig(
        file=path,
        instance=instance,
        broker_name=_text(core, "name"),
        database=_database(core, path, environment),
        core=values,
        address_settings=_address_settings(core, warnings),
        wildcards=_wildcards(core),
        literal_markers=_literal_markers(core),
        uuid_namespace=_text(core, "uuid-namespace") or _text(core, "temporary-queue-namespace") or "",
        diverts=tuple(_diverts(core)),
        warnings=(),
        unknown=unknown,
        start=start,
    )
    properties = start.etc / PROPERTIES if start is not None else path.with_name(PROPERTIES)
    if properties.is_file() or any(name.startswith(SYSTEM_PREFIX) for name in given):
        from journalfs.config.broker_properties import with_properties  # noqa: PLC0415 - few brokers have any

        config = with_properties(config, properties, loader)
    told = (*(start.warnings if start is not None else ()), *(one.text for one in unknown), *warnings)
    return replace(config, warnings=told)


def _unknown_names(core: Element) -> Iterator[SettingFinding]:
    """Each name that no broker knows, where a store's settings stand. Of other sections nothing is said:
    their names are none of a store's business.
    """
    known = CORE_ELEMENTS if core.name == "core" else CORE_ELEMENTS | HORNETQ_ELEMENTS
    yield from _unknown_children(core, known, f"an element of <{core.name}>")
    wildcards = core.find("wildcard-addresses")
    if wildcards is not None:
        yield from _unknown_children(wildcards, SYNTAX_ELEMENTS, "an element of <wildcard-addresses>")
    for section in core.every("address-settings"):
        for element in _flatten(section):
            of = f"an element of <{section.name}>"
            yield from _unknown(element, element.name, ("address-setting",), of)
            yield from _unknown_children(element, _ADDRESS_ELEMENTS, "a setting of addresses", fold=True)
    for store in core.every("store"):
        yield from _unknown_children(store, ("file-store", "database-store"), "an element of <store>")
        for database in store.every("database-store"):
            yield from _unknown_children(database, DATABASE_ELEMENTS, "an element of <database-store>")
            yield from _unknown_properties(database)


def _unknown_properties(database: Element) -> Iterator[SettingFinding]:
    """Of the pool that a broker uses unless another is named: it leaves out unknown ones without a word."""
    named = database.find("data-source-class-name")
    if named is not None and named.text not in ("", DATA_SOURCE):
        return
    for group in database.every("data-source-properties"):
        of = "an element of <data-source-properties>"
        yield from _unknown_children(group, ("data-source-property",), of)
        for one in group.every("data-source-property"):
            key = one.attributes.get("key", "")
            yield from _unknown(one, key, DATA_SOURCE_PROPERTIES, f"a property of {DATA_SOURCE}")


def _unknown_children(
    parent: Element, known: Iterable[str], of: str, *, fold: bool = False
) -> Iterator[SettingFinding]:
    for child in parent.children:
        yield from _unknown(child, child.name.lower() if fold else child.name, known, of)


def _unknown(place: Element, name: str, known: Iterable[str], of: str) -> Iterator[SettingFinding]:
    found = unknown_name(name, known, place.file, place.line, of=of, belongs=_belongs(name))
    if found is not None:
        yield found


def _belongs(name: str) -> str:
    """Where a name means something; empty if nowhere."""
    own = CORE_BY_NAME.get(name) or BY_NAME.get(name)
    if own is not None and not own.in_xml:
        return f"it belongs into {TOML_NAME}"
    if name in BY_NAME:
        return "it belongs into an <address-setting>"
    return "it belongs into <core>" if name in CORE_BY_NAME else ""


def _database(core: Element, path: Path, environment: Mapping[str, str]) -> DatabaseSettings | None:
    store = core.find("store")
    found = store.find("database-store") if store is not None else None
    if found is None:
        return None
    unmasked = partial(
        unmask_if_masked,
        key=codec_key(_text(core, "password-codec"), environment),
        always=_text(core, "mask-password") == "true",
    )
    properties = {
        one.attributes.get("key", ""): one.attributes.get("value", "")
        for group in found.every("data-source-properties")
        for one in group.every("data-source-property")
    }
    elements = {child.name: child for child in found.children}
    policy = core.find("ha-policy")
    is_shared = policy is not None and policy.find("shared-store") is not None
    return replace(database_settings(found, elements, properties, unmasked), config=path, is_shared=is_shared)


def _text(core: Element, name: str) -> str | None:
    element = core.find(name)
    return element.text if element is not None and element.text else None


def _without_prefixed(element: Element, warnings: list[str]) -> None:
    """Take out the elements that no broker sees, as it looks for names without a prefix, and warn of them."""
    for child in element.children:
        if child.is_prefixed:
            said = f"{child.file}:{child.line}: {child.name} has a prefix of a namespace"
            warnings.append(f"{said}, so no broker sees it, and it has no effect; leave the prefix out")
    element.children = [child for child in element.children if not child.is_prefixed]
    for child in element.children:
        _without_prefixed(child, warnings)


def _with_ids_of_addresses(core: Element, values: dict[str, ConfiguredValue], warnings: list[str]) -> None:
    """Take `id-cache-size` as a broker takes it: of the whole file the first element of that name, which may
    be an address's.
    """
    definition = CORE_BY_NAME[ID_CACHE_SIZE]
    first = next(_every(core, ID_CACHE_SIZE), None)
    if first is None or first in core.children:
        return
    values[ID_CACHE_SIZE] = _value(definition, first)
    told = "the first of the file, so brokers take it for all addresses; state it in core before that"
    warnings.append(f"{first.file}:{first.line}: {ID_CACHE_SIZE} of an address: {told}")


def _every(element: Element, name: str) -> Iterator[Element]:
    """All elements of a name below another, in the order of the file."""
    for child in element.children:
        if child.name == name:
            yield child
        yield from _every(child, name)


def _core_values(core: Element) -> dict[str, ConfiguredValue]:
    values: dict[str, ConfiguredValue] = {}
    for child in core.children:
        definition = CORE_BY_NAME.get(child.name)
        if definition is None or not definition.in_xml or not child.text or child.name in values:
            continue
        values[child.name] = _value(definition, child)
    return values


def _diverts(core: Element) -> Iterator[str]:
    for section in core.every("diverts"):
        for divert in section.every("divert"):
            name, address = divert.attributes.get("name", ""), _text(divert, "address") or ""
            yield f"{divert.file}:{divert.line}: divert {name} of {address}"


def _retention_limits(core: Element) -> dict[str, ConfiguredValue]:
    element = core.find(RETENTION_DIRECTORY)
    if element is None or not element.text:
        return {}
    limits: dict[str, ConfiguredValue] = {}
    unit = element.attributes.get("unit", "DAYS").upper()
    if unit not in _NS_OF_UNIT:
        raise element.error(f"unit {unit!r} is none of {', '.join(_NS_OF_UNIT)}")
    for name, attribute in ((RETENTION_PERIOD, "period"), (RETENTION_BYTES_MAX, "storage-limit")):
        text = element.attributes.get(attribute, "")
        if text.strip() in ("", "-1"):
            continue
        number = _value(CORE_BY_NAME[name], element, text)
        if name == RETENTION_PERIOD:
            assert isinstance(number.value, int)
            number = replace(number, value=number.value * _NS_OF_UNIT[unit] // 1_000_000)
        limits[name] = number
    if not limits:
        raise element.error("needs period=... or storage-limit=...")
    return limits


def _value(definition: SettingDefinition, element: Element, text: str | None = None) -> ConfiguredValue:
    """The value of an element, or of `text`, which stands in one of its attributes."""
    try:
        value = parse_value(definition, element.text if text is None else text)
    except ValueError as error:
        raise element.error(str(error)) from error
    return ConfiguredValue(value, str(element.file), element.line)


def _address_settings(core: Element, warnings: list[str]) -> tuple[AddressSettingMatch, ...]:
    matches: dict[str, AddressSettingMatch] = {}
    for section in core.every("address-settings"):
        for element in _flatten(section):
            if element.name != "address-setting":
                continue
            if "match" not in element.attributes:
                raise element.error('needs match="..."')
            match = element.attributes["match"]
            place = f"{element.file}:{element.line}"
            if not match:
                warnings.append(f'{place}: match="" is for no address; # is for all')
            if match in matches:
                warnings.append(f"{place}: a second address-setting for {match!r} is ignored")
                continue
            matches[match] = AddressSettingMatch(match, _match_values(element), element.line)
    syntax, markers = _wildcards(core), _literal_markers(core)
    for match, setting in matches.items():
        if not syntax.is_valid(strip_literal(match, markers) or match):
            reason = f"in {match!r}, {syntax.any_words!r} may stand at the end only"
            raise ConfigError(core.file, reason, line=setting.line, setting="address-setting")
    return tuple(matches.values())


def _flatten(section: Element) -> list[Element]:
    # An included file's root takes the place of the include: it may itself be <address-settings>.
    flat: list[Element] = []
    for child in section.children:
        flat.extend(_flatten(child) if child.name == "address-settings" else [child])
    return flat


def _match_values(element: Element) -> dict[str, ConfiguredValue]:
    values: dict[str, ConfiguredValue] = {}
    for child in element.children:
        name = XML_ALIASES.get(child.name.lower(), child.name.lower())
        definition = BY_NAME.get(name)
        if definition is None or not definition.in_xml:
            continue  # `_unknown_names` tells of it
        configured = _value(definition, child)
        # In the file, but not in JSON, zero or less here means: not set.
        unset = name in _POSITIVE_ONLY_IN_XML and isinstance(configured.value, int) and configured.value <= 0
        if not unset:
            values[name] = configured
    return values


def _wildcards(core: Element) -> WildcardSyntax:
    element = core.find("wildcard-addresses")
    if element is None:
        return WildcardSyntax()
    default = WildcardSyntax()
    return WildcardSyntax(
        delimiter=_character(element, "delimiter", default.delimiter),
        any_words=_character(element, "any-words", default.any_words),
        single_word=_character(element, "single-word", default.single_word),
        routes=_routes(element, default=default.routes),
    )


def _routes(element: Element, *, default: bool) -> bool:
    """The last of two names of the same wins. What stands outside, `wild-card-routing-enabled`, a broker does
    not read as an element.
    """
    for name in ("enabled", "routing-enabled"):
        found = element.find(name)
        if found is not None:
            default = bool(_value(SettingDefinition(name, name, Kind.BOOLEAN, default), found).value)
    return default


def _character(element: Element, name: str, default: str) -> str:
    return (_text(element, name) or default)[0]


def _literal_markers(core: Element) -> str | None:
    element = core.find("literal-match-markers")
    if element is None or not element.text:
        return None
    if len(element.text) != 2:
        raise element.error(f"{element.text!r} must be two characters, as in ()")
    return element.text
