"""Where the configuration of a broker instance is: found as `bin/artemis run` finds it.

The script and `etc/artemis.profile` say where `etc` is, where data lies, and which properties there are;
`bootstrap.xml` in `etc` names the configuration, which is `broker.xml` unless it says otherwise; beside it
`broker.properties` overrules it.

An instance's own files name the directory in which it was made. In a copied or moved one all of these paths
are carried over to the directory that was given: a path that is left would lead to the original.
"""

from __future__ import annotations

import os
import re
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


_OF_BROKERS: Final = (_PROFILE, BOOTSTRAP, CONFIGURATION)


@dataclass(frozen=True, slots=True)
class Instance:
    folder: Path
    etc: Path
    configuration: Path
    properties: Mapping[str, str]
    """Those that the start gives to the broker, `-Dname=value`."""
    warnings: tuple[str, ...] = ()
    made_at: Path | None = None
    """Where its files say that it is, if that is another directory; None: here, or they do not say."""

    def carried(self, path: Path) -> Path:
        """Return a path that the instance's files name, as it is in this instance."""
        return _carried(path, self.made_at, self.folder)


def find_instance(
    folder: Path, environment: Mapping[str, str], *, said: Path | None = None
) -> Instance | None:
    """Return the instance in a folder, or that of an `etc` or a configuration on its own; None: there is
    none. `said`: its configuration, said by hand: then nothing depends on what its other files name. Raises
    `ConfigError` and `SystemFailure`.
    """
    script, own = folder / "bin" / "artemis", folder / "etc"
    if not script.is_file() and not (own / _PROFILE).is_file():
        if any((own / name).is_file() for name in (BOOTSTRAP, CONFIGURATION)):
            return _of_etc(folder, own, Script({}), said)
        if any((folder / name).is_file() for name in (BOOTSTRAP, CONFIGURATION)):
            return _of_lone_etc(folder, environment, said)
        found = said if said is not None and said.name in OLDER else _older_configuration(folder)
        return None if found is None else _of_older(found)
    # What the instance has itself goes before what its script names: in a copy that is the original's.
    is_own = any((own / name).is_file() for name in _OF_BROKERS)
    kept = {"ARTEMIS_INSTANCE", "ARTEMIS_INSTANCE_ETC"} if is_own else {"ARTEMIS_INSTANCE"}
    started = Script(variables_for(folder, own, environment), elsewhere=own, kept=frozenset(kept))
    try:
        started.run(script if script.is_file() else own / _PROFILE)
    except SystemFailure as error:
        started.unreadable.append(str(error))
    return _of_etc(folder, own if is_own else _etc_of(folder, started), started, said)


# HornetQ and ActiveMQ 6: `config/stand-alone/non-clustered/hornetq-configuration.xml`, started from `bin`.

OLDER: Final = ("hornetq-configuration.xml", "activemq-configuration.xml")
_PLACES: Final = (".", "etc", "config/stand-alone/non-clustered", "config/non-clustered", "config")
"""Where such a broker has it; a distribution has others, for clusters, that its start does not name."""


def _older_configuration(folder: Path) -> Path | None:
    files = (folder / place / name for place in _PLACES for name in OLDER)
    return next((file for file in files if file.is_file()), None)


def _of_older(file: Path) -> Instance:
    """Return the instance of a HornetQ: its directories are relative to its `bin`, from which it starts."""
    config = next((one for one in file.parents if one.name == "config"), None)
    beside = file.parent.parent if file.parent.name in ("etc", "conf") else file.parent
    home = config.parent if config is not None else beside
    started_in = home / "bin" if (home / "bin").is_dir() else home
    return Instance(started_in, file.parent, file, {"data.dir": str(home / "data")})


def _of_lone_etc(etc: Path, environment: Mapping[str, str], said: Path | None) -> Instance:
    """Return the instance of an `etc` that was given itself."""
    if etc.name == "etc":
        found = find_instance(etc.parent, environment, said=said)
        if found is not None and _same(found.etc, etc):
            return found
        return _of_etc(etc.parent, etc, Script({}), said)
    return _of_etc(etc, etc, Script({}), said)


