"""Where the configuration of a broker instance is: found as `bin/artemis run` finds it.

The script and `etc/artemis.profile` say where `etc` is, where data lies, and which properties there are;
`bootstrap.xml` in `etc` names the configuration, which is `broker.xml` unless it says otherwise; beside it
`broker.properties` overrules it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from journalfs.config.shell import Script, variables_for
from journalfs.errors import ConfigError, SystemFailure

BOOTSTRAP: Final = "bootstrap.xml"
PROPERTIES: Final = "broker.properties"
SYSTEM_PREFIX: Final = "brokerconfig."
"""Of properties that do what those in `broker.properties` do."""
CONFIGURATION: Final = "broker.xml"
_PROFILE: Final = "artemis.profile"
_SETS: Final = frozenset(("ARTEMIS_INSTANCE", "ARTEMIS_INSTANCE_ETC", "ARTEMIS_DATA_DIR", "JAVA_ARGS"))


@dataclass(frozen=True, slots=True)
class Instance:
    folder: Path
    etc: Path
    configuration: Path
    properties: Mapping[str, str]
    """Those that the start gives to the broker, `-Dname=value`."""
    warnings: tuple[str, ...] = ()


def find_instance(folder: Path, environment: Mapping[str, str]) -> Instance | None:
    """The instance in a folder, or that of an `etc` or a configuration on its own; None: there is none.
    Raises `ConfigError` and `SystemFailure`.
    """
    script, profile = folder / "bin" / "artemis", folder / "etc" / _PROFILE
    if not script.is_file() and not profile.is_file():
        if any((folder / "etc" / name).is_file() for name in (BOOTSTRAP, CONFIGURATION)):
            return of_etc(folder, folder / "etc", {}, Script({}))
        if any((folder / name).is_file() for name in (BOOTSTRAP, CONFIGURATION)):
            return of_etc(folder.parent if folder.name == "etc" else folder, folder, {}, Script({}))
        return None
    started = Script(variables_for(folder, folder / "etc", environment), elsewhere=folder / "etc")
    try:
        started.run(script if script.is_file() else profile)
    except SystemFailure as error:
        started.unreadable.append(str(error))
    return of_etc(folder, _etc_of(folder, started), _properties_of(started), started)


def of_etc(folder: Path, etc: Path, properties: Mapping[str, str], started: Script) -> Instance:
    warnings = [*started.unreadable]
    for name in sorted(started.unknown & _SETS):
        warnings.append(f"{started.files[-1]}: what {name} is takes running it, so it is not known here")
    said = started.variables.get("ARTEMIS_INSTANCE", str(folder))
    base = folder
    if not _same(Path(said), folder):
        # A copy of an instance still names the place it was copied from, whose store is not the one meant.
        if Path(said).is_dir() and not (folder / "data").is_dir():
            base = Path(said)
        else:
            warnings.append(f"{started.files[-1]}: ARTEMIS_INSTANCE is {said}; {folder} is used in its place")
    found = {**standard_properties(base, etc), **properties, "artemis.instance": str(base)}
    data = started.variables.get("ARTEMIS_DATA_DIR")
    if data:
        found["data.dir"] = str(_beside(base, Path(said), Path(data)))
    configuration = etc / CONFIGURATION
    bootstrap = etc / BOOTSTRAP
    if bootstrap.is_file():
        try:
            configuration = _named_by(bootstrap, found, base) or configuration
        except (ConfigError, SystemFailure) as error:
            warnings.append(f"{error}; {configuration} is read")
    if not configuration.is_file():
        raise ConfigError(configuration, "is the broker's configuration by what starts it, and is no file")
    return Instance(base, etc, configuration, found, tuple(warnings))


def _etc_of(folder: Path, started: Script) -> Path:
    uri = started.variables.get("ARTEMIS_INSTANCE_ETC_URI", "")
    path = "/" + uri.removeprefix("file:").lstrip("/")
    said = (unquote(path), path) if uri else (started.variables.get("ARTEMIS_INSTANCE_ETC", ""),)
    return next((one for one in map(Path, said) if one.is_absolute() and one.is_dir()), folder / "etc")


def _properties_of(started: Script) -> dict[str, str]:
    """As of the command that the script ends with, or without it of the variables that become part of it."""
    words = started.last or [
        word
        for name in ("JAVA_ARGS", "ARTEMIS_CLUSTER_PROPS", "JAVA_ARGS_APPEND")
        for word in started.words(name)
    ]
    given = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in given}


def standard_properties(folder: Path, etc: Path) -> dict[str, str]:
    return {
        "artemis.instance": str(folder),
        "artemis.instance.etc": str(etc),
        "artemis.instance.etc.uri": etc.as_uri() + "/",
        "artemis.instance.uri": folder.as_uri() + "/",
        "data.dir": str(folder / "data"),
    }


def _beside(folder: Path, said: Path, data: Path) -> Path:
    """A data directory of a copy lies in the copy."""
    if data.is_relative_to(said):
        return folder / data.relative_to(said)
    return folder / data


def _named_by(bootstrap: Path, properties: Mapping[str, str], folder: Path) -> Path | None:
    """The file that is named by an address, as Java takes it, or by a path."""
    from journalfs.config.xmltree import Loader  # noqa: PLC0415 - most stores have no configuration

    server = Loader(properties).load(bootstrap).find("server")
    named = server.attributes.get("configuration", "") if server is not None else ""
    path = Path("/" * named.startswith(("/", "file:/")), unquote(named.removeprefix("file:")).lstrip("/"))
    return (
        next((one for base in (bootstrap.parent, folder) if (one := base / path).is_file()), path)
        if named
        else None
    )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
