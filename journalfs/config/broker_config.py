"""What a broker's configuration says of a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from journalfs.config.address_settings import Value
from journalfs.config.core_settings import RETENTION_DIRECTORY, ConfiguredValue, value_in_force
from journalfs.config.database import DatabaseSettings
from journalfs.config.instance import Instance
from journalfs.config.known_names import SettingFinding
from journalfs.config.wildcards import WildcardSyntax


@dataclass(frozen=True, slots=True)
class AddressSettingMatch:
    """One `<address-setting match="...">`."""

    match: str
    values: Mapping[str, ConfiguredValue]
    """By name."""
    line: int | None
    origin: str = "broker.xml"
    """Name of the kind of file."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    file: Path
    instance: Path
    """What relative directories are relative to."""
    broker_name: str | None
    database: DatabaseSettings | None
    """Where the configuration keeps the store in a database (JDBC)."""
    core: Mapping[str, ConfiguredValue]
    """Settings of the whole broker that the file sets, by name."""
    address_settings: tuple[AddressSettingMatch, ...]
    """In the file's order, each match once."""
    wildcards: WildcardSyntax
    literal_markers: str | None
    """Two characters; a match between them is taken literally."""
    uuid_namespace: str
    """Settings of addresses that are UUIDs are looked up as `<namespace>.<uuid>`."""
    diverts: tuple[str, ...]
    """Where each stands, its name and the address that it is of."""
    warnings: tuple[str, ...]
    unknown: tuple[SettingFinding, ...] = ()
    """Names that no broker knows; each is among `warnings`, too."""
    derived_from: DatabaseSettings | None = None
    """The database that a derived store with this configuration was derived from."""
    start: Instance | None = None
    """What the start of the broker says of it; None: it was read alone."""

    def core_value(self, name: str) -> Value | None:
        """The value in force of a broker-wide setting."""
        return value_in_force(self.core, name)

    def directory(self, name: str) -> Path:
        """A `...-directory` setting in force, resolved against the instance."""
        value = self.core_value(name)
        assert isinstance(value, str), f"{name} has a default"
        return self.resolve(value)

    @property
    def retention_directory(self) -> str | None:
        value = self.core_value(RETENTION_DIRECTORY)
        return value if isinstance(value, str) else None

    def resolve(self, directory: str) -> Path:
        """Return a directory as the broker resolves it: absolute, or below the instance. One of the instance
        that this one is a copy of is this one's.
        """
        path = Path(os.path.normpath(self.instance / directory))
        return path if self.start is None else self.start.carried(path)