def _of_etc(folder: Path, etc: Path, started: Script, said: Path | None) -> Instance:
    """Return the instance that a start script, as far as it was read, begins. Raises `ConfigError`."""
    warnings = [*started.unreadable]
    for name in sorted(started.unknown & _SETS):
        warnings.append(f"{started.files[-1]}: what {name} is takes running it, so it is not known here")
    made_at = _made_at(folder, etc, started)
    if made_at is not None:
        warnings.append(
            f"{started.files[-1]}: the instance was made as {made_at}; what its files name there is looked "
            f"for in {folder}"
        )
    properties = {
        name: _carried_text(value, made_at, folder) for name, value in _properties_of(started).items()
    }
    found = {**standard_properties(folder, etc), **properties, "artemis.instance": str(folder)}
    data = started.variables.get("ARTEMIS_DATA_DIR")
    if data:
        found["data.dir"] = str(folder / _carried(Path(data), made_at, folder))
    configuration = said
    if configuration is None:
        is_known = made_at is None and "ARTEMIS_INSTANCE" in started.said
        configuration, told = _configuration(folder, etc, found, made_at, is_known)
        warnings += told
    return Instance(folder, etc, configuration, found, tuple(warnings), made_at)


def _configuration(
    folder: Path, etc: Path, properties: Mapping[str, str], made_at: Path | None, is_known: bool
) -> tuple[Path, list[str]]:
    """Return the file that `bootstrap.xml` names, or its namesake in `etc`, and what is to be said of that.
    `is_known`: the instance is where its files say. Raises `ConfigError` where there is neither.
    """
    bootstrap, configuration, told = etc / BOOTSTRAP, etc / CONFIGURATION, []
    if bootstrap.is_file():
        try:
            named = _named_by(bootstrap, properties)
        except (ConfigError, SystemFailure) as error:
            named, told = None, [f"{error}; {configuration} is read"]
        if named is not None:
            own = etc / re.split(r"[/\\]", named)[-1]
            path = _carried(Path(named), made_at, folder)
            found = next((one for base in (etc, folder) if (one := base / path).is_file()), None)
            # A file elsewhere may be the original's, whose settings a copy must not run under.
            is_here = found is not None and (_is_below(found, folder) or found.parent == etc)
            if not is_here and not (is_known and found is not None) and own.is_file():
                found = own
            if not is_here:
                told.append(f"{bootstrap}: names {named}, outside of this instance; {found or path} is read")
            configuration = found or path
    if not configuration.is_file():
        reason = "is the broker's configuration by what starts it, and is no file; name another with --config"
        raise ConfigError(configuration, f"{reason}, or give the data directory itself")
    return configuration, told


def _made_at(folder: Path, etc: Path, started: Script) -> Path | None:
    """Return where the instance was made, if that is another directory than this one."""
    said = [started.said.get("ARTEMIS_INSTANCE", "")]
    script_etc = Path(started.said.get("ARTEMIS_INSTANCE_ETC", ""))
    if (
        etc == folder / "etc" and script_etc.name == "etc"
    ):  # says it where the profile does not, or was edited
        said.append(str(script_etc.parent))
    places = [Path(one) for one in said if one.startswith("/") and os.path.normpath(one) != "/"]
    return next((Path(os.path.normpath(one)) for one in places if not _same(one, folder)), None)


def _carried(path: Path, made_at: Path | None, folder: Path) -> Path:
    """Return a path below the directory in which an instance was made, as one below `folder`."""
    if made_at is None or not path.is_absolute():
        return path
    path = Path(os.path.normpath(path))
    # A copy may lie below its original, as backups do.
    if not path.is_relative_to(made_at) or path.is_relative_to(folder):
        return path
    return folder / path.relative_to(made_at)


def _carried_text(text: str, made_at: Path | None, folder: Path) -> str:
    """Return a property, carried over where it is a path or the URI of a file."""
    scheme = next((one for one in ("file://", "file:") if text.startswith(f"{one}/")), "")
    path = text.removeprefix(scheme)
    carried = str(_carried(Path(path), made_at, folder)) if path.startswith("/") else path
    return text if carried == os.path.normpath(path) else scheme + carried + "/" * path.endswith("/")


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


def _named_by(bootstrap: Path, properties: Mapping[str, str]) -> str | None:
    """Return the file that is named by an address, as Java takes it, or by a path."""
    from journalfs.config.xmltree import Loader  # noqa: PLC0415 - most stores have no configuration

    server = Loader(properties).load(bootstrap).find("server")
    named = server.attributes.get("configuration", "") if server is not None else ""
    is_absolute = named.startswith(("/", "file:/"))
    return "/" * is_absolute + unquote(named.removeprefix("file:")).lstrip("/") if named else None


def _is_below(path: Path, folder: Path) -> bool:
    """True when a path lies in a folder, links followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
