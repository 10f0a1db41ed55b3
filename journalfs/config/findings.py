"""Finds what is odd about the settings of a store: names that no broker knows, settings that have no effect
here, and settings that do nothing without another.

`check` lists all of it; a mount for writing makes events of it. None of it keeps a store from being opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config import address_settings
from journalfs.config.address_settings import Value
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import strip_literal
from journalfs.config.core_settings import (
    CORE_BY_NAME,
    RETENTION_BYTES_MAX,
    RETENTION_DIRECTORY,
    RETENTION_PERIOD,
    ConfiguredValue,
    value_in_force,
)
from journalfs.config.in_force import SettingsInForce
from journalfs.config.known_names import NO_EFFECT, SettingFinding
from journalfs.config.wildcards import WildcardSyntax
from journalfs.limits import JOURNAL_WRITES_IN_FLIGHT_MAX

ALONE: Final = "setting-alone"

AIO_MAX_NR: Final = Path("/proc/sys/fs/aio-max-nr")

CORE_NO_EFFECT: Final[Mapping[str, str]] = {
    "persist-id-cache": "duplicate ids are always kept",
    "management-address": "addresses that begin with activemq.management are never full, and no other",
    "page-sync-timeout": "a writer that waits is synced at once, with all that came meanwhile",
    "journal-file-open-timeout": "a missing file is made at once",
}
"""Settings of the whole store that are kept for brokers, with the reason."""

_PLACES: Final = "read in place, a line at a time"
ADDRESS_REASONS: Final[Mapping[str, str]] = {
    "max-read-page-bytes": _PLACES,
    "max-read-page-messages": _PLACES,
    "prefetch-page-bytes": _PLACES,
    "prefetch-page-messages": _PLACES,
    "page-max-cache-size": _PLACES,
    "drop-messages-when-full": "nor in a broker; set address-full-policy",
}
_KEPT: Final = "kept for brokers"

_FULL_POLICY: Final = "page-full-policy"
_PAGE_LIMITS: Final = ("page-limit-bytes", "page-limit-messages")
_PAGE_SIZE: Final = "page-size-bytes"

Stored = Mapping[str, Mapping[str, Value]]
"""Settings of addresses in the bindings: by match, by JSON key."""


def without_effect(config: BrokerConfig | None, stored: Stored | None = None) -> list[SettingFinding]:
    """Each setting that differs from its default and changes nothing here, where it stands first."""
    found: dict[str, SettingFinding] = {}
    for name, said in config.core.items() if config is not None else ():
        default = value_in_force({}, name)
        if name in CORE_NO_EFFECT and said.value != default:
            found[name] = _finding(NO_EFFECT, name, said, f"has no effect here: {CORE_NO_EFFECT[name]}")
    for finding in _writes_in_flight(config.core) if config is not None else ():
        found[finding.setting] = finding
    for setting in config.address_settings if config is not None else ():
        for name, said in setting.values.items():
            if name not in found and _does_nothing(name, said.value):
                found[name] = _finding(NO_EFFECT, name, said, _reason(name))
    for match, values in (stored or {}).items():
        for key, value in values.items():
            definition = address_settings.BY_JSON_KEY.get(key)
            if definition is not None and definition.name not in found:
                name = definition.name
                if _does_nothing(name, value):
                    found[name] = SettingFinding(NO_EFFECT, _of_match(match), None, name, _reason(name))
    return list(found.values())


def alone(config: BrokerConfig | None, stored: Stored | None = None) -> list[SettingFinding]:
    """Each setting that does nothing because another one is missing or contradicts it, as a broker warns
    (AMQ224124, AMQ224125, AMQ224130).
    """
    return [*_core_pairs(config.core if config is not None else {}), *_page_limits(config, stored or {})]


def setting_findings(config: BrokerConfig | None, stored: Stored | None = None) -> list[SettingFinding]:
    """All that is to be said of what a configuration and the bindings set."""
    unknown = config.unknown if config is not None else ()
    return [*unknown, *alone(config, stored), *without_effect(config, stored)]


def one_event(findings: list[SettingFinding]) -> str:
    """One line about all settings without effect, by the file that they stand in."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for one in findings:
        by_file[one.file].append(one.setting if one.line is None else f"{one.setting} (line {one.line})")
    places = "; ".join(f"{file}: {', '.join(names)}" for file, names in by_file.items())
    return f"settings without effect here, kept for brokers: {places}"


def _reason(name: str) -> str:
    return f"has no effect here: {ADDRESS_REASONS.get(name, _KEPT)}"


def _does_nothing(name: str, value: Value) -> bool:
    return name in address_settings.NO_EFFECT and value != address_settings.BY_NAME[name].default


def _finding(kind: str, name: str, said: ConfiguredValue, reason: str) -> SettingFinding:
    return SettingFinding(kind, said.file, said.line, name, reason)


def _of_match(match: str) -> str:
    return f"bindings record match {match!r}"


def _writes_in_flight(core: Mapping[str, ConfiguredValue]) -> Iterator[SettingFinding]:
    """`journal-max-io` above what is ever used; with another backend `setting_warnings` tells of it."""
    name = "journal-max-io"
    said = core.get(name)
    if said is None or value_in_force(core, "journal-type") != "ASYNCIO" or not isinstance(said.value, int):
        return
    allowed = aio_max_nr()
    if allowed is not None and said.value > allowed:
        reason = f"{said.value} is more than this system allows ({AIO_MAX_NR}: {allowed})"
        yield _finding(NO_EFFECT, name, said, f"{reason}; {JOURNAL_WRITES_IN_FLIGHT_MAX} are used here")
    elif said.value > JOURNAL_WRITES_IN_FLIGHT_MAX:
        reason = f"never more than {JOURNAL_WRITES_IN_FLIGHT_MAX} writes are under way here"
        yield _finding(NO_EFFECT, name, said, reason)


def aio_max_nr() -> int | None:
    """How many asynchronous requests the system allows in all; None where it does not say."""
    try:
        return int(door.read(AIO_MAX_NR, 32))
    except (OSError, ValueError):
        return None


def _core_pairs(core: Mapping[str, ConfiguredValue]) -> Iterator[SettingFinding]:
    for name in (RETENTION_PERIOD, RETENTION_BYTES_MAX):
        if name in core and RETENTION_DIRECTORY not in core:
            reason = f"does nothing without {RETENTION_DIRECTORY}: no history is kept"
            yield _finding(ALONE, name, core[name], reason)
    free, usage = core.get("min-disk-free"), core.get("max-disk-usage")
    if free is not None and usage is not None and isinstance(free.value, int) and free.value > 0:
        usage_default = CORE_BY_NAME["max-disk-usage"].default
        if usage.value != usage_default:
            yield _finding(ALONE, "max-disk-usage", usage, "does nothing, because min-disk-free is set, too")


def _page_limits(config: BrokerConfig | None, stored: Stored) -> Iterator[SettingFinding]:
    """Of each match that says something of limits of pages: what is in force for an address that it is of."""
    in_force = SettingsInForce(config, stored)
    said: dict[str, Mapping[str, ConfiguredValue]] = {}
    for setting in config.address_settings if config is not None else ():
        said[setting.match] = setting.values
    said.update((match, _as_configured(match, values)) for match, values in stored.items())
    markers = config.literal_markers if config is not None else None
    for match, named in said.items():
        sample = strip_literal(match, markers) or _sample(match, in_force.wildcards)
        names = (_FULL_POLICY, *_PAGE_LIMITS, _PAGE_SIZE)
        for name, reason in _page_reasons({name: in_force.value(sample, name) for name in names}):
            if name in named:
                yield _finding(ALONE, name, named[name], f"for {match!r}: {reason}")


def _as_configured(match: str, values: Mapping[str, Value]) -> dict[str, ConfiguredValue]:
    """Settings of a bindings record, by their names in a file."""
    found = ((address_settings.BY_JSON_KEY.get(key), value) for key, value in values.items())
    place = _of_match(match)
    return {one.name: ConfiguredValue(value, place, None) for one, value in found if one is not None}


def _page_reasons(values: Mapping[str, Value | None]) -> Iterator[tuple[str, str]]:
    policy = values[_FULL_POLICY]
    limits = {name: value for name, value in values.items() if name in _PAGE_LIMITS and _is_limit(value)}
    if policy is not None and not limits:
        yield _FULL_POLICY, f"does nothing without {' or '.join(_PAGE_LIMITS)}"
    if policy is None:
        yield from ((name, f"does nothing without {_FULL_POLICY}") for name in limits)
    size, limit = values[_PAGE_SIZE], limits.get(_PAGE_LIMITS[0])
    if isinstance(size, int) and isinstance(limit, int) and limit < size:
        reason = (
            f"{limit} is less than one page ({_PAGE_SIZE}, {size}): the address is full with its first page"
        )
        yield _PAGE_LIMITS[0], reason


def _is_limit(value: Value | None) -> bool:
    return isinstance(value, int) and value >= 0


def _sample(match: str, syntax: WildcardSyntax) -> str:
    """The name of an address that a match is of."""
    return match.replace(syntax.any_words, "any").replace(syntax.single_word, "any")
